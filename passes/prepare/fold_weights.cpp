// Evaluates ops of constants that decomposition and layouts left, so that no kernel computes them in each invocation.
//
//   %f = Transpose(%w), %y = Conv(%x, %f)  with %w constant    ->    %f = constant, %y = Conv(%x, %f)
//   %s = Mul(Cast(%q), %d)  with %q, %d constants              ->    %s = constant
//   %b = ShardSlice(Reshape(%c))  with %c constant             ->    %b = constant : [tp: S(0,11)]
//
// Keeps ops that cost kernels nothing: views that they read through, and the transposition that the packing of a
// product's weight undoes. Also keeps ops whose results would take many times the memory of the constants.
#include <algorithm>
#include <map>
#include <set>

#include "ir/op_def.h"
#include "passes/passes.h"
#include "passes/prepare/fold.h"

namespace weftc {

namespace {

bool is_constant(const Graph& graph, ValueId v) { return graph.producer_op(v).kind == OpKind::Constant; }

/// Views that are another place to read from; the others choose between operands.
bool is_free(const Op& op) {
  return category(op) == Category::View && op.kind != OpKind::Concat && op.kind != OpKind::Pad;
}

bool is_product(const Op& op) { return op.kind == OpKind::MatMul || op.kind == OpKind::MatMulInteger; }

class WeightFolder {
 public:
  WeightFolder(Module& module, Graph& graph) : module_(module), graph_(graph) {}

  void run() {
    for (OpId id : graph_.order()) {
      for (Graph& region : graph_.edit(id).regions) WeightFolder(module_, region).run();
      note(id);
    }
    for (OpId id : graph_.order())
      if (graph_.is_live(id)) fold_operands(id);
  }

 private:
  /// A value that follows from constants.
  struct Derived {
    std::set<ValueId> constants;
    bool is_computed = false;  // by other ops than free views
    bool is_only_use = true;   // nothing else uses the constants
  };

  void note(OpId id) {
    const Op& op = graph_.op(id);
    Derived derived;
    if (op.kind == OpKind::Constant) {
      derived.constants.insert(op.outputs[0]);
    } else {
      if (op.inputs.empty() || !is_evaluated(graph_, id) || !is_whole(op)) return;
      derived.is_computed = !is_free(op);
    }
    for (const ValueId v : op.inputs) {
      if (!v) continue;
      const auto at = derived_.find(v);
      if (at == derived_.end()) return;
      derived.constants.insert(at->second.constants.begin(), at->second.constants.end());
      derived.is_computed |= at->second.is_computed;
      derived.is_only_use &= at->second.is_only_use && graph_.value(v).uses.size() == 1;
    }
    for (const ValueId v : op.outputs) derived_.emplace(v, derived);
  }

  /// True if each rank has the results whole, or in slices: no partial or varying values.
  bool is_whole(const Op& op) const {
    return std::none_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return graph_.type(v).layout.has(AxisState::Kind::P) || graph_.type(v).layout.has(AxisState::Kind::V);
    });
  }
  int64_t bytes_of(ValueId v) const { return graph_.type(v).count() * dtype_bytes(graph_.type(v).dtype); }
  bool is_derived(const Op& op) const { return derived_.contains(op.outputs[0]); }

  /// The transposition of a value's matrices.
  bool is_turned(ValueId v) const {
    const Op& op = graph_.producer_op(v);
    std::vector<int64_t> perm = op.kind == OpKind::Transpose ? op.ints("perm") : std::vector<int64_t>{};
    if (perm.size() < 2) return false;
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return std::is_sorted(perm.begin(), perm.end());
  }

  /// Whether a kernel would have to compute the operand, or could read it in a better form if it were a constant.
  bool is_in_the_way(const Op& reader, size_t input) const {
    const ValueId v = reader.inputs[input];
    const auto at = derived_.find(v);
    if (at == derived_.end() || is_constant(graph_, v) || reader.outputs.empty() || is_derived(reader)) return false;
    return at->second.is_computed || reader.kind == OpKind::ShardSlice ||
           (category(reader) == Category::Contraction && input == 1);
  }

  void fold_operands(OpId id) {
    for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
      const ValueId v = graph_.op(id).inputs[i];
      if (!v || !is_in_the_way(graph_.op(id), i)) continue;
      // The packing of a product undoes a transposition, whatever is turned.
      const ValueId wanted = is_product(graph_.op(id)) && i == 1 && is_turned(v) ? graph_.producer_op(v).inputs[0] : v;
      if (is_constant(graph_, wanted) || !fits(wanted)) continue;
      fold(wanted);
      if (wanted == v) keep_name(v, graph_.op(id).inputs[i]);
    }
    if (graph_.op(id).kind == OpKind::ShardSlice) store_slice(id);
  }

  void store_slice(OpId id) {
    const ValueId slice = graph_.op(id).outputs[0], whole = graph_.op(id).inputs[0];
    if (!is_constant(graph_, whole) || graph_.value(slice).uses.empty()) return;
    const auto [reader, input] = graph_.value(slice).uses.front();
    const bool is_only_use = graph_.value(whole).uses.size() == 1;
    replace_by_constants(module_, graph_, id, {module_.constants.tensor(graph_.producer_op(whole).constant("value"))});
    if (is_only_use) take_name(whole, graph_.op(reader).inputs[input]);
  }

  /// A weight that was only viewed keeps its name, since it is the same weight for readers of the program.
  void keep_name(ValueId before, ValueId made) {
    if (const Derived& derived = derived_.at(before);
        is_constant(graph_, made) && !derived.is_computed && derived.is_only_use && derived.constants.size() == 1)
      take_name(*derived.constants.begin(), made);
  }
  void take_name(ValueId weight, ValueId made) {
    if (!graph_.value(weight).uses.empty()) return;
    const std::string name = graph_.value(weight).name;
    graph_.rename(weight, name + "/whole");
    graph_.rename(made, name);
  }

  bool fits(ValueId v) const {
    constexpr int64_t kFew = 4096, kMostTimes = 4;
    if (graph_.type(v).count() <= kFew) return true;
    int64_t bytes = 0;
    for (const ValueId constant : derived_.at(v).constants) bytes += bytes_of(constant);
    return bytes_of(v) <= kMostTimes * bytes;
  }

  /// Its producers first.
  void fold(ValueId v) {
    const OpId id = graph_.producer(v);
    for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i)
      if (const ValueId input = graph_.op(id).inputs[i]; input && !is_constant(graph_, input)) fold(input);
    if (is_foldable(module_, graph_, id)) fold_op(module_, graph_, id);
  }

  Module& module_;
  Graph& graph_;
  std::map<ValueId, Derived> derived_;
};

}  // namespace

void fold_weights(Module& module, const Env&) { WeightFolder(module, module.graph).run(); }

}  // namespace weftc
