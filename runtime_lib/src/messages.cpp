// Collectives by messages. Boxes that have gaps in memory are packed before they are sent, and unpacked after
// they have come; boxes without gaps are sent and received in place. An AllReduce of many elements works in two
// rounds, so that a rank receives less than twice the operand's elements, where taking each peer's operand
// would bring n - 1 times as many:
//
//   1. rank p receives part p of every peer's operand, and reduces these
//   2. rank p sends the reduced part p to every peer
//
// Both ways combine operands in the order of the group, which gives the same bits on every rank.
#include "messages.h"

#include "collectives.h"
#include "wait.h"

namespace weft {

namespace {

constexpr int64_t kTwoRoundBytes = 8192;  // below, another message costs more than the bytes that it saves

/// Whether the elements of a side are contiguous in the order of the box.
bool is_line(const Exchange& e, Side side) {
  const Box box(packed(e, side == Side::Src ? Side::Dst : Side::Src).dims);
  return box.ndim == 1 && (side == Side::Src ? box.dims[0].src_stride : box.dims[0].dst_stride) == 1;
}

/// True if every rank takes the same box.
bool is_whole(const Exchange& e) {
  for (const int64_t stride : e.src_by_me)
    if (stride != 0) return false;
  return e.by_me.dim < 0;
}

Exchange box_of(const Message& m) {
  Exchange e;
  std::copy(m.dims, m.dims + kMaxDims, e.dims);
  return e;
}

}  // namespace

// A piece of memory until the collective ends.
char* Messages::room(int64_t bytes) {
  if (rooms_taken_ == rooms_.size()) rooms_.emplace_back();
  std::vector<char>& room = rooms_[rooms_taken_++];
  if (int64_t(room.size()) < bytes) room.resize(size_t(bytes));
  return room.data();
}

void Messages::copy(const Exchange& e, int64_t element, const char* from, char* to) const {
  const Box box(e.dims);
  team_.parallel(box.count(), kGrain,
                 [&](int64_t begin, int64_t end) { copy_box(box, element, from, to, begin, end); });
}

/// The elements of the source box without gaps: in place if they lie so, else packed into a room.
char* Messages::packed_part(const char* from, const Exchange& e, int64_t element) {
  if (is_line(e, Side::Src)) return const_cast<char*>(from);
  char* out = room(count_of(e.dims) * element);
  copy(packed(e, Side::Dst), element, from, out);
  return out;
}

void Messages::add_out(int rank, char* bytes, int64_t size) {
  if (size > 0) out_.push_back({rank, bytes, size});
}

void Messages::add_in(int rank, char* bytes, int64_t size) {
  if (size > 0) in_.push_back({rank, bytes, size});
}

/// Receives a box in place if it has no gaps there, else into a room, from which unpack() copies it when all
/// has come.
void Messages::take_in(int rank, char* to, const Exchange& e, int64_t element) {
  const int64_t bytes = count_of(e.dims) * element;
  if (is_line(e, Side::Dst)) return add_in(rank, to, bytes);
  char* packed_bytes = room(bytes);
  add_in(rank, packed_bytes, bytes);
  arrivals_.push_back({packed_bytes, to, packed(e, Side::Src)});
}

/// MPI makes progress only inside its calls, hence this polls. In between it leaves the core to threads that
/// compute.
void Messages::wait_for(Network::Traffic& traffic) const {
  Patience patience(rank_.options.timeout);
  rank_.world.set_awaited(rank_.rank, stream_, Awaited::OtherRanks);
  for (int turn = 0; !traffic.is_done(); ++turn) {
    if (rank_.world.has_failed()) throw Failure{rank_.world.failure(), ""};
    if (patience.is_over()) time_out_("messages with " + traffic.awaited());
    back_off(turn);
  }
  rank_.world.set_awaited(rank_.rank, stream_, Awaited::Nothing);
}

/// Sends and receives everything that was added, and returns when all of it has gone and come.
void Messages::deliver(int lane, int tag) {
  if (!out_.empty() || !in_.empty()) wait_for(*network_.start(lane, tag, out_, in_));
  out_.clear();
  in_.clear();
}

/// Ends a collective: boxes that came packed go to their places, and rooms are free again.
void Messages::unpack(int64_t element) {
  for (const Arrival& arrival : arrivals_) copy(arrival.e, element, arrival.bytes, arrival.to);
  arrivals_.clear();
  rooms_taken_ = 0;
}

// Sends each peer its slice of this rank's source.
void Messages::send_slices(const Group& g, int64_t element, int64_t src, const Exchange& e) {
  const int me = g.index(rank_.rank);
  for (int step = 1; step < g.size(); ++step) {  // each rank begins with another peer
    const int p = (me + step) % g.size();
    const Exchange theirs = clipped(e, p, me);
    const char* from = rank_.world.window(rank_.rank) + src + offset_of(g, p, e.src_by_me) * element;
    add_out(g.peer(rank_.rank, p), packed_part(from, theirs, element), count_of(theirs.dims) * element);
  }
}

void Messages::reduce(int n, ReduceOp op, DType dtype, const char* const* sources, char* dst, const Exchange& e) const {
  const Box box(e.dims);
  team_.parallel(box.count(), kGrain,
                 [&](int64_t begin, int64_t end) { reduce_box(box, op, dtype, sources, n, dst, begin, end); });
}

// Each rank receives its slice from all peers, and reduces them.
void Messages::reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e) {
  const int me = g.index(rank_.rank);
  const int64_t element = element_bytes(dtype);
  const Exchange mine = clipped(e, me, me);
  const char* own = rank_.world.window(rank_.rank) + src + offset_of(g, me, e.src_by_me) * element;
  send_slices(g, element, src, e);
  std::vector<const char*> sources;
  for (int p = 0; p < g.size(); ++p) {
    const int64_t bytes = count_of(mine.dims) * element;
    char* part = p == me ? packed_part(own, mine, element) : room(bytes);
    if (p != me) add_in(g.peer(rank_.rank, p), part, bytes);
    sources.push_back(part);
  }
  deliver(stream_, 0);
  reduce(g.size(), op, dtype, sources.data(), dst, packed(mine, Side::Src));
  unpack(element);
}

/// The two rounds described above.
void Messages::reduce_parts(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e) {
  const int n = g.size(), me = g.index(rank_.rank);
  const int64_t element = element_bytes(dtype), count = count_of(e.dims);
  const auto part = [&](int p) { return count * p / n * element; };
  const auto size = [&](int p) { return part(p + 1) - part(p); };
  char* source = packed_part(rank_.world.window(rank_.rank) + src, e, element);
  std::vector<const char*> sources;
  for (int p = 0; p < n; ++p) {
    char* in = p == me ? source + part(me) : room(size(me));
    sources.push_back(in);
    if (p == me) continue;
    add_out(g.peer(rank_.rank, p), source + part(p), size(p));
    add_in(g.peer(rank_.rank, p), in, size(me));
  }
  deliver(stream_, 0);
  char* result = is_line(e, Side::Dst) ? dst : room(count * element);
  reduce(n, op, dtype, sources.data(), result + part(me), line_of(size(me) / element));
  for (int p = 0; p < n; ++p) {
    if (p == me) continue;
    add_out(g.peer(rank_.rank, p), result + part(me), size(me));
    add_in(g.peer(rank_.rank, p), result + part(p), size(p));
  }
  deliver(stream_, 0);
  if (result != dst) arrivals_.push_back({result, dst, packed(e, Side::Src)});
  unpack(element);
}

void Messages::reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e) {
  const bool is_large = count_of(e.dims) * element_bytes(dtype) >= kTwoRoundBytes;
  const bool in_parts = g.size() > 1 && is_large && is_whole(e);
  in_parts ? reduce_parts(g, op, dtype, src, dst, e) : reduce_slices(g, op, dtype, src, dst, e);
}

void Messages::reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, char* dst,
                           const Exchange& e) {
  const int me = g.index(rank_.rank);
  const int64_t element = element_bytes(dtype), bytes = count_of(e.dims) * element;
  char* own = packed_part(rank_.world.window(rank_.rank) + src, e, element);
  if (me != root) add_out(g.peer(rank_.rank, root), own, bytes);
  std::vector<const char*> sources;
  for (int p = 0; p < g.size() && me == root; ++p) {
    char* part = p == me ? own : room(bytes);
    if (p != me) add_in(g.peer(rank_.rank, p), part, bytes);
    sources.push_back(part);
  }
  deliver(stream_, 0);
  if (me == root) reduce(g.size(), op, dtype, sources.data(), dst, packed(e, Side::Src));
  unpack(element);
}

void Messages::pull(const Group& g, int64_t element, int64_t src, char* dst, const Exchange& e) {
  const int n = g.size(), me = g.index(rank_.rank);
  send_slices(g, element, src, e);
  for (int step = 1; step < n; ++step) {
    const int p = (me + step) % n;
    take_in(g.peer(rank_.rank, p), dst + offset_of(g, p, e.dst_by_peer) * element, clipped(e, me, p), element);
  }
  deliver(stream_, 0);
  const char* own = rank_.world.window(rank_.rank) + src + offset_of(g, me, e.src_by_me) * element;
  copy(clipped(e, me, me), element, own, dst + offset_of(g, me, e.dst_by_peer) * element);
  unpack(element);
}

void Messages::pull_root(const Group& g, int root, int64_t element, int64_t src, char* dst, const Exchange& e) {
  const int me = g.index(rank_.rank);
  const char* own = rank_.world.window(rank_.rank) + src;
  if (me == root)
    send_slices(g, element, src, e);
  else
    take_in(g.peer(rank_.rank, root), dst, clipped(e, me, root), element);
  deliver(stream_, 0);
  if (me == root && own != dst) copy(clipped(e, me, me), element, own, dst);  // else it is there
  unpack(element);
}

// A send and its recv are on streams of their own, so they find each other by the number of the transfer's flag.

int Messages::transfer_lane() const { return rank_.world.shape.streams; }

void Messages::send_rows(const Transfer& t, int micro_batch, int64_t element, int64_t src) {
  const char* own = rank_.world.window(rank_.rank) + src;
  for (const Message& m : t.messages)
    if (m.from == rank_.rank && m.to != rank_.rank)
      add_out(m.to, packed_part(own + m.src * element, box_of(m), element), count_of(m.dims) * element);
  deliver(transfer_lane(), t.slot + micro_batch);
  unpack(element);
}

void Messages::recv_rows(const Transfer& t, int micro_batch, int64_t element, char* dst) {
  for (const Message& m : t.messages)
    if (m.to == rank_.rank && m.from != rank_.rank) take_in(m.from, dst + m.dst * element, box_of(m), element);
  deliver(transfer_lane(), t.slot + micro_batch);
  unpack(element);
}

}  // namespace weft
