// Communicators whose ranks are processes: each talks to a switch, a thread of the process that made the unique id,
// which holds the team and moves the data.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl_team.h"

namespace weft::emulation {

/// A rank's way to its team.
class RemoteTeam {
 public:
  RemoteTeam(int fd, int rank, int ranks) : size(ranks), fd_(fd), rank_(rank) {}
  void arrive(const std::vector<Call>& calls, Operation& operation);
  /// Nothing is waited for any more.
  void leave();
  /// A rank of the team is gone.
  bool is_broken() const { return broken_; }
  /// A thread's work: takes what comes.
  void receive();

  const int size;

 private:
  struct Pending {
    Operation* operation;
    std::vector<Call> calls;
  };
  /// An operation whose results come now; empty where nobody waits for it any more.
  std::optional<Pending> take(uint64_t number);

  const int fd_, rank_;
  Lock sending_;  // keeps requests in order; never held by the thread that receives
  Lock lock_;     // of what follows
  uint64_t last_ = 0;
  std::map<uint64_t, Pending> pending_;
  std::atomic<bool> broken_{false};
};

/// An id with the address of this process's switch.
void make_remote_id(ncclUniqueId* id);
/// Meets the other ranks; nullptr: `why`.
std::shared_ptr<RemoteTeam> join_remote(const ncclUniqueId& id, int ranks, int rank, int device, std::string& why);

}  // namespace weft::emulation
