// GroupQueryAttention of com.microsoft: attention with fewer key heads than query heads over a cache, each request of a
// batch with a length of its own, and queries and keys rotated by their positions.
//
//   new keys of request b stand in the cache behind its first past_b = seqlens_k[b] + 1 - S keys
//   query s of request b sees the keys up to past_b + s, or the last local_window_size of these
//
// The cache of the result is as long as the operand's, or longer where the total length asks for it. Where the total
// length is known and the batch is one, all positions are, and the new keys are put behind the past by Concat.
#include <algorithm>

#include "ir/ops/formula.h"

namespace weftc {

namespace {

constexpr int kQuery = 0, kKey = 1, kValue = 2, kPastKey = 3, kPastValue = 4, kSeqlens = 5, kTotal = 6, kCos = 7,
              kSin = 8, kPositions = 9, kScores = 10, kQueryNorm = 14, kKeyNorm = 15;
constexpr const char* kTotalAttr = "total_sequence_length";

struct Extents {
  int64_t batch, queries, heads, key_heads, size, past;
  int64_t total;                  // keys of the resulting cache
  std::optional<int64_t> before;  // keys in front of the new ones, where all requests have the same, known number
};

std::optional<Extents> extents_of(const OpView& op) {
  const int64_t heads = op.op().integer_or("num_heads", 0), key_heads = op.op().integer_or("kv_num_heads", 0);
  const Dims q = op.dims(kQuery);
  const bool is_packed = !op.has(kKey);
  const int64_t all = is_packed ? heads + 2 * key_heads : heads;
  const auto wrong = [&](const std::string& what) {
    return op.fail("group-query-dims", "{} heads, {} of them with keys, do not fit {}", heads, key_heads, what),
           std::nullopt;
  };
  if (heads < 1 || key_heads < 1 || heads % key_heads || q[2] % all) return wrong("a query of shape " + dims_text(q));
  Extents e{q[0], q[1], heads, key_heads, q[2] / all, op.has(kPastKey) ? op.dims(kPastKey)[2] : 0, 0, {}};
  if (!is_packed && (op.dims(kKey) != Dims{e.batch, e.queries, key_heads * e.size} || !op.has(kValue) ||
                     op.dims(kValue) != op.dims(kKey)))
    return wrong("a key of shape " + dims_text(op.dims(kKey)));
  const int64_t sum = op.op().integer_or(kTotalAttr, e.past + e.queries);
  e.total = std::max(e.past, sum);
  if (sum < e.queries) return wrong("a total length of " + std::to_string(sum));
  if (sum == e.queries || (e.batch == 1 && op.op().has(kTotalAttr))) e.before = sum - e.queries;
  if (e.before && *e.before > e.past) return wrong("a past of " + std::to_string(e.past) + " keys");
  return e;
}

/// True if what the attention reads of earlier keys and of rotations is there, with as many dimensions as it reads.
bool has_caches(const OpView& op) {
  if (op.has(kPastKey) != op.has(kPastValue))
    return op.fail("group-query-past", "a past of keys needs one of values, and a past of values one of keys");
  for (int past : {kPastKey, kPastValue})
    if (op.has(past) && !has_ndim(op, past, 4, 4)) return false;
  if (!int_of(op.op(), "do_rotary")) return true;
  if (!op.has(kCos) || !op.has(kSin))
    return op.fail("group-query-rotary", "do_rotary = 1 needs the operands cos_cache and sin_cache");
  return has_ndim(op, kCos, 2, 2) && has_ndim(op, kSin, 2, 2);
}

bool infer_group_query(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  if (!is_real_operand(op, kQuery) || !has_ndim(op, kQuery, 3, 3)) return false;
  for (int i : {11, 12, 13})
    if (op.has(i))
      return op.fail("group-query-unsupported", "{} is not supported", i == 11 ? "head_sink" : "a quantised cache");
  for (const char* attr : {"smooth_softmax", "sliding_window_cache", "qk_output", "kv_cache_bit_width"})
    if (op.op().integer_or(attr, 0) != 0)
      return op.fail("group-query-unsupported", "the attribute {} is not supported", attr);
  if (!op.has(kSeqlens)) return op.fail("group-query-lengths", "the operand seqlens_k is missing");
  if (!has_caches(op)) return false;
  const std::optional<Extents> e = extents_of(op);
  if (!e) return false;
  const DType dtype = op.type(kQuery).dtype;
  const TensorType cache{dtype, shape_of({e->batch, e->key_heads, e->total, e->size}), {}};
  results = {{dtype, shape_of({e->batch, e->queries, e->heads * e->size}), {}}, cache, cache};
  return true;
}

class GroupQuery {
 public:
  GroupQuery(Builder& build, const OpView& op) : build_(build), op_(op), own_(op.op()), e_(*extents_of(op)) {}

  std::vector<ValueId> run() {
    const Term query(build_, own_.inputs[kQuery]);
    const int64_t width = e_.heads * e_.size, key_width = e_.key_heads * e_.size;
    const bool is_packed = !op_.has(kKey);
    const auto part = [&](int input, int64_t first, int64_t size) {
      return is_packed ? query.slice(2, first, first + size) : Term(build_, own_.inputs[input]);
    };
    Term q = by_heads(part(kQuery, 0, width), e_.heads, kQueryNorm);
    Term k = by_heads(part(kKey, width, key_width), e_.key_heads, kKeyNorm);
    const Term v = by_heads(part(kValue, width + key_width, key_width), e_.key_heads, -1);
    if (int_of(own_, "do_rotary")) q = rotated(q), k = rotated(k);
    const Term keys = cached(k, kPastKey), values = cached(v, kPastValue);
    Attrs attrs = {{"softcap", real_of(own_, "softcap")}};
    if (own_.has("scale") && own_.real("scale") != 0) attrs.insert(attrs.begin(), {"scale", own_.real("scale")});
    const Term y(build_,
                 build_.op(OpKind::Attention, {q.value(), keys.value(), values.value(), mask().value()}, attrs));
    const Term joined = y.transpose({0, 2, 1, 3}).reshape({e_.batch, e_.queries, width});
    return {joined.value(), keys.value(), values.value()};
  }

 private:
  Term by_heads(Term x, int64_t heads, int norm) {
    Term split = x.reshape({e_.batch, e_.queries, heads, e_.size});
    if (norm >= 0 && op_.has(norm))
      split = {build_, build_.op(OpKind::RMSNormalization, {split.value(), own_.inputs[norm]},
                                 {{"axis", int64_t{-1}}, {"epsilon", real_of(own_, "qk_norm_epsilon")}})};
    return split.transpose({0, 2, 1, 3});
  }

  /// How many keys stand in front of the new ones of each request: [batch, 1, 1, 1].
  Term before() {
    const Term lengths = Term(build_, own_.inputs[kSeqlens]).cast(DType::I64).reshape({e_.batch, 1, 1, 1});
    return lengths + static_cast<double>(1 - e_.queries);
  }
  /// The position of each query: [batch, 1, queries, 1].
  Term query_positions() {
    if (e_.before) return positions(build_, DType::I64, e_.queries, 2, 4, 1, static_cast<double>(*e_.before));
    return before() + positions(build_, DType::I64, e_.queries, 2, 4);
  }

  /// The positions by which a model asks to rotate; of the first prompt only the first one counts.
  Term rotary_positions() {
    const Dims shape{e_.batch, e_.queries};
    Term at = query_positions();
    if (op_.has(kPositions)) {
      const Term given = Term(build_, own_.inputs[kPositions]).cast(DType::I64);
      if (e_.before != 0) return given.reshape(shape);
      at =
          given.reshape({element_count(given.dims())}).slice(0, 0, 1) + positions(build_, DType::I64, e_.queries, 2, 4);
    }
    const ValueId wide = build_.op(OpKind::Expand, {at.value()}, {{"shape", Dims{e_.batch, 1, e_.queries, 1}}});
    return Term(build_, wide).reshape(shape);
  }

  Term rotated(Term x) {
    const Term cos(build_, own_.inputs[kCos]), sin(build_, own_.inputs[kSin]);
    const int64_t turned = 2 * cos.dims()[1];
    return {build_,
            build_.op(OpKind::RotaryEmbedding, {x.value(), cos.value(), sin.value(), rotary_positions().value()},
                      {{"interleaved", int_of(own_, "rotary_interleaved")},
                       {"rotary_embedding_dim", turned == e_.size ? 0 : turned}})};
  }

  Term concat(const std::vector<ValueId>& parts, int64_t axis) {
    return {build_, parts.size() == 1 ? parts[0] : build_.op(OpKind::Concat, parts, {{"axis", axis}})};
  }

  /// The cache with the new keys or values in it, and zeros behind them.
  Term cached(Term added, int input) {
    if (e_.past == 0) return added;
    const Term past(build_, own_.inputs[input]);
    if (!e_.before) return picked(concat({past.value(), added.value()}, 2));
    std::vector<ValueId> parts;
    const int64_t end = *e_.before + e_.queries;
    if (*e_.before > 0) parts.push_back(past.slice(2, 0, *e_.before).value());
    parts.push_back(added.value());
    const Term filled = concat(parts, 2);
    if (end == e_.total) return filled;
    return {build_, build_.op(OpKind::Pad, {filled.value()},
                              {{"pads", Dims{0, 0, 0, 0, 0, 0, e_.total - end, 0}}, {"value", 0.0}})};
  }
  /// Of the past and, behind it, what is new: the new ones from each request's position on.
  Term picked(Term both) {
    const Term at = positions(build_, DType::I64, e_.total, 2, 4), first = before();
    const Term old = at.clamp(0, static_cast<double>(e_.past - 1));
    const Term end = first + static_cast<double>(e_.queries), is_new = at >= first && at < end;
    const Term index = is_new.choose(at - first + static_cast<double>(e_.past), old);
    const ValueId wide =
        build_.op(OpKind::Expand, {index.value()}, {{"shape", Dims{e_.batch, e_.key_heads, e_.total, e_.size}}});
    const Term found(build_, build_.op(OpKind::GatherElements, {both.value(), wide},
                                       {{"axis", int64_t{2}}, {"inside", int64_t{1}}}));
    return (at < end).choose(found, found.scalar(0));
  }

  /// Which keys each query sees, or what is added to its scores.
  Term mask() {
    const Term key = positions(build_, DType::I64, e_.total, 3, 4), query = query_positions();
    const int64_t window = int_of(own_, "local_window_size");
    Term seen = int_of(own_, "causal") ? key <= query : key < query + static_cast<double>(e_.queries);
    if (window >= 0) seen = seen && key > query - static_cast<double>(window);
    if (!op_.has(kScores)) return seen;
    const Term scores(build_, own_.inputs[kScores]);
    return seen.choose(scores, scores.scalar(reduce_identity(ReduceOp::Max)));
  }

  Builder& build_;
  const OpView& op_;
  const Op own_;
  const Extents e_;
};

}  // namespace

const OpDef kGroupQueryAttention{
    .kind = OpKind::GroupQueryAttention,
    .name = "GroupQueryAttention",
    .onnx = {"GroupQueryAttention", 1, "com.microsoft"},
    .attrs = {{"causal", AttrType::Int, 1},
              {"do_rotary", AttrType::Int, 0},
              {"k_quant_type", AttrType::Text, "NONE"},
              {"kv_cache_bit_width", AttrType::Int, 0},
              {"kv_num_heads", AttrType::Int, {}, true},
              {"local_window_size", AttrType::Int, -1},
              {"num_heads", AttrType::Int, {}, true},
              {"qk_norm_epsilon", AttrType::Real, 1e-6},
              {"qk_output", AttrType::Int, 0},
              {"rotary_interleaved", AttrType::Int, 0},
              {"scale", AttrType::Real},
              {"sliding_window_cache", AttrType::Int, 0},
              {"smooth_softmax", AttrType::Int, 0},
              {"softcap", AttrType::Real, 0.0},
              {kTotalAttr, AttrType::Int},
              {"v_quant_type", AttrType::Text, "NONE"}},
    .inputs = {1, 16},
    .outputs = {1, 3},
    .constant_operands = {{kTotal, kTotalAttr, AttrType::Int, false}},
    .infer = infer_group_query,
    .decompose = [](Builder& build, const OpView& op) { return GroupQuery(build, op).run(); }};

}  // namespace weftc
