// The rules of each form. Forms are cumulative: a Laid graph is also Decomposed and Typed. The runner calls this after
// every pass, so that a pass that breaks a rule is named at once. Rules only check and never repair.
#include "ir/verify.h"

#include <algorithm>

#include "ir/named_lengths.h"
#include "ir/op_def.h"
#include "ir/verify_rules.h"

namespace weftc {

const char* form_name(Form form) {
  static constexpr const char* kNames[] = {"imported",  "typed",          "decomposed", "laid out",
                                           "scheduled", "laid in memory", "fused"};
  return kNames[static_cast<int>(form)];
}

namespace {

class Verifier {
 public:
  Verifier(const Module& module, Form form) : module_(module), form_(form) {}
  std::vector<std::string> run();

 private:
  void graph(const Graph& graph);
  void op(const Graph& graph, OpId id);
  void links(const Graph& graph, OpId id, const std::vector<int>& position);
  void lengths(const Graph& graph, const std::vector<int>& position);
  void uses(const Graph& graph);
  void numbers(const Op& op);
  void arity(const Op& op);
  void regions(const Graph& graph, const Op& op);
  void types(const Graph& graph, const Op& op);
  void form_rules(const Graph& graph, const Op& op);
  void memory_rules(const Graph& graph, const Op& op);
  bool at_least(Form form) const { return form_ >= form; }

  const Module& module_;
  const Form form_;
  Findings findings_;
  int kernel_depth_ = 0;  // number of Fused ops around the current graph
};

std::vector<std::string> Verifier::run() {
  graph(module_.graph);
  for (const Place& place : module_.places)
    if (mesh_size(place.mesh) != place.size())
      findings_.add(format("place '{}' has {} ranks on a mesh of {}", place.name, place.size(), mesh_size(place.mesh)));
  if (!module_.graph.time_axes.empty()) findings_.add("the module's graph has axes of time");
  return findings_.take();
}

void Verifier::graph(const Graph& graph) {
  std::vector<int> position(graph.op_capacity(), -1);
  int here = 0;
  size_t live = 0;
  for (OpId id = graph.first(); id; id = graph.next(id), ++live) {
    links(graph, id, position);
    position[id.index] = here++;
  }
  if (live != graph.op_count()) findings_.add(format("{} ops are counted, {} are in order", graph.op_count(), live));
  for (const Graph::Output& out : graph.outputs())
    if (!out.value || position[graph.producer(out.value).index] < 0)
      findings_.add(format("output '{}' is no value of the graph", out.name));
  if (findings_.full()) return;
  uses(graph);
  lengths(graph, position);
  for (OpId id = graph.first(); id && !findings_.full(); id = graph.next(id)) op(graph, id);
}

/// Checks that ops come after the producers of their operands, and that values, ops and names refer to each other.
void Verifier::links(const Graph& graph, OpId id, const std::vector<int>& position) {
  const Op& op = graph.op(id);
  if (!graph.is_live(id)) findings_.add(op, "is erased but still in order");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId v = op.inputs[i];
    if (!v) continue;
    if (v.index >= graph.value_capacity())
      findings_.add(op, "operand {} is no value", i);
    else if (position[graph.producer(v).index] < 0)
      findings_.add(op, "operand {} ('{}') is not made before it", i, graph.value(v).name);
  }
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const Value& value = graph.value(op.outputs[r]);
    if (!(value.producer == id) || value.result != r) findings_.add(op, "result {} does not know its producer", r);
    if (value.name.empty()) findings_.add(op, "result {} has no name", r);
    if (!(graph.find_value(value.name) == op.outputs[r]))
      findings_.add(op, "the name of result {} is another value's", r);
  }
  if (!(graph.find_op(op.name) == id)) findings_.add(op, "its name is another op's");
}

/// Checks that every use list has exactly the operand positions that read the value.
void Verifier::uses(const Graph& graph) {
  std::vector<int> readers(graph.value_capacity(), 0);
  const auto read = [&](ValueId v) {
    if (v) ++readers[v.index];
  };
  for (OpId id = graph.first(); id; id = graph.next(id))
    for (ValueId v : graph.op(id).inputs) read(v);
  for (const Graph::Output& out : graph.outputs()) read(out.value);
  for (OpId id = graph.first(); id; id = graph.next(id))
    for (ValueId v : graph.op(id).outputs) {
      const std::vector<Use>& uses = graph.value(v).uses;
      bool right = static_cast<int>(uses.size()) == readers[v.index];
      for (const Use& use : uses) {
        const bool reads = use.op ? graph.is_live(use.op) && use.input < graph.op(use.op).inputs.size() &&
                                        graph.op(use.op).inputs[use.input] == v
                                  : use.input < graph.outputs().size() && graph.outputs()[use.input].value == v;
        right = right && reads;
      }
      if (!right) findings_.add(graph.op(id), "the use list of '{}' is wrong", graph.value(v).name);
    }
}

/// Checks that the module knows the names in run-time lengths, and that each length's holder comes before its uses.
void Verifier::lengths(const Graph& graph, const std::vector<int>& position) {
  const LengthHolders holders(graph);
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const Op& op = graph.op(id);
    for (ValueId v : op.outputs) {
      for (const Extent& extent : graph.type(v).shape)
        if (extent.bound < 0) findings_.add(op, "an extent is negative");
      for_each_name(graph.type(v).shape, [&](const std::string& name) {
        if (!module_.lengths.contains(name)) findings_.add(op, "'{}' is no length of the module", name);
      });
    }
    holders.for_each(op, [&](ValueId length) {
      if (position[graph.producer(length).index] >= position[id.index])
        findings_.add(op, "a run-time length is made after the value");
    });
  }
}

/// Checks that ids of places, blocks, origins, transforms and constants exist, and that attributes are sorted by name.
void Verifier::numbers(const Op& op) {
  if (op.place && op.place.index >= module_.places.size()) findings_.add(op, "its place does not exist");
  const size_t blocks = module_.pipeline ? module_.pipeline->blocks.size() : 0;
  if (op.block && (*op.block < 0 || static_cast<size_t>(*op.block) >= blocks))
    findings_.add(op, "its block does not exist");
  if (op.port && op.kind != OpKind::Input) findings_.add(op, "has a port and is no input");
  const bool may_be_beside = op.kind == OpKind::Fused || category(op) == Category::Collective;
  if (op.mechanism != Mechanism::Streams && op.kind != OpKind::Chunk &&
      !(may_be_beside && op.mechanism == Mechanism::Beside))
    findings_.add(op, "has a mechanism and is no chunk");
  for (OriginId origin : op.origins)
    if (origin.index >= module_.origins.size()) findings_.add(op, "an origin does not exist");
  if (op.transform && op.transform.index >= module_.transforms.size())
    findings_.add(op, "its transform does not exist");
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const auto* constant = std::get_if<ConstantId>(&op.attrs[i].value);
    if (constant && constant->index >= module_.constants.size())
      findings_.add(op, "attribute '{}' is no constant of the module", op.attrs[i].name);
    if (i && op.attrs[i - 1].name >= op.attrs[i].name) findings_.add(op, "the attributes are not sorted");
  }
}

/// Checks the numbers of operands and results against the record, and from Typed on its required attributes.
void Verifier::arity(const Op& op) {
  const OpDef& def = op_def(op);
  const auto outside = [](const Arity& arity, size_t count) {
    return static_cast<int>(count) < arity.min || (arity.max >= 0 && static_cast<int>(count) > arity.max);
  };
  if (outside(def.inputs, op.inputs.size())) findings_.add(op, "has {} operands", op.inputs.size());
  if (outside(def.outputs, op.outputs.size())) findings_.add(op, "has {} results", op.outputs.size());
  if (!at_least(Form::Typed)) return;
  for (const AttrSpec& spec : def.attrs)
    if (spec.required && !op.has(spec.name)) findings_.add(op, "lacks attribute '{}'", spec.name);
}

size_t region_count(const Op& op) { return category(op) != Category::Region ? 0 : op.kind == OpKind::If ? 2 : 1; }

/// Checks that a region has a parameter for each operand (If: except the condition) and an output for each result
/// (Loop: and the condition). A Chunk's region has one more axis of time.
void Verifier::regions(const Graph& graph, const Op& op) {
  if (op.regions.size() != region_count(op)) return findings_.add(op, "has {} regions", op.regions.size());
  for (const Graph& region : op.regions) {
    const size_t skipped = op.kind == OpKind::If ? 1 : 0;
    const size_t given = op.inputs.size() - skipped;
    if (region.inputs().size() != given)
      findings_.add(op, "a region has {} parameters for {} operands", region.inputs().size(), given);
    const size_t results = op.outputs.size() + (op.kind == OpKind::Loop ? 1 : 0);
    if (region.outputs().size() != results)
      findings_.add(op, "a region has {} outputs for {}", region.outputs().size(), results);
    Mesh time = graph.time_axes;
    if (op.kind == OpKind::Chunk && !region.time_axes.empty()) time.push_back(region.time_axes.back());
    if (region.time_axes != time || (op.kind == OpKind::Chunk && time == graph.time_axes))
      findings_.add(op, "a region's axes of time are not those of the graph around it");
    if (op.kind == OpKind::Chunk && region.time_axes.back().size != op.integer_or("chunks", 0))
      findings_.add(op, "its axis of time does not have {} chunks", op.integer_or("chunks", 0));
    kernel_depth_ += op.kind == OpKind::Fused;
    this->graph(region);
    kernel_depth_ -= op.kind == OpKind::Fused;
  }
}

/// Compares dtypes and bounds; verify_layout compares layouts.
bool same_extents(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.ndim() != b.ndim()) return false;
  for (int d = 0; d < a.ndim(); ++d)
    // The bound of a run-time length may be tighter than the rule's (a state's).
    if (a.shape[d].bound != b.shape[d].bound && !a.shape[d].is_run_time() && !b.shape[d].is_run_time()) return false;
  return true;
}

/// A value inside a region must have the type of the matching value outside.
void check_pair(const Graph& a, ValueId x, const Graph& b, ValueId y, const Op& op, const char* what,
                Findings& findings) {
  if (!same_extents(a.type(x), b.type(y)))
    findings.add(op, "{} '{}' has another type in the region", what, a.value(x).name);
}

/// Parameters and outputs of a region have the types of the values that they stand for.
void check_region_types(const Graph& graph, const Op& op, Findings& findings) {
  for (const Graph& region : op.regions) {
    const size_t skipped = op.kind == OpKind::If ? 1 : 0;
    for (size_t i = op.kind == OpKind::Loop ? 2 : skipped; i < op.inputs.size(); ++i)
      if (op.inputs[i]) check_pair(graph, op.inputs[i], region, region.inputs()[i - skipped], op, "operand", findings);
    const size_t first = op.kind == OpKind::Loop ? 1 : 0;
    const auto carried = static_cast<size_t>(op.integer_or("carried", 0));
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      if (op.kind == OpKind::Loop && r >= carried) continue;  // scans have one more dimension
      check_pair(graph, op.outputs[r], region, region.outputs()[first + r].value, op, "result", findings);
    }
  }
}

/// Checks that inferring again gives the same types.
void Verifier::types(const Graph& graph, const Op& op) {
  if (category(op) == Category::Region) return check_region_types(graph, op, findings_);
  const OpDef& def = op_def(op);
  if (!def.infer || op.kind == OpKind::Input) return;
  std::vector<TensorType> results;
  Diags diags;
  if (!def.infer(OpView(module_, graph, op, &diags), results)) {
    return findings_.add(op, "is not typed: {}", diags.all().empty() ? "infer fails" : diags.all()[0].message);
  }
  for (size_t r = 0; r < op.outputs.size(); ++r)
    if (r >= results.size() || !same_extents(graph.type(op.outputs[r]), results[r]))
      findings_.add(op, "result {} has type {}, its operands give {}", r, type_text(graph.type(op.outputs[r]), {}),
                    r < results.size() ? type_text(results[r], {}) : "none");
}

/// True for ops outside of kernels, which compute nothing.
bool is_no_kernel(const Op& op) {
  switch (op.kind) {
    case OpKind::Input:
    case OpKind::Constant:
    case OpKind::Reshape:
      return true;  // the same memory
    default:
      return category(op) == Category::Region || category(op) == Category::Collective;
  }
}

void Verifier::form_rules(const Graph& graph, const Op& op) {
  const size_t before = findings_.count();
  if (at_least(Form::Typed)) types(graph, op);
  if (form_ == Form::Decomposed && decomposes(OpView(module_, graph, op))) findings_.add(op, "is not decomposed");
  if (at_least(Form::Decomposed) && category(op) == Category::Composite) findings_.add(op, "is composite");
  if (!at_least(Form::Scheduled) && (op.kind == OpKind::Chunk || op.kind == OpKind::Fused))
    findings_.add(op, "stands in a graph that is not scheduled");
  const bool in_kernel = kernel_depth_ > 0;
  if (in_kernel && category(op) == Category::Region && op.kind != OpKind::Loop)
    findings_.add(op, "a region other than a loop stands in a kernel");
  if (form_ == Form::Fused && !in_kernel && !is_no_kernel(op)) findings_.add(op, "stands in no kernel");
  if (at_least(Form::Stored) && !in_kernel) memory_rules(graph, op);
  if (!at_least(Form::Laid) || findings_.count() != before) return;
  if (category(op) == Category::Region)
    verify_region_layout(module_, graph, op, findings_);
  else
    verify_layout(module_, graph, op, findings_);
}

void Verifier::memory_rules(const Graph& graph, const Op& op) {
  verify_memory(graph, op, findings_);
  if (op.kind == OpKind::Fused) return;
  for (const Graph& region : op.regions) verify_region_memory(region, op, findings_);
}

void Verifier::op(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const size_t before = findings_.count();
  numbers(op);
  arity(op);
  regions(graph, op);
  // The rules rely on a correct structure.
  if (findings_.count() == before) form_rules(graph, op);
}

}  // namespace

std::vector<std::string> verify(const Module& module, Form form) { return Verifier(module, form).run(); }

}  // namespace weftc
