// NCCL's functions among ranks that are threads (nccl_team) or processes (nccl_remote).
#include "include/nccl.h"

#include <cstring>
#include <string>

#include "include/nccl_device.h"
#include "memory.h"
#include "nccl_remote.h"
#include "nccl_team.h"

using namespace weft::emulation;

struct ncclWindow_vidmem {
  std::vector<char*> at;
  size_t bytes;
};

/// One of team and remote is there.
struct ncclComm {
  std::shared_ptr<Team> team;
  int rank, device;
  Chain chain;
  std::shared_ptr<RemoteTeam> remote;
  int size() const { return team != nullptr ? team->size() : remote->size; }
};

namespace weft::emulation {

namespace {

struct Queued {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<Call> calls;
};
thread_local int group_depth = 0;
thread_local std::vector<Queued> queued;
thread_local std::string last_message;

ncclResult_t refuse(ncclResult_t result, const char* why) {
  last_message = why;
  return result;
}

ncclResult_t issue(ncclComm_t comm, cudaStream_t stream, std::vector<Call> calls) {
  const auto work = [comm, calls = std::move(calls)](Operation& operation) {
    if (comm->remote != nullptr)
      comm->remote->arrive(calls, operation);
    else
      arrive(*comm->team, comm->rank, calls, new Batch{&operation, int(calls.size())});
    return false;
  };
  const cudaError_t error = enqueue(stream, work, false, &comm->chain);
  return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const Call& c) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (c.peer < 0 || c.peer >= comm->size()) return refuse(ncclInvalidArgument, "no such rank");
  if (c.count == 0 && c.kind != Kind::Send && c.kind != Kind::Recv) return ncclSuccess;
  if (group_depth == 0) return issue(comm, stream, {c});
  for (Queued& q : queued)
    if (q.comm == comm) {
      if (q.stream != stream)
        return refuse(ncclInvalidUsage, "the emulation wants one stream a group and communicator");
      q.calls.push_back(c);
      return ncclSuccess;
    }
  queued.push_back({comm, stream, {c}});
  return ncclSuccess;
}

ncclResult_t join(ncclComm_t* out, const std::shared_ptr<Team>& team, int rank) {
  ncclComm_t comm = new ncclComm{team, rank, current_device(), {}, nullptr};
  {
    const QuietGuard guard(team->lock);
    if (team->members[size_t(rank)] != nullptr) return refuse(ncclInvalidUsage, "two processes have the same rank");
    team->members[size_t(rank)] = comm;
    ++team->joined;
    team->bell.ring();
  }
  *out = comm;
  // In a group one thread makes several communicators: it cannot wait here.
  for (uint32_t seen = team->bell.count(); group_depth == 0; team->bell.wait(seen), seen = team->bell.count()) {
    const QuietGuard guard(team->lock);
    if (team->joined == team->size()) break;
  }
  const QuietGuard guard(team->lock);
  for (const ncclComm_t other : team->members)
    if (other != nullptr && other != comm && other->device == comm->device)
      return refuse(ncclInvalidUsage, "Duplicate GPU detected: two ranks of a communicator are on one device");
  return ncclSuccess;
}

/// The hosts of all ranks meet: everyone brings an entry, the last to come runs `prepare`, then everyone runs `take`.
template <class Prepare, class Take>
void host_meeting(ncclComm& comm, const Team::Split& entry, Prepare&& prepare, Take&& take) {
  Team& team = *comm.team;
  for (bool brought = false;;) {
    const uint32_t seen = team.bell.count();
    {
      const QuietGuard guard(team.lock);
      if (!brought && team.left == 0) {
        team.split[size_t(comm.rank)] = entry;
        brought = true;
        if (++team.gathered == team.size()) {
          prepare(team);
          team.gathered = 0, team.left = team.size();
          team.bell.ring();
        }
      }
      if (brought && team.left > 0) {
        take(team);
        if (--team.left == 0) team.bell.ring();
        return;
      }
    }
    team.bell.wait(seen);
  }
}

/// A rank's place among those of its color: by key, then by its old rank.
int split_rank(const Team& team, int rank) {
  const Team::Split& mine = team.split[size_t(rank)];
  int place = 0;
  for (int r = 0; r < team.size(); ++r) {
    const Team::Split& other = team.split[size_t(r)];
    place += other.color == mine.color && (other.key < mine.key || (other.key == mine.key && r < rank));
  }
  return place;
}

void make_split_teams(Team& team) {
  std::map<int, int> sizes;
  for (const Team::Split& s : team.split) ++sizes[s.color];
  team.split_teams.clear();
  for (const auto& [color, size] : sizes) team.split_teams[color] = std::make_shared<Team>(size);
}

}  // namespace
}  // namespace weft::emulation

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) { return last_message.c_str(); }

ncclResult_t ncclMemAlloc(void** at, size_t bytes) {
  return cudaMalloc(at, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* at) { return cudaFree(at) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count{0};
  *id = {};
  if (knobs().processes) return make_remote_id(id), ncclSuccess;
  snprintf(id->internal, sizeof id->internal, "emulated communicator %d", count.fetch_add(1));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "no such rank");
  if (knobs().processes) {
    std::string why;
    std::shared_ptr<RemoteTeam> remote = join_remote(id, ranks, rank, current_device(), why);
    if (remote == nullptr) return refuse(ncclInvalidUsage, why.c_str());
    return *comm = new ncclComm{nullptr, rank, current_device(), {}, std::move(remote)}, ncclSuccess;
  }
  const std::shared_ptr<Team> team = team_of(id, ranks);
  if (team->size() != ranks) return refuse(ncclInvalidUsage, "the ranks do not agree on their number");
  return join(comm, team, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* split, ncclConfig_t*) {
  if (comm->remote != nullptr) return refuse(ncclInvalidUsage, "the emulation splits no communicator of processes");
  std::shared_ptr<Team> team;
  int rank = 0;
  *split = nullptr;
  host_meeting(*comm, {color, key}, make_split_teams, [&](Team& parent) {
    team = parent.split_teams[color];
    rank = split_rank(parent, comm->rank);
  });
  return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : join(split, team, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
/// It may still be named by operations and graphs: its few bytes stay.
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->remote != nullptr)
    comm->remote->leave();
  else
    leave(*comm->team, comm->rank);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->remote != nullptr && comm->remote->is_broken() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return *count = comm->size(), ncclSuccess; }
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) { return *rank = comm->rank, ncclSuccess; }
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) { return *device = comm->device, ncclSuccess; }

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* at, size_t bytes, ncclWindow_t* window, int) {
  if (comm->remote != nullptr) return *window = nullptr, ncclSuccess;  // peers are out of reach
  if (kind_of(at) != Memory::Device) return refuse(ncclInvalidArgument, "a window must be device memory");
  const auto prepare = [](Team& team) {
    ncclWindow_t window = team.windows.emplace_back(new ncclWindow_vidmem{{}, team.split[0].bytes});
    for (const Team::Split& s : team.split) {
      window->at.push_back(static_cast<char*>(s.window));
      if (s.bytes != team.split[0].bytes) fail("the ranks of a communicator register windows of different sizes");
    }
  };
  host_meeting(*comm, {0, 0, at, bytes}, prepare, [&](Team& team) { *window = team.windows.back(); });
  return ncclSuccess;
}

/// Kernels may still hold it: its few bytes stay.
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) { return ncclSuccess; }

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements*, ncclDevComm* out) {
  const int size = comm->size();
  const bool is_near = knobs().nvlink && comm->remote == nullptr;
  *out = {comm->rank, size, is_near ? comm->rank : 0, is_near ? size : 1};
  return ncclSuccess;
}
ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm*) { return ncclSuccess; }

void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer) {
  if (size_t(peer) >= window->at.size() || offset > window->bytes)
    fail("no byte %zu in a window of peer %d", offset, peer);
  return window->at[size_t(peer)] + offset;
}
/// Null where the peer is not in the domain.
void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer) {
  return ncclGetLsaPointer(window, offset, peer);
}

ncclResult_t ncclGroupStart() { return ++group_depth, ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (Queued& q : std::exchange(queued, {})) {
    const ncclResult_t issued = issue(q.comm, q.stream, std::move(q.calls));
    if (issued != ncclSuccess) result = issued;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::AllReduce, from, to, count, type, op});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count_of_each, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::ReduceScatter, from, to, count_of_each, type, op});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count_of_each, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {Kind::AllGather, from, to, count_of_each, type});
}
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count_of_each, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return call(comm, stream, {Kind::AllToAll, from, to, count_of_each, type});
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::Reduce, from, to, count, type, op, root});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {Kind::Broadcast, from, to, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, {Kind::Send, from, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::Recv, nullptr, to, count, type, ncclSum, peer});
}
