// The sessions that are open on a server, by name: their numbers, and when each was used last.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class SessionNames {
 public:
  /// Of at most so many at once; one that is not used for `timeout` seconds is late (0: never).
  SessionNames(int most, double timeout);

  /// Nothing where there is no such session.
  std::optional<int> number_of(const std::string& session) const;
  const std::string& name_of(int number) const;
  /// The number of a session, which begins if it is not open. Throws Failure (wrong input) where there is no room.
  int open(const std::string& session);
  void note_use(const std::string& session);
  void forget(const std::string& session);

  /// A session that is late, so that it is to be closed. A request for it afterwards is told so by check_late.
  std::optional<int> next_late();
  /// Throws Failure (wrong input), once, where this session has ended because it was late: what it held is gone.
  void check_late(const std::string& session);

  /// For each session an array of its name as an answer holds it: its requests, and the seconds since the last one.
  std::string list() const;

 private:
  struct Open {
    int number;
    int64_t requests, used_ns;
  };

  const int most_;
  const double timeout_;
  std::map<std::string, Open> open_;
  std::vector<int> free_;
  std::deque<std::string> late_;  // those that ended so, the oldest first
};

}  // namespace weft
