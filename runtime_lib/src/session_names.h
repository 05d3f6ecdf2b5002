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
  /// Keeps up to `most` sessions. A session that is not used for `timeout` seconds is late (0: never).
  SessionNames(int most, double timeout);

  /// nullopt if there is no such session.
  std::optional<int> number_of(const std::string& session) const;
  const std::string& name_of(int number) const;
  /// The number of a session, which begins if it is not open. Throws Failure (wrong input) if there is no room.
  int open(const std::string& session);
  void note_use(const std::string& session);
  void forget(const std::string& session);

  /// A session that is late and must be closed. check_late reports this to a later request for it.
  std::optional<int> next_late();
  /// Throws Failure (wrong input), once, if this session has ended because it was late, so that its states are gone.
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
  std::deque<std::string> late_;  // names of ended late sessions, oldest first
};

}  // namespace weft
