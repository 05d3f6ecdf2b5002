// Makes products read a weight of few bits as the model stores it. Four bits take an eighth of the memory of floats,
// and a product of few rows mostly waits for its weights.
//
//   %w = DequantizeLinear(%q, %s, %z) {block_size}, %y = MatMul(%x, %w)  with %q, %s, %z constants
//     ->  %y = BlockMatMul(Reshape(%x), %words, %terms) {bits}
//
// The same holds for a product that reads such a weight transposed, for Gemm, and for com.microsoft's MatMulNBits. On a
// device, and where the schedule places the weight by its name, they become products with a weight of floats
// (decompose).
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/ops/block_weight.h"
#include "passes/passes.h"
#include "passes/select.h"

namespace weftc {

namespace {

constexpr int64_t kFew = 16384;  // elements of a weight that is not worth it

bool is_plain_gemm(const Op& op) {
  return int_of(op, "transA") == 0 && real_of(op, "alpha") == 1 && (op.inputs.size() < 3 || real_of(op, "beta") == 1);
}

/// A matrix that a DequantizeLinear makes from constants, as the second operand of a product.
class DequantizedWeight {
 public:
  DequantizedWeight(const Module& module, const Graph& graph, const Op& dequantize, bool turned)
      : op_(module, graph, dequantize), turned_(turned) {}

  /// How it is cut into blocks; nothing where a BlockMatMul cannot have it.
  std::optional<BlockShape> shape() const {
    if (!is_known(0) || !is_known(1) || (op_.has(2) && !is_known(2)) || op_.type(0).ndim() != 2) return {};
    const DType dtype = op_.type(0).dtype;
    if (!is_integer(dtype) || onnx_bits(dtype) > 8 || !is_float(op_.type(1).dtype)) return {};
    const Dims dims = op_.dims(0);
    BlockShape shape{dims[turned_ ? 0 : 1], dims[turned_ ? 1 : 0], 0, onnx_bits(dtype)};
    const bool is_along_k = (from_front(int_of(op_.op(), "axis"), 2) == 1) == turned_;
    const int64_t block = int_of(op_.op(), "block_size");
    if (block > 0 ? !is_along_k : is_along_k && op_.type(1).count() != 1) return {};
    shape.size = block > 0 ? block : own_block(shape);
    return fits_block_matmul(shape) ? std::optional(shape) : std::nullopt;
  }

  BlockWeight read() const {
    const BlockShape shape = *this->shape();
    Reader reader{shape, turned_, *op_.known(0), *op_.known(1), op_.has(2) ? *op_.known(2) : Tensor{}};
    reader.shift = is_signed_int(op_.type(0).dtype) ? int64_t{1} << (shape.bits - 1) : 0;
    return block_weight(shape, reader);
  }

 private:
  struct Reader {
    BlockShape shape;
    bool turned;
    Tensor numbers, scales, zeros;
    int64_t shift = 0;

    int64_t number(int64_t n, int64_t k) const {
      return numbers.integers[static_cast<size_t>(turned ? n * shape.k + k : k * shape.n + n)] + shift;
    }
    /// Where the scale of a block lies: one for all, one for each column, or one for each block.
    size_t term(int64_t n, int64_t block) const {
      if (scales.size() == 1) return 0;
      if (scales.dims.size() == 1) return static_cast<size_t>(n);
      return static_cast<size_t>(turned ? n * (shape.k / shape.size) + block : block * shape.n + n);
    }
    double scale(int64_t n, int64_t block) const { return scales.real[term(n, block)]; }
    double zero(int64_t n, int64_t block) const {
      return static_cast<double>(shift + (zeros.integers.empty() ? 0 : zeros.integers[term(n, block)]));
    }
  };

  bool is_known(int input) const {
    return op_.graph().producer_op(op_.op().inputs[static_cast<size_t>(input)]).kind == OpKind::Constant;
  }

  /// The block size for a scale of a whole column or weight, which holds for blocks of any size. It is at most 128, so
  /// that the zero point times the sum of a block's elements is of a similar size to the other sums.
  static int64_t own_block(const BlockShape& shape) {
    for (int64_t size = 128; size >= 16; size /= 2)
      if (shape.k % size == 0) return size;
    return 0;
  }

  OpView op_;
  bool turned_;
};

class WeightNarrower {
 public:
  WeightNarrower(Module& module, Graph& graph, const std::set<ValueId>& placed)
      : module_(module), graph_(graph), placed_(placed) {}

  void run() {
    for (const OpId id : graph_.order()) {
      for (Graph& region : graph_.edit(id).regions) WeightNarrower(module_, region, {}).run();
      const OpView op(module_, graph_, graph_.op(id));
      if (op.op().kind == OpKind::MatMulNBits) narrow_nbits(id, op);
      if (op.op().kind == OpKind::MatMul || (op.op().kind == OpKind::Gemm && is_plain_gemm(op.op()))) narrow(id, op);
    }
  }

 private:
  static bool is_computed_in_floats(DType dtype) { return is_float(dtype) && dtype_bytes(dtype) <= 4; }

  /// A stored weight.
  struct Stored {
    ConstantId words, terms;
    Dims dims;  // of the words
    int64_t bits;
  };
  Stored store(const BlockWeight& weight, const std::string& name) {
    const ConstantId words = module_.constants.add(name + "/words", weight.words);
    return {words, module_.constants.add(name + "/terms", weight.terms), weight.words.dims, weight.bits};
  }

  void narrow_nbits(OpId id, const OpView& op) {
    const bool is_large = op.op().integer("N") * op.op().integer("K") > kFew;
    if (!is_large || !is_computed_in_floats(op.type(0).dtype)) return;
    if (!nbits_fits_block_matmul(op)) return;
    const ValueId weight = op.op().inputs[1], bias = op.has(5) ? op.op().inputs[5] : ValueId{};
    replace(id, store(nbits_weight(op), graph_.value(weight).name), weight, bias);
  }

  void narrow(OpId id, const OpView& op) {
    ValueId operand = op.op().inputs[1];
    bool turned = op.op().kind == OpKind::Gemm && int_of(op.op(), "transB") != 0;
    if (graph_.producer_op(operand).kind == OpKind::Transpose && op.type(1).ndim() == 2) {
      if (is_placed(operand)) return;
      turned ^= graph_.producer_op(operand).ints("perm") == std::vector<int64_t>{1, 0};
      operand = graph_.producer_op(operand).inputs[0];
    }
    const Op& dequantize = graph_.producer_op(operand);
    if (dequantize.kind != OpKind::DequantizeLinear || is_placed(operand) || is_placed(dequantize.inputs[0])) return;
    if (graph_.type(operand).count() <= kFew || !is_computed_in_floats(op.type(0).dtype) ||
        !is_static({op.type(0).shape.back()}))
      return;
    const DequantizedWeight weight(module_, graph_, dequantize, turned);
    if (!weight.shape()) return;
    const ValueId numbers = dequantize.inputs[0], bias = op.has(2) ? op.op().inputs[2] : ValueId{};
    const auto [known, is_new] = stored_.try_emplace({dequantize.outputs[0], turned});
    if (is_new) known->second = store(weight.read(), graph_.value(numbers).name);
    replace(id, Stored(known->second), numbers, bias);
  }

  bool is_placed(ValueId v) const { return placed_.contains(v); }

  /// `from` is the model's weight; `bias`, if valid, is added.
  void replace(OpId id, const Stored& weight, ValueId from, ValueId bias) {
    const Op op = graph_.op(id);  // NOLINT(performance-unnecessary-copy-initialization): building moves ops
    Builder build(module_, graph_, id, op);
    const std::string name = graph_.value(from).name;
    const ValueId words = build.op(OpKind::Constant, {}, {{"value", weight.words}});
    const ValueId terms = build.op(OpKind::Constant, {}, {{"value", weight.terms}});
    graph_.rename(words, name + "/words");
    graph_.rename(terms, name + "/terms");
    Shape shape = graph_.type(op.inputs[0]).shape;
    if (shape.size() == 1) shape.insert(shape.begin(), {1, {}});
    shape.back() = {weight.dims[1], {}};
    shape.push_back({weight.dims[2] * 32 / weight.bits, {}});
    const ValueId a = build.reshape_to(op.inputs[0], shape);
    ValueId y = build.op(OpKind::BlockMatMul, {a, words, terms}, {{"bits", weight.bits}});
    if (shape.size() != graph_.type(op.outputs[0]).shape.size() + 1)  // of a vector, which was taken as a row
      y = build.reshape_to(y, Shape(graph_.type(op.outputs[0]).shape));
    if (bias) y = build.op(OpKind::Add, {y, bias});
    const std::string result = graph_.value(op.outputs[0]).name;
    graph_.rename(op.outputs[0], result + "/whole");
    graph_.rename(y, result);
    graph_.replace_uses(op.outputs[0], y);
    graph_.erase(id);
    if (graph_.value(from).uses.empty()) module_.note_folded(graph_, from, name + "/words");
  }

  Module& module_;
  Graph& graph_;
  const std::set<ValueId>& placed_;
  std::map<std::pair<ValueId, bool>, Stored> stored_;  // by the DequantizeLinear's result, and whether it is turned
};

/// The values that lines of `shard:` name.
std::set<ValueId> placed_values(const Module& module, const Env& env) {
  std::set<ValueId> placed;
  if (env.schedule.shard.empty()) return placed;
  const SelectableNames names(module, module.graph, env.schedule.aliases);
  for (const ShardEntry& entry : env.schedule.shard)
    for (const Bindings& bindings : names.bindings({entry.target})) {
      for (const ValueId v : names.select_values(entry.target, bindings)) placed.insert(v);
      if (entry.target.kind != Selector::Kind::Weight) continue;
      for (const OpId id : names.select_ops({Selector::Kind::Name, entry.target.text, entry.target.loc}, bindings))
        placed.insert(module.graph.op(id).inputs.begin(), module.graph.op(id).inputs.end());
    }
  return placed;
}

}  // namespace

void narrow_weights(Module& module, const Env& env) {
  if (!env.target.has_grid()) WeightNarrower(module, module.graph, placed_values(module, env)).run();
}

}  // namespace weftc
