// The parts take over the names of the op's results, and the names that selectors know of constants folded into it.
#include "passes/prepare/replace_by_parts.h"

#include "ir/base/check.h"
#include "ir/builder.h"

namespace weftc {

namespace {
/// The value that replaces a result takes over its name, so that schedules and outputs still find it.
void take_name(Graph& graph, ValueId result, ValueId replacement, OpId first_new) {
  const std::string name = graph.value(result).name;
  graph.rename(result, name + "/whole");
  // An operand handed through keeps its own name.
  const bool made_here = graph.producer(replacement).index >= first_new.index;
  if (made_here) graph.rename(replacement, name);
}

/// A part without a length that its op has would be written as long as its bound.
void check_lengths(const Graph& graph, ValueId result, ValueId part, const char* op) {
  const Shape &wanted = graph.type(result).shape, &made = graph.type(part).shape;
  for (size_t d = 0; d < wanted.size(); ++d)
    WEFT_CHECK(d >= made.size() || made[d].is_run_time() || !wanted[d].is_run_time(),
               format("a part of {} has shape {} for {}", op, shape_text(made), shape_text(wanted)));
}

}  // namespace

std::vector<ValueId> replace_by_parts(Module& module, Graph& graph, OpId id, Diags& diags, const ShapeValues* shapes) {
  const OpId first_new{static_cast<uint32_t>(graph.op_capacity())};
  const std::vector<ValueId> made = decompose_op(module, graph, id, &diags, shapes);
  if (made.empty()) return {};
  const std::vector<ValueId> results = graph.op(id).outputs;
  // An operand that was read here, at compile time, is told apart from one that nothing ever read.
  for (ValueId v : graph.op(id).inputs)
    if (v && graph.value(v).uses.size() == 1) module.note_folded(graph, v, graph.op(id).name);
  for (size_t r = 0; r < results.size(); ++r) {
    if (r >= made.size() || !made[r]) {
      if (graph.value(results[r]).uses.empty()) continue;
      diags.error("output-unsupported", module.loc(graph.op(id)), "output {} of {} is not supported", r,
                  op_def(graph.op(id)).name);
      return {};
    }
    check_lengths(graph, results[r], made[r], op_def(graph.op(id)).name);
    take_name(graph, results[r], made[r], first_new);
    graph.replace_uses(results[r], made[r]);
  }
  graph.erase(id);
  return made;
}

}  // namespace weftc
