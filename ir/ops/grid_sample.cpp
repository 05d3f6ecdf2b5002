// GridSample (ONNX GridSample-22) and AffineGrid-20: images read at positions that a grid gives in [-1, 1].
//
//   grid[n, oy, ox] = (x, y)    ->    position of y in [0, H - 1], of x in [0, W - 1]    ->    taps (sampling.h)
//
// align_corners decides whether -1 and 1 mean the middle or the outer edge of the first and last element. The padding
// mode decides the value outside: zeros, the border, or the image mirrored at its borders.
#include "ir/ops/operand_shapes.h"
#include "ir/ops/relations.h"
#include "ir/ops/sampling.h"

namespace weftc {

namespace {

/// GridSample along one spatial dimension.
struct GridAxis {
  Builder& build;
  Extent extent;
  bool align_corners;
  std::string mode, padding;

  // The ends of the image: the middle or the outer edge of its first and last element.
  double first() const { return align_corners ? 0 : -0.5; }
  Term last(Term like) const { return extent_plus(build, like, extent, align_corners ? -1 : -0.5); }

  Term denormalized(Term grid) const;
  Term reflected(Term position) const;
  Term padded(Term position) const;
  SampleTap tap(Term position, std::optional<Term> weight) const;
  std::vector<SampleTap> taps(Term grid) const;
};

/// Maps [-1, 1] to the extent.
Term GridAxis::denormalized(Term grid) const {
  const Term length = extent_plus(build, grid, extent, align_corners ? -1 : 0);
  return align_corners ? (grid + 1) / 2 * length : ((grid + 1) * length - 1) / 2;
}

/// Mirrors a position at the ends until it lies between them. An even number of lengths beyond an end counts from that
/// end, an odd number from the other. If both ends coincide, every position maps to that one.
Term GridAxis::reflected(Term position) const {
  const Term length = extent_plus(build, position, extent, align_corners ? -1 : 0), end = last(position);
  const Term before = first() - position, after = position - end;
  const Term beyond = before.apply(OpKind::Max, after), lengths = (beyond / length).floor();
  const Term rest = beyond - lengths * length, is_odd = lengths - (lengths / 2).floor() * 2;
  const Term is_before = position < first(), from_first = (is_odd == 0) == is_before;
  const Term mirrored = from_first.choose(rest + first(), end - rest);
  const bool may_be_one_place = align_corners && (extent.is_run_time() || extent.bound == 1);
  return may_be_one_place ? (length == 0).choose(position * 0, mirrored) : mirrored;
}

/// Replaces a position beyond the ends. With border padding, a cubic window that crosses an end still moves with the
/// position, and its weights with it, until all of it reads the border, as in ONNX Runtime.
Term GridAxis::padded(Term position) const {
  const auto between = [&](double least, double more) {
    return position.apply(OpKind::Max, least).apply(OpKind::Min, extent_plus(build, position, extent, more));
  };
  if (padding == "zeros") return position;
  if (padding == "border") return mode == "cubic" ? between(-2, 1) : between(0, -1);
  const Term is_beyond = (position < first()).apply(OpKind::Or, position > last(position));
  return is_beyond.choose(reflected(position), position);
}

/// The element at an integer position. A window may cross the ends even if its middle lies between them.
SampleTap GridAxis::tap(Term position, std::optional<Term> weight) const {
  if (padding == "zeros") return {border_index(build, position, extent), weight, is_index(build, position, extent)};
  return {border_index(build, padding == "reflection" ? padded(position) : position, extent), weight, {}};
}

/// Keys' cubic with coefficient -0.75, for a distance below 1 and for one from 1 to 2.
Term near_weight(Term t) { return ((t * 1.25 - 2.25) * t) * t + 1; }
Term far_weight(Term t) { return ((t * -0.75 + 3.75) * t - 6) * t + 3; }

std::vector<SampleTap> GridAxis::taps(Term grid) const {
  Term position = denormalized(grid);
  if (mode == "nearest") return {tap(padded(position.apply(OpKind::Round)), {})};
  position = padded(position);
  const Term low = position.floor(), part = position - low;
  if (mode == "linear") return {tap(low, 1 - part), tap(low + 1, part)};
  return {tap(low - 1, far_weight(part + 1)), tap(low, near_weight(part)), tap(low + 1, near_weight(1 - part)),
          tap(low + 2, far_weight(2 - part))};
}

/// Before opset 20 the modes are called bilinear and bicubic.
bool import_grid_sample(Graph& graph, OpId id, int, const OpView& view) {
  const std::string mode = view.op().has("mode") ? view.op().text("mode") : "linear";
  if (mode == "bilinear" || mode == "bicubic")
    graph.edit(id).set("mode", std::string(mode == "bilinear" ? "linear" : "cubic"));
  return true;
}

/// The dims that operands must share: the batch, and a coordinate for each spatial dimension.
OperandShapes shape_of_grid(const OpView& op) {
  const Shape& x = op.type(0).shape;
  Shape grid = op.type(1).shape;
  grid.resize(x.size());
  grid.front() = x[0], grid.back() = Extent{static_cast<int64_t>(x.size()) - 2};
  return {{1, grid}};
}

/// x [N, C, spatial dims], grid [N, spatial dims of the result, one coordinate for each].
bool infer_grid_sample(const OpView& op, std::vector<TensorType>& results) {
  const std::string& mode = text_of(op.op(), "mode");
  if (!has_ndim(op, 0, 3) || !is_real_operand(op, 1)) return false;
  if (mode != "nearest" && !is_integer(op.type(0).dtype) && !is_real_operand(op, 0)) return false;
  const Shape &x = op.type(0).shape, &grid = op.type(1).shape;
  if (!have_shapes(op, shape_of_grid(op), "grid-sample-dims")) return false;
  Shape y{*one_extent(x[0], grid[0]), x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  if (element_count(bounds(y)) > 0 && element_count(bounds(x)) == 0)
    return op.fail("grid-sample-dims", "an input of shape {} has nothing to sample", shape_text(x));
  results = {{op.type(0).dtype, y, {}}};
  return true;
}

/// There must be an element to sample.
std::vector<LengthRelation> relate_grid_sample(const OpView& op) {
  std::vector<LengthRelation> relations = relations_of(op, shape_of_grid(op));
  const Shape& x = op.type(0).shape;
  for (size_t d = 2; d < x.size(); ++d)
    if (x[d].is_run_time()) relations.push_back(at_most(1, length_of(x[d])));
  return relations;
}

/// The type of interpolation; for integers, a float that holds them.
DType interpolated_dtype(DType dtype) { return is_integer(dtype) && dtype_bytes(dtype) > 2 ? DType::F64 : wide(dtype); }

/// Interpolated integers are truncated. A cubic may leave the range of its elements: they saturate.
Term as_elements(Term y, DType dtype) {
  if (!is_integer(dtype)) return y.cast(dtype);
  return (y < 0).choose(y.apply(OpKind::Ceil), y.floor()).saturate(dtype);
}

/// Coordinates are in reverse order of dimensions: the first one is x, along the last dimension.
std::vector<ValueId> decompose_grid_sample(Builder& build, const OpView& op) {
  const Shape shape = op.type(0).shape;
  const DType dtype = op.type(0).dtype;
  const Op& sample = op.op();
  const bool is_exact = text_of(sample, "mode") == "nearest";
  const Term stored(build, sample.inputs[0]), x = is_exact ? stored : stored.cast(interpolated_dtype(dtype));
  const Term grid = Term(build, sample.inputs[1]).cast(is_exact ? wide(op.type(1).dtype) : x.dtype());
  const auto ndim = static_cast<int64_t>(shape.size());
  Shape places = op.result_type(0).shape;
  places[1] = Extent{1};
  SampleTaps taps;
  for (int64_t d = 0; d < ndim - 2; ++d) {
    const GridAxis axis{build, shape[static_cast<size_t>(d + 2)], int_of(sample, "align_corners") != 0,
                        text_of(sample, "mode"), text_of(sample, "padding_mode")};
    taps.push_back(axis.taps(grid.slice(ndim - 1, ndim - 3 - d, ndim - 2 - d).reshape_to(places)));
  }
  const Term image = image_positions(build, shape, static_cast<int>(ndim));
  const Term sum = sample_sum(build, x, image, taps);
  return {(is_exact ? sum : as_elements(sum, dtype)).value()};
}

/// theta [N, 2, 3] with size [N, C, H, W], or [N, 3, 4] with [N, C, D, H, W].
bool infer_affine_grid(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "size", "size") || !is_real_operand(op, 0) || !is_fixed(op, 0)) return false;
  const Dims theta = op.dims(0), size = ints_of(op.op(), "size");
  const auto ndim = static_cast<int64_t>(size.size()) - 2;
  if ((ndim != 2 && ndim != 3) || theta != Dims{size[0], ndim, ndim + 1})
    return op.fail("affine-grid-dims", "theta of shape {} does not fit the size {}", dims_text(theta), dims_text(size));
  Dims grid{size[0]};
  grid.insert(grid.end(), size.begin() + 2, size.end());
  grid.push_back(ndim);
  results = {{op.type(0).dtype, shape_of(grid), {}}};
  return true;
}

/// theta times (x, y, 1) of each element, with a column of theta for each coordinate, x's first.
std::vector<ValueId> decompose_affine_grid(Builder& build, const OpView& op) {
  const Dims size = ints_of(op.op(), "size");
  const DType dtype = op.type(0).dtype;
  const int64_t ndim = static_cast<int64_t>(size.size()) - 2;
  const bool align_corners = int_of(op.op(), "align_corners");
  const Term theta = Term(build, op.op().inputs[0]).cast(wide(dtype));
  Dims row{size[0]};
  row.resize(ndim + 1, 1);
  row.push_back(ndim);
  const auto column = [&](int64_t c) { return theta.slice(2, c, c + 1).reshape(row); };
  Term sum = column(ndim);
  for (int64_t c = 0; c < ndim; ++c) {
    const int64_t dim = ndim - c, extent = size[1 + dim];
    const auto length = static_cast<double>(extent);
    const double step = align_corners ? (extent > 1 ? 2 / (length - 1) : 0) : 2 / length;
    sum = sum + column(c) * positions(build, theta.dtype(), extent, static_cast<int>(dim), static_cast<int>(ndim + 2),
                                      step, align_corners ? -1 : step / 2 - 1);
  }
  return {sum.cast(dtype).value()};
}

}  // namespace

const OpDef kGridSample{.kind = OpKind::GridSample,
                        .name = "GridSample",
                        .onnx = {"GridSample", 16},
                        .attrs = {flag("align_corners", 0), choice("mode", "linear", "linear nearest cubic"),
                                  choice("padding_mode", "zeros", "zeros border reflection")},
                        .inputs = {2, 2},
                        .import = import_grid_sample,
                        .infer = infer_grid_sample,
                        .relate = relate_grid_sample,
                        .decompose = decompose_grid_sample};

const OpDef kAffineGrid{.kind = OpKind::AffineGrid,
                        .name = "AffineGrid",
                        .onnx = {"AffineGrid", 20},
                        .attrs = {flag("align_corners", 0), {.name = "size", .type = AttrType::Ints, .is_own = true}},
                        .inputs = {1, 2},
                        .constant_operands = {{1, "size", AttrType::Ints}},
                        .infer = infer_affine_grid,
                        .decompose = decompose_affine_grid};

}  // namespace weftc
