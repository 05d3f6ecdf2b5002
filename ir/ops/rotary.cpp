// RotaryEmbedding (ONNX RotaryEmbedding-23): pairs of elements of each head are rotated by an angle that depends on the
// position in the sequence. Pairs are the two halves of the rotated part, or neighbours if `interleaved`:
//
//   a' = cos * a - sin * b,  b' = sin * a + cos * b        cos, sin: a row of the cache for each position
//
// It becomes Gather, Slice, pointwise ops and Concat, all of which a pointwise kernel can evaluate.
#include "ir/ops/formula.h"
#include "ir/ops/index.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

/// Heads, extent of a head, and the number of rotated elements.
struct Heads {
  bool is_flat;  // B, S, H*D instead of B, H, S, D
  Extent batch, sequence;
  int64_t count, size, turned;
};

/// Extents from the operand's form; nothing after reporting. rotary_embedding_dim 0 rotates the whole head.
std::optional<Heads> heads_of(const OpView& op) {
  const Dims x = op.dims(0);
  const Shape& shape = op.type(0).shape;
  Heads heads{x.size() == 3, shape[0], shape[x.size() - 2], 0, 0, int_of(op.op(), "rotary_embedding_dim")};
  heads.count = heads.is_flat ? int_of(op.op(), "num_heads") : x[1];
  if (heads.count < 1 || (heads.is_flat && x[2] % heads.count))
    return op.fail("rotary-heads", "{} heads do not divide shape {}", heads.count, dims_text(x)), std::nullopt;
  heads.size = heads.is_flat ? x[2] / heads.count : x[3];
  if (heads.turned == 0) heads.turned = heads.size;
  if (heads.turned % 2 || heads.turned > heads.size || op.dims(1).back() * 2 != heads.turned)
    return op.fail("rotary-dim", "{} elements of a head of {} cannot be turned by a cache of shape {}", heads.turned,
                   heads.size, dims_text(op.dims(1))),
           std::nullopt;
  return heads;
}

/// Both caches have a row for each position; without positions, one for each element of the sequence.
OperandShapes shapes_of(const OpView& op, const Heads& heads) {
  if (op.has(3)) return {{2, op.type(1).shape}, {3, {heads.batch, heads.sequence}}};
  const Shape cache{heads.batch, heads.sequence, {heads.turned / 2}};
  return {{1, cache}, {2, cache}};
}

bool has_caches(const OpView& op, const Heads& heads) {
  if (op.has(3) && !integer_operand(op, 3)) return false;
  if (op.type(1).ndim() != (op.has(3) ? 2 : 3))
    return op.fail("rotary-cache", "a cache of shape {} does not fit an operand of shape {}",
                   shape_text(op.type(1).shape), shape_text(op.type(0).shape));
  for (const int cache : {1, 2})
    if (op.type(cache).dtype != op.type(0).dtype)
      return op.fail("rotary-cache", "a cache of {} does not fit an operand of {}", dtype_name(op.type(cache).dtype),
                     dtype_name(op.type(0).dtype));
  return have_shapes(op, shapes_of(op, heads), "rotary-cache");
}

/// The result has the operand's type.
bool infer_rotary(const OpView& op, std::vector<TensorType>& results) {
  if (!has_ndim(op, 0, 3, 4) || !has_ndim(op, 1, 2, 3) || !is_real_operand(op, 0)) return false;
  const int last = op.type(0).ndim() - 1;
  if (!is_fixed_dim(op, 0, last) || (last == 3 && !is_fixed_dim(op, 0, 1))) return false;
  if (!is_fixed_dim(op, 1, op.type(1).ndim() - 1)) return false;
  const std::optional<Heads> heads = heads_of(op);
  return heads && has_caches(op, *heads) && infer_same(op, results);
}

/// A cache at the positions, shaped to broadcast over the heads of x: cos and sin have half the turned elements.
Term at_positions(Builder& build, const Heads& heads, ValueId cache, ValueId positions) {
  if (positions)
    cache = build.op(OpKind::Gather, {cache, positions}, {{"axis", int64_t{0}}, {"from_front", int64_t{1}}});
  const Term rows(build, cache);
  const Shape own = rows.shape();
  return rows.reshape_to(heads.is_flat ? Shape{own[0], own[1], {1}, own[2]} : Shape{own[0], {1}, own[1], own[2]});
}

Term concat(Builder& build, Term a, Term b, int64_t axis) {
  return {build, build.op(OpKind::Concat, {a.value(), b.value()}, {{"axis", axis}})};
}

/// The elements of x [.., heads, turned] that are rotated together: first and second halves, or neighbours.
std::pair<Term, Term> pairs_of(Term x, bool interleaved) {
  Shape half = x.shape();
  const int64_t count = half[3].bound / 2;
  half[3] = {count};
  if (!interleaved) return {x.slice(3, 0, count), x.slice(3, count, 2 * count)};
  Shape pairs = half;
  pairs.push_back({2});
  const Term paired = x.reshape_to(pairs);
  return {paired.slice(4, 0, 1).reshape_to(half), paired.slice(4, 1, 2).reshape_to(half)};
}

/// The inverse: puts both members of each pair back in place.
Term joined(Builder& build, Term a, Term b, bool interleaved) {
  if (!interleaved) return concat(build, a, b, 3);
  Shape single = a.shape(), whole = a.shape();
  single.push_back({1});
  whole[3] = {2 * whole[3].bound};
  return concat(build, a.reshape_to(single), b.reshape_to(single), 4).reshape_to(whole);
}

/// Works on [.., heads, size]: rotates the first `turned` elements of a head and appends the others unchanged.
std::vector<ValueId> decompose_rotary(Builder& build, const OpView& op) {
  const Heads heads = *heads_of(op);
  const std::vector<ValueId> in = op.op().inputs;
  const Shape shape = op.type(0).shape;
  const bool interleaved = int_of(op.op(), "interleaved");
  const ValueId positions = in.size() > 3 ? in[3] : ValueId{};
  Term x(build, in[0]);
  if (heads.is_flat) x = x.reshape_to({heads.batch, heads.sequence, {heads.count}, {heads.size}});
  const Term cos = at_positions(build, heads, in[1], positions), sin = at_positions(build, heads, in[2], positions);
  const auto [first, second] = pairs_of(x.slice(3, 0, heads.turned), interleaved);
  const Term a = cos * first - sin * second, b = sin * first + cos * second;
  Term result = joined(build, a, b, interleaved);
  if (heads.turned != heads.size) result = concat(build, result, x.slice(3, heads.turned, heads.size), 3);
  return {heads.is_flat ? result.reshape_to(shape).value() : result.value()};
}

}  // namespace

const OpDef kRotaryEmbedding{
    .kind = OpKind::RotaryEmbedding,
    .name = "RotaryEmbedding",
    .onnx = {"RotaryEmbedding", 23},
    .attrs = {flag("interleaved", 0), {"num_heads", AttrType::Int, 0}, {"rotary_embedding_dim", AttrType::Int, 0}},
    .inputs = {3, 4},
    .infer = infer_rotary,
    .relate = [](const OpView& op) { return relations_of(op, shapes_of(op, *heads_of(op))); },
    .decompose = decompose_rotary};

}  // namespace weftc
