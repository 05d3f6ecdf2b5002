// Attention (ONNX Attention-23): softmax(q k^T * scale + bias) v for each head, also with fewer key heads than query
// heads (grouped queries). It is a composite of products and a Softmax. Layouts by heads, fusion and product kernels
// therefore apply as they do to attention that an exporter wrote out.
//
//   Attention(Q, K, V, mask)
//     ->  s = MatMul(Q * sqrt(scale), Transpose(K * sqrt(scale)));  p = Softmax(s + mask);  y = MatMul(p, V)
//
// Shapes: Q is [batch, heads, queries, size], or "flat" [batch, queries, heads * size] with the counts of heads in
// attributes. Past keys and values [batch, heads, past, size] come before the new ones.
#include <cmath>

#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

// Operands by number, as ONNX lists them.
constexpr int kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kPastKey = 4, kPastValue = 5, kFilled = 6;

/// The extents of one attention, for both forms of shapes.
struct Heads {
  bool is_flat;
  Extent batch, queries, keys, past, total;  // total: the keys of the cache and the new ones
  int64_t query_heads, key_heads, size, value_size;
};

/// Reads the extents from operands and attributes; nothing after reporting a mismatch. Each key head serves query_heads
/// / key_heads query heads, which must be an integer (1: plain attention; query_heads: multi-query).
std::optional<Heads> heads_of(const OpView& op) {
  const Dims q = op.dims(kQuery), k = op.dims(kKey), v = op.dims(kValue);
  const Shape &queries = op.type(kQuery).shape, &keys = op.type(kKey).shape;
  Heads h{q.size() == 3, queries[0], queries[q.size() - 2], keys[k.size() - 2], {}, {}, 0, 0, 0, 0};
  h.query_heads = h.is_flat ? int_of(op.op(), "q_num_heads") : q[1];
  h.key_heads = h.is_flat ? int_of(op.op(), "kv_num_heads") : k[1];
  if (op.has(kPastKey)) h.past = op.type(kPastKey).shape[2];
  h.total = op.has(kPastKey) ? op.extent(length_of(h.past) + length_of(h.keys)) : h.keys;
  if (k.size() != q.size() || v.size() != q.size() || h.query_heads < 1 || h.key_heads < 1 ||
      h.query_heads % h.key_heads)
    return op.fail("attention-heads", "{} query heads and {} key heads do not fit shapes {}, {} and {}", h.query_heads,
                   h.key_heads, dims_text(q), dims_text(k), dims_text(v)),
           std::nullopt;
  h.size = h.is_flat ? q[2] / h.query_heads : q[3];
  h.value_size = h.is_flat ? v[2] / h.key_heads : v[3];
  return h;
}

/// Queries and keys have one floating type, and values one. A mask may have any type; the softmax type is floating.
bool has_dtypes(const OpView& op) {
  if (!is_real_operand(op, kQuery) || !is_real_operand(op, kValue)) return false;
  for (const auto& [i, like] : {std::pair(kKey, kQuery), std::pair(kPastKey, kQuery), std::pair(kPastValue, kValue)}) {
    const DType dtype = op.type(like).dtype;
    if (!op.has(i) || op.type(i).dtype == dtype) continue;
    return op.fail("operand-dtypes", "operand {} has element type {}, but operand {} has {}", i,
                   dtype_name(op.type(i).dtype), like, dtype_name(dtype));
  }
  if (op.has(kFilled) && !is_integer(op.type(kFilled).dtype))
    return op.fail("index-dtype", "the filled lengths have element type {}, an integer type is needed",
                   dtype_name(op.type(kFilled).dtype));
  const int64_t precision = op.op().has("softmax_precision") ? op.op().integer("softmax_precision") : 1;
  if (const std::optional<DType> wanted = onnx_dtype(precision); wanted && is_float(*wanted)) return true;
  return op.fail("softmax-precision", "softmax_precision {} is no floating type", precision);
}

/// True if a mask with `keys` keys is padded to all keys. If neither number is fixed, they are assumed equal: models
/// write one length in two ways.
bool is_shorter_mask(const Extent& keys, const Extent& total) {
  if (keys.is_run_time() == total.is_run_time()) return !keys.is_run_time() && keys.bound < total.bound;
  return keys.is_run_time() || keys.bound < total.bound;
}

/// The shapes that operands must have, by the heads, lengths and sizes of the first of them.
OperandShapes shapes_of(const OpView& op, const Heads& h) {
  const auto spelled = [&](int64_t heads, const Extent& length, int64_t size) {
    return h.is_flat ? Shape{h.batch, length, {heads * size}} : Shape{h.batch, {heads}, length, {size}};
  };
  OperandShapes shapes = {{kQuery, spelled(h.query_heads, h.queries, h.size)},
                          {kKey, spelled(h.key_heads, h.keys, h.size)},
                          {kValue, spelled(h.key_heads, h.keys, h.value_size)},
                          {kPastKey, {h.batch, {h.key_heads}, h.past, {h.size}}},
                          {kPastValue, {h.batch, {h.key_heads}, h.past, {h.value_size}}},
                          {kFilled, {h.batch}}};
  if (!op.has(kMask)) return shapes;
  // A mask is broadcast to the scores. It may end before the last key.
  const Shape mask = op.type(kMask).shape, scores{h.batch, {h.query_heads}, h.queries, h.total};
  Shape wanted = mask;
  for (size_t d = 0, before = scores.size() - mask.size(); d < mask.size(); ++d)
    if (d + 1 < mask.size() ? !is_one(mask[d]) : !is_shorter_mask(mask[d], h.total)) wanted[d] = scores[before + d];
  shapes.emplace_back(kMask, wanted);
  return shapes;
}

std::vector<LengthRelation> relate_attention(const OpView& op) {
  const Heads h = *heads_of(op);
  std::vector<LengthRelation> relations = relations_of(op, shapes_of(op, h));
  if (op.has(kMask)) relations.push_back({"", length_of(op.type(kMask).shape.back()), length_of(h.total), true});
  return relations;
}

/// Checks that a mask has no more keys than there are.
bool fits_mask(const OpView& op, const Heads& h) {
  if (!op.has(kMask)) return true;
  const Extent keys = op.type(kMask).shape.back();
  if ((length_of(keys) - length_of(h.total)).low() <= 0) return true;
  return op.fail("attention-mask", "a mask of shape {} does not fit {} keys", shape_text(op.type(kMask).shape),
                 shape_text({h.total}));
}

/// Batch and lengths may be run-time lengths; heads and their sizes may not.
bool has_fixed_heads(const OpView& op) {
  for (const int i : {kQuery, kKey, kValue, kPastKey, kPastValue})
    for (int d = 1; op.has(i) && d < op.type(i).ndim(); ++d)
      if (d != op.type(i).ndim() - 2 && !is_fixed_dim(op, i, d)) return false;
  return true;
}

/// Results: y in the form of Q, then all keys and values (present_key, present_value, always [batch, heads, total,
/// size]) and the scores [batch, heads, queries, total] that qk_matmul_output_mode requests.
bool infer_attention(const OpView& op, std::vector<TensorType>& results) {
  for (const int i : {kQuery, kKey, kValue})
    if (!has_ndim(op, i, 3, 4)) return false;
  if (op.has(kPastKey) != op.has(kPastValue))
    return op.fail("attention-past", "a past of keys needs one of values, and a past of values one of keys");
  for (int past : {kPastKey, kPastValue})
    if (op.has(past) && !has_ndim(op, past, 4, 4)) return false;
  if ((op.has(kMask) && !has_ndim(op, kMask, 1, 4)) || !has_fixed_heads(op)) return false;
  const std::optional<Heads> h = heads_of(op);
  if (!h || !has_dtypes(op) || !have_shapes(op, shapes_of(op, *h), "attention-dims") || !fits_mask(op, *h))
    return false;
  const DType dtype = op.type(kQuery).dtype;
  const Shape y = h->is_flat ? Shape{h->batch, h->queries, {h->query_heads * h->value_size}}
                             : Shape{h->batch, {h->query_heads}, h->queries, {h->value_size}};
  results = {{dtype, y, {}},
             {op.type(kKey).dtype, {h->batch, {h->key_heads}, h->total, {h->size}}, {}},
             {op.type(kValue).dtype, {h->batch, {h->key_heads}, h->total, {h->value_size}}, {}},
             {dtype, {h->batch, {h->query_heads}, h->queries, h->total}, {}}};
  return true;
}

/// Builds one attention.
class Attention {
 public:
  Attention(Builder& build, const OpView& op)
      : build_(build), op_(op), h_(*heads_of(op)), dtype_(op.type(kQuery).dtype), inputs_(op.op().inputs) {}

  std::vector<ValueId> run() {
    const ValueId key = cached(by_heads(kKey, h_.key_heads, h_.size), kPastKey, 1);
    const ValueId value = cached(by_heads(kValue, h_.key_heads, h_.value_size), kPastValue, 2);
    h_.total = build_.type(key).shape[2];
    const double scale =
        std::sqrt(op_.op().has("scale") ? op_.op().real("scale") : 1 / std::sqrt(static_cast<double>(h_.size)));
    const ValueId q = with_scalar(build_, OpKind::Mul, by_heads(kQuery, h_.query_heads, h_.size), scale);
    const ValueId k = with_scalar(build_, OpKind::Mul, repeated(key, h_.size), scale);
    ValueId scores = build_.op(OpKind::MatMul, {q, build_.transpose(k, {0, 1, 3, 2})});
    const double cap = real_of(op_.op(), "softcap");
    if (cap > 0)
      scores = with_scalar(build_, OpKind::Mul,
                           build_.op(OpKind::Tanh, {with_scalar(build_, OpKind::Div, scores, cap)}), cap);
    const ValueId bias = make_bias();
    const ValueId biased = bias ? add(build_, scores, bias) : scores;
    const ValueId weights = softmax(biased, bias);
    const int64_t mode = int_of(op_.op(), "qk_matmul_output_mode");
    const ValueId shown = mode == 2 ? biased : mode == 3 ? weights : scores;
    ValueId result = mixed(weights, repeated(value, h_.value_size));
    if (h_.is_flat)
      result = build_.reshape_to(build_.transpose(result, {0, 2, 1, 3}),
                                 {h_.batch, h_.queries, {h_.query_heads * h_.value_size}});
    return {result, key, value, shown};
  }

 private:
  bool has(int input) const { return input < static_cast<int>(inputs_.size()) && inputs_[input]; }

  /// The operand as [batch, heads, length, size]: a flat one is split and transposed.
  ValueId by_heads(int input, int64_t heads, int64_t size) {
    const ValueId x = inputs_[input];
    if (!h_.is_flat) return x;
    const Shape shape = build_.type(x).shape;
    return build_.transpose(build_.reshape_to(x, {shape[0], shape[1], {heads}, {size}}), {0, 2, 1, 3});
  }

  /// Appends the new keys or values to those of the cache, if the model has one. A state may bound result `result` of
  /// the op.
  ValueId cached(ValueId x, int past, int result) {
    if (!has(past)) return x;
    x = build_.op(OpKind::Concat, {inputs_[past], x}, {{"axis", int64_t{2}}});
    const bool is_given = result < static_cast<int>(op_.op().outputs.size()) && op_.op().outputs[result];
    return is_given ? with_bounds(build_, x, op_.result_type(result).shape) : x;
  }

  /// Repeats each key head for the query heads that share it.
  ValueId repeated(ValueId x, int64_t size) {
    const int64_t times = h_.query_heads / h_.key_heads;
    if (times == 1) return x;
    const Shape own = build_.type(x).shape;
    const ValueId column = build_.reshape_to(x, {own[0], {h_.key_heads}, {1}, own[2], {size}});
    const Dims dims{own[0].bound, h_.key_heads, times, own[2].bound, size};
    const ValueId wide = build_.op(OpKind::Expand, {column}, {{"shape", dims}});
    return build_.reshape_to(wide, {own[0], {h_.query_heads}, own[2], {size}});
  }

  /// Multiplies the values by their weights. If the types differ, both are converted to a wide one.
  ValueId mixed(ValueId weights, ValueId values) {
    if (build_.type(values).dtype == dtype_) return build_.op(OpKind::MatMul, {weights, values});
    const DType common = build_.type(values).dtype == DType::F64 ? DType::F64 : wide(dtype_);
    return build_.cast(build_.op(OpKind::MatMul, {build_.cast(weights, common), build_.cast(values, common)}), dtype_);
  }

  /// The indices of queries as a column (axis 0) or of keys as a row (axis 1), which are compared by broadcasting.
  ValueId indices(int axis, const Extent& count) { return positions(build_, DType::I64, count, axis, 2).value(); }
  /// The number of keys present, for each request.
  ValueId filled() {
    return build_.reshape_to(build_.cast(inputs_[kFilled], DType::I64),
                             {build_.type(inputs_[kFilled]).shape[0], {1}, {1}, {1}});
  }
  /// Adds a condition on (query, key) pairs.
  void allow(ValueId where) { allowed_ = allowed_ ? build_.op(OpKind::And, {allowed_, where}) : where; }

  /// Adds the limits of is_causal and of the window of positions. Query i is at position i plus the number of keys
  /// before it. Those are the keys of the cache, or, with a partly filled buffer (nonpad_kv_seqlen), its filled length
  /// less the queries.
  void limit_by_position() {
    const bool causal = int_of(op_.op(), "is_causal");
    const int64_t left = int_of(op_.op(), "left_window_size"), right = int_of(op_.op(), "right_window_size");
    if (!causal && left < 0 && right < 0) return;
    ValueId query = indices(0, h_.queries);
    if (has(kFilled) && !has(kPastKey))
      query = add(build_, query, subtract(build_, filled(), build_.length(length_of(h_.queries))));
    else if (h_.past.bound)
      query = add(build_, query, build_.length(length_of(h_.past)));
    const ValueId key = indices(1, h_.total);
    if (causal) allow(build_.op(OpKind::LessOrEqual, {key, query}));
    const auto shifted = [&](int64_t by) { return with_scalar(build_, OpKind::Add, query, static_cast<double>(by)); };
    if (left >= 0) allow(build_.op(OpKind::GreaterOrEqual, {key, shifted(-left)}));
    if (right >= 0) allow(build_.op(OpKind::LessOrEqual, {key, shifted(right)}));
  }

  /// The mask, of bools or of the queries' type. ONNX lets it be shorter than the keys: missing keys at the end are
  /// masked.
  ValueId full_mask() {
    const bool is_condition = build_.type(inputs_[kMask]).dtype == DType::Bool;
    const Term mask(build_, is_condition ? inputs_[kMask] : build_.cast(inputs_[kMask], dtype_));
    const Extent keys = mask.shape().back();
    if (!is_shorter_mask(keys, heads_of(op_)->total)) return mask.value();  // as inferred, without a state's bound
    const int64_t axis = static_cast<int64_t>(mask.shape().size()) - 1;
    const double fill = is_condition ? 0 : reduce_identity(ReduceOp::Max);
    if (is_static({keys, h_.total})) {
      std::vector<int64_t> pads(2 * mask.shape().size(), 0);
      pads.back() = h_.total.bound - keys.bound;
      return build_.op(OpKind::Pad, {mask.value()}, {{"pads", pads}, {"value", fill}});
    }
    const Term key = positions(build_, DType::I64, h_.total, 0, 1), length(build_, build_.length(length_of(keys)));
    const Term last = (length - 1.0).apply(OpKind::Max, 0.0);
    return (key < length).choose(pick(build_, mask, key.apply(OpKind::Min, last), axis), mask.scalar(fill)).value();
  }

  /// The value that is added to the scores: the mask, with -infinity where a condition forbids the key. Nothing if the
  /// model has neither a mask nor a limit. A boolean mask is one of the conditions.
  ValueId make_bias() {
    ValueId mask = has(kMask) ? full_mask() : ValueId{};
    if (mask && build_.type(mask).dtype == DType::Bool) {
      allow(mask);
      mask = {};
    }
    limit_by_position();
    if (has(kFilled)) allow(build_.op(OpKind::Less, {indices(1, h_.total), filled()}));
    if (!allowed_) return mask;
    const ValueId zero = mask ? mask : build_.constant(Tensor::scalar(dtype_, 0));
    return build_.op(OpKind::Where,
                     {allowed_, zero, build_.constant(Tensor::scalar(dtype_, reduce_identity(ReduceOp::Max)))});
  }

  /// True if some query may see no key. Limits of position leave each query at least one, unless the left window begins
  /// after the last key: with fewer keys than queries.
  bool may_be_blind() const {
    const int64_t left = int_of(op_.op(), "left_window_size");
    const Extent keys = op_.type(kKey).shape[h_.is_flat ? 1 : 2];
    return has(kMask) || has(kFilled) || (left >= 0 && (length_of(h_.queries) - length_of(keys)).high() > left);
  }

  /// The weights. Softmax of a row of -infinities is NaN, but ONNX gives zeros to a query that sees no key: a Where
  /// replaces them.
  ValueId softmax(ValueId scores, ValueId bias) {
    DType precision = dtype_;
    if (op_.op().has("softmax_precision"))
      precision = onnx_dtype(op_.op().integer("softmax_precision")).value_or(dtype_);
    const ValueId weights = build_.op(OpKind::Softmax, {build_.cast(scores, precision)}, {{"axis", int64_t{-1}}});
    const ValueId result = build_.cast(weights, dtype_);
    if (!bias || !may_be_blind()) return result;
    const ValueId best = build_.reduce(OpKind::ReduceMax, bias, {build_.type(bias).ndim() - 1}, true);
    const ValueId blind = build_.op(OpKind::Equal, {best, build_.scalar(best, reduce_identity(ReduceOp::Max))});
    return build_.op(OpKind::Where, {blind, build_.scalar(result, 0), result});
  }

  Builder& build_;
  const OpView& op_;
  Heads h_;
  DType dtype_;
  std::vector<ValueId> inputs_;
  ValueId allowed_;
};

}  // namespace

const OpDef kAttention{.kind = OpKind::Attention,
                       .name = "Attention",
                       .onnx = {"Attention", 23},
                       .attrs = {flag("is_causal", 0),
                                 {"kv_num_heads", AttrType::Int, 0},
                                 {"left_window_size", AttrType::Int, -1},
                                 {"q_num_heads", AttrType::Int, 0},
                                 {"qk_matmul_output_mode", AttrType::Int, 0},
                                 {"right_window_size", AttrType::Int, -1},
                                 {"scale", AttrType::Real},
                                 {"softcap", AttrType::Real, 0.0},
                                 {"softmax_precision", AttrType::Int}},
                       .inputs = {3, 7},
                       .outputs = {1, 4},
                       .infer = infer_attention,
                       .relate = relate_attention,
                       .decompose = [](Builder& build, const OpView& op) { return Attention(build, op).run(); }};

}  // namespace weftc
