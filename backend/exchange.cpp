// Finds a box. For each dimension, the index of an element in the operand and in the result is an expression of digits
// (ir/kernel/digits.h). The running index is cut into several if such a digit divides it, until both expressions are
// sums of variables times constants. Those constants are the strides.
#include "backend/exchange.h"

#include <set>

#include "ir/base/contains.h"
#include "ir/exchange_types.h"

namespace weftc {

namespace {

/// Added to the axis of a digit of the layout after an AllToAll. There the same axis has two coordinates, the peer's
/// before and this rank's after.
constexpr int kAfter = 1000;

// The index of one element in the operand's dimension and in the result's.
struct Sides {
  IndexExpr source, target;
};

class Geometry {
 public:
  Geometry(const CollectiveStep& step, size_t place_axes, bool by_bounds)
      : step_(step), place_axes_(place_axes), by_bounds_(by_bounds) {}

  std::optional<ExchangeBox> box() {
    const int ndim = step_.from_type.ndim();
    Dims source_dims, target_dims, extents;
    std::vector<std::vector<Digit>> digits(ndim);
    for (int d = 0; d < ndim; ++d) {
      digits[d] = removed(d);
      if (!nests(digits[d])) return {};
      extents.push_back(buffer_extent(step_.from_type.shape[d].bound, digits[d]));
      source_dims.push_back(memory_extent(d, digits[d], true));
      target_dims.push_back(memory_extent(d, digits[d], false));
    }
    const Dims source_strides = strides_of(source_dims), target_strides = strides_of(target_dims);
    ExchangeBox box;
    IndexExpr source, target;
    for (int d = 0; d < ndim; ++d)
      if (!add_dim(d, digits[d], extents[d], source_strides[d], target_strides[d], source, target, box)) return {};
    read_coordinates(source, target, box);
    join_dims(box);
    return box;
  }

 private:
  // True if the peer's coordinate determines the digit: a gather takes each peer's slice.
  bool by_peer(const Digit& digit) const {
    return digit.axis < kAfter && gathers() && contains(step_.axes, digit.axis);
  }
  // True if this rank's coordinate determines the digit: a scatter takes this rank's slice of each peer's operand.
  bool by_me(const Digit& digit) const {
    return digit.axis >= kAfter || (!gathers() && contains(step_.axes, digit.axis));
  }
  bool gathers() const { return step_.kind == OpKind::AllGather || step_.kind == OpKind::AllToAll; }

  /// The digits that are constant for one pair of ranks; the rest of the index runs over the exchanged elements.
  std::vector<Digit> removed(int d) const {
    const bool after = step_.kind == OpKind::ReduceScatter || step_.kind == OpKind::ShardSlice;
    std::vector<Digit> digits = digits_of((after ? step_.to_type : step_.from_type).layout, d, step_.mesh);
    if (step_.kind != OpKind::AllToAll) return digits;
    for (Digit digit : digits_of(step_.to_type.layout, d, step_.mesh)) {
      if (!contains(step_.axes, digit.axis)) continue;
      digit.axis += kAfter;
      digits.push_back(digit);
    }
    std::stable_sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) { return x.block > y.block; });
    return digits;
  }
  // True if each digit's block is a multiple of the whole next digit: only then does removing digits leave a range.
  // Blocks of a dimension without elements are 0.
  static bool nests(const std::vector<Digit>& digits) {
    for (size_t i = 1; i < digits.size(); ++i) {
      const int64_t next = digits[i].block * digits[i].size;
      if (next == 0 || digits[i - 1].block % next) return false;
    }
    return true;
  }

  // True if memory on that side holds all values of the digit, so that it stays in the index there.
  bool is_back(const Digit& digit, bool source) const {
    if (source ? by_me(digit) : by_peer(digit)) return true;
    return contains(source ? step_.from_whole_over : step_.to_whole_over, digit.axis);
  }
  // The extent of the dimension in memory on that side.
  int64_t memory_extent(int d, const std::vector<Digit>& digits, bool source) const {
    int64_t extent = buffer_extent(step_.from_type.shape[d].bound, digits);
    if (is_ragged(step_.from_type.shape[d].bound, digits))
      return is_back(digits[0], source) ? step_.from_type.shape[d].bound : extent;
    for (const Digit& digit : digits)
      if (is_back(digit, source)) extent *= digit.size;
    return extent;
  }

  // The index with the digits restored that memory on each side holds.
  Sides sides(const IndexExpr& index, const std::vector<Digit>& digits) const {
    const auto put_back = [&](bool source) {
      return with_digits(
          index, digits,
          [&](int axis) {
            for (const Digit& digit : digits)
              if (digit.axis == axis) return is_back(digit, source);
            return false;
          },
          [&](int axis) { return index_variable("axis" + std::to_string(axis), 0, size_of(axis) - 1); });
    };
    return {put_back(true), put_back(false)};
  }
  int size_of(int axis) const { return step_.mesh[axis % kAfter].size; }

  // Block sizes at which a running index must be cut so that no digit divides it.
  static void collect_cuts(const IndexExpr& expr, std::set<int64_t>& cuts) {
    for (const IndexExpr::Term& t : expr.terms()) {
      if (!t.atom->is_digit()) continue;
      cuts.insert(t.atom->divisor.number);
      if (t.atom->modulus.number) cuts.insert(t.atom->divisor.number * t.atom->modulus.number);
    }
  }

  // Adds the loops over one dimension to the box, and its index to both offsets. False if it has no strides.
  bool add_dim(int d, const std::vector<Digit>& digits, int64_t extent, int64_t source_stride, int64_t target_stride,
               IndexExpr& source, IndexExpr& target, ExchangeBox& box) {
    std::set<int64_t> cuts;
    const Sides plain = sides(index_variable("i", 0, extent - 1), digits);
    collect_cuts(plain.source, cuts);
    collect_cuts(plain.target, cuts);
    cuts.insert(1);
    IndexExpr index;
    int64_t above = extent;
    std::vector<ExchangeBox::Dim> made;
    for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
      if (*cut >= above && *cut != 1) continue;
      if (above % *cut) return false;
      index = index + index_variable(name(d, made.size()), 0, above / *cut - 1) * *cut;
      made.push_back({above / *cut, 0, 0});
      above = *cut;
    }
    const Sides cut_sides = sides(index, digits);
    for (size_t k = 0; k < made.size(); ++k) {
      const Stride s = stride_of(cut_sides.source, name(d, k)), t = stride_of(cut_sides.target, name(d, k));
      if (!s.affine || !t.affine) return false;
      box.dims.push_back({made[k].extent, s.coefficient.number * source_stride, t.coefficient.number * target_stride});
    }
    // Ranks that meet over other axes than the ragged one hold equally many elements: they exchange whole blocks.
    const Extent& whole = step_.from_type.shape[d];
    const bool clips = is_ragged(whole, digits) && contains(step_.axes, digits[0].axis % kAfter);
    if (clips) {
      if (step_.axes.size() > 1) return false;  // clips depend on the index in the group
      (by_peer(digits[0]) ? box.by_peer : box.by_me) = {static_cast<int>(box.dims.size()) - 1, whole.bound,
                                                        digits[0].block, whole.is_run_time() ? d : -1};
    } else if (whole.is_run_time() && made.size() == 1) {
      box.dims.back().lengths = {d};
    }
    source = source + cut_sides.source * source_stride;
    target = target + cut_sides.target * target_stride;
    return true;
  }
  static std::string name(int d, size_t k) { return "i" + std::to_string(d) + "_" + std::to_string(k); }

  // Reads from both offsets how far coordinates of peer and rank, and the chunk, move the first element.
  void read_coordinates(const IndexExpr& source, const IndexExpr& target, ExchangeBox& box) const {
    for (int axis : step_.axes) {
      const std::string me = "axis" + std::to_string(axis + (step_.kind == OpKind::AllToAll ? kAfter : 0));
      const std::string peer = "axis" + std::to_string(axis);
      box.source_by_me.push_back(stride_of(source, me).coefficient.number);
      box.target_by_peer.push_back(stride_of(target, peer).coefficient.number);
    }
    for (size_t axis = place_axes_; axis < step_.mesh.size(); ++axis) {
      const std::string chunk = "axis" + std::to_string(axis);
      if (const int64_t s = stride_of(source, chunk).coefficient.number)
        box.source_by_chunk.emplace_back(static_cast<int>(axis), s);
      if (const int64_t t = stride_of(target, chunk).coefficient.number)
        box.target_by_chunk.emplace_back(static_cast<int>(axis), t);
    }
  }

  /// Whether the inner of two contiguous dimensions has gaps in a shorter request. A step with a plain count
  /// exchanges the gaps too.
  bool leaves_gaps(const ExchangeBox::Dim& inner, size_t dims) const {
    const bool counts = step_.kind == OpKind::AllReduce || has_root(step_.kind);
    return by_bounds_ && !inner.lengths.empty() && !counts && dims <= ExchangeBox::kMostDims;
  }
  void join(ExchangeBox::Dim& outer, const ExchangeBox::Dim& inner) const {
    outer = {outer.extent * inner.extent, inner.source, inner.target, std::move(outer.lengths)};
    if (!by_bounds_) outer.lengths.insert(outer.lengths.end(), inner.lengths.begin(), inner.lengths.end());
  }

  /// Merges dimensions that are contiguous on both sides, because longer runs copy faster.
  void join_dims(ExchangeBox& box) const {
    std::vector<ExchangeBox::Dim> joined;
    std::vector<bool> clipped;
    ExchangeBox::Clip* const clips[] = {&box.by_peer, &box.by_me};
    for (size_t d = 0; d < box.dims.size(); ++d) {
      const ExchangeBox::Dim dim = box.dims[d];
      const bool clip = box.by_peer.dim == static_cast<int>(d) || box.by_me.dim == static_cast<int>(d);
      if (dim.extent == 1 && !clip) continue;
      const bool joins = !joined.empty() && !clip && !clipped.back() &&
                         joined.back().source == dim.source * dim.extent &&
                         joined.back().target == dim.target * dim.extent && !leaves_gaps(dim, box.dims.size());
      if (joins)
        join(joined.back(), dim);
      else
        joined.push_back(dim), clipped.push_back(clip);
      // Negative until all are done, so that numbers of later dims do not match it.
      for (ExchangeBox::Clip* c : clips)
        if (c->dim == static_cast<int>(d)) c->dim = -2 - static_cast<int>(joined.size() - 1);
    }
    for (ExchangeBox::Clip* c : clips)
      if (c->dim < -1) c->dim = -2 - c->dim;
    if (joined.empty()) joined.push_back({1, 1, 1});
    box.dims = std::move(joined);
  }

  const CollectiveStep& step_;
  const size_t place_axes_;
  const bool by_bounds_;
};

}  // namespace

int64_t ExchangeBox::elements() const {
  int64_t n = 1;
  for (const Dim& d : dims) n *= d.extent;
  return n;
}

bool ExchangeBox::is_identity() const {
  return dims.size() == 1 && dims[0].source == 1 && dims[0].target == 1 && by_peer.dim < 0 && by_me.dim < 0;
}

std::optional<ExchangeBox> exchange_box(const CollectiveStep& step, size_t place_axes, bool by_bounds) {
  return Geometry(step, place_axes, by_bounds).box();
}

}  // namespace weftc
