// GroupQueryAttention of com.microsoft: attention over a cache with fewer key heads than query heads. Each request of a
// batch has a length of its own. Queries and keys are rotated by their positions.
//
//   new keys of request b follow its first past_b = seqlens_k[b] + 1 - S keys in the cache
//   query s of request b sees the keys up to past_b + s, or the last local_window_size of these
//
// The cache of the result is as long as the operand's, or longer if the total length requires it. If the new keys of
// all requests follow the whole past, Concat appends them. Otherwise each row of the new cache is looked up.
//
// Batch, queries and past may have run-time lengths. The total length is then one too; models compute it from the shape
// of their mask. A past of known length may be a buffer with room for the new keys. One of run-time length has earlier
// keys only. Beside such a buffer, the total length may be data. Each run then counts it.
#include <algorithm>

#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"
#include "ir/ops/selection.h"

namespace weftc {

namespace {

constexpr int kQuery = 0, kKey = 1, kValue = 2, kPastKey = 3, kPastValue = 4, kSeqlens = 5, kTotal = 6, kCos = 7,
              kSin = 8, kPositions = 9, kScores = 10, kQueryNorm = 14, kKeyNorm = 15;
constexpr const char* kTotalAttr = "total_sequence_length";
constexpr const char* kTotalText = "total_length";  // the same as the text of a run-time length

struct Extents {
  Extent batch, queries, past;
  Extent total;  // keys of the resulting cache
  int64_t heads, key_heads, size;
  Length sum;                    // keys of the longest request, with its new ones
  std::optional<Length> before;  // keys before the new ones, if all requests have the same, known number
};

/// The total length if it is known; else nothing.
std::optional<Length> given_total(const OpView& op) {
  if (op.op().has(kTotalAttr)) return Length(op.op().integer(kTotalAttr));
  if (op.op().has(kTotalText)) return parse_length(op.op().text(kTotalText), op.module().lengths);
  const std::optional<std::vector<Length>> elements = op.lengths(kTotal);
  return elements && elements->size() == 1 ? std::optional((*elements)[0]) : std::nullopt;
}

/// Whether the past may have room for the new keys: its length is known. A past of run-time length, such as one that
/// grows with the tokens, has earlier keys only. The total length is then the number of these and the new ones.
bool has_room(const Extents& e) { return !e.past.is_run_time() && e.past.bound > 0; }

bool has_run_time_dim(const OpView& op, int input) {
  return op.has(input) && std::ranges::any_of(op.type(input).shape, &Extent::is_run_time);
}

/// Whether only data gives the total length, beside a buffer with room for the new keys.
bool is_counted(const OpView& op) {
  const bool is_buffer = op.has(kPastKey) && op.type(kPastKey).shape[2].bound > 0;
  return is_buffer && op.has(kTotal) && !given_total(op) && !has_run_time_dim(op, kQuery) &&
         !has_run_time_dim(op, kPastKey);
}

std::optional<Extents> extents_of(const OpView& op) {
  const int64_t heads = op.op().integer_or("num_heads", 0), key_heads = op.op().integer_or("kv_num_heads", 0);
  const Shape& q = op.type(kQuery).shape;
  const int64_t all = op.has(kKey) ? heads : heads + 2 * key_heads;
  const auto wrong = [&](const std::string& what) {
    return op.fail("group-query-dims", "{} heads, {} of them with keys, do not fit {}", heads, key_heads, what),
           std::nullopt;
  };
  if (heads < 1 || key_heads < 1 || heads % key_heads || q[2].bound % all)
    return wrong("a query of shape " + shape_text(q));
  Extents e{q[0], q[1], {}, {}, heads, key_heads, q[2].bound / all, {}, {}};
  if (op.has(kPastKey)) e.past = op.type(kPastKey).shape[2];
  const Length past = length_of(e.past), queries = length_of(e.queries);
  const std::optional<Length> given = given_total(op);
  const Length all_keys = past + queries;
  if (given && ((*given - queries).high() < 0 || (all_keys - *given).high() < 0))
    return wrong(format("a total length of {} with a past of {} keys", given->text(), past.text()));
  e.sum = has_room(e) ? given.value_or(all_keys) : all_keys;
  e.total = op.extent(maximum(past, e.sum));
  if (e.sum == queries || (given && e.batch == Extent{1})) e.before = e.sum - queries;
  return e;
}

/// The shapes that operands other than the query must have, by the heads and lengths. Scores may be for one request or
/// head.
OperandShapes shapes_of(const OpView& op, const Extents& e) {
  const Shape key{e.batch, e.queries, {e.key_heads * e.size}}, past{e.batch, {e.key_heads}, e.past, {e.size}};
  OperandShapes shapes = {{kKey, key}, {kValue, key}, {kPastKey, past}, {kPastValue, past}};
  const bool has_column = op.type(kSeqlens).ndim() == 2;
  shapes.emplace_back(kSeqlens, has_column ? Shape{e.batch, {1}} : Shape{e.batch});
  if (!(e.before == Length(0))) shapes.emplace_back(kPositions, Shape{e.batch, e.queries});
  if (!op.has(kScores)) return shapes;
  Shape scores{e.batch, {e.heads}, e.queries, e.total};
  for (size_t d = 0; d < 2; ++d)
    if (is_one(op.type(kScores).shape[d])) scores[d] = {1};
  shapes.emplace_back(kScores, scores);
  return shapes;
}

/// Checks that the cache has room for the new keys, and that the keys before them are in the past.
std::vector<LengthRelation> relate_group_query(const OpView& op) {
  const Extents e = *extents_of(op);
  std::vector<LengthRelation> relations = relations_of(op, shapes_of(op, e));
  const Length queries = length_of(e.queries), all = length_of(e.past) + queries;
  const Length total = given_total(op).value_or(e.sum);
  if (has_room(e)) relations.push_back({"", queries, total, true});
  relations.push_back({"", total, all, has_room(e)});
  return relations;
}

/// True if the operands for earlier keys and rotations are present, with the right number of dimensions.
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

/// True if no attribute or operand requires an unsupported feature.
bool is_supported(const OpView& op) {
  for (int i : {11, 12, 13})
    if (op.has(i))
      return op.fail("group-query-unsupported", "{} is not supported", i == 11 ? "head_sink" : "a quantised cache");
  for (const char* attr : {"smooth_softmax", "sliding_window_cache", "qk_output", "kv_cache_bit_width"})
    if (op.op().integer_or(attr, 0) != 0)
      return op.fail("group-query-unsupported", "the attribute {} is not supported", attr);
  return true;
}

/// Queries, keys and past must have known heads and head sizes. All other operands except masks must have known shapes.
bool has_open_lengths_only(const OpView& op) {
  for (const int i : {kQuery, kKey, kValue})
    if (op.has(i) && (!has_ndim(op, i, 3, 3) || !is_fixed_dim(op, i, 2))) return false;
  for (const int i : {kPastKey, kPastValue})
    if (op.has(i) && (!is_fixed_dim(op, i, 1) || !is_fixed_dim(op, i, 3))) return false;
  for (const int i : {kCos, kSin, kQueryNorm, kKeyNorm})
    if (op.has(i) && !is_fixed(op, i)) return false;
  return !op.has(kScores) || has_ndim(op, kScores, 4, 4);
}

/// A total length that only data gives is counted. Without a buffer it is that of the new keys.
bool is_total_known(const OpView& op) {
  if (given_total(op)) return true;
  const auto beside = [&](const char* what) {
    return op.fail("group-query-total-unsupported",
                   "total_sequence_length is data here; beside {} it must be computed from shapes", what);
  };
  if (has_run_time_dim(op, kQuery) || has_run_time_dim(op, kPastKey)) return beside("a dimension of run-time length");
  return !is_counted(op) || (op.has(kScores) ? beside("attention_bias") : may_have_counts(op));
}

bool infer_group_query(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, kQuery) || !is_supported(op)) return false;
  if (!op.has(kSeqlens)) return op.fail("group-query-lengths", "the operand seqlens_k is missing");
  if (!has_ndim(op, kSeqlens, 1, 2) || !has_caches(op) || !has_open_lengths_only(op) || !is_total_known(op))
    return false;
  const std::optional<Extents> e = extents_of(op);
  if (!e || !have_shapes(op, shapes_of(op, *e), "group-query-dims")) return false;
  const DType dtype = op.type(kQuery).dtype;
  const TensorType cache{dtype, {e->batch, {e->key_heads}, e->total, {e->size}}, {}};
  results = {{dtype, {e->batch, e->queries, {e->heads * e->size}}, {}}, cache, cache};
  return true;
}

/// Stores the total length, which is known only during shape inference.
void canonical_group_query(Op& op, const OpView& view) {
  fill_defaults(op);
  const std::optional<Length> total = given_total(view);
  if (total && !op.has(kTotalAttr)) op.set(kTotalText, total->text());
}

class GroupQuery {
 public:
  GroupQuery(Builder& build, const OpView& op) : build_(build), op_(op), own_(op.op()), e_(*extents_of(op)) {
    for (int r = 1; r < static_cast<int>(own_.outputs.size()); ++r)
      if (own_.outputs[static_cast<size_t>(r)]) e_.total = op.result_type(r).shape[2];
    if (is_counted(op)) count_total();
  }

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
    const Term joined = y.transpose({0, 2, 1, 3}).reshape_to({e_.batch, e_.queries, {width}});
    return {joined.value(), keys.value(), values.value()};
  }

 private:
  /// Makes a run-time length of a total length in data. One that is too small or too large for the buffer and the new
  /// keys is looked up outside of a table, which the program reports.
  void count_total() {
    const Length past = length_of(e_.past), queries = length_of(e_.queries);
    const Term given = Term(build_, own_.inputs[kTotal]).cast(DType::I64).reshape({});
    const Term table = positions(build_, DType::I64, e_.past.bound + 1, 0, 1);
    const Term earlier = gather(build_, table, given - number(queries), 0);
    const Extent counted = build_.counted_extent((earlier + number(queries)).value(), (past + queries).high());
    e_.sum = length_of(counted);
    e_.total = op_.extent(maximum(past, e_.sum));
    if (e_.batch == Extent{1}) e_.before = e_.sum - queries;
  }

  Term by_heads(Term x, int64_t heads, int norm) {
    Term split = x.reshape_to({e_.batch, e_.queries, {heads}, {e_.size}});
    if (norm >= 0 && op_.has(norm))
      split = {build_, build_.op(OpKind::RMSNormalization, {split.value(), own_.inputs[norm]},
                                 {{"axis", int64_t{-1}}, {"epsilon", real_of(own_, "qk_norm_epsilon")}})};
    return split.transpose({0, 2, 1, 3});
  }

  Term number(const Length& length) { return {build_, build_.length(length)}; }

  /// Number of keys before the new ones of each request: [batch, 1, 1, 1], or one number for all. It is 0 for a first
  /// prompt, which is as long as the total length, even if it is padded.
  Term before() {
    if (e_.before) return number(*e_.before);
    const Length queries = length_of(e_.queries), earlier = e_.sum - queries;
    // A number looked up by itself, so that a request with a last key after the end of the cache is refused.
    const Term keys = positions(build_, DType::I64, e_.total, 0, 1);
    const Term last = gather(build_, keys, Term(build_, own_.inputs[kSeqlens]).cast(DType::I64), 0);
    const Term all = last.reshape_to({e_.batch, {1}, {1}, {1}}) + 1.0 - number(queries);
    return earlier.low() > 0 ? all : (number(earlier) > 0.0).choose(all, all.scalar(0));
  }
  /// The position of each query: [batch, 1, queries, 1], or [1, 1, queries, 1] if it is the same for all requests.
  Term query_positions() {
    if (e_.before && e_.before->is_constant() && !e_.queries.is_run_time())
      return positions(build_, DType::I64, e_.queries.bound, 2, 4, 1, static_cast<double>(e_.before->constant()));
    return before() + positions(build_, DType::I64, e_.queries, 2, 4);
  }

  /// A value with one element for each request, or for all, as [batch, queries].
  Term for_each_query(Term x) {
    const Shape shape{e_.batch, {1}, e_.queries, {1}};
    return Term(build_, build_.with_lengths(x.expand(bounds(shape)).value(), shape)).reshape_to({e_.batch, e_.queries});
  }

  /// The positions for the rotation in a model's operand; for the first prompt only the first one is used.
  Term rotary_positions() {
    if (!op_.has(kPositions)) return for_each_query(query_positions());
    const Term given = Term(build_, own_.inputs[kPositions]).cast(DType::I64);
    const Length earlier = e_.sum - length_of(e_.queries);
    if (earlier.low() > 0) return given;
    const Term all = given.reshape_to({joined(op_, given.shape(), 0, given.shape().size())});
    const Term first = pick(build_, all, constant(build_, DType::I64, {1}, {0}), 0);
    const Term of_prompt = for_each_query(first + positions(build_, DType::I64, e_.queries, 2, 4));
    return earlier == 0 ? of_prompt : (number(earlier) > 0.0).choose(given, of_prompt);
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

  /// The cache with the new keys or values in it, and zeros after them.
  Term cached(Term added, int input) {
    if (e_.past == Extent{0}) return added;
    const Term past(build_, own_.inputs[input]);
    if (e_.before == length_of(e_.past))
      return {build_, with_bounds(build_, concat({past.value(), added.value()}, 2).value(),
                                  {e_.batch, {e_.key_heads}, e_.total, {e_.size}})};
    const bool is_fixed = !e_.past.is_run_time() && !e_.queries.is_run_time();
    if (!e_.before || !e_.before->is_constant() || !is_fixed) return picked(concat({past.value(), added.value()}, 2));
    std::vector<ValueId> parts;
    const int64_t before = e_.before->constant(), end = before + e_.queries.bound;
    if (before > 0) parts.push_back(past.slice(2, 0, before).value());
    parts.push_back(added.value());
    const Term filled = concat(parts, 2);
    if (end == e_.total.bound) return filled;
    return {build_, build_.op(OpKind::Pad, {filled.value()},
                              {{"pads", Dims{0, 0, 0, 0, 0, 0, e_.total.bound - end, 0}}, {"value", 0.0}})};
  }
  /// Builds the cache from `both`, the past followed by the new elements. The new ones begin at each request's
  /// position.
  Term picked(Term both) {
    const Term at = positions(build_, DType::I64, e_.total, 2, 4), first = before();
    const Term past = number(length_of(e_.past));
    const Term old = at.apply(OpKind::Min, past - 1.0).apply(OpKind::Max, 0.0);
    const Term end = first + number(length_of(e_.queries)), is_new = at >= first && at < end;
    const Term index = is_new.choose(at - first + past, old);
    const Shape shape{e_.batch, {e_.key_heads}, e_.total, {e_.size}};
    const ValueId wide = build_.with_lengths(index.expand(bounds(shape)).value(), shape);
    const Term found(build_, build_.op(OpKind::GatherElements, {both.value(), wide},
                                       {{"axis", int64_t{2}}, {"inside", int64_t{1}}}));
    return (at < end).choose(found, found.scalar(0));
  }

  /// The keys that each query sees, or the mask added to its scores.
  Term mask() {
    const Term key = positions(build_, DType::I64, e_.total, 3, 4), query = query_positions();
    const int64_t window = int_of(own_, "local_window_size");
    Term seen = int_of(own_, "causal") ? key <= query : key < before() + number(length_of(e_.queries));
    if (window >= 0) seen = seen && key > query - static_cast<double>(window);
    if (!op_.has(kScores)) return seen;
    const Term scores(build_, own_.inputs[kScores]);
    return seen.choose(scores, scores.scalar(reduce_identity(ReduceOp::Max)));
  }

  Builder& build_;
  const OpView& op_;
  const Op own_;
  Extents e_;
};

}  // namespace

const OpDef kGroupQueryAttention{
    .kind = OpKind::GroupQueryAttention,
    .name = "GroupQueryAttention",
    .onnx = {"GroupQueryAttention", 1, "com.microsoft"},
    .attrs = {flag("causal", 1),
              flag("do_rotary", 0),
              {"k_quant_type", AttrType::Text, "NONE"},
              {"kv_cache_bit_width", AttrType::Int, 0},
              {"kv_num_heads", AttrType::Int, {}, true},
              {"local_window_size", AttrType::Int, -1},
              {"num_heads", AttrType::Int, {}, true},
              {"qk_norm_epsilon", AttrType::Real, 1e-6},
              {"qk_output", AttrType::Int, 0},
              flag("rotary_interleaved", 0),
              {"scale", AttrType::Real},
              {"sliding_window_cache", AttrType::Int, 0},
              {"smooth_softmax", AttrType::Int, 0},
              {"softcap", AttrType::Real, 0.0},
              {.name = kTotalText, .type = AttrType::Text, .is_own = true},
              {kTotalAttr, AttrType::Int},
              {"v_quant_type", AttrType::Text, "NONE"}},
    .inputs = {1, 16},
    .outputs = {1, 3},
    .constant_operands = {{kTotal, kTotalAttr, AttrType::Int, false}},
    .infer = infer_group_query,
    .canonicalize = canonical_group_query,
    .relate = relate_group_query,
    .decompose = [](Builder& build, const OpView& op) { return GroupQuery(build, op).run(); },
    .is_typed_by_parts = is_counted};

}  // namespace weftc
