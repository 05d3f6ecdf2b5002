// DFT (ONNX DFT-20) and STFT-17: products by matrices of cosines and sines, which are known now. A long transform is
// two short ones (Cooley and Tukey), so that it does not take its length times itself:
//
//   n = a * b:  view x as [a, b]  ->  a transforms of length a  ->  times cos and sin of 2 pi i j / n  ->  b of length
//   b
#include <cmath>

#include "ir/ops/formula.h"

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
/// tables are no constants: these would take memory that the few bytes of a node do not foretell.
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

constexpr int64_t kDirect = 512;    // the longest transform that is always one product
constexpr int64_t kLongest = 8192;  // the longest that may be one, where its length has no divisors

/// The divisor of n nearest to its root from below; 1 where n is prime.
int64_t divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t a = 2; a * a <= n; ++a)
    if (n % a == 0) best = a;
  return best;
}

/// Whether every product that a transform of length n takes is short enough.
bool is_feasible(int64_t n) {
  if (n <= kLongest && (n <= kDirect || divisor(n) == 1)) return true;
  const int64_t a = divisor(n);
  return a > 1 && is_feasible(a) && is_feasible(n / a);
}

/// The first `count` results of a transform of x [lines, n].
Complex transform(Builder& build, Complex x, int64_t count, double sign) {
  const Dims dims = x.real.dims();
  const int64_t n = dims[1], a = divisor(n), b = n / a;
  const DType dtype = x.real.dtype();
  if (n <= kDirect || a == 1) return times(x, turns(build, dtype, n, n, count, sign), OpKind::MatMul);
  const int64_t lines = dims[0];
  x = each_part(x, [&](Term t) { return t.reshape({lines, a, b}).transpose({0, 2, 1}).reshape({lines * b, a}); });
  x = transform(build, x, a, sign);
  x = each_part(x, [&](Term t) { return t.reshape({lines, b, a}); });
  x = times(x, turns(build, dtype, n, b, a, sign), OpKind::Mul);
  x = each_part(x, [&](Term t) { return t.transpose({0, 2, 1}).reshape({lines * a, b}); });
  x = transform(build, x, b, sign);
  return each_part(x, [&](Term t) {
    return t.reshape({lines, a, b}).transpose({0, 2, 1}).reshape({lines, n}).slice(1, 0, count);
  });
}

/// The last dim split into real and imaginary part, `axis` moved behind all others, cut or filled up to `length`.
Complex lines_of(Builder& build, Term x, int64_t axis, int64_t length) {
  const Dims dims = x.dims();
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Dims front(dims.begin(), dims.end() - 1);
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < last; ++d)
    if (d != axis) perm.push_back(d);
  perm.push_back(axis);
  const auto part = [&](int64_t p) {
    const Term moved = x.slice(last, p, p + 1).reshape(front).transpose(perm);
    const int64_t extent = dims[axis], lines = element_count(front) / std::max<int64_t>(extent, 1);
    const Term cut = moved.reshape({lines, extent}).slice(1, 0, std::min(extent, length));
    if (extent >= length) return cut;
    return Term(build, build.op(OpKind::Pad, {cut.value()}, {{"pads", Dims{0, 0, 0, length - extent}}}));
  };
  return {part(0), dims[last] == 2 ? std::optional(part(1)) : std::nullopt};
}

/// The inverse of lines_of, for results of `length`: with both parts, or the real one alone.
Term from_lines(Builder& build, Complex lines, Dims dims, int64_t axis, int64_t length) {
  dims.pop_back();
  std::vector<int64_t> perm = range_of(0, static_cast<int64_t>(dims.size()) - 1);
  perm.insert(perm.begin() + axis, static_cast<int64_t>(dims.size()) - 1);
  Dims moved = dims, result = dims;
  moved.erase(moved.begin() + axis);
  moved.push_back(length);
  result[axis] = length;
  result.push_back(1);
  const auto part = [&](Term t) { return t.reshape(moved).transpose(perm).reshape(result); };
  const Term real = part(lines.real);
  if (!lines.imaginary) return real;
  const std::vector<ValueId> parts{real.value(), part(*lines.imaginary).value()};
  return {build, build.op(OpKind::Concat, parts, {{"axis", static_cast<int64_t>(result.size()) - 1}})};
}

/// The other half of a spectrum of which the first `have` are given: that of a real signal is symmetric.
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

/// DFT-17 has the axis as an attribute, 1 by default; DFT-20 as an operand, -2 by default.
bool import_dft(Graph& graph, OpId id, int opset, const OpView& view) {
  if (!view.op().has("axis") && !view.has(2)) graph.edit(id).set("axis", int64_t{opset < 20 ? 1 : -2});
  return true;
}

/// The length of the transform: the operand, else what the axis has, or what it is half of.
int64_t dft_length(const OpView& op, int64_t axis) {
  if (op.op().has("dft_length")) return op.op().integer("dft_length");
  const int64_t extent = op.dims(0)[axis];
  return int_of(op.op(), "inverse") && int_of(op.op(), "onesided") ? 2 * (extent - 1) : extent;
}

/// Real or complex signals with the parts as last dim of 1 or 2.
bool is_signal(const OpView& op) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2) || !is_fixed(op, 0)) return false;
  const int64_t parts = op.dims(0).back();
  return parts == 1 || parts == 2 ||
         op.fail("dft-parts", "the last dimension has extent {}, 1 (real) or 2 (complex) is needed", parts);
}

bool has_length(const OpView& op, int64_t length) {
  if (length < 1) return op.fail("dft-length", "the length of the transform is {}, it must be at least 1", length);
  return is_feasible(length) ||
         op.fail("dft-length-unsupported", "a transform of length {} has a prime factor above {}", length, kLongest);
}

bool infer_dft(const OpView& op, std::vector<TensorType>& results) {
  if (!is_known(op, 1, "dft_length", "length") || !is_known(op, 2, "axis", "axis") || !is_signal(op)) return false;
  Dims dims = op.dims(0);
  const std::optional<int64_t> axis = op.axis("axis", static_cast<int>(dims.size()));
  if (!axis) return false;
  const bool inverse = int_of(op.op(), "inverse"), onesided = int_of(op.op(), "onesided");
  if (*axis == static_cast<int64_t>(dims.size()) - 1)
    return op.fail("dft-axis", "axis {} holds the parts of complex numbers", *axis);
  if (onesided && (dims.back() == 2) != inverse)
    return op.fail("dft-onesided", "a one-sided transform goes from real numbers to complex ones, its inverse back");
  const int64_t length = dft_length(op, *axis);
  if (!has_length(op, length)) return false;
  dims[*axis] = onesided && !inverse ? length / 2 + 1 : length;
  dims.back() = onesided && inverse ? 1 : 2;
  results = {{op.type(0).dtype, shape_of(dims), {}}};
  return true;
}

std::vector<ValueId> decompose_dft(Builder& build, const OpView& op) {
  const Op& dft = op.op();
  const Dims dims = op.dims(0);
  const DType dtype = op.type(0).dtype;
  const int64_t axis = from_front(int_of(dft, "axis"), static_cast<int64_t>(dims.size())),
                length = dft_length(op, axis);
  const bool inverse = int_of(dft, "inverse"), onesided = int_of(dft, "onesided");
  const Term x = Term(build, dft.inputs[0]).cast(wide(dtype));
  const int64_t half = length / 2 + 1;
  Complex lines = lines_of(build, x, axis, onesided && inverse ? half : length);
  if (onesided && inverse) lines = completed(build, lines, length);
  const int64_t count = onesided && !inverse ? half : length;
  lines = transform(build, lines, count, inverse ? 1 : -1);
  if (inverse) lines = each_part(lines, [&](Term t) { return t / static_cast<double>(length); });
  if (onesided && inverse) lines.imaginary = {};
  return {from_lines(build, lines, dims, axis, count).cast(dtype).value()};
}

/// The length of a frame: the operand, else that of the window, else the whole signal.
int64_t frame_length(const OpView& op) {
  if (op.op().has("frame_length")) return op.op().integer("frame_length");
  return op.has(2) ? op.type(2).count() : op.dims(0)[1];
}

/// signal [batch, length, 1 or 2], window [frame length]; the result is [batch, frames, frequencies, 2].
bool infer_stft(const OpView& op, std::vector<TensorType>& results) {
  if (!is_given(op, 1, "frame_step", "step") || !is_known(op, 3, "frame_length", "length")) return false;
  if (!is_signal(op) || !has_ndim(op, 0, 3, 3)) return false;
  const Dims dims = op.dims(0);
  const int64_t step = op.op().integer("frame_step"), length = frame_length(op);
  if (step < 1 || length > dims[1])
    return op.fail("stft-frames", "frames of {} elements, {} apart, do not fit a signal of {}", length, step, dims[1]);
  if (op.has(2) && (op.dims(2) != Dims{length} || op.type(2).dtype != op.type(0).dtype))
    return op.fail("stft-window", "a window of shape {} does not fit frames of {} elements", dims_text(op.dims(2)),
                   length);
  if (!has_length(op, length)) return false;
  const bool onesided = int_of(op.op(), "onesided");
  if (onesided && dims[2] == 2) return op.fail("dft-onesided", "a one-sided transform needs a real signal");
  const int64_t frames = (dims[1] - length) / step + 1;
  results = {{op.type(0).dtype, shape_of({dims[0], frames, onesided ? length / 2 + 1 : length, 2}), {}}};
  return true;
}

/// Gathers the frames, weights them, and transforms each.
std::vector<ValueId> decompose_stft(Builder& build, const OpView& op) {
  const Op& stft = op.op();
  const Dims dims = op.dims(0), result = op.result_type(0).dims();
  const DType dtype = op.type(0).dtype;
  const int64_t length = frame_length(op), frames = result[1];
  const Term first = positions(build, DType::I64, frames, 0, 2, static_cast<double>(stft.integer("frame_step")));
  Term x = gather(build, Term(build, stft.inputs[0]).cast(wide(dtype)),
                  first + positions(build, DType::I64, length, 1, 2), 1);
  if (op.has(2)) x = x * Term(build, stft.inputs[2]).cast(x.dtype()).reshape({length, 1});
  const Dims framed{dims[0], frames, length, dims[2]};
  const Complex lines = transform(build, lines_of(build, x, 2, length), result[2], -1);
  return {from_lines(build, lines, framed, 2, result[2]).cast(dtype).value()};
}

}  // namespace

const OpDef kDFT{.kind = OpKind::DFT,
                 .name = "DFT",
                 .onnx = {"DFT", 17},
                 .attrs = {{"axis", AttrType::Int},
                           {"dft_length", AttrType::Int},
                           {"inverse", AttrType::Int, 0},
                           {"onesided", AttrType::Int, 0}},
                 .inputs = {1, 3},
                 .constant_operands = {{1, "dft_length", AttrType::Int}, {2, "axis", AttrType::Int}},
                 .import = import_dft,
                 .infer = infer_dft,
                 .decompose = decompose_dft};

const OpDef kSTFT{
    .kind = OpKind::STFT,
    .name = "STFT",
    .onnx = {"STFT", 17},
    .attrs = {{"frame_length", AttrType::Int}, {"frame_step", AttrType::Int}, {"onesided", AttrType::Int, 1}},
    .inputs = {1, 4},
    .constant_operands = {{1, "frame_step", AttrType::Int}, {3, "frame_length", AttrType::Int}},
    .infer = infer_stft,
    .decompose = decompose_stft};

}  // namespace weftc
