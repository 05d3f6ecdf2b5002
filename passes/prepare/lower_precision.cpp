// Makes products and convolutions compute in the precision that the schedule asks for (`precision: bf16`). Both
// operands are rounded to it; sums and everything else stay float.
//
//   %y = MatMul(%x, %w)  with %w constant   ->   %r = Cast(%x, bf16), %v = Cast(%w, bf16), %y = MatMul(%r, %v) {mixed}
//   %y = MatMul(%a, %b)                     ->   %r = Cast(Cast(%a, bf16), f32), ..
//
// A product reads its weight in 16 bits, and fold-weights stores it so, in half the memory. The same holds for a
// product whose weight the model stores in 16 bits and casts. Where kernels multiply pairs of bfloat16, the first
// operand is stored so as well, and the filters of a convolution. A value is rounded once for all of its readers,
// before the views between them, so that its kernel stores the rounded value.
#include <map>

#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/prepare/fold.h"
#include "passes/select.h"

namespace weftc {

namespace {

bool is_contraction(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return (op.kind == OpKind::MatMul || op.kind == OpKind::Conv) && graph.type(graph.result(id)).dtype == DType::F32;
}

class PrecisionLowerer {
 public:
  /// `by_reader`: nothing is shared, since readers may be in different stages.
  PrecisionLowerer(Module& module, Graph& graph, bool by_reader)
      : module_(module), graph_(graph), by_reader_(by_reader) {}

  /// A product reads a weight that the model stores in 16 bits and makes floats of: the numbers are the same.
  void read_as_stored(OpId id) {
    if (graph_.op(id).kind != OpKind::MatMul) return;
    const ValueId operand = graph_.op(id).inputs[1];
    if (!is_widened_weight(operand)) return;
    graph_.set_input(id, 1, as_stored(operand));
    graph_.edit(id).set("mixed", int64_t{1});
  }

  void lower(OpId id, DType to) {
    const bool has_weight = is_weight(graph_.op(id).inputs[1]);
    const bool has_pairs = has_weight && to == DType::BF16 && multiplies_pairs(graph_.op(id));
    round(id, 0, to, has_pairs);
    round(id, 1, to, has_pairs || (has_weight && graph_.op(id).kind == OpKind::MatMul));
  }

 private:
  /// Whether kernels for the op multiply pairs of bfloat16: of one matrix, and of filters that read all channels. Large
  /// outputs of 3 x 3 windows are faster by minimal filtering with floats: it multiplies a third as much, whereas
  /// pairs take a little less than half of the time.
  bool multiplies_pairs(const Op& op) const {
    constexpr int64_t kLargeOutput = 20;
    const Dims weight = graph_.type(op.inputs[1]).dims();
    if (op.kind == OpKind::MatMul) return weight.size() == 2;
    if (op.integer("group") != 1 || weight[1] % 2) return false;
    const Dims y = graph_.type(op.outputs[0]).dims(), ones(weight.size() - 2, 1);
    const bool may_be_filtered = Dims(weight.begin() + 2, weight.end()) == Dims{3, 3} && op.ints("strides") == ones &&
                                 op.ints("dilations") == ones && weight[1] % 16 == 0;
    return !may_be_filtered || std::min(y[2], y[3]) < kLargeOutput;
  }

  void round(OpId id, size_t input, DType to, bool is_stored) {
    graph_.set_input(id, input, rounded(graph_.op(id).inputs[input], to, is_stored, id));
    if (is_stored) graph_.edit(id).set("mixed", int64_t{1});
  }

  bool is_widened_weight(ValueId v) const {
    while (is_view(v)) v = graph_.producer_op(v).inputs[0];
    const Op& op = graph_.producer_op(v);
    return widens_to_float(graph_, op) && graph_.producer_op(op.inputs[0]).kind == OpKind::Constant;
  }

  /// The constant that the Cast reads, seen through the same views.
  ValueId as_stored(ValueId v) {
    const Op made = graph_.producer_op(v);
    if (made.kind == OpKind::Cast) return made.inputs[0];
    std::vector<ValueId> inputs = made.inputs;
    inputs[0] = as_stored(inputs[0]);
    return Builder(module_, graph_, graph_.producer(v), made).op(made.kind, inputs, made.attrs);
  }

  /// A view of one value, whatever else it reads.
  bool is_view(ValueId v) const {
    const Op& op = graph_.producer_op(v);
    return category(op) == Category::View && op.outputs.size() == 1 && op.kind != OpKind::Concat &&
           op.kind != OpKind::Pad;
  }
  bool is_weight(ValueId v) const {
    while (is_view(v)) v = graph_.producer_op(v).inputs[0];
    return graph_.producer_op(v).kind == OpKind::Constant;
  }

  /// The value with elements rounded to `to`; of that type where it `is_stored` so, else float again.
  ValueId rounded(ValueId v, DType to, bool is_stored, OpId reader) {
    const Key key{v, to, is_stored, by_reader_ ? reader : OpId{}};
    if (const auto known = rounded_.find(key); known != rounded_.end()) return known->second;
    return rounded_[key] = is_view(v) ? rounded_view(v, to, is_stored, reader) : cast(v, to, is_stored, reader);
  }

  ValueId rounded_view(ValueId v, DType to, bool is_stored, OpId reader) {
    const Op made = graph_.producer_op(v);
    std::vector<ValueId> inputs = made.inputs;
    inputs[0] = rounded(inputs[0], to, is_stored, reader);
    return Builder(module_, graph_, graph_.producer(v), made).op(made.kind, inputs, made.attrs);
  }

  /// Inserts a cast after the op that makes the value. In a pipeline, a value that no node makes is rounded in the
  /// stage that reads it.
  ValueId cast(ValueId v, DType to, bool is_stored, OpId reader) {
    const OpId made = graph_.producer(v);
    const bool is_of_reader = by_reader_ && category(graph_.op(made)) == Category::Source;
    OpId next = graph_.next(made);
    while (graph_.op(next).kind == OpKind::Input) next = graph_.next(next);
    Builder build(module_, graph_, next, Op(graph_.op(is_of_reader ? reader : made)));
    const std::string name = graph_.value(v).name;
    const ValueId narrow = build.cast(v, to);
    graph_.rename(narrow, name + "/" + dtype_name(to));
    if (is_stored) return narrow;
    const ValueId real = build.cast(narrow, DType::F32);
    graph_.rename(real, name + "/rounded");
    return real;
  }

  Module& module_;
  Graph& graph_;
  const bool by_reader_;
  using Key = std::tuple<ValueId, DType, bool, OpId>;
  std::map<Key, ValueId> rounded_;
};

/// Lowers the contractions of a graph, and of the regions inside it, that `chosen` gives a precision.
template <class Chosen>
void lower_graph(Module& module, Graph& graph, bool by_reader, const Chosen& chosen) {
  PrecisionLowerer lowerer(module, graph, by_reader);
  for (OpId id : graph.order()) {
    for (Graph& region : graph.edit(id).regions) lower_graph(module, region, by_reader, chosen);
    if (!is_contraction(graph, id)) continue;
    lowerer.read_as_stored(id);
    const DType to = chosen(graph, id);
    if (to != DType::F32) lowerer.lower(id, to);
  }
}

/// The precision of each op that a line of the schedule names; the last line that names it decides.
std::map<OpId, DType> named_precisions(const Module& module, const Env& env) {
  const Graph& graph = module.graph;
  const SelectableNames names(module, graph, env.schedule.aliases);
  std::map<OpId, DType> precisions;
  for (const PrecisionEntry& entry : env.schedule.precision) {
    if (entry.is_for_all()) continue;
    bool is_any = false, is_contraction_named = false;
    for (const Bindings& bindings : names.bindings({*entry.target}))
      for (const OpId id : names.select_ops(*entry.target, bindings)) {
        is_any = true;
        if (!is_contraction(graph, id)) continue;
        is_contraction_named = true;
        precisions[id] = entry.dtype;
      }
    if (!is_any)
      names.report_unmatched(*entry.target, env.diags);
    else if (!is_contraction_named)
      env.diags.error("precision-no-contraction", entry.target->loc, "'{}' names no product or convolution of floats",
                      printable(shown_selector(*entry.target)));
  }
  for (const auto& [id, dtype] : std::map(precisions))
    if (const ValueId again = find_again(module, graph, graph.result(id)))
      precisions.emplace(graph.producer(again), dtype);
  return precisions;
}

}  // namespace

void lower_precision(Module& module, const Env& env) {
  if (env.target.has_grid()) {
    if (env.schedule.precision.empty()) return;
    env.diags.error("precision-unsupported", env.schedule.precision.front().loc,
                    "a precision can be chosen for the host only: on a device give the model weights and activations "
                    "of that type");
    return;
  }
  const std::map<OpId, DType> named = named_precisions(module, env);
  DType of_all = DType::F32;
  for (const PrecisionEntry& entry : env.schedule.precision)
    if (entry.is_for_all()) of_all = entry.dtype;
  lower_graph(module, module.graph, env.schedule.pipeline.has_value(), [&](const Graph& graph, OpId id) {
    const auto at = &graph == &module.graph ? named.find(id) : named.end();
    return at == named.end() ? of_all : at->second;
  });
}

}  // namespace weftc
