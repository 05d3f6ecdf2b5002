// RotaryEmbedding (ONNX RotaryEmbedding-23): pairs of elements of each head are turned by an angle that depends
// on the position in the sequence. Pairs are the two halves of the turned part, or neighbours if `interleaved`:
//
//   a' = cos * a - sin * b,  b' = sin * a + cos * b        cos, sin: a row of the cache for each position
//
// It becomes Gather, Slice, pointwise ops and Concat, all of which a pointwise kernel can evaluate.
#include "ir/ops/composite.h"

namespace weftc {

namespace {

/// Heads, extent of a head, and how much of it is turned.
struct Heads {
  bool is_flat;  // B, S, H*D instead of B, H, S, D
  int64_t batch, sequence, count, size, turned;
};

/// Extents by the spelling of the operand; nothing after reporting. rotary_embedding_dim 0 turns the whole
/// head.
std::optional<Heads> heads_of(const OpView& op) {
  const Dims x = op.dims(0);
  Heads heads{x.size() == 3, x[0], x[x.size() - 2], 0, 0, int_of(op.op(), "rotary_embedding_dim")};
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

/// The rows of both caches are those of the positions, or without these one for each place of the sequence.
bool has_caches(const OpView& op, const Heads& heads) {
  const Dims cache = op.dims(1);
  const bool has_positions = op.has(3);
  const Dims rows{heads.batch, heads.sequence};
  const bool right = has_positions ? cache.size() == 2 && op.dims(3) == rows && is_integer(op.type(3).dtype)
                                   : cache.size() == 3 && Dims{cache[0], cache[1]} == rows;
  if (right && op.dims(2) == cache && op.type(1).dtype == op.type(0).dtype && op.type(2).dtype == op.type(0).dtype)
    return true;
  return op.fail("rotary-cache", "caches of shapes {} and {} do not fit a batch of {} with {} positions",
                 dims_text(cache), dims_text(op.dims(2)), heads.batch, heads.sequence);
}

/// The operand's type: only values change.
bool infer_rotary(const OpView& op, std::vector<TensorType>& results) {
  for (int i = 0; i < op.inputs(); ++i)
    if (op.has(i) && !is_fixed(op, i)) return false;
  if (!has_ndim(op, 0, 3, 4) || !has_ndim(op, 1, 2, 3) || !is_real_operand(op, 0)) return false;
  const std::optional<Heads> heads = heads_of(op);
  return heads && has_caches(op, *heads) && infer_same(op, results);
}

/// A cache at the positions, shaped to broadcast over the heads of x: cos and sin have half the turned elements.
ValueId at_positions(Builder& build, const Heads& heads, ValueId cache, ValueId positions) {
  if (positions)
    cache = build.op(OpKind::Gather, {cache, positions}, {{"axis", int64_t{0}}, {"from_front", int64_t{1}}});
  const int64_t half = heads.turned / 2;
  return build.reshape(
      cache, heads.is_flat ? Dims{heads.batch, heads.sequence, 1, half} : Dims{heads.batch, 1, heads.sequence, half});
}

/// Elements [first, last) of one dimension.
ValueId part(Builder& build, ValueId x, int64_t axis, int64_t first, int64_t last) {
  const Dims dims = build.dims(x);
  Dims starts(dims.size(), 0), ends = dims;
  starts[axis] = first;
  ends[axis] = last;
  return build.op(OpKind::Slice, {x}, {{"ends", ends}, {"starts", starts}, {"steps", Dims(dims.size(), 1)}});
}

ValueId concat(Builder& build, ValueId a, ValueId b, int64_t axis) {
  return build.op(OpKind::Concat, {a, b}, {{"axis", axis}});
}

/// Computes on [.., heads, size], turns the first `turned` elements of a head and puts the others behind them
/// unchanged.
std::vector<ValueId> decompose_rotary(Builder& build, const OpView& op) {
  const Heads heads = *heads_of(op);
  const std::vector<ValueId> in = op.op().inputs;
  const Dims dims = op.dims(0);
  const bool interleaved = int_of(op.op(), "interleaved");
  const ValueId positions = in.size() > 3 ? in[3] : ValueId{};
  const Dims four = heads.is_flat ? Dims{heads.batch, heads.sequence, heads.count, heads.size} : dims;
  const ValueId x = heads.is_flat ? build.reshape(in[0], four) : in[0];
  const ValueId cos = at_positions(build, heads, in[1], positions), sin = at_positions(build, heads, in[2], positions);
  const ValueId turned = heads.turned == heads.size ? x : part(build, x, 3, 0, heads.turned);
  Dims half = four, whole = four;
  half[3] = heads.turned / 2;
  whole[3] = heads.turned;
  ValueId first, second;
  if (interleaved) {
    Dims pairs = half;
    pairs.push_back(2);
    const ValueId paired = build.reshape(turned, pairs);
    first = build.reshape(part(build, paired, 4, 0, 1), half);
    second = build.reshape(part(build, paired, 4, 1, 2), half);
  } else {
    first = part(build, turned, 3, 0, half[3]);
    second = part(build, turned, 3, half[3], heads.turned);
  }
  ValueId a = subtract(build, multiply(build, cos, first), multiply(build, sin, second));
  ValueId b = add(build, multiply(build, sin, first), multiply(build, cos, second));
  ValueId result;
  if (interleaved) {
    Dims single = half;
    single.push_back(1);
    result = build.reshape(concat(build, build.reshape(a, single), build.reshape(b, single), 4), whole);
  } else {
    result = concat(build, a, b, 3);
  }
  if (heads.turned != heads.size) result = concat(build, result, part(build, x, 3, heads.turned, heads.size), 3);
  return {heads.is_flat ? build.reshape(result, dims) : result};
}

}  // namespace

const OpDef kRotaryEmbedding{.kind = OpKind::RotaryEmbedding,
                             .name = "RotaryEmbedding",
                             .onnx = {"RotaryEmbedding", 23},
                             .attrs = {{"interleaved", AttrType::Int, 0},
                                       {"num_heads", AttrType::Int, 0},
                                       {"rotary_embedding_dim", AttrType::Int, 0}},
                             .inputs = {3, 4},
                             .infer = infer_rotary,
                             .decompose = decompose_rotary};

}  // namespace weftc
