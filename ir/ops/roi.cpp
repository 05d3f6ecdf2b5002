// Regions of images, resized to one size. RoiAlign (ONNX RoiAlign-22) interpolates at sampling places within each bin.
// MaxRoiPool takes the maximum of the elements that a bin covers.
//
//   region 8 wide, 4 bins, sampling_ratio 2:     bin 0: places 0.5 and 1.5     bin 1: 2.5 and 3.5     ...
//
// With sampling_ratio 0 the number of places in a bin follows from the size of its region, which is data. The mean over
// them is then a product of matrices: the weights of each row and each column of the image in each bin.
#include <limits>

#include "ir/ops/index.h"
#include "ir/ops/operand_shapes.h"
#include "ir/ops/relations.h"
#include "ir/ops/sampling.h"

namespace weftc {

namespace {

/// One spatial dimension of RoiAlign.
struct RoiAxis {
  Extent extent;
  int64_t bins, samples;  // samples 0: ceil(length of a bin)
  Term start;             // [regions]
  Term bin;               // length of a bin, [regions]
};

/// RoiAlign-10 does not shift by half a pixel.
bool import_roi_align(Graph& graph, OpId id, int opset, const OpView& view) {
  if (opset < 16 && !view.op().has("coordinate_transformation_mode"))
    graph.edit(id).set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return true;
}

bool check_roi_align(const OpView& op) {
  if (int_of(op.op(), "sampling_ratio") < 0 || int_of(op.op(), "output_height") < 1 ||
      int_of(op.op(), "output_width") < 1)
    return op.fail("roi-align-extent", "output extents must be at least 1, and sampling_ratio at least 0");
  if (text_of(op.op(), "mode") == "max" && int_of(op.op(), "sampling_ratio") == 0)
    return op.fail("roi-align-max-unsupported", "mode max needs a sampling_ratio of at least 1");
  return true;
}

/// x [N, C, H, W], regions [R, columns]; the result is [R, C, height, width].
bool infer_regions(const OpView& op, int64_t columns, int64_t height, int64_t width, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 4, 4) || !is_fixed_dim(op, 0, 1) || !is_fixed_dim(op, 1, 1)) return false;
  if (!is_real_operand(op, 0) || !is_real_operand(op, 1)) return false;
  const Shape &x = op.type(0).shape, &regions = op.type(1).shape;
  if (regions.size() != 2 || regions[1].bound != columns || x[2].bound < 1 || x[3].bound < 1)
    return op.fail("roi-dims", "regions of shape {} do not fit an input of shape {}", shape_text(regions),
                   shape_text(x));
  results = {{op.type(0).dtype, {regions[0], x[1], {height, {}}, {width, {}}}, {}}};
  return true;
}

/// Each region has the index of its image.
OperandShapes shape_of_batch(const OpView& op) { return {{2, {op.type(1).shape[0]}}}; }

bool infer_roi_align(const OpView& op, std::vector<TensorType>& results) {
  return check_roi_align(op) && integer_operand(op, 2) &&
         infer_regions(op, 4, int_of(op.op(), "output_height"), int_of(op.op(), "output_width"), results) &&
         have_shapes(op, shape_of_batch(op), "roi-dims");
}

/// There must be an element to read.
std::vector<LengthRelation> relate_image(const OpView& op) {
  std::vector<LengthRelation> relations;
  for (const Extent& extent : {op.type(0).shape[2], op.type(0).shape[3]})
    if (extent.is_run_time()) relations.push_back(at_most(1, length_of(extent)));
  return relations;
}

std::vector<LengthRelation> relate_roi_align(const OpView& op) {
  std::vector<LengthRelation> relations = relations_of(op, shape_of_batch(op));
  const std::vector<LengthRelation> of_image = relate_image(op);
  relations.insert(relations.end(), of_image.begin(), of_image.end());
  return relations;
}

/// One element for each region, as dimension 0 of `ndim`.
Shape for_each_region(const Extent& regions, size_t ndim) {
  Shape shape(ndim, {1, {}});
  shape[0] = regions;
  return shape;
}

/// The axis whose corners are in columns `first` and first + 2 of the regions.
RoiAxis roi_axis(const Op& op, Term regions, int64_t first, const Extent& extent, const char* bins) {
  const bool half_pixel = text_of(op, "coordinate_transformation_mode") == "half_pixel";
  const Shape count{regions.shape()[0]};
  const auto corner = [&](int64_t column) {
    const Term at = regions.slice(1, column, column + 1).reshape_to(count) * real_of(op, "spatial_scale");
    return half_pixel ? at - 0.5 : at;
  };
  const Term start = corner(first);
  Term length = corner(first + 2) - start;
  if (!half_pixel) length = length.apply(OpKind::Max, 1);  // a malformed region gets extent 1
  const int64_t number = int_of(op, bins);
  return {extent, number, int_of(op, "sampling_ratio"), start, length / static_cast<double>(number)};
}

/// Whether a place counts, and its position within the image. A place at most one element beyond the border is moved to
/// the border.
std::pair<Term, Term> within(Builder& build, const RoiAxis& axis, Term place) {
  const Term last = extent_plus(build, place, axis.extent, -1);
  return {place >= -1 && place <= extent_plus(build, place, axis.extent, 0),
          place.apply(OpKind::Max, 0).apply(OpKind::Min, last)};
}

/// The taps of all places: dims [bins, samples] at dimension `dim` of six, after the regions.
std::vector<SampleTap> roi_taps(Builder& build, const RoiAxis& axis, int dim) {
  const Shape column = for_each_region(axis.start.shape()[0], 6);
  const DType dtype = axis.start.dtype();
  const auto samples = static_cast<double>(axis.samples);
  const Term start = axis.start.reshape_to(column), bin = axis.bin.reshape_to(column);
  const Term place = start + bin * positions(build, dtype, axis.bins, dim, 6) +
                     positions(build, dtype, axis.samples, dim + 1, 6, 1, 0.5) * bin / samples;
  const auto [counts, position] = within(build, axis, place);
  const Term low = position.floor(), part = position - low, none = low.scalar(0);
  return {{border_index(build, low, axis.extent), counts.choose(1 - part, none), {}},
          {border_index(build, low + 1, axis.extent), counts.choose(part, none), {}}};
}

/// A fixed number of places in each bin. Mode max takes the maximum of the weighted elements, not of their sums.
Term align_fixed(Builder& build, const Op& op, Term x, Term batch, const RoiAxis& y_axis, const RoiAxis& x_axis) {
  const Term first = image_positions(build, x.shape(), 2);  // [N, C]
  const Extent regions = batch.shape()[0];
  const Term image = gather(build, first, batch, 0).reshape_to({regions, x.shape()[1], {1}, {1}, {1}, {1}});
  const SampleTaps taps{roi_taps(build, y_axis, 2), roi_taps(build, x_axis, 4)};
  if (text_of(op, "mode") == "avg") return sample_sum(build, x, image, taps).reduce(OpKind::ReduceMean, {3, 5}, false);
  const std::vector<Term> elements = sampled(build, x, image, taps);
  Term largest = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) largest = largest.apply(OpKind::Max, elements[i]);
  return largest.reduce(OpKind::ReduceMax, {3, 5}, false);
}

/// The number of places in a bin of each region.
Term adaptive_samples(const RoiAxis& axis) { return axis.bin.apply(OpKind::Ceil); }

/// The weight of each element of the dimension in each bin: [regions, bins, extent]. Places are at most 1 apart. If a
/// bin has two or more, they are more than 1/2 apart, so at most five of them lie less than 1 from an element.
Term adaptive_weights(Builder& build, const RoiAxis& axis) {
  constexpr int kNear = 7;  // with one more at each end, because of rounding
  const Shape column = for_each_region(axis.start.shape()[0], 3);
  const DType dtype = axis.start.dtype();
  const Term samples = adaptive_samples(axis).reshape_to(column), bin = axis.bin.reshape_to(column),
             step = bin / samples;
  const Term start = axis.start.reshape_to(column) + bin * positions(build, dtype, axis.bins, 1, 3);
  const Term element = positions(build, dtype, axis.extent, 2, 3);
  const Term first = ((element - 1 - start) / step - 0.5).floor().apply(OpKind::Max, 0);
  std::optional<Term> sum;
  for (int n = 0; n < kNear; ++n) {
    const Term sample = first + n;
    const auto [counts, position] = within(build, axis, start + (sample + 0.5) * step);
    const Term weight = (1 - (position - element).apply(OpKind::Abs)).apply(OpKind::Max, 0);
    const Term own = (counts && sample < samples).choose(weight, weight.scalar(0));
    sum = sum ? *sum + own : own;
  }
  return *sum;
}

/// The mean over as many places as the bin's length.
Term align_adaptive(Builder& build, Term x, Term batch, const RoiAxis& y_axis, const RoiAxis& x_axis) {
  const Extent regions = batch.shape()[0];
  const Term images = gather(build, x, batch, 0);
  const Term rows = adaptive_weights(build, y_axis).reshape_to({regions, {1}, {y_axis.bins}, y_axis.extent});
  const Term columns =
      adaptive_weights(build, x_axis).transpose({0, 2, 1}).reshape_to({regions, {1}, x_axis.extent, {x_axis.bins}});
  const Term count = (adaptive_samples(y_axis) * adaptive_samples(x_axis)).apply(OpKind::Max, 1);
  return product(product(rows, images), columns) / count.reshape_to(for_each_region(regions, 4));
}

std::vector<ValueId> decompose_roi_align(Builder& build, const OpView& op) {
  const Op& align = op.op();
  const DType dtype = op.type(0).dtype;
  const Shape dims = op.type(0).shape;
  const Term x = Term(build, align.inputs[0]).cast(wide(dtype));
  const Term regions = Term(build, align.inputs[1]).cast(x.dtype()),
             batch = Term(build, align.inputs[2]).cast(DType::I64);
  const RoiAxis y_axis = roi_axis(align, regions, 1, dims[2], "output_height"),
                x_axis = roi_axis(align, regions, 0, dims[3], "output_width");
  const Term result = int_of(align, "sampling_ratio") ? align_fixed(build, align, x, batch, y_axis, x_axis)
                                                      : align_adaptive(build, x, batch, y_axis, x_axis);
  return {result.cast(dtype).value()};
}

/// Regions [R, 5]: the image's index and two corners, which belong to the region.
bool infer_max_roi_pool(const OpView& op, std::vector<TensorType>& results) {
  const std::vector<int64_t> shape = ints_of(op.op(), "pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1)
    return op.fail("max-roi-pool-shape", "'pooled_shape' is {}, two extents are needed", dims_text(shape));
  return same_dtypes(op) && infer_regions(op, 5, shape[0], shape[1], results);
}

/// Rounds to the nearest integer, halves away from zero.
Term rounded(Term x) { return x.apply(OpKind::Sign) * (x.apply(OpKind::Abs) + 0.5).floor(); }

/// Whether an element of the extent is in a bin: [regions, bins, extent].
Term covered(Builder& build, Term regions, int64_t first, double scale, int64_t bins, const Extent& extent) {
  const auto corner = [&](int64_t c) {
    return rounded(regions.slice(1, c, c + 1) * scale).reshape_to(for_each_region(regions.shape()[0], 3));
  };
  const Term start = corner(first), length = (corner(first + 2) - start + 1).apply(OpKind::Max, 1);
  const Term bin = length / static_cast<double>(bins), index = positions(build, bin.dtype(), bins, 1, 3);
  const Term from = (index * bin).floor() + start, to = ((index + 1) * bin).apply(OpKind::Ceil) + start;
  const Term element = positions(build, bin.dtype(), extent, 2, 3);
  return element >= from && element < to;
}

/// The maximum over the columns of each bin, then over the rows; 0 if a bin covers nothing.
std::vector<ValueId> decompose_max_roi_pool(Builder& build, const OpView& op) {
  const Op& pool = op.op();
  const Shape x = op.type(0).shape;
  const Dims shape = ints_of(pool, "pooled_shape");
  const DType dtype = op.type(0).dtype;
  const double scale = real_of(pool, "spatial_scale");
  const Term regions = Term(build, pool.inputs[1]).cast(wide(dtype));
  const Extent count = regions.shape()[0], height{shape[0]}, width{shape[1]}, one{1};
  const Term batch = regions.slice(1, 0, 1).reshape_to({count}).cast(DType::I64);
  const Term images = gather(build, Term(build, pool.inputs[0]).cast(wide(dtype)), batch, 0);
  const Term rows = covered(build, regions, 2, scale, shape[0], x[2]).reshape_to({count, one, height, one, x[2]});
  const Term columns = covered(build, regions, 1, scale, shape[1], x[3]).reshape_to({count, one, one, width, x[3]});
  const Term least = images.scalar(-std::numeric_limits<double>::infinity());
  const Term wide_rows = columns.choose(images.reshape_to({count, x[1], x[2], one, x[3]}), least)
                             .reduce(OpKind::ReduceMax, {4}, false)
                             .transpose({0, 1, 3, 2})
                             .reshape_to({count, x[1], one, width, x[2]});
  const Term pooled = rows.choose(wide_rows, least).reduce(OpKind::ReduceMax, {4}, false);
  const auto any = [](Term mask) { return mask.cast(DType::I32).reduce(OpKind::ReduceMax, {4}, false) > 0; };
  return {(any(rows) && any(columns)).choose(pooled, pooled.scalar(0)).cast(dtype).value()};
}

}  // namespace

const OpDef kRoiAlign{.kind = OpKind::RoiAlign,
                      .name = "RoiAlign",
                      .onnx = {"RoiAlign", 10},
                      .attrs = {choice("coordinate_transformation_mode", "half_pixel", "half_pixel output_half_pixel"),
                                choice("mode", "avg", "avg max"),
                                {"output_height", AttrType::Int, 1},
                                {"output_width", AttrType::Int, 1},
                                {"sampling_ratio", AttrType::Int, 0},
                                {"spatial_scale", AttrType::Real, 1.0}},
                      .inputs = {3, 3},
                      .import = import_roi_align,
                      .infer = infer_roi_align,
                      .relate = relate_roi_align,
                      .decompose = decompose_roi_align};

const OpDef kMaxRoiPool{.kind = OpKind::MaxRoiPool,
                        .name = "MaxRoiPool",
                        .onnx = {"MaxRoiPool"},
                        .attrs = {{"pooled_shape", AttrType::Ints, {}, true}, {"spatial_scale", AttrType::Real, 1.0}},
                        .inputs = {2, 2},
                        .infer = infer_max_roi_pool,
                        .relate = relate_image,
                        .decompose = decompose_max_roi_pool};

}  // namespace weftc
