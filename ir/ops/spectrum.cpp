// DFT (ONNX DFT-20) and STFT-17: products with matrices of cosines and sines, which are constants. A long transform
// becomes two short ones (Cooley and Tukey), so that its cost is less than the square of its length:
//
//   n = a * b:  view x as [a, b]  ->  transforms of length a  ->  times cos and sin of 2 pi i j / n
//                                 ->  transforms of length b
//
// If only a run knows the length of a transform, it computes the matrices, and each transform is one product.
#include <cmath>

#include "ir/ops/formula.h"
#include "ir/ops/relations.h"

namespace weftc {

namespace {

/// Complex numbers; without an imaginary part they are real.
struct Complex {
  Term real;
  std::optional<Term> imaginary = {};
};

/// cos and sin of 2 pi i j / n for i < rows, j < columns, computed where they are read.
Complex computed_turns(Builder& build, DType dtype, int64_t n, int64_t rows, int64_t columns, double sign) {
  const Term i = positions(build, DType::I64, rows, 0, 2), j = positions(build, DType::I64, columns, 1, 2);
  const Term angle = (i * j % static_cast<double>(n)).cast(DType::F64) * (2 * M_PI / static_cast<double>(n));
  return {angle.apply(OpKind::Cos).cast(dtype), (angle.apply(OpKind::Sin) * sign).cast(dtype)};
}

/// cos and sin of 2 pi i j / n for i < rows, j < columns. `sign` is -1 for the transform, 1 for its inverse. Very large
/// tables are not constants: these could take far more memory than a small node suggests.
Complex turns(Builder& build, DType dtype, int64_t n, int64_t rows, int64_t columns, double sign) {
  constexpr int64_t kMostStored = int64_t{1} << 22;
  if (rows * columns > kMostStored) return computed_turns(build, dtype, n, rows, columns, sign);
  std::vector<double> cosines, sines;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const double angle = 2 * M_PI * static_cast<double>(i * j % n) / static_cast<double>(n);
      cosines.push_back(std::cos(angle));
      sines.push_back(sign * std::sin(angle));
    }
  return {constant(build, dtype, {rows, columns}, cosines), constant(build, dtype, {rows, columns}, sines)};
}

/// a * b, by elements or as matrices.
Complex times(Complex a, Complex b, OpKind kind) {
  const auto part = [&](Term x, Term y) { return x.apply(kind, y); };
  if (!a.imaginary) return {part(a.real, b.real), part(a.real, *b.imaginary)};
  return {part(a.real, b.real) - part(*a.imaginary, *b.imaginary),
          part(a.real, *b.imaginary) + part(*a.imaginary, b.real)};
}

template <class Change>
Complex each_part(Complex x, Change change) {
  return {change(x.real), x.imaginary ? std::optional(change(*x.imaginary)) : std::nullopt};
}

constexpr int64_t kDirect = 512;        // the longest transform that is always one product
constexpr int64_t kLongest = 8192;      // the longest that may be one product, if its length is prime
constexpr int64_t kLongestOpen = 4096;  // the longest of a run-time length

/// The largest divisor of n up to its root; 1 if n is prime.
int64_t divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t a = 2; a * a <= n; ++a)
    if (n % a == 0) best = a;
  return best;
}

/// Whether each product of a transform of length n is short enough.
bool is_feasible(int64_t n) {
  if (n <= kLongest && (n <= kDirect || divisor(n) == 1)) return true;
  const int64_t a = divisor(n);
  return a > 1 && is_feasible(a) && is_feasible(n / a);
}

/// The extent times `number`.
Extent times(const Extent& extent, int64_t number) {
  if (!extent.is_run_time()) return {extent.bound * number, {}};
  return run_time_extent(extent.bound * number, length_of(extent) * number);
}

/// The first `count` results of a transform of x [lines, n], with a static length.
Complex transform(Builder& build, Complex x, int64_t count, double sign) {
  const Extent lines = x.real.shape()[0];
  const int64_t n = x.real.dims()[1], a = divisor(n), b = n / a;
  const DType dtype = x.real.dtype();
  if (n <= kDirect || a == 1) return times(x, turns(build, dtype, n, n, count, sign), OpKind::MatMul);
  x = each_part(x, [&](Term t) {
    return t.reshape_to({lines, {a, {}}, {b, {}}}).transpose({0, 2, 1}).reshape_to({times(lines, b), {a, {}}});
  });
  x = transform(build, x, a, sign);
  x = each_part(x, [&](Term t) { return t.reshape_to({lines, {b, {}}, {a, {}}}); });
  x = times(x, turns(build, dtype, n, b, a, sign), OpKind::Mul);
  x = each_part(x, [&](Term t) { return t.transpose({0, 2, 1}).reshape_to({times(lines, a), {b, {}}}); });
  x = transform(build, x, b, sign);
  return each_part(x, [&](Term t) {
    return t.reshape_to({lines, {a, {}}, {b, {}}}).transpose({0, 2, 1}).reshape_to({lines, {n, {}}}).slice(1, 0, count);
  });
}

/// The first `count` results of a transform of x [lines, rows], with a run-time length `n`.
Complex open_transform(Builder& build, Complex x, const Length& n, const Extent& count, double sign) {
  const DType dtype = x.real.dtype();
  const Term length(build, build.length(n));
  const Term turn = positions(build, DType::I64, x.real.shape()[1], 0, 2) * positions(build, DType::I64, count, 1, 2);
  const Term angle = (turn % length).cast(dtype) * (2 * M_PI) / length.cast(dtype);
  return times(x, {angle.apply(OpKind::Cos), angle.apply(OpKind::Sin) * sign}, OpKind::MatMul);
}

/// Splits the last dim into real and imaginary part and moves `axis` to the end: lines of a signal.
Complex lines_of(const OpView& op, Term x, int64_t axis) {
  const Shape shape = x.shape();
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const Shape front(shape.begin(), shape.end() - 1);
  Shape others = front;
  others.erase(others.begin() + axis);
  std::vector<int64_t> perm = range_of(0, last);
  perm.erase(perm.begin() + axis);
  perm.push_back(axis);
  const Shape lines{joined(op, others, 0, others.size()), front[static_cast<size_t>(axis)]};
  const auto part = [&](int64_t p) {
    return x.slice(last, p, p + 1).reshape_to(front).transpose(perm).reshape_to(lines);
  };
  return {part(0), shape.back().bound == 2 ? std::optional(part(1)) : std::nullopt};
}

/// Lines cut or padded to a static length.
Complex with_length(Builder& build, Complex lines, int64_t length) {
  const Extent extent = lines.real.shape()[1];
  const int64_t missing = extent.is_run_time() ? length : std::max<int64_t>(0, length - extent.bound);
  return each_part(std::move(lines), [&](Term t) {
    if (missing > 0) t = {build, build.op(OpKind::Pad, {t.value()}, {{"pads", Dims{0, 0, 0, missing}}})};
    return t.shape()[1] == Extent{length, {}} ? t : t.slice(1, 0, length);
  });
}

/// The inverse of lines_of, for lines of this shape with `axis` of `length`: with both parts, or only the real one.
Term from_lines(Builder& build, Complex lines, Shape shape, int64_t axis, const Extent& length) {
  shape.pop_back();
  std::vector<int64_t> perm = range_of(0, static_cast<int64_t>(shape.size()) - 1);
  perm.insert(perm.begin() + axis, static_cast<int64_t>(shape.size()) - 1);
  Shape moved = shape, result = shape;
  moved.erase(moved.begin() + axis);
  moved.push_back(length);
  result[static_cast<size_t>(axis)] = length;
  result.push_back({1, {}});
  const auto part = [&](Term t) { return t.reshape_to(moved).transpose(perm).reshape_to(result); };
  const Term real = part(lines.real);
  if (!lines.imaginary) return real;
  const std::vector<ValueId> parts{real.value(), part(*lines.imaginary).value()};
  return {build, build.op(OpKind::Concat, parts, {{"axis", static_cast<int64_t>(result.size()) - 1}})};
}

/// Completes a spectrum of which only the first elements are given: the spectrum of a real signal is symmetric.
Complex completed(Builder& build, Complex x, int64_t length) {
  const int64_t have = x.real.dims()[1], missing = length - have;
  if (missing <= 0) return x;
  std::vector<int64_t> mirrored;
  for (int64_t i = 0; i < missing; ++i) mirrored.push_back(length - have - i);
  const Term indices(build, build.ints(mirrored));
  const auto join = [&](Term t, bool negative) {
    const Term other = gather(build, t, indices, 1);
    return Term(build,
                build.op(OpKind::Concat, {t.value(), (negative ? 0 - other : other).value()}, {{"axis", int64_t{1}}}));
  };
  return {join(x.real, false), join(*x.imaginary, true)};
}

/// Prepares a half spectrum for the real part of its inverse: all elements but the first and the last are doubled, for
/// their mirror images.
Complex counted_twice(Builder& build, Complex x) {
  const Extent have = x.real.shape()[1];
  const Term at = positions(build, DType::I64, have, 1, 2);
  const Term last = Term(build, build.length(length_of(have))) - 1;
  const Term is_inner = at > 0 && at < last;
  const Term weight = is_inner.choose(x.real.scalar(2), x.real.scalar(1));
  return each_part(std::move(x), [&](Term t) { return t * weight; });
}

/// DFT-17 has the axis as an attribute, 1 by default; DFT-20 as an operand, -2 by default.
bool import_dft(Graph& graph, OpId id, int opset, const OpView& view) {
  if (!view.op().has("axis") && !view.has(2)) graph.edit(id).set("axis", int64_t{opset < 20 ? 1 : -2});
  return true;
}

/// The length of the transform: from the operand, else from the axis, which may have only half of it. Nothing if that
/// is not a length.
std::optional<Length> dft_length(const OpView& op, int64_t axis) {
  const Length extent = length_of(op.type(0).shape[static_cast<size_t>(axis)]);
  const bool is_half = int_of(op.op(), "inverse") && int_of(op.op(), "onesided");
  const Length natural = is_half ? (extent - 1) * 2 : extent;
  if (op.op().has("dft_length")) return op.op().integer("dft_length");
  if (!op.has(1)) return natural;
  const std::optional<std::vector<Length>> given = op.lengths(1);
  return given && given->size() == 1 && (*given)[0] == natural ? std::optional(natural) : std::nullopt;
}

/// Real or complex signals, with a last dim of 1 or 2 for the parts.
bool is_signal(const OpView& op) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2) || !is_fixed_dim(op, 0, op.type(0).ndim() - 1)) return false;
  const int64_t parts = op.dims(0).back();
  return parts == 1 || parts == 2 ||
         op.fail("dft-parts", "the last dimension has extent {}, 1 (real) or 2 (complex) is needed", parts);
}

bool has_length(const OpView& op, const Length& length) {
  if (length.high() < 1)
    return op.fail("dft-length", "the length of the transform is {}, it must be at least 1", length.high());
  if (!length.is_constant())
    return length.high() <= kLongestOpen ||
           op.fail("dft-length-unsupported",
                   "a transform of run-time length {} may have {} elements, at most {} are "
                   "supported",
                   length.text(), length.high(), kLongestOpen);
  return is_feasible(length.constant()) ||
         op.fail("dft-length-unsupported", "a transform of length {} has a prime factor above {}", length.constant(),
                 kLongest);
}

bool infer_dft(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 2, "axis", "axis") || !is_signal(op)) return false;
  Shape shape = op.type(0).shape;
  const std::optional<int64_t> axis = op.axis("axis", static_cast<int>(shape.size()));
  if (!axis) return false;
  const bool inverse = int_of(op.op(), "inverse"), onesided = int_of(op.op(), "onesided");
  if (*axis == static_cast<int64_t>(shape.size()) - 1)
    return op.fail("dft-axis", "axis {} holds the parts of complex numbers", *axis);
  if (onesided && (shape.back().bound == 2) != inverse)
    return op.fail("dft-onesided", "a one-sided transform goes from real numbers to complex ones, its inverse back");
  const std::optional<Length> length = dft_length(op, *axis);
  if (!length) return is_known(op, 1, "dft_length", "length");
  if (!has_length(op, *length)) return false;
  shape[static_cast<size_t>(*axis)] =
      op.extent(onesided && !inverse ? *floor_quotient(maximum(*length, 0), 2) + 1 : *length);
  shape.back() = {onesided && inverse ? 1 : 2, {}};
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// There must be an element to transform.
std::vector<LengthRelation> relate_dft(const OpView& op) {
  const std::optional<Length> length = dft_length(op, from_front(int_of(op.op(), "axis"), op.type(0).ndim()));
  return length ? std::vector<LengthRelation>{at_most(1, *length)} : std::vector<LengthRelation>{};
}

/// The lines of a DFT, transformed.
Complex transformed(Builder& build, const OpView& op, Complex lines, const Length& length, const Extent& count) {
  const bool inverse = int_of(op.op(), "inverse"), is_half = inverse && int_of(op.op(), "onesided");
  const double sign = inverse ? 1 : -1;
  if (!length.is_constant()) {
    if (is_half) lines = counted_twice(build, lines);
    return open_transform(build, lines, length, count, sign);
  }
  const int64_t number = length.constant();
  lines = with_length(build, lines, is_half ? number / 2 + 1 : number);
  if (is_half) lines = completed(build, lines, number);
  return transform(build, lines, count.bound, sign);
}

std::vector<ValueId> decompose_dft(Builder& build, const OpView& op) {
  const Op dft = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const Shape shape = op.type(0).shape;
  const DType dtype = op.type(0).dtype;
  const int64_t axis = from_front(int_of(dft, "axis"), static_cast<int64_t>(shape.size()));
  const Length length = *dft_length(op, axis);
  const Extent count = op.result_type(0).shape[static_cast<size_t>(axis)];
  const Term x = Term(build, dft.inputs[0]).cast(wide(dtype));
  Complex lines = transformed(build, op, lines_of(op, x, axis), length, count);
  if (int_of(dft, "inverse")) {
    const Term all = Term(build, build.length(length)).cast(x.dtype());
    lines = each_part(lines, [&](Term t) { return t / all; });
    if (int_of(dft, "onesided")) lines.imaginary = {};
  }
  return {from_lines(build, lines, shape, axis, count).cast(dtype).value()};
}

/// The length of a frame: from the operand, else from the window, else the whole signal.
int64_t frame_length(const OpView& op) {
  if (op.op().has("frame_length")) return op.op().integer("frame_length");
  return op.has(2) ? op.type(2).count() : op.dims(0)[1];
}

/// signal [batch, length, 1 or 2], window [frame length]; the result is [batch, frames, frequencies, 2].
bool infer_stft(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "frame_step", "step") || !is_known(op, 3, "frame_length", "length")) return false;
  if (!is_signal(op) || !has_ndim(op, 0, 3, 3) || (op.has(2) && !is_fixed(op, 2))) return false;
  const Shape& shape = op.type(0).shape;
  if (!op.op().has("frame_length") && !op.has(2) && !is_fixed_dim(op, 0, 1)) return false;
  const int64_t step = op.op().integer("frame_step"), length = frame_length(op), parts = shape[2].bound;
  if (step < 1 || length > shape[1].bound)
    return op.fail("stft-frames", "frames of {} elements, {} apart, do not fit a signal of {}", length, step,
                   shape[1].bound);
  if (op.has(2) && (op.dims(2) != Dims{length} || op.type(2).dtype != op.type(0).dtype))
    return op.fail("stft-window", "a window of shape {} does not fit frames of {} elements", dims_text(op.dims(2)),
                   length);
  if (!has_length(op, length)) return false;
  const bool onesided = int_of(op.op(), "onesided");
  if (onesided && parts == 2) return op.fail("dft-onesided", "a one-sided transform needs a real signal");
  const Length frames = *floor_quotient(maximum(length_of(shape[1]) - length, 0) + step, step);
  results = {{op.type(0).dtype, {shape[0], op.extent(frames), {onesided ? length / 2 + 1 : length, {}}, {2, {}}}, {}}};
  return true;
}

/// The signal must be at least one frame long.
std::vector<LengthRelation> relate_stft(const OpView& op) {
  return {at_most(frame_length(op), length_of(op.type(0).shape[1]))};
}

/// Gathers the frames, weights them, and transforms each.
std::vector<ValueId> decompose_stft(Builder& build, const OpView& op) {
  const Op stft = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const Shape shape = op.type(0).shape, result = op.result_type(0).shape;
  const DType dtype = op.type(0).dtype;
  const int64_t length = frame_length(op);
  const Term first = positions(build, DType::I64, result[1], 0, 2) * static_cast<double>(stft.integer("frame_step"));
  Term x =
      pick(build, Term(build, stft.inputs[0]).cast(wide(dtype)), first + positions(build, DType::I64, length, 1, 2), 1);
  if (op.has(2)) x = x * Term(build, stft.inputs[2]).cast(x.dtype()).reshape({length, 1});
  const Complex lines = transform(build, lines_of(op, x, 2), result[2].bound, -1);
  return {from_lines(build, lines, {shape[0], result[1], {length, {}}, shape[2]}, 2, result[2]).cast(dtype).value()};
}

}  // namespace

const OpDef kDFT{
    .kind = OpKind::DFT,
    .name = "DFT",
    .onnx = {"DFT", 17},
    .attrs = {{"axis", AttrType::Int}, {"dft_length", AttrType::Int}, flag("inverse", 0), flag("onesided", 0)},
    .inputs = {1, 3},
    .constant_operands = {{1, "dft_length", AttrType::Int}, {2, "axis", AttrType::Int}},
    .import = import_dft,
    .infer = infer_dft,
    .relate = relate_dft,
    .decompose = decompose_dft,
    .is_typed_by_parts = [](const OpView& op) { return op.has(1); }};

const OpDef kSTFT{.kind = OpKind::STFT,
                  .name = "STFT",
                  .onnx = {"STFT", 17},
                  .attrs = {{"frame_length", AttrType::Int}, {"frame_step", AttrType::Int}, flag("onesided", 1)},
                  .inputs = {1, 4},
                  .constant_operands = {{1, "frame_step", AttrType::Int}, {3, "frame_length", AttrType::Int}},
                  .infer = infer_stft,
                  .relate = relate_stft,
                  .decompose = decompose_stft};

}  // namespace weftc
