// Collectives among threads: the last rank that comes moves the data of all, then every rank's operation is complete.
#include "include/nccl.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "include/nccl_device.h"
#include "memory.h"
#include "streams.h"
#include "weft/numeric.h"

namespace weft::emulation {

namespace {

enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Reduce, Broadcast, Send, Recv };
constexpr const char* kKindNames[] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                      "reduce",     "broadcast",      "send",       "recv"};

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
  Operation* operation;
  int left;
};

struct Waiting {
  Call call;
  Batch* batch;
};

struct Meeting {
  std::vector<Waiting> ranks;
  int arrived = 0;
};

/// What the ranks of one communicator share.
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

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

template <class F>
void with_type(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclInt8:
      return f(int8_t(), int8_t());
    case ncclUint8:
      return f(uint8_t(), uint8_t());
    case ncclInt32:
      return f(int32_t(), int32_t());
    case ncclUint32:
      return f(uint32_t(), uint32_t());
    case ncclInt64:
      return f(int64_t(), int64_t());
    case ncclUint64:
      return f(uint64_t(), uint64_t());
    case ncclFloat16:
      return f(half(0.0f), 0.0f);
    case ncclFloat32:
      return f(0.0f, 0.0f);
    case ncclFloat64:
      return f(0.0, 0.0);
    case ncclBfloat16:
      return f(bfloat16(0.0f), 0.0f);
  }
}

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return T(a * b);
    case ncclMax:
      return a > b || a != a ? a : b;
    case ncclMin:
      return a < b || a != a ? a : b;
    default:
      return T(a + b);
  }
}

using Bytes = std::vector<char>;

/// The emulation's own memory is hidden from the thread sanitizer, the ranks' is not.
struct Seen {
  Seen() { tsan_ignore_end(); }
  ~Seen() { tsan_ignore_begin(); }
};

Bytes read(const void* from, size_t bytes) {
  Bytes out(bytes);
  if (bytes > 0) memcpy(out.data(), from, bytes);
  const Seen seen;
  tsan_reads(from, bytes);
  return out;
}

/// The reduction over ranks, in their order, of `count` elements from element `first` on.
Bytes reduce(const std::vector<Bytes>& inputs, const Call& call, size_t first, size_t count) {
  Bytes out(count * size_of(call.type));
  with_type(call.type, [&](auto stored, auto wide) {
    using T = decltype(stored);
    using Wide = decltype(wide);
    for (size_t i = 0; i < count; ++i) {
      Wide sum = Wide(reinterpret_cast<const T*>(inputs[0].data())[first + i]);
      for (size_t r = 1; r < inputs.size(); ++r)
        sum = combine<Wide>(call.op, sum, Wide(reinterpret_cast<const T*>(inputs[r].data())[first + i]));
      if (call.op == ncclAvg) sum = Wide(sum / Wide(inputs.size()));
      reinterpret_cast<T*>(out.data())[i] = T(sum);
    }
  });
  return out;
}

void write(void* to, const char* from, size_t bytes) {
  if (bytes > 0) memcpy(to, from, bytes);
  const Seen seen;
  tsan_writes(to, bytes);
}

void check_alike(const std::vector<Waiting>& ranks) {
  const Call& first = ranks[0].call;
  for (size_t r = 1; r < ranks.size(); ++r) {
    const Call& call = ranks[r].call;
    if (call.kind != first.kind || call.count != first.count || call.type != first.type || call.op != first.op ||
        call.peer != first.peer)
      fail("rank 0 of a communicator calls %s of %zu elements where rank %zu calls %s of %zu",
           kKindNames[int(first.kind)], first.count, r, kKindNames[int(call.kind)], call.count);
  }
}

/// Reads all inputs before it writes: ranks may work in place.
void move_data(const std::vector<Waiting>& ranks) {
  check_alike(ranks);
  const Call& first = ranks[0].call;
  const size_t n = ranks.size(), unit = size_of(first.type), bytes = first.count * unit;
  const bool per_rank = first.kind == Kind::ReduceScatter || first.kind == Kind::AllToAll;
  std::vector<Bytes> inputs;
  for (size_t r = 0; r < n; ++r) {
    const bool unused = first.kind == Kind::Broadcast && int(r) != first.peer;
    inputs.push_back(read(ranks[r].call.from, unused ? 0 : per_rank ? bytes * n : bytes));
  }
  Bytes sum;
  if (first.kind == Kind::AllReduce || first.kind == Kind::Reduce) sum = reduce(inputs, first, 0, first.count);
  for (size_t r = 0; r < n; ++r) {
    char* to = static_cast<char*>(ranks[r].call.to);
    switch (first.kind) {
      case Kind::AllReduce:
        write(to, sum.data(), bytes);
        break;
      case Kind::Reduce:
        if (int(r) == first.peer) write(to, sum.data(), bytes);
        break;
      case Kind::Broadcast:
        write(to, inputs[size_t(first.peer)].data(), bytes);
        break;
      case Kind::ReduceScatter:
        write(to, reduce(inputs, first, r * first.count, first.count).data(), bytes);
        break;
      case Kind::AllGather:
        for (size_t p = 0; p < n; ++p) write(to + p * bytes, inputs[p].data(), bytes);
        break;
      case Kind::AllToAll:
        for (size_t p = 0; p < n; ++p) write(to + p * bytes, inputs[p].data() + r * bytes, bytes);
        break;
      case Kind::Send:
      case Kind::Recv:
        break;
    }
  }
}

}  // namespace
}  // namespace weft::emulation

using namespace weft::emulation;

struct ncclWindow_vidmem {
  std::vector<char*> at;
  size_t bytes;
};

struct ncclComm {
  std::shared_ptr<Team> team;
  int rank, device;
  Chain chain;
};

namespace weft::emulation {

namespace {

/// With the team's lock held. What the ranks did before happens before what they do after.
void finish(const Waiting& waiting) {
  tsan_release(&waiting.batch->operation->completed);
  if (--waiting.batch->left > 0) return;
  complete(*waiting.batch->operation);
  delete waiting.batch;
}

void learn(const Waiting& waiting) {
  for (const void* edge : waiting.batch->operation->edges.before) tsan_acquire(edge);
}

void arrive_collective(ncclComm& comm, const Waiting& mine) {
  Team& team = *comm.team;
  const uint64_t number = team.executed[size_t(comm.rank)]++;
  Meeting& meeting = team.meetings[number];
  if (meeting.ranks.empty()) meeting.ranks.resize(size_t(team.size()));
  meeting.ranks[size_t(comm.rank)] = mine;
  if (++meeting.arrived < team.size()) return;
  for (const Waiting& rank : meeting.ranks) learn(rank);
  move_data(meeting.ranks);
  for (const Waiting& rank : meeting.ranks) finish(rank);
  team.meetings.erase(number);
}

void arrive_message(ncclComm& comm, const Waiting& mine) {
  Team& team = *comm.team;
  const bool sends = mine.call.kind == Kind::Send;
  const auto key = sends ? std::pair(comm.rank, mine.call.peer) : std::pair(mine.call.peer, comm.rank);
  (sends ? team.sends : team.recvs)[key].push_back(mine);
  std::deque<Waiting>&from = team.sends[key], &to = team.recvs[key];
  if (from.empty() || to.empty()) return;
  const Waiting sender = from.front(), receiver = to.front();
  from.pop_front(), to.pop_front();
  const size_t bytes = sender.call.count * size_of(sender.call.type);
  if (bytes != receiver.call.count * size_of(receiver.call.type))
    fail("rank %d sends %zu bytes to rank %d, which receives %zu", key.first, bytes, key.second,
         receiver.call.count * size_of(receiver.call.type));
  learn(sender), learn(receiver);
  write(receiver.call.to, read(sender.call.from, bytes).data(), bytes);
  finish(sender), finish(receiver);
}

/// The work of one operation: all of its calls arrive; it is complete when the last of them is.
bool arrive(ncclComm& comm, const std::vector<Call>& calls, Operation& operation) {
  Team& team = *comm.team;
  const QuietGuard guard(team.lock);
  Batch* batch = new Batch{&operation, int(calls.size())};
  for (const Call& call : calls) {
    if (call.kind == Kind::Send || call.kind == Kind::Recv)
      arrive_message(comm, {call, batch});
    else
      arrive_collective(comm, {call, batch});
  }
  return false;
}

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
  const auto work = [comm, calls = std::move(calls)](Operation& operation) { return arrive(*comm, calls, operation); };
  const cudaError_t error = enqueue(stream, work, false, &comm->chain);
  return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const Call& c) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (c.peer < 0 || c.peer >= comm->team->size()) return refuse(ncclInvalidArgument, "no such rank");
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

/// Unique ids are names: the first who comes with one makes the team.
std::shared_ptr<Team> team_of(const ncclUniqueId& id, int ranks) {
  static auto& teams = *new std::map<std::string, std::shared_ptr<Team>>;
  const QuietGuard guard(state_lock());
  std::shared_ptr<Team>& team = teams[std::string(id.internal, sizeof id.internal)];
  if (team == nullptr) team = std::make_shared<Team>(ranks);
  return team;
}

ncclResult_t join(ncclComm_t* out, const std::shared_ptr<Team>& team, int rank) {
  ncclComm_t comm = new ncclComm{team, rank, current_device(), {}};
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
  snprintf(id->internal, sizeof id->internal, "emulated communicator %d", count.fetch_add(1));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "no such rank");
  const std::shared_ptr<Team> team = team_of(id, ranks);
  if (team->size() != ranks) return refuse(ncclInvalidUsage, "the ranks do not agree on their number");
  return join(comm, team, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* split, ncclConfig_t*) {
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

/// What this rank waits for ends as it is; the others' operations go on waiting.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Team& team = *comm->team;
  const QuietGuard guard(team.lock);
  for (auto& [number, meeting] : team.meetings) {
    Waiting& mine = meeting.ranks[size_t(comm->rank)];
    if (mine.batch != nullptr) finish(std::exchange(mine, {})), --meeting.arrived;
  }
  for (auto* queues : {&team.sends, &team.recvs})
    for (auto& [key, waiting] : *queues)
      if ((queues == &team.sends ? key.first : key.second) == comm->rank)
        while (!waiting.empty()) finish(waiting.front()), waiting.pop_front();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = ncclSuccess; }
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return *count = comm->team->size(), ncclSuccess; }
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) { return *rank = comm->rank, ncclSuccess; }
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) { return *device = comm->device, ncclSuccess; }

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* at, size_t bytes, ncclWindow_t* window, int) {
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
  const int size = comm->team->size();
  *out = {comm->rank, size, knobs().nvlink ? comm->rank : 0, knobs().nvlink ? size : 1};
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
