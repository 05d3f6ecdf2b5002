// Plain collectives: between the ranks of one machine each pulls from the windows of its peers, between two barriers;
// ranks that share no memory send messages.
#include <vector>

#include "collectives.h"
#include "geometry.h"
#include "rank.h"

namespace weft {

namespace {

constexpr int64_t kSplitBytes =
    int64_t{128} * 1024;  // below, pulling everything from everyone is quicker than another barrier

Box box_with(const Exchange& e, int me, int peer) { return Box(clipped(e, me, peer).dims); }

/// Notes that the step communicates; gives what sends its messages, nullptr where its ranks share memory.
Messages* begin_exchange(Walk& walk) {
  walk.note_exchange();
  return walk.messages.get();
}

std::vector<const char*> sources_of(const Rank& rank, const Group& group, int64_t src) {
  std::vector<const char*> out;
  for (int p = 0; p < group.size(); ++p) out.push_back(rank.window(group.peer(rank.rank, p)) + src);
  return out;
}

}  // namespace

void Rank::reduce_here(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  const int me = g.index(rank);
  const std::vector<const char*> sources =
      sources_of(*this, g, src + offset_of(g, me, e.src_by_me) * element_bytes(dtype));
  const Box box = box_with(e, me, me);
  team_->parallel(box.count(), kGrain, [&](int64_t begin, int64_t end) {
    reduce_box(box, op, dtype, sources.data(), g.size(), static_cast<char*>(dst), begin, end);
  });
  received((g.size() - 1) * box.count() * element_bytes(dtype));
}

void Rank::reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  if (Messages* messages = begin_exchange(*walk_))
    return messages->reduce_all(g, op, dtype, src, static_cast<char*>(dst), e);
  barrier(g);
  reduce_here(g, op, dtype, src, dst, e);
  barrier(g);
}

void Rank::reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, void* dst, const Exchange& e) {
  reduce_all(g, op, dtype, src, dst, e);
}

void Rank::reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, void* dst, int64_t count) {
  const Exchange e = line_of(count);
  if (Messages* messages = begin_exchange(*walk_))
    return messages->reduce_root(g, root, op, dtype, src, static_cast<char*>(dst), e);
  barrier(g);
  if (g.index(rank) == root) reduce_here(g, op, dtype, src, dst, e);
  barrier(g);
}

/// Large ones are reduced part by part, one a rank, and the parts are pulled.
void Rank::reduce_all_in_windows(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst,
                                 const Exchange& e) {
  if (Messages* messages = begin_exchange(*walk_))
    return messages->reduce_all(g, op, dtype, src, window(rank) + dst, e);
  const int n = g.size(), me = g.index(rank);
  const int64_t element = element_bytes(dtype);
  const Box box(e.dims);
  const int64_t count = box.count();
  char* mine = window(rank) + dst;
  if (count * element < kSplitBytes) return reduce_small(g, op, dtype, src, dst, e);

  const auto part = [&](int p) { return count * p / n; };
  const std::vector<const char*> sources = sources_of(*this, g, src);
  barrier(g);
  team_->parallel(part(me + 1) - part(me), kGrain, [&](int64_t begin, int64_t end) {
    reduce_box(box, op, dtype, sources.data(), n, mine, part(me) + begin, part(me) + end);
  });
  received((n - 1) * (part(me + 1) - part(me)) * element);
  barrier(g);
  Dim same[kMaxDims] = {};
  for (int d = 0; d < kMaxDims; ++d) same[d] = {e.dims[d].extent, e.dims[d].dst_stride, e.dims[d].dst_stride};
  const Box whole(same);
  for (int step = 1; step < n; ++step) {  // each rank begins with another peer
    const int p = (me + step) % n;
    const char* theirs = window(g.peer(rank, p)) + dst;
    team_->parallel(part(p + 1) - part(p), kGrain, [&](int64_t begin, int64_t end) {
      copy_box(whole, element, theirs, mine, part(p) + begin, part(p) + end);
    });
  }
  received((count - (part(me + 1) - part(me))) * element);
  barrier(g);
}

/// A result that is also a source may be written only when all peers have read it.
void Rank::reduce_small(const Group& g, ReduceOp op, DType dtype, int64_t src, int64_t dst, const Exchange& e) {
  const int64_t element = element_bytes(dtype);
  const int64_t count = count_of(e.dims);
  walk_->scratch.resize(size_t(count * element));
  barrier(g);
  reduce_here(g, op, dtype, src, walk_->scratch.data(), packed(e, Side::Dst));
  barrier(g);
  copy_box(Box(packed(e, Side::Src).dims), element, walk_->scratch.data(), window(rank) + dst, 0, count);
}

void Rank::take(const Group& g, int64_t element, const void* from, void* to, const Exchange& e) {
  const int me = g.index(rank);
  const Box box = box_with(e, me, me);
  const char* source = static_cast<const char*>(from) + offset_of(g, me, e.src_by_me) * element;
  team_->parallel(box.count(), kGrain, [&](int64_t begin, int64_t end) {
    copy_box(box, element, source, static_cast<char*>(to), begin, end);
  });
}

void Rank::reduce_into(ReduceOp op, DType dtype, void* total, const void* part, int64_t count, bool first) {
  const Dim line[kMaxDims] = {{count, 1, 1}};
  const Box box(line);
  const char* const sources[] = {static_cast<const char*>(first ? part : total), static_cast<const char*>(part)};
  team_->parallel(count, kGrain, [&](int64_t begin, int64_t end) {
    reduce_box(box, op, dtype, sources, first ? 1 : 2, static_cast<char*>(total), begin, end);
  });
}

void Rank::pull_from(const Group& g, int peer, int64_t element, int64_t src, void* dst, const Exchange& e) {
  const int me = g.index(rank);
  const Box box = box_with(e, me, peer);
  const char* from = window(g.peer(rank, peer)) + src + offset_of(g, me, e.src_by_me) * element;
  char* to = static_cast<char*>(dst) + offset_of(g, peer, e.dst_by_peer) * element;
  if (from == to) return;  // a root that broadcasts in place
  team_->parallel(box.count(), kGrain,
                  [&](int64_t begin, int64_t end) { copy_box(box, element, from, to, begin, end); });
  if (peer != me) received(box.count() * element);
}

void Rank::pull(const Group& g, int64_t element, int64_t src, void* dst, const Exchange& e) {
  if (Messages* messages = begin_exchange(*walk_)) return messages->pull(g, element, src, static_cast<char*>(dst), e);
  const int n = g.size(), me = g.index(rank);
  barrier(g);
  for (int step = 0; step < n; ++step) pull_from(g, (me + step) % n, element, src, dst, e);
  barrier(g);
}

void Rank::gather(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  pull(g, element_bytes(dtype), src, dst, e);
}
void Rank::exchange(const Group& g, DType dtype, int64_t src, void* dst, const Exchange& e) {
  pull(g, element_bytes(dtype), src, dst, e);
}

void Rank::broadcast_from(const Group& g, int root, DType dtype, int64_t src, void* dst, int64_t count) {
  const int64_t element = element_bytes(dtype);
  const Exchange e = line_of(count);
  if (Messages* messages = begin_exchange(*walk_))
    return messages->pull_root(g, root, element, src, static_cast<char*>(dst), e);
  barrier(g);
  pull_from(g, root, element, src, dst, e);
  barrier(g);
}

}  // namespace weft
