// Rules that move and multiply dequantized numbers as the integers that they were made from.
//
// The result is that of ONNX's graph up to the rounding of its sums: sums of integers are exact, and are multiplied
// with both scales once. If the rounding moves a value across a tie of a later QuantizeLinear, its result differs by
// one step.
#include <algorithm>

#include "ir/ops/quantization.h"
#include "ir/ops/window.h"
#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// Operand 2 of a DequantizeLinear or QuantizeLinear; invalid: 0 throughout.
ValueId zero_of(const Op& op) { return op.inputs.size() > 2 ? op.inputs[2] : ValueId{}; }

/// The one number that all of a tensor's elements are.
std::optional<int64_t> only_number(const Match& match, ValueId value) {
  if (!value) return 0;
  if (!match.is_constant(value)) return {};
  const Tensor tensor = match.tensor(value);
  const auto differs = [&](int64_t x) { return x != tensor.integers[0]; };
  if (tensor.is_real() || tensor.integers.empty() ||
      std::any_of(tensor.integers.begin(), tensor.integers.end(), differs))
    return {};
  return tensor.integers[0];
}

/// The dimension of the weights that the result's channels come from.
int64_t channels_of(const Op& product, const TensorType& weights) {
  if (product.kind == OpKind::Conv) return 0;
  if (product.kind == OpKind::Gemm) return int_of(product, "transB") ? 0 : 1;
  return weights.ndim() - 1;
}

/// The first operand has one scale and one known zero point; the weights are signed, without one, and have a scale for
/// all or for each channel.
bool are_bytes(const Match& match) {
  const Op &x = match.op("x scaled"), &w = match.op("w scaled"), &product = match.root();
  const DType left = match.type("x").dtype;
  if ((left != DType::U8 && left != DType::I8) || match.type("w").dtype != DType::I8) return false;
  if (match.root_type().dtype != DType::F32 || int_of(x, "block_size") || int_of(w, "block_size")) return false;
  if (match.type("sx").dtype != DType::F32 || match.type("sw").dtype != DType::F32) return false;
  if (match.type("sx").count() != 1 || !only_number(match, zero_of(x)) || only_number(match, zero_of(w)) != 0)
    return false;
  const int64_t ndim = match.type("w").ndim();
  return match.type("sw").count() == 1 || from_front(int_of(w, "axis"), ndim) == channels_of(product, match.type("w"));
}

/// True if no channel's weights can sum to more than an i32 holds: a byte minus its zero point is at most 255 in size.
bool sums_fit(const Match& match) {
  const Tensor w = match.tensor(match["w"]);
  const auto channels = static_cast<int>(channels_of(match.root(), match.type("w")));
  std::vector<int64_t> sums(static_cast<size_t>(w.dims[static_cast<size_t>(channels)]), 0);
  for (Index at(w.dims); at.more(); at.next())
    sums[static_cast<size_t>(at[channels])] += std::abs(w.integers[static_cast<size_t>(at.linear())]);
  return std::ranges::all_of(sums, [](int64_t sum) { return sum * 255 <= INT32_MAX; });
}

bool convolves_bytes(const Match& match) {
  return are_bytes(match) && fills_byte_kernels(match.type("w").dims(), int_of(match.root(), "group")) &&
         sums_fit(match);
}

bool multiplies_bytes(const Match& match) {
  const Op& product = match.root();
  if (!are_bytes(match) || match.type("w").ndim() != 2 || match.type("x").ndim() < 2) return false;
  const bool is_plain =
      product.kind == OpKind::MatMul || (int_of(product, "transA") == 0 && real_of(product, "alpha") == 1 &&
                                         (product.inputs.size() < 3 || real_of(product, "beta") == 1));
  return is_plain && sums_fit(match);
}

/// The products of both scales, in a shape that broadcasts against the result.
Tensor scales(const Match& match, size_t after) {
  const Tensor sx = match.tensor(match["sx"]), sw = match.tensor(match["sw"]);
  Dims dims(after + 1, 1);
  dims[0] = sw.size();
  Tensor both(DType::F32, sw.size() == 1 ? Dims{} : dims);
  for (int64_t c = 0; c < sw.size(); ++c) both.put(c, round_to(DType::F32, sx.real[0] * sw.real[c]));
  return both;
}

/// The integers' sums times the scales, plus operand 2 of the root. The last argument is the number of dimensions after
/// the channels.
ValueId put_scaled(Rewriter& write, const Match& match, ValueId sums, size_t after) {
  const Op root = match.root();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const ValueId both = write.constant(scales(match, after));
  const ValueId real = write.op(OpKind::Cast, {sums}, {{"to", dtype_attr(DType::F32)}});
  const ValueId product = write.op(OpKind::Mul, {real, both});
  if (root.inputs.size() < 3 || !root.inputs[2]) return product;
  ValueId bias = root.inputs[2];
  if (after > 0) {
    Dims dims(after + 1, 1);
    dims[0] = match.type("w").dims()[0];
    bias = write.op(OpKind::Reshape, {bias}, {{"allowzero", int64_t{1}}, {"shape", dims}});
  }
  return write.op(OpKind::Add, {product, bias});
}

ValueId put_convolution(Rewriter& write, const Match& match) {
  Attrs attrs = match.root().attrs;
  attrs.push_back({"zero", *only_number(match, zero_of(match.op("x scaled")))});
  const size_t after = static_cast<size_t>(match.type("w").ndim()) - 2;
  return put_scaled(write, match, write.op(OpKind::ConvInteger, {match["x"], match["w"]}, std::move(attrs)), after);
}

ValueId put_product(Rewriter& write, const Match& match) {
  const int64_t zero = *only_number(match, zero_of(match.op("x scaled")));
  const bool is_turned = match.root().kind == OpKind::Gemm && int_of(match.root(), "transB") != 0;
  ValueId w = match["w"];
  if (is_turned) w = write.op(OpKind::Transpose, {w}, {{"perm", std::vector<int64_t>{1, 0}}});
  return put_scaled(write, match, write.op(OpKind::MatMulInteger, {match["x"], w}, {{"zero", zero}}), 0);
}

/// One scale for all elements, which a view moves; of constants kernels read views as they are.
bool moves_integers(const Match& match) {
  const Op& scaled = match.op("x scaled");
  const ValueId zero = zero_of(scaled);
  return match.root().inputs.size() == 1 && !match.is_constant(match["x"]) && int_of(scaled, "block_size") == 0 &&
         match.type("s").count() == 1 && (!zero || match.graph().type(zero).count() == 1);
}

ValueId put_view_of_integers(Rewriter& write, const Match& match) {
  const Op root = match.root(), scaled = match.op("x scaled");  // NOLINT: ops move
  std::vector<ValueId> operands = scaled.inputs;
  operands[0] = write.op(root.kind, {match["x"]}, root.attrs);
  Attrs attrs = scaled.attrs;
  for (Attr& attr : attrs)
    if (attr.name == "axis") attr.value = int64_t{0};  // of a result that may have fewer dimensions
  return write.op(OpKind::DequantizeLinear, std::move(operands), std::move(attrs));
}

/// True if each window of a pool surely has elements of the image in it: the maximum of no elements is -inf, which no
/// integer is.
bool windows_hold_elements(const Op& pool) {
  const std::vector<int64_t>&kernel = pool.ints("kernel_shape"), pads = ints_of(pool, "pads");
  for (size_t d = 0; d < kernel.size(); ++d) {
    if (pool.ints("dilations")[d] != 1) return false;
    if (!pads_by_length(pool) && std::max(pads[d], pads[kernel.size() + d]) >= kernel[d]) return false;
  }
  return int_of(pool, "ceil_mode") == 0;
}

/// A scale whose products and quotients with integers of 16 bits are normal numbers: rounding them loses nothing.
bool is_plain_scale(const Tensor& scale) {
  constexpr double kLeast = 1e-30, kMost = 1e30;
  return scale.size() == 1 && scale.real[0] >= kLeast && scale.real[0] <= kMost;
}

/// Bytes times a positive number have their order.
bool pools_bytes(const Match& match) {
  const DType dtype = match.type("x").dtype;
  return (dtype == DType::U8 || dtype == DType::I8) && match.root().outputs.size() == 1 && moves_integers(match) &&
         is_plain_scale(match.tensor(match["s"])) && windows_hold_elements(match.root());
}

/// The integers are quantized as they were before.
bool quantizes_back(const Match& match) {
  const Op &scaled = match.op("x scaled"), &root = match.root();
  const DType dtype = match.type("x").dtype;
  if ((dtype != DType::U8 && dtype != DType::I8) || match.root_type().dtype != dtype) return false;
  if (match.type("s").dtype != DType::F32 || match.type("to").dtype != DType::F32) return false;
  const Tensor from = match.tensor(match["s"]), to = match.tensor(match["to"]);
  const std::optional<int64_t> zero = only_number(match, zero_of(scaled));
  return is_plain_scale(from) && is_plain_scale(to) && from.real[0] == to.real[0] && zero &&
         zero == only_number(match, zero_of(root));
}

Pattern dequantized(const char* integers, const char* scale, const char* name, bool is_weight) {
  return op(OpKind::DequantizeLinear, {is_weight ? constant(integers) : any(integers), constant(scale)}).as(name);
}

}  // namespace

std::span<const Rule> quantized_rules() {
  const Pattern x = dequantized("x", "sx", "x scaled", false), w = dequantized("w", "sw", "w scaled", true);
  static const std::vector<Rule> rules{
      // Conv(Dequantize(x), Dequantize(w), b)  ->  Cast(ConvInteger(x, w)) * (sx * sw) + b
      {"convolution-of-integers", op(OpKind::Conv, {x, w}), convolves_bytes, put_convolution},
      // Reshape(Dequantize(x))  ->  Dequantize(Reshape(x)), and other views
      {"view-of-dequantized",
       op({OpKind::Flatten, OpKind::Reshape, OpKind::Transpose, OpKind::Squeeze, OpKind::Unsqueeze},
          {op(OpKind::DequantizeLinear, {any("x"), constant("s")}).as("x scaled")}),
       moves_integers, put_view_of_integers},
      // MaxPool(Dequantize(x))  ->  Dequantize(MaxPool(x))
      {"pool-of-dequantized",
       op(OpKind::MaxPool, {op(OpKind::DequantizeLinear, {any("x"), constant("s")}).as("x scaled")}), pools_bytes,
       put_view_of_integers},
      // Quantize(Dequantize(x))  ->  x  with the same scale and zero point
      {"quantize-of-dequantized",
       op(OpKind::QuantizeLinear,
          {op(OpKind::DequantizeLinear, {any("x"), constant("s")}).as("x scaled"), constant("to")}),
       quantizes_back, [](Rewriter&, const Match& match) { return match["x"]; }},
      // MatMul(Dequantize(x), Dequantize(w))  ->  Cast(MatMulInteger(x, w)) * (sx * sw)
      {"product-of-integers", op({OpKind::MatMul, OpKind::Gemm}, {x, w}), multiplies_bytes, put_product},
  };
  return rules;
}

}  // namespace weftc
