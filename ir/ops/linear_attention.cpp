// LinearAttention (ONNX 27): a state [keys, values] of each head that every token decays and adds to, read by queries:
//
//   S_t = exp(g_t) S_(t-1) + k_t u_t,    u_t = v_t, or with a delta rule  b_t (v_t - (exp(g_t) S_(t-1)) k_t)
//   y_t = scale q_t S_t
//
// Tokens are taken in chunks of at most 64, each of which is a few products. With G the sums of g from the chunk's
// first token on, E(t, s) = exp(G_t - G_s) for s <= t, and S the state in front of the chunk:
//
//   A = (q k^T E),  K = (k k^T E below the diagonal)
//   (I + b K) U = b (V - (k exp(G)) S)      a triangular system; without a delta rule U = V
//   Y = scale ((q exp(G)) S + A U),  S' = exp(G_last) S + (k exp(G_last - G))^T U
//
// Only S passes from chunk to chunk. No exponent is above 0 where no g is. A g below -128 is taken as -128, by which a
// state becomes 0 as well: the sums of g stay finite where a token resets the state with -infinity.
#include <cmath>
#include <limits>

#include "ir/ops/formula.h"

namespace weftc {

namespace {

// Operands by number, as ONNX lists them.
constexpr int kQuery = 0, kKey = 1, kValue = 2, kState = 3, kDecay = 4, kBeta = 5;

constexpr double kResets = -128;  // its exponential is 0 in f32

struct Sizes {
  int64_t batch, tokens, heads, group, keys, values;  // group: query heads of a head
  int64_t chunk, chunks;
};

bool decays(const Op& op) { return text_of(op, "update_rule").starts_with("gated"); }
bool corrects(const Op& op) { return text_of(op, "update_rule").ends_with("delta"); }

/// A chunk has a power of two of tokens, which the solution of its system halves.
std::optional<Sizes> sizes_of(const OpView& op) {
  constexpr int64_t kLongest = 64;
  const int64_t query_heads = int_of(op.op(), "q_num_heads"), heads = int_of(op.op(), "kv_num_heads");
  const Dims q = op.dims(kQuery), k = op.dims(kKey), v = op.dims(kValue);
  const bool fits = heads >= 1 && query_heads >= heads && query_heads % heads == 0 && q[2] % query_heads == 0 &&
                    k == Dims{q[0], q[1], q[2] / query_heads * heads} && v[0] == q[0] && v[1] == q[1] &&
                    v[2] % heads == 0;
  if (!fits)
    return op.fail("linear-attention-heads", "{} query heads and {} key heads do not fit shapes {}, {} and {}",
                   query_heads, heads, dims_text(q), dims_text(k), dims_text(v)),
           std::nullopt;
  int64_t chunk = 1;
  while (chunk < q[1] && chunk < kLongest) chunk *= 2;
  const int64_t chunks = std::max<int64_t>(1, (q[1] + chunk - 1) / chunk);
  return Sizes{q[0], q[1], heads, query_heads / heads, q[2] / query_heads, v[2] / heads, chunk, chunks};
}

/// True if operand `input` is there iff the rule reads it, [batch, tokens, n] with n one of two.
bool check_gate(const OpView& op, int input, bool is_read, const char* what, int64_t n, int64_t or_n) {
  if (op.has(input) != is_read)
    return op.fail("linear-attention-gate", "the update rule '{}' {} the operand '{}'",
                   printable(text_of(op.op(), "update_rule")), is_read ? "needs" : "does not take", what);
  if (!is_read) return true;
  const Dims q = op.dims(kQuery), dims = op.dims(input);
  if (dims == Dims{q[0], q[1], n} || dims == Dims{q[0], q[1], or_n}) return true;
  return op.fail("linear-attention-gate", "'{}' has shape {}, expected {} or {}", what, dims_text(dims),
                 dims_text(Dims{q[0], q[1], n}), dims_text(Dims{q[0], q[1], or_n}));
}

bool infer_linear_attention(const OpView& op, std::vector<TensorType>& results) {
  const std::string& rule = text_of(op.op(), "update_rule");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    return op.fail("linear-attention-rule", "'update_rule' is '{}', expected linear, gated, delta or gated_delta",
                   printable(rule));
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && (!is_real_operand(op, i) || !is_fixed(op, i))) return false;
  for (int i : {kQuery, kKey, kValue})
    if (!has_ndim(op, i, 3, 3)) return false;
  const std::optional<Sizes> s = sizes_of(op);
  if (!s || !check_gate(op, kDecay, decays(op.op()), "decay", s->heads * s->keys, s->heads) ||
      !check_gate(op, kBeta, corrects(op.op()), "beta", s->heads, 1))
    return false;
  const Dims state{s->batch, s->heads, s->keys, s->values};
  if (op.has(kState) && op.dims(kState) != state)
    return op.fail("linear-attention-state", "the past state has shape {}, expected {}", dims_text(op.dims(kState)),
                   dims_text(state));
  const DType dtype = op.type(kQuery).dtype;
  results = {{dtype, shape_of({s->batch, s->tokens, s->heads * s->group * s->values}), {}},
             {op.has(kState) ? op.type(kState).dtype : dtype, shape_of(state), {}}};
  return true;
}

Term transposed(Term x) {
  std::vector<int64_t> perm = range_of(0, static_cast<int64_t>(x.dims().size()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return x.transpose(perm);
}

Term joined(Builder& build, const std::vector<Term>& parts, int64_t axis) {
  std::vector<ValueId> values;
  for (const Term& part : parts) values.push_back(part.value());
  return parts.size() == 1 ? parts[0] : Term(build, build.op(OpKind::Concat, values, {{"axis", axis}}));
}

Term zeros_behind(Builder& build, Term x, size_t axis, int64_t count) {
  if (count == 0) return x;
  Dims pads(2 * x.dims().size(), 0);
  pads[x.dims().size() + axis] = count;
  return {build, build.op(OpKind::Pad, {x.value()}, {{"pads", pads}})};
}

/// X for (I + lower) X = I, lower [..., n, n] zero on and above the diagonal, n a power of two: the inverses of blocks
/// on the diagonal, joined two by two. An inverse of [[a, 0], [l, c]] is [[a', 0], [-c' l a', c']].
Term inverse_of_unit(Builder& build, Term lower) {
  const Dims dims = lower.dims();
  const int64_t n = dims.back(), lead = element_count({dims.begin(), dims.end() - 2});
  const Term flat = lower.reshape({lead, n * n});
  Term inverse(build, build.op(OpKind::Expand, {lower.scalar(1).value()}, {{"shape", Dims{lead, n, 1, 1}}}));
  for (int64_t m = 1; m < n; m *= 2) {
    std::vector<double> at;  // of the blocks left of the second of each two
    for (int64_t pair = 0; pair < n / (2 * m); ++pair)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < m; ++column)
          at.push_back(static_cast<double>(((2 * pair + 1) * m + row) * n + 2 * pair * m + column));
    const Dims block{lead, n / (2 * m), m, m};
    const Term left = gather(build, flat, constant(build, DType::I64, {n / (2 * m), m, m}, at), 1);
    const Term pairs = inverse.reshape({lead, n / (2 * m), 2, m, m});
    const Term first = pairs.slice(2, 0, 1).reshape(block), second = pairs.slice(2, 1, 2).reshape(block);
    const Term below = product(product(second, left), first) * -1.0;
    inverse = joined(build, {zeros_behind(build, first, 3, m), joined(build, {below, second}, 3)}, 2);
  }
  return inverse.reshape(dims);
}

class LinearAttention {
 public:
  LinearAttention(Builder& build, const OpView& op) : build_(build), op_(op), s_(*sizes_of(op)), dtype_(DType::F32) {}

  std::vector<ValueId> run();

 private:
  /// [batch, tokens, heads * size] as [batch, heads, 1, chunks, chunk, size], zeros behind the last token.
  Term chunks_of(int input, int64_t heads, int64_t group);
  /// E(t, s) times the products of rows of `a` and of `k`, where s < t, or s <= t: [..., chunk, chunk].
  Term decayed_products(Term a, bool with_diagonal) const;
  /// One chunk of all of them, without that dimension.
  Term chunk(Term of, int64_t c) const;

  Builder& build_;
  const OpView& op_;
  const Sizes s_;
  const DType dtype_;
  std::optional<Term> k_, sums_;  // sums: of the decays up to each token of the chunk
};

Term LinearAttention::chunks_of(int input, int64_t heads, int64_t group) {
  const int64_t size = op_.dims(input)[2] / (heads * group), all = s_.chunks * s_.chunk;
  const Term x = Term(build_, op_.op().inputs[input]).cast(dtype_);
  return zeros_behind(build_, x, 1, all - s_.tokens)
      .reshape({s_.batch, s_.chunks, s_.chunk, heads, group, size})
      .transpose({0, 3, 4, 1, 2, 5});
}

Term LinearAttention::decayed_products(Term a, bool with_diagonal) const {
  const Term row = positions(build_, DType::I64, s_.chunk, 0, 2),
             column = positions(build_, DType::I64, s_.chunk, 1, 2);
  const Term holds = with_diagonal ? column <= row : column < row;
  if (!sums_) return holds.choose(product(a, transposed(*k_)), a.scalar(0));
  Dims by_row = sums_->dims(), by_column = by_row;
  by_row.insert(by_row.end() - 1, 1);
  by_column.insert(by_column.end() - 2, 1);
  const Term difference = sums_->reshape(by_row) - sums_->reshape(by_column);
  const Term decay = holds.reshape({s_.chunk, s_.chunk, 1})
                         .choose(difference, a.scalar(-std::numeric_limits<double>::infinity()))
                         .apply(OpKind::Exp);
  if (by_row.back() == 1) {
    by_row[by_row.size() - 2] = s_.chunk;
    by_row.pop_back();
    return product(a, transposed(*k_)) * decay.reshape(by_row);
  }
  Dims a_dims = a.dims(), k_dims = k_->dims();
  a_dims.insert(a_dims.end() - 1, 1);
  k_dims.insert(k_dims.end() - 2, 1);
  return (a.reshape(a_dims) * k_->reshape(k_dims) * decay)
      .reduce(OpKind::ReduceSum, {static_cast<int64_t>(a_dims.size()) - 1}, false);
}

Term LinearAttention::chunk(Term of, int64_t c) const {
  Dims dims = of.dims();
  const Term part = of.slice(3, c, c + 1);
  dims.erase(dims.begin() + 3);
  return part.reshape(dims);
}

std::vector<ValueId> LinearAttention::run() {
  const Op& op = op_.op();
  const double asked = real_of(op, "scale"), scale = asked != 0 ? asked : 1 / std::sqrt(static_cast<double>(s_.keys));
  const Term q = chunks_of(kQuery, s_.heads, s_.group) * scale, v = chunks_of(kValue, s_.heads, 1);
  k_ = chunks_of(kKey, s_.heads, 1);
  if (decays(op)) {
    const Term decay = chunks_of(kDecay, s_.heads, 1).apply(OpKind::Max, kResets);
    sums_ = Term(build_, build_.op(OpKind::CumSum, {decay.value()}, {{"axis", int64_t{4}}}));
  }
  const auto decayed = [&](Term x) { return sums_ ? x * sums_->apply(OpKind::Exp) : x; };
  const Term reads = decayed_products(q, true), decayed_q = decayed(q);
  const auto last_of = [&](Term x) { return x.slice(4, s_.chunk - 1, s_.chunk); };
  const Term writes = transposed(sums_ ? *k_ * (last_of(*sums_) - *sums_).apply(OpKind::Exp) : *k_);
  std::optional<Term> solution, of_state, kept;
  Term right = v;
  if (sums_) kept = transposed(last_of(*sums_).apply(OpKind::Exp));  // [..., keys or 1, 1]
  if (corrects(op)) {
    const Term beta = chunks_of(kBeta, op_.dims(kBeta)[2], 1);
    solution = inverse_of_unit(build_, decayed_products(*k_, false) * beta);
    right = v * beta;
    of_state = decayed(*k_) * beta;
  }
  const Dims state_dims{s_.batch, s_.heads, 1, s_.keys, s_.values};
  std::optional<Term> state;
  if (op_.has(kState)) state = Term(build_, op.inputs[kState]).cast(dtype_).reshape(state_dims);
  std::vector<Term> results;
  for (int64_t c = 0; c < s_.chunks; ++c) {
    Term u = chunk(right, c);
    if (of_state && state) u = u - product(chunk(*of_state, c), *state);
    if (solution) u = product(chunk(*solution, c), u);
    Term y = product(chunk(reads, c), u);
    if (state) y = y + product(chunk(decayed_q, c), *state);
    results.push_back(y.reshape({s_.batch, s_.heads, s_.group, 1, s_.chunk, s_.values}));
    const Term added = product(chunk(writes, c), u);
    state = state ? (kept ? *state * chunk(*kept, c) : *state) + added : added;
  }
  const Term y = joined(build_, results, 3).transpose({0, 3, 4, 1, 2, 5});
  const Dims flat{s_.batch, s_.chunks * s_.chunk, s_.heads * s_.group * s_.values};
  return {y.reshape(flat).slice(1, 0, s_.tokens).cast(op_.result_type(0).dtype).value(),
          state->reshape({s_.batch, s_.heads, s_.keys, s_.values})
              .cast(op_.has(kState) ? op_.type(kState).dtype : op_.type(kQuery).dtype)
              .value()};
}

}  // namespace

const OpDef kLinearAttention{
    .kind = OpKind::LinearAttention,
    .name = "LinearAttention",
    .onnx = {"LinearAttention", 27},
    .attrs = {{"chunk_size", AttrType::Int, 64},
              {"kv_num_heads", AttrType::Int, {}, true},
              {"q_num_heads", AttrType::Int, {}, true},
              {"scale", AttrType::Real, 0.0},
              {"update_rule", AttrType::Text, "gated_delta"}},
    .inputs = {3, 6},
    .outputs = {1, 2},
    .infer = infer_linear_attention,
    .decompose = [](Builder& build, const OpView& op) { return LinearAttention(build, op).run(); }};

}  // namespace weftc
