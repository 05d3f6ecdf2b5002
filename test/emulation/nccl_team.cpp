#include "nccl_team.h"

#include <cmath>
#include <cstring>

#include "memory.h"
#include "weft/numeric.h"

namespace weft::emulation {

namespace {

constexpr const char* kKindNames[] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                      "reduce",     "broadcast",      "send",       "recv"};

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

/// Called with the team's lock held. Orders the ranks' earlier actions before their later ones.
void finish(const Waiting& waiting) {
  Batch* const batch = waiting.batch;
  if (batch->operation != nullptr) tsan_release(&batch->operation->completed);
  if (--batch->left > 0) return;
  if (batch->operation != nullptr) complete(*batch->operation);
  if (batch->done) batch->done();
  delete batch;
}

void learn(const Waiting& waiting) {
  if (waiting.batch->operation == nullptr) return;
  for (const void* edge : waiting.batch->operation->edges.before) tsan_acquire(edge);
}

void arrive_collective(Team& team, int rank, const Waiting& mine) {
  const uint64_t number = team.executed[size_t(rank)]++;
  Meeting& meeting = team.meetings[number];
  if (meeting.ranks.empty()) meeting.ranks.resize(size_t(team.size()));
  meeting.ranks[size_t(rank)] = mine;
  if (++meeting.arrived < team.size()) return;
  for (const Waiting& each : meeting.ranks) learn(each);
  move_data(meeting.ranks);
  for (const Waiting& each : meeting.ranks) finish(each);
  team.meetings.erase(number);
}

void arrive_message(Team& team, int rank, const Waiting& mine) {
  const bool sends = mine.call.kind == Kind::Send;
  const auto key = sends ? std::pair(rank, mine.call.peer) : std::pair(mine.call.peer, rank);
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

}  // namespace

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

Extent extent_of(const Call& call, int rank, int ranks) {
  const size_t one = call.count * size_of(call.type), all = one * size_t(ranks);
  switch (call.kind) {
    case Kind::AllReduce:
      return {one, one};
    case Kind::ReduceScatter:
      return {all, one};
    case Kind::AllGather:
      return {one, all};
    case Kind::AllToAll:
      return {all, all};
    case Kind::Reduce:
      return {one, rank == call.peer ? one : 0};
    case Kind::Broadcast:
      return {rank == call.peer ? one : 0, one};
    case Kind::Send:
      return {one, 0};
    case Kind::Recv:
      return {0, one};
  }
  return {0, 0};
}

std::shared_ptr<Team> team_of(const ncclUniqueId& id, int ranks) {
  static auto& teams = *new std::map<std::string, std::shared_ptr<Team>>;
  const QuietGuard guard(state_lock());
  std::shared_ptr<Team>& team = teams[std::string(id.internal, sizeof id.internal)];
  if (team == nullptr) team = std::make_shared<Team>(ranks);
  return team;
}

void arrive(Team& team, int rank, const std::vector<Call>& calls, Batch* batch) {
  const QuietGuard guard(team.lock);
  for (const Call& call : calls) {
    if (call.kind == Kind::Send || call.kind == Kind::Recv)
      arrive_message(team, rank, {call, batch});
    else
      arrive_collective(team, rank, {call, batch});
  }
}

void leave(Team& team, int rank) {
  const QuietGuard guard(team.lock);
  for (auto& [number, meeting] : team.meetings) {
    Waiting& mine = meeting.ranks[size_t(rank)];
    if (mine.batch != nullptr) finish(std::exchange(mine, {})), --meeting.arrived;
  }
  for (auto* queues : {&team.sends, &team.recvs})
    for (auto& [key, waiting] : *queues)
      if ((queues == &team.sends ? key.first : key.second) == rank)
        while (!waiting.empty()) finish(waiting.front()), waiting.pop_front();
}

}  // namespace weft::emulation
