// Non-maximum suppression on the host. Boxes of a line come off a heap by their scores. Vector operations compare each
// with the boxes that were kept.
#pragma once
#include <algorithm>

#include "weft/boxes.h"
#include "weft/order_key.h"
#include "weft/scratch.h"

namespace weft {

namespace detail {

/// The boxes that were kept, each edge in an array of its own.
template <class T>
class KeptBoxes {
 public:
  explicit KeptBoxes(int64_t most) : room_(most), edges_(5 * most) {}

  int64_t count() const { return count_; }
  void add(const Box<T>& box) {
    T* const at = edges_.get() + count_++;
    at[0] = box.top, at[room_] = box.left, at[2 * room_] = box.bottom, at[3 * room_] = box.right,
    at[4 * room_] = box.area;
  }
  bool overlap(const Box<T>& box, T most) const {
    constexpr int64_t kBlock = 64;  // boxes, after which the answer may be known
    for (int64_t first = 0; first < count_; first += kBlock)
      if (overlaps_any(box, most, first, std::min(count_, first + kBlock))) return true;
    return false;
  }

 private:
  bool overlaps_any(const Box<T>& box, T most, int64_t first, int64_t last) const {
    const T *const top = edges_.get(), *const left = top + room_, *const bottom = left + room_,
                   *const right = bottom + room_, *const area = right + room_;
    int32_t any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = first; i < last; ++i)
      any |= int32_t(weft::overlap(Box<T>{top[i], left[i], bottom[i], right[i], area[i]}, box, most));
    return any != 0;
  }

  const int64_t room_;
  const Scratch<T> edges_;
  int64_t count_ = 0;
};

}  // namespace detail

/// Calls put(j, i) for j = 0, 1 ... places - 1, where i is the index of the j-th box that is kept, in the order of
/// scores. After the last, i is -1. Boxes are numbered below `length`: score(i) is the score of box i, edge(i, k) its
/// k-th edge.
template <class T, BoxForm kForm, class Score, class Edge, class Put>
void choose_boxes(int64_t length, int64_t places, const BoxLimits<T>& limits, const Score& score, const Edge& edge,
                  const Put& put) {
  using Entry = Ranked<OrderKey<T>>;
  const Scratch<Entry> heap(length);
  int64_t left = 0;
  for (int64_t i = 0; i < length; ++i) {
    const T own = score(i);
    heap[left] = {order_key<Extreme::Largest>(own), i};
    left += !limits.has_lowest | (own > limits.lowest);
  }
  const auto is_after = [](const Entry& a, const Entry& b) { return b.is_before(a); };
  std::make_heap(heap.get(), heap.get() + left, is_after);
  detail::KeptBoxes<T> kept(std::max<int64_t>(0, std::min({limits.most, places, left})));
  for (; left > 0 && kept.count() < std::min(limits.most, places); --left) {
    std::pop_heap(heap.get(), heap.get() + left, is_after);
    const int64_t at = heap[left - 1].index;
    const Box<T> box = box_of<kForm, T>(edge(at, 0), edge(at, 1), edge(at, 2), edge(at, 3));
    if (kept.overlap(box, limits.overlap)) continue;
    put(kept.count(), at);
    kept.add(box);
  }
  for (int64_t j = kept.count(); j < places; ++j) put(j, -1);
}

}  // namespace weft
