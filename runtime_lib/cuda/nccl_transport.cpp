// The transport of ranks that are processes: stock NCCL, with kernels that pack strided boxes before a call and unpack
// them after it. There is a communicator for each group, and one for each direction between two ranks that transfer.
// Its members make it at first use: the eager first iteration makes them all.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include "cuda_state.h"
#include "kernels.h"
#include "libraries.h"
#include "nccl_watchdog.h"
#include "wait.h"

namespace weft {

namespace {

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(result == ncclInternalError ? kBug : kEnvironment, "NCCL: %s: %s (NCCL_DEBUG=WARN says more)", what,
       open_nccl().error_text(result));
}

/// Collectives of a group, or transfers in one direction: separate streams need separate communicators.
enum class Use : uint64_t { Group, Transfer };

uint64_t key_of(Use use, const std::vector<int>& members) {  // FNV-1a
  uint64_t hash = 14695981039346656037u + uint64_t(use);
  for (const int member : members) hash = (hash ^ uint64_t(member)) * 1099511628211u;
  return hash;
}

ncclDataType_t number_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return ncclFloat32;
    case DType::F64:
      return ncclFloat64;
    case DType::F16:
      return ncclFloat16;
    case DType::BF16:
      return ncclBfloat16;
    case DType::I8:
      return ncclInt8;
    case DType::I32:
      return ncclInt32;
    case DType::I64:
      return ncclInt64;
    case DType::U8:
    case DType::Bool:
      return ncclUint8;
    case DType::U32:
      return ncclUint32;
    case DType::U64:
      return ncclUint64;
    default:
      break;
  }
  fail(kBug, "NCCL has no reduction of %s", dtype_name(dtype));
}

/// Types that NCCL does not reduce are gathered, and the ranks reduce them themselves.
bool has_reduction(DType dtype) { return dtype != DType::I16 && dtype != DType::U16; }

/// Booleans are 0 or 1: their sum (or) is the largest of them, their product (and) the smallest.
ncclRedOp_t operation(ReduceOp op, DType dtype) {
  const bool is_bool = dtype == DType::Bool;
  switch (op) {
    case ReduceOp::Sum:
      return is_bool ? ncclMax : ncclSum;
    case ReduceOp::Prod:
      return is_bool ? ncclMin : ncclProd;
    case ReduceOp::Max:
      return ncclMax;
    case ReduceOp::Min:
      return ncclMin;
  }
  fail(kBug, "an unknown reduction");
}

bool is_line(const Exchange& e) {
  const Box box(e.dims);
  return box.ndim == 1 && box.dims[0].src_stride == 1 && box.dims[0].dst_stride == 1;
}

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(CudaState& state) : state_(state), nccl_(open_nccl()), watchdog_(state) {}
  ~NcclTransport() override;

  char* make_window(int64_t bytes) override;
  void open_windows() override;
  char* window_of(int rank) override;
  void poll() override;
  void abandon() override;
  void prepare(const Group& g) override;
  void barrier(const Group& g) override;
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) override;
  void broadcast(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) override;
  void reduce(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) override;
  void send(const Transfer& t, int micro_batch, DType dtype, int64_t src) override;
  void recv(const Transfer& t, int micro_batch, DType dtype, int64_t src, void* dst) override;

 private:
  ncclComm_t communicator(Use use, const std::vector<int>& members);
  ncclComm_t communicator(const Group& g) { return communicator(Use::Group, members_of(g, state_.rank)); }
  ncclUniqueId publish(uint64_t key);
  ncclUniqueId look_up(int leader, uint64_t key);
  void copy(const Exchange& e, int64_t element, const void* src, void* dst) {
    copy_box(state_.stream(), Box(e.dims), element, src, dst);
  }
  /// A library call that waits for other ranks.
  template <class Call>
  void collective(const char* what, Call&& call) {
    state_.mark_waiting(true);
    {
      const NcclWatchdog::Call inside(watchdog_, what);
      check_nccl(call(), what);
    }
    state_.mark_waiting(false);
  }
  /// Gathers the parts of all ranks, packed contiguously, in scratch memory: for types that NCCL cannot reduce.
  char* all_parts(const Group& g, DType dtype, int64_t src, const Exchange& e);
  void swap_parts(const Group& g, char* out, char* in, int64_t bytes);
  void reduce_parts(ReduceOp op, DType dtype, char* parts, int n, int64_t count, void* to);

  /// The data that a rank sends to itself in a micro-batch of a transfer, between two of its streams.
  struct Handed {
    DeviceBytes memory;
    cudaEvent_t given = nullptr;
  };
  Handed& handed(const Transfer& t, int micro_batch, int64_t element);

  CudaState& state_;
  const Nccl& nccl_;
  NcclWatchdog watchdog_;
  std::map<std::pair<int, int>, Handed> handed_;  // by the transfer's slot and the micro-batch
  std::map<std::pair<Use, std::vector<int>>, ncclComm_t> communicators_;
  std::set<std::vector<int>> prepared_;
  char* window_ = nullptr;
  size_t window_bytes_ = 0;
  std::vector<char*> windows_;  // by rank
  std::string no_windows_;      // why peers cannot be reached
};

/// After a failure the other ranks may be gone: an orderly end of the communicator would wait for them.
NcclTransport::~NcclTransport() {
  const bool is_well = std::uncaught_exceptions() == 0 && !state_.world.has_failed();
  const NcclWatchdog::Call inside(watchdog_, "the end of a communicator");
  for (const auto& [members, communicator] : communicators_)
    if (communicator != nullptr) is_well ? nccl_.destroy(communicator) : nccl_.abort(communicator);
  for (const auto& [key, own] : handed_) cudaEventDestroy(own.given);
  if (window_ != nullptr) nccl_.mem_free(window_);
}

char* NcclTransport::make_window(int64_t bytes) {
  void* at = nullptr;
  window_bytes_ = size_t(round_up(bytes, kPage));
  check_nccl(nccl_.mem_alloc(&at, window_bytes_), "memory for the window");
  return window_ = static_cast<char*>(at);
}

void NcclTransport::open_windows() {
  const int ranks = state_.world.shape.ranks;
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  windows_.resize(size_t(ranks));
  const ncclComm_t world = communicator(Use::Group, all);
  {
    const NcclWatchdog::Call inside(watchdog_, "the registration of windows");
    no_windows_ = lsa_addresses(nccl_, world, ranks, window_, window_bytes_, windows_.data());
  }
  state_.barrier();
}

char* NcclTransport::window_of(int rank) {
  if (rank == state_.rank) return window_;
  if (!no_windows_.empty())
    fail(kEnvironment, "step %s reaches into the memory of other GPUs: %s",
         state_.current_step() == nullptr ? "(none)" : state_.current_step()->name, no_windows_.c_str());
  return windows_[size_t(rank)];
}

ncclUniqueId NcclTransport::publish(uint64_t key) {
  ncclUniqueId id;
  static_assert(sizeof id == Note::kBytes);
  check_nccl(nccl_.unique_id(&id), "an id");
  if (!state_.world.leave_note(state_.rank, key, id.internal))
    fail(kUnsupported, "rank %d is the first of more than %d groups", state_.rank, state_.world.shape.notes);
  return id;
}

ncclUniqueId NcclTransport::look_up(int leader, uint64_t key) {
  state_.set_awaited(Awaited::OtherRanks);
  const World& world = state_.world;
  for (Patience patience(state_.options.timeout); !patience.is_over();) {
    if (const Note* note = world.find_note(leader, key)) {
      ncclUniqueId id;
      memcpy(&id, note->bytes, sizeof id);
      state_.set_awaited(Awaited::Nothing);
      return id;
    }
    if (world.has_failed()) throw Failure{world.failure(), ""};
    usleep(200);
  }
  state_.time_out_here(text("rank %d to make a communicator", leader));
}

ncclComm_t NcclTransport::communicator(Use use, const std::vector<int>& members) {
  ncclComm_t& found = communicators_[{use, members}];
  if (found != nullptr) return found;
  const int me = int(std::find(members.begin(), members.end(), state_.rank) - members.begin());
  const uint64_t key = key_of(use, members);
  const ncclUniqueId id = me == 0 ? publish(key) : look_up(members[0], key);
  const NcclWatchdog::Call inside(watchdog_, "making a communicator");
  const ncclResult_t made = nccl_.init_rank(&found, int(members.size()), id, me);
  if (made == ncclInvalidUsage)
    fail(kEnvironment, "NCCL: a communicator of %zu ranks: %s; is GPU %d of this machine another rank's, too?",
         members.size(), nccl_.error_text(made), state_.device);
  check_nccl(made, "a communicator");
  return found;
}

void NcclTransport::poll() {
  for (const auto& [members, communicator] : communicators_) {
    ncclResult_t error = ncclSuccess;
    if (communicator == nullptr) continue;
    check_nccl(nccl_.async_error(communicator, &error), "its state");
    check_nccl(error, "a collective");
  }
}

void NcclTransport::abandon() {
  for (const auto& [members, communicator] : communicators_)
    if (communicator != nullptr) nccl_.abort(communicator);
  communicators_.clear();
}

void NcclTransport::prepare(const Group& g) {
  if (!prepared_.insert(members_of(g, state_.rank)).second) return;
  barrier(g);
  state_.wait_for(state_.stream());
}

void NcclTransport::barrier(const Group& g) {
  char* const one = state_.scratch(kAlign);
  const ncclComm_t all = communicator(g);
  collective("a barrier", [&] { return nccl_.all_reduce(one, one, 1, ncclUint8, ncclMax, all, state_.stream()); });
}

char* NcclTransport::all_parts(const Group& g, DType dtype, int64_t src, const Exchange& e) {
  const int64_t element = element_bytes(dtype), bytes = count_of(e.dims) * element;
  const int n = g.size();
  const ncclComm_t all = communicator(g);
  char *const parts = state_.scratch((n + 1) * bytes), *const mine = parts + n * bytes;
  copy(packed(e, Side::Dst), element, window_ + src, mine);
  collective("a reduction",
             [&] { return nccl_.all_gather(mine, parts, size_t(bytes), ncclUint8, all, state_.stream()); });
  return parts;
}

/// Reduces in the order of ranks, so that all ranks have the same result.
void NcclTransport::reduce_parts(ReduceOp op, DType dtype, char* parts, int n, int64_t count, void* to) {
  if (n > kMaxPeers)
    fail(kUnsupported, "reductions of %s over %d ranks are not supported: %d is the most", dtype_name(dtype), n,
         kMaxPeers);
  Sources sources;
  for (int p = 0; p < n; ++p) sources.at[sources.count++] = parts + p * count * element_bytes(dtype);
  reduce_box(state_.stream(), Box(line_of(count).dims), op, dtype, sources, to);
}

void NcclTransport::reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int64_t count = count_of(e.dims), element = element_bytes(dtype);
  if (!has_reduction(dtype)) {
    char* const parts = all_parts(g, dtype, src, e);
    reduce_parts(op, dtype, parts, g.size(), count, parts);
    return copy(packed(e, Side::Src), element, parts, dst);
  }
  const ncclComm_t all = communicator(g);
  const void* from = window_ + src;
  void* to = dst;
  const bool is_packed = is_line(e);
  if (!is_packed) {
    from = to = state_.scratch(count * element);
    copy(packed(e, Side::Dst), element, window_ + src, to);
  }
  collective("an all-reduce", [&] {
    return nccl_.all_reduce(from, to, size_t(count), number_type(dtype), operation(op, dtype), all, state_.stream());
  });
  if (!is_packed) copy(packed(e, Side::Src), element, to, dst);
}

void NcclTransport::reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int64_t count = count_of(e.dims), element = element_bytes(dtype);
  const int n = g.size(), me = g.index(state_.rank);
  const ncclComm_t all = communicator(g);
  const int room = has_reduction(dtype) ? n + 1 : 2 * n + 1;
  char *const slices = state_.scratch(room * count * element), *const mine = slices + n * count * element;
  for (int p = 0; p < n; ++p)
    copy(clipped(packed(e, Side::Dst), p, p), element, window_ + src + offset_of(g, p, e.src_by_me) * element,
         slices + p * count * element);
  if (!has_reduction(dtype)) {
    char* const parts = mine + count * element;
    swap_parts(g, slices, parts, count * element);
    reduce_parts(op, dtype, parts, n, count, mine);
    return copy(clipped(packed(e, Side::Src), me, me), element, mine, dst);
  }
  collective("a reduce-scatter", [&] {
    return nccl_.reduce_scatter(slices, mine, size_t(count), number_type(dtype), operation(op, dtype), all,
                                state_.stream());
  });
  copy(clipped(packed(e, Side::Src), me, me), element, mine, dst);
}

void NcclTransport::gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int64_t count = count_of(e.dims), element = element_bytes(dtype), bytes = count * element;
  const int n = g.size(), me = g.index(state_.rank);
  const ncclComm_t all = communicator(g);
  char *const parts = state_.scratch((n + 1) * bytes), *const mine = parts + n * bytes;
  copy(clipped(packed(e, Side::Dst), me, me), element, window_ + src, mine);
  collective("an all-gather",
             [&] { return nccl_.all_gather(mine, parts, size_t(bytes), ncclUint8, all, state_.stream()); });
  for (int p = 0; p < n; ++p)
    copy(clipped(packed(e, Side::Src), me, p), element, parts + p * bytes,
         static_cast<char*>(dst) + offset_of(g, p, e.dst_by_peer) * element);
}

/// Part p of `out` goes to rank p of the group, whose part for this rank comes to part p of `in`.
void NcclTransport::swap_parts(const Group& g, char* out, char* in, int64_t bytes) {
  const ncclComm_t all = communicator(g);
  const cudaStream_t stream = state_.stream();
  collective("an all-to-all", [&] {
    nccl_.group_start();
    for (int p = 0; p < g.size(); ++p) {
      check_nccl(nccl_.send(out + p * bytes, size_t(bytes), ncclUint8, p, all, stream), "an all-to-all");
      check_nccl(nccl_.recv(in + p * bytes, size_t(bytes), ncclUint8, p, all, stream), "an all-to-all");
    }
    return nccl_.group_end();
  });
}

void NcclTransport::exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int64_t count = count_of(e.dims), element = element_bytes(dtype), bytes = count * element;
  const int n = g.size(), me = g.index(state_.rank);
  char *const out = state_.scratch(n * bytes * 2), *const in = out + n * bytes;
  for (int p = 0; p < n; ++p)
    copy(clipped(packed(e, Side::Dst), p, me), element, window_ + src + offset_of(g, p, e.src_by_me) * element,
         out + p * bytes);
  swap_parts(g, out, in, bytes);
  for (int p = 0; p < n; ++p)
    copy(clipped(packed(e, Side::Src), me, p), element, in + p * bytes,
         static_cast<char*>(dst) + offset_of(g, p, e.dst_by_peer) * element);
}

void NcclTransport::broadcast(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) {
  const ncclComm_t all = communicator(g);
  const size_t bytes = size_t(count * element_bytes(dtype));
  collective("a broadcast",
             [&] { return nccl_.broadcast(window_ + src, dst, bytes, ncclUint8, root, all, state_.stream()); });
}

void NcclTransport::reduce(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) {
  if (!has_reduction(dtype)) {
    char* const parts = all_parts(g, dtype, src, line_of(count));
    if (g.index(state_.rank) == root) reduce_parts(op, dtype, parts, g.size(), count, dst);
    return;
  }
  const ncclComm_t all = communicator(g);
  collective("a reduction", [&] {
    return nccl_.reduce(window_ + src, dst, size_t(count), number_type(dtype), operation(op, dtype), root, all,
                        state_.stream());
  });
}

/// The rows of one rank in a table, each packed in a part of the scratch memory.
struct PackedRow {
  const Message* message;
  char* at;
  size_t bytes;
};

std::vector<PackedRow> rows_of(std::span<const Message> table, int Message::*end, int rank, int64_t element) {
  std::vector<PackedRow> out;
  for (const Message& m : table)
    if (m.*end == rank && m.from != m.to) out.push_back({&m, nullptr, size_t(count_of(m.dims) * element)});
  return out;
}

int64_t bytes_of(const std::vector<PackedRow>& rows) {
  int64_t bytes = 0;
  for (const PackedRow& row : rows) bytes += round_up(int64_t(row.bytes), kAlign);
  return bytes;
}

char* place(std::vector<PackedRow>& rows, char* at) {
  for (PackedRow& row : rows) {
    row.at = at;
    at += round_up(int64_t(row.bytes), kAlign);
  }
  return at;
}

Exchange box_of(const Message& m) {
  Exchange e;
  std::copy(std::begin(m.dims), std::end(m.dims), e.dims);
  return e;
}

/// Calls f for each message of a rank to itself, with its offset in the intermediate memory.
template <class F>
void for_each_own(const Transfer& t, int rank, int64_t element, F&& f) {
  int64_t at = 0;
  for (const Message& m : t.messages) {
    if (m.from != rank || m.to != rank) continue;
    f(m, at);
    at += round_up(count_of(m.dims) * element, kAlign);
  }
}

NcclTransport::Handed& NcclTransport::handed(const Transfer& t, int micro_batch, int64_t element) {
  Handed& found = handed_[{t.slot, micro_batch}];
  if (found.given != nullptr) return found;
  int64_t bytes = 0;
  for_each_own(t, state_.rank, element, [&](const Message& m, int64_t at) { bytes = at + count_of(m.dims) * element; });
  found.memory = state_.kept_bytes(bytes, "what a rank sends to itself");
  check_cuda(cudaEventCreateWithFlags(&found.given, cudaEventDisableTiming), "an event");
  return found;
}

/// A rank copies messages to itself out of the window at once, because the window may be overwritten after a send. Each
/// micro-batch has one send in an iteration, and iterations do not overlap. The intermediate memory is therefore free.
void NcclTransport::send(const Transfer& t, int micro_batch, DType dtype, int64_t src) {
  const int64_t element = element_bytes(dtype);
  bool has_own = false;
  for_each_own(t, state_.rank, element, [&](const Message& m, int64_t at) {
    copy(packed(box_of(m), Side::Dst), element, window_ + src + m.src * element,
         handed(t, micro_batch, element).memory.get() + at);
    has_own = true;
  });
  if (has_own) check_cuda(cudaEventRecord(handed(t, micro_batch, element).given, state_.stream()), "a send to itself");
  std::vector<PackedRow> rows = rows_of(t.messages, &Message::from, state_.rank, element);
  if (rows.empty()) return;
  place(rows, state_.scratch(bytes_of(rows)));
  std::vector<ncclComm_t> to;
  for (const PackedRow& row : rows) {
    to.push_back(communicator(Use::Transfer, {row.message->from, row.message->to}));
    copy(packed(box_of(*row.message), Side::Dst), element, window_ + src + row.message->src * element, row.at);
  }
  collective("a send", [&] {
    nccl_.group_start();
    for (size_t i = 0; i < rows.size(); ++i)
      check_nccl(nccl_.send(rows[i].at, rows[i].bytes, ncclUint8, 1, to[i], state_.stream()), "a send");
    return nccl_.group_end();
  });
}

void NcclTransport::recv(const Transfer& t, int micro_batch, DType dtype, int64_t, void* dst) {
  const int64_t element = element_bytes(dtype);
  char* const to = static_cast<char*>(dst);
  for_each_own(t, state_.rank, element, [&](const Message& m, int64_t at) {
    const Handed& from = handed(t, micro_batch, element);
    if (at == 0) check_cuda(cudaStreamWaitEvent(state_.stream(), from.given, 0), "a receipt from itself");
    copy(packed(box_of(m), Side::Src), element, from.memory.get() + at, to + m.dst * element);
  });
  std::vector<PackedRow> rows = rows_of(t.messages, &Message::to, state_.rank, element);
  if (rows.empty()) return;
  place(rows, state_.scratch(bytes_of(rows)));
  std::vector<ncclComm_t> from;
  for (const PackedRow& row : rows) from.push_back(communicator(Use::Transfer, {row.message->from, row.message->to}));
  collective("a receipt", [&] {
    nccl_.group_start();
    for (size_t i = 0; i < rows.size(); ++i)
      check_nccl(nccl_.recv(rows[i].at, rows[i].bytes, ncclUint8, 0, from[i], state_.stream()), "a receipt");
    return nccl_.group_end();
  });
  for (const PackedRow& row : rows)
    copy(packed(box_of(*row.message), Side::Src), element, row.at, to + row.message->dst * element);
}

}  // namespace

std::unique_ptr<Transport> nccl_transport(CudaState& state) { return std::make_unique<NcclTransport>(state); }

}  // namespace weft
