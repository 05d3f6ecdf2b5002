// Compares two Plans kernel by kernel, by signatures that leave out names, shapes and layouts: kernels with one
// signature round alike.
#include "passes/proof/bit_equality.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/kernel/column_sums.h"
#include "ir/op_def.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// True if the op adds up elements, in an order that depends on the kernel.
bool sums(const Op& op) {
  const Category c = category(op);
  return c == Category::Contraction || c == Category::Reduction || c == Category::Scan || op.kind == OpKind::TreeSums;
}

/// True if the result's elements are the operand's in other places: whether a kernel does that or finds it done
/// changes no bit.
bool only_moves(const Op& op) { return category(op) == Category::View || category(op) == Category::Collective; }

/// A text for the order in which a strategy adds up: strategies of products in panels share one.
std::string order_text(const Strategy& strategy) {
  const bool panels =
      std::holds_alternative<PackedProduct>(strategy) || std::holds_alternative<StridedProduct>(strategy) ||
      std::holds_alternative<PointConvolution>(strategy) || std::holds_alternative<UnfoldedConvolution>(strategy);
  if (const auto* winograd = std::get_if<WinogradConvolution>(&strategy))
    return format("{} {}", WinogradConvolution::kName, winograd->tile);
  const auto* product = std::get_if<PackedProduct>(&strategy);
  if (product && product->together > 1) return strategy_text(strategy);
  return panels ? "panels" : strategy_name(strategy);
}

/// The computation of a kernel, without names, shapes and layouts: "MatMul(0,1) Add(2,3) -> 4".
class Signature {
 public:
  explicit Signature(const Kernel& kernel) : body_(kernel.body) {
    for (const OpId id : body_.order()) add(body_.op(id));
    std::set<int> outputs;
    for (const Graph::Output& output : body_.outputs()) outputs.insert(number(output.value));
    text_ += "->";
    for (const int output : outputs) text_ += " " + std::to_string(output);
    if (sums_) order_ = " by " + order_text(kernel.strategy);
    if (sums_ && sums_down_columns(KernelBody(kernel, kernel.mesh.size()))) order_ += " down columns";
  }
  bool is_arithmetic() const { return arithmetic_; }
  bool sums() const { return sums_; }
  /// The ops, and the order in which sums are taken.
  const std::string& ops() const { return text_; }
  std::string text() const { return text_ + order_; }

 private:
  int number(ValueId value) { return numbers_.emplace(value, static_cast<int>(numbers_.size())).first->second; }

  void add(const Op& op) {
    if (category(op) == Category::Source) return;
    if (only_moves(op)) {
      numbers_.emplace(op.outputs[0], number(op.inputs[0]));
      return;
    }
    const TensorType& type = body_.type(op.outputs[0]);
    arithmetic_ |= is_float(type.dtype) && category(op) != Category::Index;
    sums_ |= weftc::sums(op);
    text_ += std::string(op_def(op).name) + "(";
    for (const ValueId v : op.inputs) text_ += v ? std::to_string(number(v)) + "," : "-,";
    for (const Graph& region : op.regions)
      for (const OpId id : region.order()) text_ += std::string(op_def(region.op(id)).name) + ";";
    text_ += format(") {} ", dtype_name(type.dtype));
    for (const ValueId v : op.outputs) number(v);
  }

  const Graph& body_;
  std::map<ValueId, int> numbers_;
  std::string text_, order_;
  bool arithmetic_ = false, sums_ = false;
};

/// The nodes that a step computes, by which steps of two Plans are matched.
std::string nodes_text(const Plan& plan, const Step& step) {
  std::set<int> nodes;
  for (const OriginId origin : step.origins) nodes.insert(plan.origins[origin.index].index);
  std::string text;
  for (const int node : nodes) text += std::to_string(node) + " ";
  return text;
}

template <class F>
void for_each_launch(const Plan& plan, const std::vector<Step>& steps, const F& visit) {
  for (const Step& step : steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step.what)) visit(step, plan.kernel(launch->kernel));
    for (const std::vector<Step>* body : bodies_of(step)) for_each_launch(plan, *body, visit);
  }
}

}  // namespace

std::string why_bits_differ(const Plan& plan, const Plan& one_rank) {
  std::set<std::string> known, known_ops;
  for (const Block& block : one_rank.blocks)
    for_each_launch(one_rank, block.steps, [&](const Step& step, const Kernel& kernel) {
      const Signature signature(kernel);
      known.insert(nodes_text(one_rank, step) + signature.text());
      known_ops.insert(nodes_text(one_rank, step) + signature.ops());
    });
  std::string why;
  for (const Block& block : plan.blocks)
    for_each_launch(plan, block.steps, [&](const Step& step, const Kernel& kernel) {
      const Signature signature(kernel);
      if (!signature.is_arithmetic() || !why.empty()) return;
      if (plan.target.has_grid() && signature.sums())
        why = format("the order of the sums in '{}' is a device library's or follows from the threads", step.name);
      else if (!known_ops.contains(nodes_text(plan, step) + signature.ops()))
        why = format("'{}' computes other ops together than a kernel of one rank", step.name);
      else if (!known.contains(nodes_text(plan, step) + signature.text()))
        why = format("'{}' is computed by {}, on one rank by another strategy", step.name,
                     strategy_name(kernel.strategy));
    });
  return why;
}

}  // namespace weftc
