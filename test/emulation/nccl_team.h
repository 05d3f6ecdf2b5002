// The shared state of one NCCL communicator's ranks. The last rank that arrives at a collective moves the data of all,
// which completes every rank's operation.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "include/nccl.h"
#include "streams.h"

namespace weft::emulation {

enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Reduce, Broadcast, Send, Recv };
/// One call. `peer` is the root, or the other rank of a send or recv.
struct Call {
  Kind kind;
  const void* from;
  void* to;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = 0;
};

/// The calls of one operation that are not complete yet.
struct Batch {
  Operation* operation;  // nullptr: of another process
  int left;
  std::function<void()> done = {};  // then
};

struct Waiting {
  Call call;
  Batch* batch;
};

struct Meeting {
  std::vector<Waiting> ranks;
  int arrived = 0;
};

/// The shared state of one communicator's ranks.
struct Team {
  explicit Team(int n) : members(size_t(n)), executed(size_t(n), 0), split(size_t(n)) {}
  int size() const { return int(members.size()); }

  Lock lock;
  Bell bell;
  std::vector<ncclComm_t> members;
  int joined = 0;
  std::vector<uint64_t> executed;                                   // collectives that each rank has begun
  std::map<uint64_t, Meeting> meetings;                             // by their number
  std::map<std::pair<int, int>, std::deque<Waiting>> sends, recvs;  // by (from, to)

  struct Split {
    int color = 0, key = 0;
    void* window = nullptr;
    size_t bytes = 0;
  };
  std::vector<Split> split;  // of the host-side meeting that is under way
  int gathered = 0, left = 0;
  std::map<int, std::shared_ptr<Team>> split_teams;
  std::vector<ncclWindow_t> windows;
};

size_t size_of(ncclDataType_t type);

/// Bytes that a rank's call reads and writes.
struct Extent {
  size_t in, out;
};
Extent extent_of(const Call& call, int rank, int ranks);

/// Unique ids are names: the first who comes with one makes the team.
std::shared_ptr<Team> team_of(const ncclUniqueId& id, int ranks);
/// A rank's calls, all of one operation, have been reached. The batch is deleted when the last of them is complete.
void arrive(Team& team, int rank, const std::vector<Call>& calls, Batch* batch);
/// Ends a rank's waits without their results; the other ranks' operations continue to wait.
void leave(Team& team, int rank);

}  // namespace weft::emulation
