// Selection of elements by data, on a device: a warp finds where a mask is true, or does non-maximum suppression of the
// boxes of a line.
#pragma once
#include "weft/boxes.h"
#include "weft/device_top_k.h"

namespace weft {

/// Calls put(j, i) for the j-th index i below `length` at which load(i) is true, for at most `most` of them. Then it
/// calls end(n) on one lane, where n is their number.
template <class Load, class Put, class End>
WEFT_DEVICE void true_positions_by_warp(int64_t length, int64_t most, const Load& load, const Put& put,
                                        const End& end) {
  int64_t found = 0;
  for (int64_t from = 0; from < length && found < most; from += detail::kWarp) {
    const int64_t i = from + lane();
    const bool is_true = i < length && load(i);
    const uint32_t all = __ballot_sync(0xffffffffu, is_true);
    const int64_t place = found + __popc(all & ((1u << lane()) - 1));
    if (is_true && place < most) put(place, i);
    found += __popc(all);
  }
  if (lane() == 0) end(found < most ? found : most);
}

/// Calls put(j, i) on one lane for j = 0, 1 ... places - 1, where i is the index of the j-th box that is kept, in the
/// order of scores. After the last, i is -1. Boxes are numbered below `length`: score(i) is the score of box i, edge(i,
/// k) its k-th edge. taken(j) reads the index that was put.
template <class T, BoxForm kForm, class Score, class Edge, class Taken, class Put>
WEFT_DEVICE void choose_boxes_by_warp(int64_t length, int64_t places, const BoxLimits<T>& limits, const Score& score,
                                      const Edge& edge, const Taken& taken, const Put& put) {
  using Entry = Ranked<OrderKey<T>>;
  const auto box_at = [&](int64_t i) { return box_of<kForm, T>(edge(i, 0), edge(i, 1), edge(i, 2), edge(i, 3)); };
  const int64_t most = limits.most < places ? limits.most : places;
  Entry last = before_all<OrderKey<T>>();
  int64_t kept = 0;
  while (kept < most) {
    Entry best = after_all<OrderKey<T>>(length);
    for (int64_t i = lane(); i < length; i += detail::kWarp) {
      const T own_score = score(i);
      const Entry own{order_key<Extreme::Largest>(own_score), i};
      const bool is_there = !limits.has_lowest || own_score > limits.lowest;
      if (is_there && last.is_before(own) && own.is_before(best)) best = own;
    }
    last = detail::warp_first(best);
    if (last.index >= length) break;
    const Box<T> box = box_at(last.index);
    bool is_covered = false;
    for (int64_t j = lane(); j < kept; j += detail::kWarp)
      is_covered = is_covered || overlap(box_at(taken(j)), box, limits.overlap);
    if (__ballot_sync(0xffffffffu, is_covered) != 0) continue;
    if (lane() == 0) put(kept, last.index);
    ++kept;
    __syncwarp();  // all lanes read the stored elements
  }
  for (int64_t j = kept + lane(); j < places; j += detail::kWarp) put(j, -1);
}

}  // namespace weft
