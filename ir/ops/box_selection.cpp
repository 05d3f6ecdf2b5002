// NonMaxSuppression (ONNX NonMaxSuppression-11): keeps the box with the best score of overlapping boxes. Boxes are
// [batch, n, 4] and scores [batch, classes, n]; the result has a row (batch, class, box) for each remaining box.
//
// BoxChoice finds them. Each class of each image is a line, whose boxes are visited in the order of their scores. A box
// that overlaps too much with one selected before is dropped.
//
//   sorted 0.9 0.8 0.7 0.6     box 1 overlaps with 0, and 3 with 2     chosen 0 2 -1 -1
#include <algorithm>
#include <cmath>

#include "ir/ops/formula.h"
#include "ir/ops/selection.h"

namespace weftc {

namespace {

enum Operand : uint8_t { kBoxes, kScores, kMost, kOverlap, kLowest };

/// Maximum number of boxes of a line: all of them, or a constant limit; 0 without that operand.
int64_t most_of_a_line(const OpView& op) {
  if (!op.has(kMost)) return 0;
  const int64_t boxes = op.dims(kScores)[2];
  const std::optional<Tensor> known = op.known(kMost);
  return known ? std::clamp<int64_t>(known->int_at(0), 0, boxes) : boxes;
}

bool is_single_operand(const OpView& op, int input, const char* what) {
  if (!op.has(input) || (is_static(op.type(input).shape) && op.type(input).count() == 1)) return true;
  return op.fail("non-max-suppression-operand", "the {} has shape {}, expected one number", what,
                 shape_text(op.type(input).shape));
}

bool check_shapes(const OpView& op) {
  if (!has_ndim(op, kBoxes, 3, 3) || !has_ndim(op, kScores, 3, 3)) return false;
  const Shape &boxes = op.type(kBoxes).shape, &scores = op.type(kScores).shape;
  const bool fits = boxes[0].bound == scores[0].bound && boxes[1].bound == scores[2].bound && boxes[2].bound == 4;
  if (!fits || !(length_of(boxes[1]) == length_of(scores[2])))
    return op.fail("non-max-suppression-dims", "boxes of shape {} do not fit scores of shape {}", shape_text(boxes),
                   shape_text(scores));
  if (boxes[0].is_run_time() || scores[0].is_run_time() || scores[1].is_run_time())
    return op.fail("bounded-dim-unsupported",
                   "the batch or the classes of {} have a run-time length, which NonMaxSuppression does not take; pin "
                   "it with --dim",
                   shape_text(scores));
  return true;
}

bool infer_non_max_suppression(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, kBoxes) || !is_real_operand(op, kScores) || !check_shapes(op)) return false;
  if (!is_single_operand(op, kMost, "number of boxes of a class") || !is_single_operand(op, kOverlap, "overlap") ||
      !is_single_operand(op, kLowest, "lowest score") || !may_have_counts(op))
    return false;
  const Dims scores = op.dims(kScores);
  results = {{DType::I64, shape_of({scores[0] * scores[1] * most_of_a_line(op), 3}), {}}};
  return true;
}

/// Operands of BoxChoice: those of NonMaxSuppression, all except the last present and scalars.
bool infer_box_choice(const OpView& op, std::vector<TensorType>& results) {
  if (!check_shapes(op)) return false;
  Shape shape = op.type(kScores).shape;
  shape[2] = {int_of(op.op(), "places")};
  results = {{DType::I64, shape, {}}};
  return true;
}

/// Images and classes pass; boxes are whole, because the selection depends on all of them.
FactorRule factors_box_choice(const OpView& op) {
  FactorRule rule = pass_rule(op.type(kScores).shape);
  rule.factors[2].role = Factor::Role::Whole;
  rule.factors.push_back({4, Factor::Role::Whole});
  rule.factors.push_back({int_of(op.op(), "places"), Factor::Role::Whole});
  rule.inputs = {{0, 2, 3}, {0, 1, 2}};
  rule.inputs.resize(static_cast<size_t>(op.inputs()));
  rule.outputs = {{0, 1, 4}};
  return rule;
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (right - left) * (bottom - top); }
};

Box box_at(const Tensor& boxes, int64_t at, bool has_middle) {
  const double a = boxes.real[at * 4], b = boxes.real[at * 4 + 1], c = boxes.real[at * 4 + 2],
               d = boxes.real[at * 4 + 3];
  if (has_middle) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

/// Whether the intersection of two boxes is more than that part of their union.
bool overlap(const Box& a, const Box& b, double most) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double both = width * height, either = a.area() + b.area() - both;
  return width > 0 && height > 0 && both > 0 && a.area() > 0 && b.area() > 0 && either > 0 && both / either > most;
}

/// The remaining boxes of one line, in the order of their scores; `scores[0]` is the score of the first box.
std::vector<int64_t> chosen_boxes(const EvalContext& context, int64_t image, const double* scores) {
  const Tensor& boxes = context.in(kBoxes);
  const bool has_middle = int_of(context.op, "center_point_box") != 0;
  const int64_t count = boxes.dims[1], most = std::min(context.in(kMost).int_at(0), context.result_dims[0][2]);
  std::vector<int64_t> order, chosen;
  for (int64_t i = 0; i < count; ++i)
    if (!context.has(kLowest) || scores[i] > context.in(kLowest).at(0)) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::isnan(scores[a]) ? !std::isnan(scores[b]) : scores[a] > scores[b];
  });
  for (const int64_t at : order) {
    const Box own = box_at(boxes, image * count + at, has_middle);
    const bool is_covered = std::any_of(chosen.begin(), chosen.end(), [&](int64_t other) {
      return overlap(box_at(boxes, image * count + other, has_middle), own, context.in(kOverlap).at(0));
    });
    if (static_cast<int64_t>(chosen.size()) < most && !is_covered) chosen.push_back(at);
  }
  return chosen;
}

void eval_box_choice(EvalContext& context) {
  const Tensor& scores = context.in(kScores);
  Tensor result(DType::I64, context.result_dims[0]);
  const int64_t places = result.dims[2];
  std::fill(result.integers.begin(), result.integers.end(), -1);
  for (int64_t line = 0; line < scores.dims[0] * scores.dims[1]; ++line) {
    const std::vector<int64_t> chosen =
        chosen_boxes(context, line / scores.dims[1], &scores.real[line * scores.dims[2]]);
    std::copy(chosen.begin(), chosen.end(), result.integers.begin() + line * places);
  }
  context.results[0] = std::move(result);
}

/// A limit as a scalar of the given type: 0 by default.
ValueId limit(Builder& build, const OpView& op, Operand operand, DType dtype) {
  if (!op.has(operand)) return build.constant(Tensor::scalar(dtype, 0));
  return build.cast(build.reshape(op.op().inputs[operand], {}), dtype);
}

std::vector<ValueId> decompose_non_max_suppression(Builder& build, const OpView& op) {
  if (op.result_type(0).count() == 0) return {build.constant(Tensor(DType::I64, {0, 3}))};
  const DType dtype = op.type(kScores).dtype;
  const int64_t classes = op.dims(kScores)[1], places = most_of_a_line(op);
  std::vector<ValueId> operands = {op.op().inputs[kBoxes], op.op().inputs[kScores], limit(build, op, kMost, DType::I64),
                                   limit(build, op, kOverlap, dtype)};
  if (op.has(kLowest)) operands.push_back(limit(build, op, kLowest, dtype));
  const Term chosen(build, build.op(OpKind::BoxChoice, operands,
                                    {{"center_point_box", int_of(op.op(), "center_point_box")}, {"places", places}}));
  const Term flat = chosen.reshape({chosen.dims()[0] * classes * places});
  const Term at(build, positions_of_true(build, (flat >= 0.0).value(), flat.dims()[0]));
  const Term line = at / static_cast<double>(places);
  const Shape column{build.type(at.value()).shape[0], {1}};
  std::vector<ValueId> columns;
  for (const Term part :
       {line / static_cast<double>(classes), line % static_cast<double>(classes), gather(build, flat, at, 0)})
    columns.push_back(build.reshape_to(part.value(), column));
  return {build.op(OpKind::Concat, columns, {{"axis", int64_t{1}}})};
}

}  // namespace

const OpDef kBoxChoice{.kind = OpKind::BoxChoice,
                       .name = "BoxChoice",
                       .attrs = {flag("center_point_box", 0), {"places", AttrType::Int, {}, true}},
                       .inputs = {4, 5},
                       .category = Category::Index,
                       .infer = infer_box_choice,
                       .factors = factors_box_choice,
                       .eval = eval_box_choice};

const OpDef kNonMaxSuppression{.kind = OpKind::NonMaxSuppression,
                               .name = "NonMaxSuppression",
                               .onnx = {"NonMaxSuppression", 10},
                               .attrs = {flag("center_point_box", 0)},
                               .inputs = {2, 5},
                               .infer = infer_non_max_suppression,
                               .decompose = decompose_non_max_suppression,
                               .is_typed_by_parts = [](const OpView&) { return true; }};

}  // namespace weftc
