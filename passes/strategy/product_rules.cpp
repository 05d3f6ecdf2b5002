// Products of two matrices: on the host a product with a packed weight, or with an operand that is brought into panels
// each time; on a device tiles through shared memory.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// The result of the body's only product of floats or 32-bit integers; invalid where the body has no such product, or
/// other loops as well.
ValueId product_of(const Graph& body) {
  const ValueId root = contraction_of(body);
  if (!root) return {};
  const DType dtype = body.type(root).dtype;
  const OpKind kind = body.producer_op(root).kind;
  const bool is_product = kind == OpKind::MatMulInteger || kind == OpKind::BlockMatMul ||
                          (kind == OpKind::MatMul && (is_float(dtype) || dtype == DType::I32));
  return is_product ? root : ValueId{};
}

/// The reason why no strategy can compute the product; empty if some strategy may.
std::string general_refusal(const StrategyContext& context) {
  const KernelBody& body = context.body;
  const ValueId root = product_of(body.body);
  if (!root) return "the kernel has several loops that sum, or its product is not of floats or 32-bit integers";
  const Op& op = body.body.producer_op(root);
  if (element_count(body.dims(root)) == 0 || body.dims(op.inputs[0]).back() == 0) return "it has no elements";
  const IndexList zeros(body.dims(root).size());
  if (!indices_after(body, root, zeros)) return "a result is not reached from the product by views and pointwise ops";
  return "";
}

constexpr const char* kRaggedBatch = "a dimension of the batch after the first is sliced unevenly";

bool has_ragged_batch(const KernelBody& body, ValueId root) {
  const TensorType& type = body.body.type(root);
  return body.has_ragged(type, 1, type.ndim() - 2);
}

bool swaps_last_two(const Op& op, int ndim) {
  if (op.kind != OpKind::Transpose) return false;
  const std::vector<int64_t>& perm = op.ints("perm");
  for (int d = 0; d < ndim - 2; ++d)
    if (perm[d] != d) return false;
  return perm[ndim - 2] == ndim - 1 && perm[ndim - 1] == ndim - 2;
}

const Op* only_reader(const Graph& body, ValueId value) {
  const std::vector<Use>& uses = body.value(value).uses;
  return uses.size() == 1 && uses[0].op ? &body.op(uses[0].op) : nullptr;
}

/// Whether a chunk reads a part of each matrix, where panels hold whole ones.
bool cuts_matrices(const Parameter& weight) {
  return std::any_of(weight.whole_over.begin(), weight.whole_over.end(),
                     [&](int axis) { return weight.type.layout[axis].dim >= weight.type.ndim() - 2; });
}

/// The second operand as a weight in panels; nothing where it is no weight, or others read it too.
std::optional<PackedProduct> packed_weight(const StrategyContext& context, const Op& product) {
  const Graph& body = context.body.body;
  const ValueId operand = product.inputs[1];
  const Op& view = body.producer_op(operand);
  const bool transposed = swaps_last_two(view, body.type(operand).ndim());
  const ValueId weight = transposed ? view.inputs[0] : operand;
  if (body.producer_op(weight).kind != OpKind::Input || !only_reader(body, weight) || !only_reader(body, operand))
    return {};
  const size_t number = context.body.input_parameter(weight);
  const Parameter& parameter = context.body.kernel.parameters[number];
  if (!parameter.weight || cuts_matrices(parameter)) return {};
  const int ndim = parameter.type.ndim(), width = context.target.panel_width;
  const int k_dim = ndim - (transposed ? 1 : 2), n_dim = ndim - (transposed ? 2 : 1);
  return PackedProduct{number, Storage::panels(ndim, k_dim, n_dim, width), width, transposed};
}

/// Puts that many steps of k side by side in the panels. Empty, or the reason why it cannot.
std::string put_together(const KernelBody& body, PackedProduct& packed, int64_t steps) {
  const Parameter& weight = body.kernel.parameters[packed.weight];
  const int k_dim = packed.transposed ? 1 : 0, n_dim = packed.transposed ? 0 : 1;
  if (weight.type.ndim() != 2) return "its weight is more than one matrix";
  if (body.run_extent_of(weight.type, k_dim)) return "its weight is sliced unevenly";
  packed.together = steps;
  packed.packing.parts = {{n_dim, packed.width}, {k_dim, steps}, {n_dim, 1}, {k_dim, 1}};
  return "";
}

Verdict packed_product(const StrategyContext& context) {
  if (context.target.panel_width == 0 || !has_op(context.body.body, {OpKind::MatMul, OpKind::MatMulInteger})) return {};
  if (std::string why = general_refusal(context); !why.empty()) return refused(why);
  const KernelBody& body = context.body;
  const ValueId root = product_of(body.body);
  const Op& product = body.body.producer_op(root);
  const TensorType& type = body.body.type(root);
  std::optional<PackedProduct> packed = packed_weight(context, product);
  if (!packed) return refused("the second operand is no weight that only this product reads");
  if (has_ragged_batch(body, root)) return refused(kRaggedBatch);
  const auto matrices = [](const Dims& dims) { return element_count({dims.begin(), dims.end() - 2}); };
  // A weight that all of the batch share is multiplied with the rows of all at once.
  const bool is_shared = matrices(body.dims(product.inputs[1])) == 1 && matrices(body.dims(root)) != 1;
  if (is_shared && body.has_ragged(type, type.ndim() - 2, type.ndim() - 1))
    return refused("the rows of each matrix of the batch are sliced unevenly");
  const int64_t steps = steps_at_once(body.body, product);
  const std::string why = steps > 1 ? put_together(body, *packed, steps) : "";
  // Bytes have no other kernel; pairs of bfloat16 become floats one by one.
  return product.kind == OpKind::MatMulInteger && !why.empty() ? refused(why) : Verdict{*packed, ""};
}

/// Words and terms [n, blocks, ..] in panels of n.
Verdict block_product(const StrategyContext& context) {
  if (context.target.panel_width == 0 || !has_op(context.body.body, {OpKind::BlockMatMul})) return {};
  if (std::string why = general_refusal(context); !why.empty()) return refused(why);
  const KernelBody& body = context.body;
  const ValueId root = product_of(body.body);
  const Op& product = body.body.producer_op(root);
  const Storage packing{.parts = {{0, context.target.panel_width}, {1, 1}, {2, 1}, {0, 1}}};
  BlockProduct chosen{0, 0, packing, product.integer("bits")};
  for (size_t input = 1; input < 3; ++input) {
    const ValueId operand = product.inputs[input];
    if (body.body.producer_op(operand).kind != OpKind::Input || !only_reader(body.body, operand))
      return refused("its words or terms are no weight that only this product reads");
    const size_t number = body.input_parameter(operand);
    const Parameter& parameter = body.kernel.parameters[number];
    if (!parameter.weight || !parameter.whole_over.empty())
      return refused("its words or terms are no weight that only this product reads");
    (input == 1 ? chosen.weight : chosen.terms) = number;
  }
  const TensorType& type = body.body.type(root);
  if (body.has_ragged(type, 1, type.ndim() - 1))
    return refused("the rows of each matrix of the batch are sliced unevenly");
  return {chosen, ""};
}

/// Attention's scores: heads of 64 numbers. Zen 5, 197 x 64 to 197: 0.89 of the time of tiles whose sums are stored,
/// 120 x 64 to 1500, panels there: 0.87; with AVX2 0.82 and 0.86. With 128 terms 0.98 and 0.90.
Verdict strided_product(const StrategyContext& context) {
  constexpr int64_t kManyRows = 24, kFewTerms = 128;
  if (context.target.has_grid() || !has_op(context.body.body, {OpKind::MatMul})) return {};
  if (std::string why = general_refusal(context); !why.empty()) return refused(why);
  const Graph& body = context.body.body;
  const ValueId root = product_of(body);
  if (has_ragged_batch(context.body, root)) return refused(kRaggedBatch);
  const int64_t rows = context.body.dims(root)[body.type(root).dims().size() - 2];
  const int64_t terms = context.body.dims(body.producer_op(root).inputs[0]).back();
  const bool is_short =
      is_float(body.type(root).dtype) && rows >= kManyRows && terms <= kFewTerms && puts_out_of_registers(body);
  return {StridedProduct{.is_short = is_short}, ""};
}

Verdict tiled_product(const StrategyContext& context) {
  constexpr int64_t kMostDepth = int64_t{1} << 30;  // which the runtime counts in 32 bits
  if (!context.target.has_grid() || !has_op(context.body.body, {OpKind::MatMul})) return {};
  if (std::string why = general_refusal(context); !why.empty()) return refused(why);
  const KernelBody& body = context.body;
  const ValueId root = product_of(body.body);
  if (!is_float(body.body.type(root).dtype)) return refused("it is of integers");
  if (has_ragged_batch(body, root)) return refused(kRaggedBatch);
  const Dims dims = body.dims(root);
  if (body.dims(body.body.producer_op(root).inputs[0]).back() >= kMostDepth) return refused("k does not fit 32 bits");
  const int64_t batch = element_count({dims.begin(), dims.end() - 2});
  std::string why;
  const std::optional<Tile> tile =
      choose_tile(context, batch, dims[dims.size() - 2], dims.back(), body.body.type(root).dtype, why);
  return tile ? Verdict{TiledProduct{*tile}, ""} : refused(why);
}

constexpr StrategyRule kRules[] = {
    {LibraryProduct::kName, library_product, "products on a device"},
    {TiledProduct::kName, tiled_product, "products on a device"},
    {PackedProduct::kName, packed_product, "products on the host"},
    {BlockProduct::kName, block_product, "products with weights of few bits, on the host"},
    {StridedProduct::kName, strided_product, "products on the host"},
};

}  // namespace

int64_t steps_at_once(const Graph& body, const Op& contraction) {
  const auto is_bf16 = [&](ValueId v) { return body.type(v).dtype == DType::BF16; };
  if (contraction.kind == OpKind::MatMulInteger || contraction.kind == OpKind::ConvInteger) return 4;
  return is_bf16(contraction.inputs[0]) && is_bf16(contraction.inputs[1]) ? 2 : 1;
}

bool puts_out_of_registers(const Graph& body) {
  const std::vector<OpId> ops = body.order();
  return std::none_of(ops.begin(), ops.end(), [&](OpId id) {
    const Op& op = body.op(id);
    return category(op) == Category::Pointwise && op_def(op).cost == ScalarCost::Function;
  });
}

std::span<const StrategyRule> product_rules() { return kRules; }

}  // namespace weftc
