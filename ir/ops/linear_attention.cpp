// LinearAttention (ONNX 27). Each head has a state [keys, values]; every token decays it and adds to it, and queries
// read it:
//
//   S_t = exp(g_t) S_(t-1) + k_t u_t,    u_t = v_t, or with a delta rule  b_t (v_t - (exp(g_t) S_(t-1)) k_t)
//   y_t = scale q_t S_t
//
// Tokens are processed in chunks of at most 64, and each chunk is a few products. G are the sums of g from the chunk's
// first token on, E(t, s) = exp(G_t - G_s) for s <= t, and S is the state before the chunk:
//
//   A = (q k^T E),  K = (k k^T E below the diagonal)
//   (I + b K) U = b (V - (k exp(G)) S)      a triangular system; without a delta rule U = V
//   Y = scale ((q exp(G)) S + A U),  S' = exp(G_last) S + (k exp(G_last - G))^T U
//
// Only S passes from chunk to chunk. No exponent is above 0 if no g is. A g below -128 is replaced by -128, which also
// turns a state into 0. The sums of g then stay finite if a token resets the state with -infinity.
//
// If the number of tokens is a run-time length, a Loop processes full chunks of 16 tokens, and another one the rest
// token by token. A decoding step thus computes a single token.
#include <cmath>
#include <functional>
#include <limits>

#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"
#include "ir/ops/step_loop.h"

namespace weftc {

namespace {

// Operands by number, as ONNX lists them.
constexpr int kQuery = 0, kKey = 1, kValue = 2, kState = 3, kDecay = 4, kBeta = 5;

constexpr double kResets = -128;  // its exponential is 0 in f32

struct Sizes {
  Extent batch, tokens;
  int64_t heads, group, keys, values;  // group: query heads of a head
};

/// Tokens computed together: `count` chunks of `size` tokens. The size is a power of two, because solving a chunk's
/// system halves it.
struct Chunks {
  int64_t size, count;
};

bool decays(const Op& op) { return text_of(op, "update_rule").starts_with("gated"); }
bool corrects(const Op& op) { return text_of(op, "update_rule").ends_with("delta"); }

std::optional<Sizes> sizes_of(const OpView& op) {
  const int64_t query_heads = int_of(op.op(), "q_num_heads"), heads = int_of(op.op(), "kv_num_heads");
  const Shape q = op.type(kQuery).shape, v = op.type(kValue).shape;
  const bool fits = heads >= 1 && query_heads >= heads && query_heads % heads == 0 && q[2].bound % query_heads == 0 &&
                    v[2].bound % heads == 0;
  if (!fits)
    return op.fail("linear-attention-heads", "{} query heads and {} key heads do not fit shapes {} and {}", query_heads,
                   heads, shape_text(q), shape_text(v)),
           std::nullopt;
  return Sizes{q[0], q[1], heads, query_heads / heads, q[2].bound / query_heads, v[2].bound / heads};
}

/// True if operand `input` is present iff the rule reads it, as [batch, tokens, n] with n one of two.
bool check_gate(const OpView& op, int input, bool is_read, const char* what, int64_t n, int64_t or_n) {
  if (op.has(input) != is_read)
    return op.fail("linear-attention-gate", "the update rule '{}' {} the operand '{}'",
                   printable(text_of(op.op(), "update_rule")), is_read ? "needs" : "does not take", what);
  if (!is_read) return true;
  if (!has_ndim(op, input, 3, 3) || !is_fixed_dim(op, input, 2)) return false;
  const int64_t width = op.dims(input)[2];
  if (width == n || width == or_n) return true;
  return op.fail("linear-attention-gate", "'{}' has shape {}, expected {} or {} numbers for each token", what,
                 shape_text(op.type(input).shape), n, or_n);
}

/// The shapes that operands must have, by the sizes of the first of them.
OperandShapes shapes_of(const OpView& op, const Sizes& s) {
  OperandShapes shapes = {{kKey, {s.batch, s.tokens, {s.heads * s.keys}}},
                          {kValue, {s.batch, s.tokens, {s.heads * s.values}}},
                          {kState, {s.batch, {s.heads}, {s.keys}, {s.values}}}};
  for (const int gate : {kDecay, kBeta})
    if (op.has(gate)) shapes.push_back({gate, {s.batch, s.tokens, op.type(gate).shape[2]}});
  return shapes;
}

bool infer_linear_attention(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_real_operand(op, i)) return false;
  for (int i : {kQuery, kKey, kValue})
    if (!has_ndim(op, i, 3, 3) || !is_fixed_dim(op, i, 2)) return false;
  const std::optional<Sizes> s = sizes_of(op);
  if (!s || !check_gate(op, kDecay, decays(op.op()), "decay", s->heads * s->keys, s->heads) ||
      !check_gate(op, kBeta, corrects(op.op()), "beta", s->heads, 1) ||
      !have_shapes(op, shapes_of(op, *s), "linear-attention-dims"))
    return false;
  const DType dtype = op.type(kQuery).dtype;
  results = {{dtype, {s->batch, s->tokens, {s->heads * s->group * s->values}}, {}},
             {op.has(kState) ? op.type(kState).dtype : dtype, {s->batch, {s->heads}, {s->keys}, {s->values}}, {}}};
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

Term zeros_after(Builder& build, Term x, size_t axis, int64_t count) {
  if (count == 0) return x;
  Dims pads(2 * x.dims().size(), 0);
  pads[x.dims().size() + axis] = count;
  return {build, build.op(OpKind::Pad, {x.value()}, {{"pads", pads}})};
}

Term zeros_of(Builder& build, const Shape& shape) {
  return {build, build.with_lengths(zeros(build, DType::F32, bounds(shape)), shape)};
}

/// X for (I + lower) X = I, lower [..., n, n] zero on and above the diagonal, n a power of two. Inverses of diagonal
/// blocks are joined in pairs: the inverse of [[a, 0], [l, c]] is [[a', 0], [-c' l a', c']]. `lead`: all dimensions but
/// the last two.
Term inverse_of_unit(Builder& build, Term lower, const Extent& lead) {
  const Shape shape = lower.shape();
  const int64_t n = shape.back().bound;
  const Term flat = lower.reshape_to({lead, {n * n}});
  Term inverse(build, build.with_lengths(lower.scalar(1).expand({lead.bound, n, 1, 1}).value(), {lead, {n}, {1}, {1}}));
  for (int64_t m = 1; m < n; m *= 2) {
    std::vector<double> at;  // of the blocks to the left of each second block
    for (int64_t pair = 0; pair < n / (2 * m); ++pair)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < m; ++column)
          at.push_back(static_cast<double>(((2 * pair + 1) * m + row) * n + 2 * pair * m + column));
    const Shape block{lead, {n / (2 * m)}, {m}, {m}};
    const Term left = gather(build, flat, constant(build, DType::I64, {n / (2 * m), m, m}, at), 1);
    const Term pairs = inverse.reshape_to({lead, {n / (2 * m)}, {2}, {m}, {m}});
    const Term first = pairs.slice(2, 0, 1).reshape_to(block), second = pairs.slice(2, 1, 2).reshape_to(block);
    const Term below = product(product(second, left), first) * -1.0;
    inverse = joined(build, {zeros_after(build, first, 3, m), joined(build, {below, second}, 3)}, 2);
  }
  return inverse.reshape_to(shape);
}

/// The formula on some chunks, whose operands are in the graph of `build`.
class ChunkedAttention {
 public:
  /// `operand`: gives an operand of the op, [batch, tokens of all chunks, numbers of a token], in f32.
  ChunkedAttention(Builder& build, const OpView& op, Chunks chunks, std::function<Term(int)> operand)
      : build_(build), op_(op), s_(*sizes_of(op)), chunks_(chunks), operand_(std::move(operand)) {}

  struct Results {
    Term y;                     // [batch, tokens, heads * group * values]
    std::optional<Term> state;  // [batch, heads, 1, keys, values]; nothing if there was no chunk
  };
  Results run(std::optional<Term> state);

 private:
  /// An operand as [batch, heads, group, chunks, chunk, size].
  Term chunks_of(int input, int64_t heads, int64_t group) const;
  /// E(t, s) times the products of rows of `a` and of `k`, for s < t, or s <= t: [..., chunk, chunk].
  Term decayed_products(Term a, bool with_diagonal) const;
  /// Solves the triangular system for its right side.
  Term solution(Term beta) const;
  /// One chunk, without the chunk dimension.
  Term chunk(Term of, int64_t c) const;

  Builder& build_;
  const OpView& op_;
  const Sizes s_;
  const Chunks chunks_;
  const std::function<Term(int)> operand_;
  std::optional<Term> k_, sums_;  // sums_: of the decays up to each token of the chunk
};

Term ChunkedAttention::chunks_of(int input, int64_t heads, int64_t group) const {
  const int64_t size = op_.dims(input)[2] / (heads * group);
  return operand_(input)
      .reshape_to({s_.batch, {chunks_.count}, {chunks_.size}, {heads}, {group}, {size}})
      .transpose({0, 3, 4, 1, 2, 5});
}

Term ChunkedAttention::decayed_products(Term a, bool with_diagonal) const {
  const int64_t n = chunks_.size;
  const Term row = positions(build_, DType::I64, n, 0, 2), column = positions(build_, DType::I64, n, 1, 2);
  const Term holds = with_diagonal ? column <= row : column < row;
  if (!sums_) return holds.choose(product(a, transposed(*k_)), a.scalar(0));
  Shape by_row = sums_->shape(), by_column = by_row;
  by_row.insert(by_row.end() - 1, Extent{1});
  by_column.insert(by_column.end() - 2, Extent{1});
  const Term difference = sums_->reshape_to(by_row) - sums_->reshape_to(by_column);
  const Term decay = holds.reshape({n, n, 1})
                         .choose(difference, a.scalar(-std::numeric_limits<double>::infinity()))
                         .apply(OpKind::Exp);
  if (by_row.back().bound == 1) {
    by_row[by_row.size() - 2] = {n};
    by_row.pop_back();
    return product(a, transposed(*k_)) * decay.reshape_to(by_row);
  }
  Shape a_shape = a.shape(), k_shape = k_->shape();
  a_shape.insert(a_shape.end() - 1, Extent{1});
  k_shape.insert(k_shape.end() - 2, Extent{1});
  return (a.reshape_to(a_shape) * k_->reshape_to(k_shape) * decay)
      .reduce(OpKind::ReduceSum, {static_cast<int64_t>(a_shape.size()) - 1}, false);
}

Term ChunkedAttention::solution(Term beta) const {
  const Term lower = decayed_products(*k_, false) * beta;
  const Extent lead = op_.extent(length_of(s_.batch) * (s_.heads * chunks_.count));
  return inverse_of_unit(build_, lower, lead);
}

Term ChunkedAttention::chunk(Term of, int64_t c) const {
  Shape shape = of.shape();
  const Term part = of.slice(3, c, c + 1);
  shape.erase(shape.begin() + 3);
  return part.reshape_to(shape);
}

ChunkedAttention::Results ChunkedAttention::run(std::optional<Term> state) {
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
  const auto last_of = [&](Term x) { return x.slice(4, chunks_.size - 1, chunks_.size); };
  const Term writes = transposed(sums_ ? *k_ * (last_of(*sums_) - *sums_).apply(OpKind::Exp) : *k_);
  std::optional<Term> solved, of_state, kept;
  Term right = v;
  if (sums_) kept = transposed(last_of(*sums_).apply(OpKind::Exp));  // [..., keys or 1, 1]
  if (corrects(op)) {
    const Term beta = chunks_of(kBeta, op_.dims(kBeta)[2], 1);
    if (chunks_.size > 1) solved = solution(beta);
    right = v * beta;
    of_state = decayed(*k_) * beta;
  }
  std::vector<Term> results;
  for (int64_t c = 0; c < chunks_.count; ++c) {
    Term u = chunk(right, c);
    if (of_state && state) u = u - product(chunk(*of_state, c), *state);
    if (solved) u = product(chunk(*solved, c), u);
    Term y = product(chunk(reads, c), u);
    if (state) y = y + product(chunk(decayed_q, c), *state);
    results.push_back(y.reshape_to({s_.batch, {s_.heads}, {s_.group}, {1}, {chunks_.size}, {s_.values}}));
    const Term added = product(chunk(writes, c), u);
    state = state ? (kept ? *state * chunk(*kept, c) : *state) + added : added;
  }
  const Term y = joined(build_, results, 3).transpose({0, 3, 4, 1, 2, 5});
  return {y.reshape_to({s_.batch, {chunks_.count * chunks_.size}, {s_.heads * s_.group * s_.values}}), state};
}

/// Converts operands of the op to ChunkedAttention's form, and its results to ONNX's.
class LinearAttention {
 public:
  LinearAttention(Builder& build, const OpView& op) : build_(build), op_(op), s_(*sizes_of(op)) {}

  std::vector<ValueId> run() const {
    const ChunkedAttention::Results all = s_.tokens.is_run_time() ? run_by_loops() : run_at_once();
    const Term state = all.state->reshape_to({s_.batch, {s_.heads}, {s_.keys}, {s_.values}});
    const DType dtype = op_.type(kQuery).dtype;
    return {all.y.cast(dtype).value(), state.cast(op_.has(kState) ? op_.type(kState).dtype : dtype).value()};
  }

 private:
  Term outer(int input) const { return {build_, op_.op().inputs[static_cast<size_t>(input)]}; }
  Shape state_shape() const { return {s_.batch, {s_.heads}, {1}, {s_.keys}, {s_.values}}; }
  std::optional<Term> given_state() const {
    if (!op_.has(kState)) return {};
    return outer(kState).cast(DType::F32).reshape_to(state_shape());
  }
  ChunkedAttention::Results run_at_once() const;
  ChunkedAttention::Results run_by_loops() const;
  /// Runs `trips` chunks of `size` tokens, from token `first` on, after the results `before`. Returns y [tokens, batch,
  /// numbers of a token] and the state.
  ChunkedAttention::Results loop(const char* name, int64_t size, const Length& first, const Length& trips,
                                 const ChunkedAttention::Results& before) const;

  Builder& build_;
  const OpView& op_;
  const Sizes s_;
};

ChunkedAttention::Results LinearAttention::run_at_once() const {
  constexpr int64_t kLongest = 64;
  const int64_t tokens = s_.tokens.bound;
  int64_t size = 1;
  while (size < tokens && size < kLongest) size *= 2;
  const int64_t count = std::max<int64_t>(1, (tokens + size - 1) / size);
  const auto padded = [&](int input) {
    return zeros_after(build_, outer(input).cast(DType::F32), 1, count * size - tokens);
  };
  ChunkedAttention::Results all = ChunkedAttention(build_, op_, {size, count}, padded).run(given_state());
  all.y = all.y.slice(1, 0, tokens);
  return all;
}

ChunkedAttention::Results LinearAttention::run_by_loops() const {
  constexpr int64_t kChunk = 16;
  const Length tokens = length_of(s_.tokens);
  const Length chunks = floor_quotient(tokens, kChunk).value_or(0), whole = chunks * kChunk;
  const std::optional<Term> given = given_state();
  ChunkedAttention::Results all{zeros_of(build_, {s_.tokens, s_.batch, {s_.heads * s_.group * s_.values}}),
                                given ? *given : zeros_of(build_, state_shape())};
  if (chunks.high() > 0) all = loop("chunks", kChunk, 0, chunks, all);
  all = loop("tokens", 1, whole, tokens - whole, all);
  all.y = all.y.transpose({1, 0, 2});
  return all;
}

ChunkedAttention::Results LinearAttention::loop(const char* name, int64_t size, const Length& first,
                                                const Length& trips, const ChunkedAttention::Results& before) const {
  StepLoop steps(build_, name, build_.length(trips));
  Builder& body = steps.body();
  const ValueId y = steps.carry(before.y.value()), state = steps.carry(before.state->value());
  const Term begin = Term(body, steps.iteration()) * static_cast<double>(size) + Term(body, body.length(first));
  const Term at = begin + positions(body, DType::I64, size, 0, 1);
  const auto part = [&](int input) {
    return Term(body, element_at(body, steps.capture(outer(input).value()), at.value(), 1)).cast(DType::F32);
  };
  const ChunkedAttention::Results made = ChunkedAttention(body, op_, {size, 1}, part).run(Term(body, state));
  const ValueId rows = made.y.transpose({1, 0, 2}).value();
  steps.next({with_element(body, y, at.value(), rows), made.state->value()});
  const std::vector<ValueId> results = steps.finish();
  return {Term(build_, results[0]), Term(build_, results[1])};
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
              choice("update_rule", "gated_delta", "linear gated delta gated_delta")},
    .inputs = {3, 6},
    .outputs = {1, 2},
    .infer = infer_linear_attention,
    .relate = [](const OpView& op) { return relations_of(op, shapes_of(op, *sizes_of(op))); },
    .decompose = [](Builder& build, const OpView& op) { return LinearAttention(build, op).run(); }};

}  // namespace weftc
