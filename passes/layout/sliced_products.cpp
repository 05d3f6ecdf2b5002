// Without this, a slice of the result of a product would be cut out after it: each rank would compute the whole product
// and keep a slice.
//
//   %y = MatMul(%x, %w), {tp: 1} for %y      ->      %w : [tp: S(1,32)], %y = MatMul(%x, %w) : [tp: S(1,32)]
#include "passes/layout/sliced_products.h"

#include "passes/constant_values.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// The one operand of a pointwise op that is computed, if it has the result's shape and no other reader.
ValueId computed_operand(const Graph& graph, const Op& op) {
  ValueId computed;
  for (const ValueId v : op.inputs) {
    if (!v || is_made_of_constants(graph, v)) continue;
    if (computed) return {};
    computed = v;
  }
  if (!computed || graph.value(computed).uses.size() != 1) return {};
  return graph.type(computed).dims() == graph.type(op.outputs[0]).dims() ? computed : ValueId{};
}

/// The result of the product that a value is computed from; invalid where it is not.
ValueId product_of(const Graph& graph, ValueId value) {
  while (value) {
    const Op& op = graph.producer_op(value);
    if (category(op) == Category::Contraction) return value;
    if (category(op) != Category::Pointwise || op.outputs.size() != 1) return {};
    value = computed_operand(graph, op);
  }
  return {};
}

/// True if the operands differ only in slices that cost nothing: those of constants, and of values that all ranks of
/// the axis have whole.
bool only_cuts(const OpView& op, int axis, const std::vector<Layout>& before, const std::vector<Layout>& after) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (!op.has(static_cast<int>(i)) || is_made_of_constants(op.graph(), op.op().inputs[i])) continue;
    Layout cut = before[i];
    if (cut[axis].is(Kind::R)) cut.set(axis, after[i][axis]);
    if (!(cut == after[i])) return false;
  }
  return true;
}

/// "4 x 16": the dims of a Reshape's result into which one of its operand's is split; empty if it is not split.
std::vector<int64_t> parts_of_dim(const Dims& from, const Dims& to, int dim) {
  const auto right_of = [](const Dims& dims, size_t d) { return element_count({dims.begin() + d + 1, dims.end()}); };
  const int64_t right = right_of(from, static_cast<size_t>(dim)), left = right * from[static_cast<size_t>(dim)];
  std::vector<int64_t> parts;
  int64_t found = right;
  for (size_t e = to.size(); e-- > 0 && found < left;) {
    if (right_of(to, e) < right) continue;
    if (right_of(to, e) != found) return {};
    found *= to[e];
    if (to[e] != 1) parts.insert(parts.begin(), to[e]);
  }
  return found == left && parts.size() > 1 ? parts : std::vector<int64_t>{};
}

}  // namespace

std::map<ValueId, LayoutRequest> requested_products(const Graph& graph, const LayoutRequests& requests) {
  std::map<ValueId, LayoutRequest> products;
  for (const auto& [value, request] : requests.results) {
    const ValueId product = product_of(graph, value);
    const bool has_own = product && !(product == value) && requests.results.contains(product);
    if (product && !has_own) products.emplace(product, request);
  }
  return products;
}

OpLayouts slice_operands(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, OpLayouts settled,
                         const Layout& wanted) {
  std::vector<Layout> operands = arriving;
  for (int a = 0; a < wanted.size(); ++a) {
    if (!wanted[a].is(Kind::S) || !settled.results[0][a].is(Kind::R)) continue;
    const std::optional<OpLayouts> sliced = settle_for(op, mesh, operands, a, 0, wanted[a]);
    if (!sliced || !only_cuts(op, a, operands, sliced->operands)) continue;
    settled = *sliced;
    operands = settled.operands;
  }
  return settled;
}

void warn_of_gathered_parts(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                            const OpLayouts& settled, const Loc& loc, Diags& diags) {
  if (op.op().kind != OpKind::Reshape) return;
  const Dims from = op.dims(0), to = op.result_type(0).dims();
  for (int a = 0; a < arriving[0].size(); ++a) {
    if (!arriving[0][a].is(Kind::S) || !settled.operands[0][a].is(Kind::R)) continue;
    const int dim = arriving[0][a].dim;
    const std::vector<int64_t> parts = parts_of_dim(from, to, dim);
    if (parts.empty()) continue;
    std::vector<std::string> shown;
    for (const int64_t part : parts) shown.push_back(std::to_string(part));
    diags.warning("parts-gathered", loc,
                  "slices of '{}' over '{}' are gathered here, and all {} ranks compute what follows: its dimension {} "
                  "becomes {}, of which a slice of {} holds no whole parts",
                  printable(op.graph().value(op.op().inputs[0]).name), mesh[a].name, mesh[a].size, dim,
                  join(shown, " x "), arriving[0][a].block);
  }
}

}  // namespace weftc
