// MultiHeadAttention, Attention and GroupQueryAttention of com.microsoft, as Attention-23 with the missing parts around
// it: projections, biases, padding masks, rotated positions, partly filled caches.
//
//   MultiHeadAttention(q, k, v, bias, padding)  ->  Attention(q + bias_q, k + bias_k, v + bias_v, mask of padding)
//   Attention(x, w, b, ...)                     ->  the same of the columns of x w + b
//   GroupQueryAttention(q, k, v, past, ...)     ->  Attention(rotated q, past and rotated k, past and v,
//                                                             mask of positions)
#include <algorithm>

#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

/// Operand `input`, or a none id.
ValueId operand(const OpView& op, int input) { return op.has(input) ? op.op().inputs[input] : ValueId{}; }

/// True if none of these operands is present; else reports.
bool lacks(const OpView& op, std::initializer_list<std::pair<int, const char*>> operands) {
  for (const auto& [input, name] : operands)
    if (op.has(input)) return op.fail("attention-operand-unsupported", "the operand {} is not supported", name);
  return true;
}

/// True if these integer attributes are absent or 0; else reports.
bool lacks_attrs(const OpView& op, std::initializer_list<const char*> attrs) {
  for (const char* attr : attrs)
    if (op.op().integer_or(attr, 0) != 0)
      return op.fail("attention-attribute-unsupported", "the attribute {} is not supported", attr);
  return true;
}

/// Checks that only the batch (dimension `batch`) and the length (dimension `length`) of an operand are run-time
/// lengths.
bool has_fixed_sizes(const OpView& op, int input, int batch, int length) {
  for (int d = 0; op.has(input) && d < op.type(input).ndim(); ++d)
    if (d != batch && d != length && !is_fixed_dim(op, input, d)) return false;
  return true;
}

/// A mask that is added to scores: 0 where `allowed`, else `otherwise`.
Term mask_of(Term allowed, DType dtype, double otherwise) {
  const Term number = allowed.cast(dtype);
  return number * -otherwise + otherwise;
}

/// The sum of the masks that are present.
std::optional<Term> sum_of(std::optional<Term> a, std::optional<Term> b) {
  if (!a || !b) return a ? a : b;
  return *a + *b;
}

/// The visible keys, from one of the forms of a padding mask: lengths [batch], or 0 and 1 in [batch, keys] or [batch,
/// queries, keys]. Broadcasts to [batch, heads, queries, keys].
Term padding_mask(Builder& build, Term padding, const Extent& keys) {
  const Shape shape = padding.shape();
  if (shape.size() == 1)
    return positions(build, padding.dtype(), keys, 3, 4) < padding.reshape_to({shape[0], {1}, {1}, {1}});
  const Shape wide = shape.size() == 2 ? Shape{shape[0], {1}, {1}, shape[1]} : Shape{shape[0], {1}, shape[1], shape[2]};
  return padding.reshape_to(wide) > 0.0;
}

/// The shapes of the masks of an attention with scores [batch, heads, queries, keys]. Operand `padding` has one of the
/// forms that padding_mask reads. Operand `added` may be for one request only, or for one head.
OperandShapes mask_shapes(const OpView& op, int padding, int added, const Shape& scores) {
  OperandShapes shapes;
  if (op.has(padding)) {
    const int ndim = op.type(padding).ndim();
    const Extent &batch = scores[0], &queries = scores[2], &keys = scores[3];
    shapes.emplace_back(padding, ndim == 1   ? Shape{batch}
                                 : ndim == 2 ? Shape{batch, keys}
                                             : Shape{batch, queries, keys});
  }
  if (!op.has(added)) return shapes;
  Shape wanted = op.type(added).shape;
  const size_t ndim = std::min(wanted.size(), scores.size());
  for (size_t d = 1; d <= ndim; ++d)
    if (!is_one(wanted[wanted.size() - d])) wanted[wanted.size() - d] = scores[scores.size() - d];
  shapes.emplace_back(added, wanted);
  return shapes;
}

std::vector<AttrSpec> attention_attrs(std::vector<AttrSpec> own) {
  own.push_back({"mask_filter_value", AttrType::Real, -10000.0});
  own.push_back({"num_heads", AttrType::Int, {}, true});
  own.push_back({"scale", AttrType::Real});
  own.push_back(flag("unidirectional", 0));
  return own;
}

/// Copies the scale attribute if it is set: 0 stands for the default too.
void pass_scale(const Op& from, Attrs& attrs) {
  if (from.has("scale") && from.real("scale") != 0) attrs.push_back({"scale", from.real("scale")});
}

// MultiHeadAttention. Key and value are flat, or [batch, heads, keys, size] if they come from a cache. A packed query
// has keys and values in a dimension of its own, a packed key the values.

constexpr int kQuery = 0, kKey = 1, kValue = 2, kBias = 3, kPadding = 4, kScores = 5, kPastKey = 6, kPastValue = 7;

struct Extents {
  Extent batch, queries, keys, past, total;  // total: the keys of the cache and the new ones
  int64_t heads, size, value_size;
};

std::optional<Extents> multi_head_extents(const OpView& op) {
  const int64_t heads = op.op().integer_or("num_heads", 0);
  const Dims q = op.dims(kQuery), k = op.has(kKey) ? op.dims(kKey) : q, v = op.has(kValue) ? op.dims(kValue) : k;
  const auto wrong = [&] {
    return op.fail("attention-heads", "{} heads do not fit shapes {}, {} and {}", heads, dims_text(q), dims_text(k),
                   dims_text(v)),
           std::nullopt;
  };
  if (heads < 1 || (q.size() != 3 && q.size() != 5) || k.size() < 3 || v.size() < 3) return wrong();
  if (op.has(kPastKey) && !has_ndim(op, kPastKey, 4, 4)) return {};
  const Shape &queries = op.type(kQuery).shape, &keys = op.type(op.has(kKey) ? kKey : kQuery).shape;
  Extents e{queries[0], queries[1], keys[k.size() == 4 ? 2 : 1], {}, {}, heads, 0, 0};
  e.size = q.size() == 5 ? q[4] : q[2] / heads;
  e.value_size = v.size() == 3 ? v[2] / heads : v.back();
  if (op.has(kPastKey)) e.past = op.type(kPastKey).shape[2];
  e.total = op.has(kPastKey) ? op.extent(length_of(e.past) + length_of(e.keys)) : e.keys;
  const bool fits = (q.size() == 5 ? !op.has(kKey) && q[2] == heads && q[3] == 3 : op.has(kKey)) &&
                    (k.size() == 5 ? q.size() == 5 || (!op.has(kValue) && k[2] == heads && k[3] == 2)
                                   : op.has(kValue) && k.size() == v.size() && (k.size() == 3 || k[1] == heads)) &&
                    e.size * heads == (q.size() == 3 ? q[2] : e.size * heads) && e.value_size > 0;
  return fits ? std::optional(e) : wrong();
}

/// The shapes that operands must have, with the batch and lengths of the query and the key.
OperandShapes multi_head_shapes(const OpView& op, const Extents& e) {
  OperandShapes shapes;
  for (const int i : {kKey, kValue, kPastKey, kPastValue}) {
    if (!op.has(i)) continue;
    Shape& wanted = shapes.emplace_back(i, op.type(i).shape).second;
    wanted[0] = e.batch;
    wanted[wanted.size() == 4 ? 2 : 1] = i < kPastKey ? e.keys : e.past;
  }
  return shapes;
}

OperandShapes multi_head_masks(const OpView& op, const Extents& e) {
  return mask_shapes(op, kPadding, kScores, {e.batch, {e.heads}, e.queries, e.total});
}

std::vector<LengthRelation> relate_multi_head(const OpView& op) {
  const Extents e = *multi_head_extents(op);
  std::vector<LengthRelation> relations = relations_of(op, multi_head_shapes(op, e));
  for (LengthRelation& relation : relations_of(op, multi_head_masks(op, e))) relations.push_back(std::move(relation));
  return relations;
}

bool has_open_lengths_only(const OpView& op) {
  for (const int i : {kQuery, kKey, kValue, kPastKey, kPastValue})
    if (op.has(i) && !has_fixed_sizes(op, i, 0, op.type(i).ndim() == 4 ? 2 : 1)) return false;
  return !op.has(kBias) || is_fixed(op, kBias);
}

bool infer_multi_head(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, kQuery) || !has_open_lengths_only(op)) return false;
  if (!lacks(op, {{8, "past_sequence_length"}, {9, "cache_indirection"}})) return false;
  const std::optional<Extents> e = multi_head_extents(op);
  if (!e || !have_shapes(op, multi_head_shapes(op, *e), "attention-dims") ||
      !have_shapes(op, multi_head_masks(op, *e), "attention-mask-unsupported"))
    return false;
  const DType dtype = op.type(kQuery).dtype;
  const auto cache = [&](int64_t size) { return TensorType{dtype, {e->batch, {e->heads}, e->total, {size}}, {}}; };
  results = {{dtype, {e->batch, e->queries, {e->heads * e->value_size}}, {}},
             cache(e->size),
             cache(e->value_size),
             {dtype, {e->batch, {e->heads}, e->queries, e->total}, {}}};
  return true;
}

/// Element `part` of dimension 3 of a packed operand [batch, length, heads, parts, size].
Term unpacked(Term packed, int64_t part) {
  const Shape d = packed.shape();
  return packed.slice(3, part, part + 1).reshape_to({d[0], d[1], {d[2].bound * d[4].bound}});
}

/// Query, key or value as [batch, heads, length, size], with its columns of the bias.
Term by_heads(Term x, std::optional<Term> bias, int64_t first, int64_t heads) {
  if (x.dims().size() == 4) return x;
  const Shape d = x.shape();
  if (bias) x = x + bias->slice(0, first, first + d[2].bound);
  return x.reshape_to({d[0], d[1], {heads}, {d[2].bound / heads}}).transpose({0, 2, 1, 3});
}

Term joined_heads(Term x) {
  const Shape d = x.shape();
  return x.transpose({0, 2, 1, 3}).reshape_to({d[0], d[2], {d[1].bound * d[3].bound}});
}

/// Attention-23 of operands by heads: output, keys, values, weights.
std::vector<ValueId> attention(Builder& build, const Op& from, const std::vector<Term>& qkv, std::optional<Term> mask,
                               ValueId past_key, ValueId past_value) {
  Attrs attrs = {{"is_causal", from.integer_or("unidirectional", 0)}, {"qk_matmul_output_mode", int64_t{3}}};
  pass_scale(from, attrs);
  std::vector<ValueId> inputs = {qkv[0].value(), qkv[1].value(), qkv[2].value(), mask ? mask->value() : ValueId{},
                                 past_key,       past_value};
  while (!inputs.back()) inputs.pop_back();
  return build.ops(OpKind::Attention, inputs, attrs, 4);
}

std::vector<ValueId> decompose_multi_head(Builder& build, const OpView& op) {
  const Extents e = *multi_head_extents(op);
  const Op own = op.op();
  const DType dtype = op.type(kQuery).dtype;
  const auto term = [&](int input) {
    const ValueId value = operand(op, input);
    return value ? std::optional(Term(build, value)) : std::nullopt;
  };
  Term q = *term(kQuery), k = op.has(kKey) ? *term(kKey) : q, v = op.has(kValue) ? *term(kValue) : k;
  if (!op.has(kKey)) {
    const Term packed = q;
    q = unpacked(packed, 0), k = unpacked(packed, 1), v = unpacked(packed, 2);
  } else if (!op.has(kValue)) {
    const Term packed = k;
    k = unpacked(packed, 0), v = unpacked(packed, 1);
  }
  const std::optional<Term> bias = term(kBias), padding = term(kPadding);
  const int64_t width = e.heads * e.size;
  std::optional<Term> mask = term(kScores);
  if (padding)
    mask = sum_of(mask, mask_of(padding_mask(build, *padding, e.total), dtype, real_of(own, "mask_filter_value")));
  std::vector<ValueId> made = attention(
      build, own,
      {by_heads(q, bias, 0, e.heads), by_heads(k, bias, width, e.heads), by_heads(v, bias, 2 * width, e.heads)}, mask,
      operand(op, kPastKey), operand(op, kPastValue));
  made[0] = joined_heads({build, made[0]}).value();
  for (size_t r = 1; r < std::min<size_t>(3, own.outputs.size()); ++r)
    if (own.outputs[r]) with_bounds(build, made[r], op.result_type(static_cast<int>(r)).shape);
  return made;
}

// Attention: the projection of one input gives query, key and value.

struct Widths {
  int64_t query, key, value;
};
std::optional<Widths> projected_widths(const OpView& op) {
  const std::vector<int64_t> given = ints_of(op.op(), "qkv_hidden_sizes");
  const int64_t all = op.dims(1)[1];
  const Widths w = given.size() == 3 ? Widths{given[0], given[1], given[2]} : Widths{all / 3, all / 3, all / 3};
  const int64_t heads = op.op().integer_or("num_heads", 0);
  if (heads > 0 && w.query + w.key + w.value == all && w.query == w.key && w.query % heads == 0 &&
      w.value % heads == 0 && op.dims(0)[2] == op.dims(1)[0])
    return w;
  return op.fail("attention-heads", "{} heads do not fit weights of shape {}", heads, dims_text(op.dims(1))),
         std::nullopt;
}

/// The number of all keys, including the past, which has a dimension for keys and values.
Extent projected_keys(const OpView& op) {
  const Extent own = op.type(0).shape[1];
  return op.has(4) ? op.extent(length_of(op.type(4).shape[3]) + length_of(own)) : own;
}

OperandShapes projected_shapes(const OpView& op) {
  const Shape& x = op.type(0).shape;
  const int64_t heads = int_of(op.op(), "num_heads");
  OperandShapes shapes = mask_shapes(op, 3, 5, {x[0], {heads}, x[1], projected_keys(op)});
  if (!op.has(4)) return shapes;
  Shape past = op.type(4).shape;
  past[1] = x[0];
  shapes.emplace_back(4, past);
  return shapes;
}

bool infer_projected(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 3, 3) || !has_ndim(op, 1, 2, 2)) return false;
  if (!is_fixed(op, 1) || (op.has(2) && !is_fixed(op, 2)) || !has_fixed_sizes(op, 0, 0, 1)) return false;
  if (!lacks(op, {{6, "past_sequence_length"}}) || !lacks_attrs(op, {"do_rotary", "past_present_share_buffer"}))
    return false;
  const std::optional<Widths> w = projected_widths(op);
  if (!w) return false;
  if (op.has(4) && (!has_ndim(op, 4, 5, 5) || !has_fixed_sizes(op, 4, 1, 3))) return false;
  const Shape x = op.type(0).shape;
  const int64_t heads = int_of(op.op(), "num_heads");
  if (op.has(4) && w->value != w->key)
    return op.fail("attention-past-unsupported", "a past of values of another size than keys is not supported");
  if (!have_shapes(op, projected_shapes(op), "attention-mask-unsupported")) return false;
  const DType dtype = op.type(0).dtype;
  results = {{dtype, {x[0], x[1], {w->value}}, {}},
             {dtype, {{2}, x[0], {heads}, projected_keys(op), {w->key / heads}}, {}}};
  return true;
}

std::vector<ValueId> decompose_projected(Builder& build, const OpView& op) {
  const Op& own = op.op();
  const Widths w = *projected_widths(op);
  const int64_t heads = int_of(own, "num_heads");
  const Extent keys = projected_keys(op);
  const bool has_bias = op.has(2), has_mask = op.has(3), has_past = op.has(4), has_scores = op.has(5);
  const bool gives_present = own.outputs.size() > 1 && own.outputs[1];
  const DType dtype = op.type(0).dtype;
  Term all = product({build, own.inputs[0]}, {build, own.inputs[1]});
  if (has_bias) all = all + Term(build, own.inputs[2]);
  const auto part = [&](int64_t first, int64_t width) {
    return by_heads(all.slice(2, first, first + width), {}, 0, heads);
  };
  std::optional<Term> mask;
  if (has_scores) mask = Term(build, own.inputs[5]);
  if (has_mask)
    mask = sum_of(mask,
                  mask_of(padding_mask(build, {build, own.inputs[3]}, keys), dtype, real_of(own, "mask_filter_value")));
  ValueId past_key, past_value;
  if (has_past) {
    const Term past(build, own.inputs[4]);
    const Shape shape = past.shape(), one(shape.begin() + 1, shape.end());
    past_key = past.slice(0, 0, 1).reshape_to(one).value();
    past_value = past.slice(0, 1, 2).reshape_to(one).value();
  }
  const std::vector<ValueId> made = attention(
      build, own, {part(0, w.query), part(w.query, w.key), part(w.query + w.key, w.value)}, mask, past_key, past_value);
  ValueId present;
  if (gives_present) {
    const auto alone = [&](ValueId x) {
      Shape shape = build.type(x).shape;
      shape.insert(shape.begin(), Extent{1});
      return build.reshape_to(x, shape);
    };
    present = build.op(OpKind::Concat, {alone(made[1]), alone(made[2])}, {{"axis", int64_t{0}}});
    with_bounds(build, present, op.result_type(1).shape);
  }
  return {joined_heads({build, made[0]}).value(), present};
}

}  // namespace

const OpDef kMultiHeadAttention{.kind = OpKind::MultiHeadAttention,
                                .name = "MultiHeadAttention",
                                .onnx = {"MultiHeadAttention", 1, "com.microsoft"},
                                .attrs = attention_attrs({}),
                                .inputs = {1, 10},
                                .outputs = {1, 4},
                                .infer = infer_multi_head,
                                .relate = relate_multi_head,
                                .decompose = decompose_multi_head};

const OpDef kMicrosoftAttention{.kind = OpKind::MicrosoftAttention,
                                .name = "MicrosoftAttention",
                                .onnx = {"Attention", 1, "com.microsoft"},
                                .attrs = attention_attrs({flag("do_rotary", 0),
                                                          flag("past_present_share_buffer", 0),
                                                          {"qkv_hidden_sizes", AttrType::Ints},
                                                          {"rotary_embedding_dim", AttrType::Int, 0}}),
                                .inputs = {2, 7},
                                .outputs = {1, 2},
                                .infer = infer_projected,
                                .relate = [](const OpView& op) { return relations_of(op, projected_shapes(op)); },
                                .decompose = decompose_projected};

}  // namespace weftc
