// Unrolls the trips of a Loop, as long as its condition is known to hold:
//
//   %t = Loop(2, , %s) { %i, %c, %s -> %c, SequenceInsert(%s, Slice(%x, 0, %i)) }
//   ->   %1 = SequenceInsert(%s, Slice(%x, 0, 0)),  %t = SequenceInsert(%1, Slice(%x, 0, 1))
#include "passes/prepare/unroll_loop.h"

#include <algorithm>

#include "ir/builder.h"

namespace weftc {

bool draws(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](OpId id) {
    const Op& op = graph.op(id);
    const bool is_drawing = std::ranges::any_of(
        op_def(op).attrs, [](const AttrSpec& spec) { return std::string_view(spec.name) == "node"; });
    const bool drops = op.kind == OpKind::Dropout && (op.inputs.size() > 2 || int_of(op, "training_mode"));
    return is_drawing || drops || std::ranges::any_of(op.regions, draws);
  });
}

namespace {

// A loop beyond it, or a graph, compiles no longer in reasonable time.
constexpr int64_t kMostOps = 1 << 12, kLargestGraph = 1 << 16;

size_t carried_count(const Op& op) { return static_cast<size_t>(int_of(op, "carried")); }

/// The one element of a constant.
std::optional<int64_t> known(const Module& module, const Graph& graph, ValueId value) {
  const Op& producer = graph.producer_op(value);
  if (producer.kind != OpKind::Constant) return {};
  const Constant& constant = module.constants[producer.constant("value")];
  if (element_count(constant.dims) != 1) return {};
  return module.constants.tensor(producer.constant("value")).int_at(0);
}

class Unrolling {
 public:
  Unrolling(const TypedGraph& in, OpId id) : in_(in), id_(id), loop_(in.graph.op(id)) {}
  bool run();

 private:
  bool fail(const char* what) const {
    return OpView(in_.module, in_.graph, loop_, &in_.diags)
        .fail("loop-unroll-runtime-unsupported",
              "the values that the loop carries change their types, so that its trips must be written out, but {}",
              what);
  }
  bool read_operands();
  bool trip(int64_t number);
  ValueId add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs);
  ValueId constant(DType dtype, int64_t value);
  std::optional<ValueId> collected(size_t output);

  const TypedGraph& in_;
  OpId id_;
  Op loop_;  // a copy: ops move
  std::optional<int64_t> trips_;
  bool goes_on_ = true;
  std::vector<ValueId> carried_;
  std::vector<std::vector<ValueId>> rows_;  // of each output that collects an element a trip
};

bool Unrolling::read_operands() {
  if (draws(loop_.regions[0])) return fail("they draw random numbers");
  if (loop_.inputs[0]) {
    trips_ = known(in_.module, in_.graph, loop_.inputs[0]);
    if (!trips_) return fail("how many there are is computed at run time");
  }
  if (loop_.inputs[1]) {
    const std::optional<int64_t> condition = known(in_.module, in_.graph, loop_.inputs[1]);
    if (!condition) return fail("whether there is one is computed at run time");
    goes_on_ = *condition;
  }
  const size_t carried = carried_count(loop_);
  carried_.assign(loop_.inputs.begin() + 2, loop_.inputs.begin() + 2 + static_cast<long>(carried));
  for (ValueId& value : carried_) {
    if (value) continue;
    value = add(OpKind::Optional, {}, {});
    in_.values[value] = Unfolded::nothing();
  }
  rows_.resize(loop_.outputs.size() - carried);
  return true;
}

ValueId Unrolling::add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs) {
  NewOp made = copy_of(loop_);
  made.kind = kind;
  made.inputs = std::move(inputs);
  made.results.resize(1);
  made.attrs = std::move(attrs);
  made.name = loop_.name + "/" + op_def(kind).name;
  return in_.graph.result(in_.graph.add(std::move(made), id_));
}

ValueId Unrolling::constant(DType dtype, int64_t value) {
  const Tensor tensor = Tensor::scalar(dtype, static_cast<double>(value));
  return add(OpKind::Constant, {}, {{"value", in_.module.constants.add(loop_.name + "/Constant", tensor)}});
}

/// Writes one trip and types it, because the next one needs the types of carried values, and the condition.
bool Unrolling::trip(int64_t number) {
  Graph& graph = in_.graph;
  std::vector<ValueId> arguments = {constant(DType::I64, number), constant(DType::Bool, 1)};
  const OpId first = graph.producer(arguments[0]);
  arguments.insert(arguments.end(), carried_.begin(), carried_.end());
  arguments.insert(arguments.end(), loop_.inputs.begin() + 2 + static_cast<long>(carried_.size()), loop_.inputs.end());
  std::vector<ValueId> results = inline_region(graph, loop_.regions[0], arguments, id_);
  if (!type_values(in_, first, id_, results)) return false;
  const std::optional<int64_t> condition = known(in_.module, graph, results[0]);
  const bool is_last = trips_ && number + 1 == *trips_;
  if (!condition && !is_last) return fail("whether there is another one is computed at run time");
  goes_on_ = condition.value_or(0);
  for (size_t i = 0; i < carried_.size(); ++i) carried_[i] = results[1 + i];
  for (size_t r = 0; r < rows_.size(); ++r) rows_[r].push_back(results[1 + carried_.size() + r]);
  return true;
}

/// The elements that an output collected, one a trip, along a new first dimension.
std::optional<ValueId> Unrolling::collected(size_t output) {
  if (rows_[output].empty()) return fail("there is none, and an output collects an element of each"), std::nullopt;
  std::vector<ValueId> rows;
  for (const ValueId row : rows_[output])
    rows.push_back(add(OpKind::Unsqueeze, {row}, {{"axes", std::vector<int64_t>{0}}}));
  const OpId first = in_.graph.producer(rows[0]);
  std::vector<ValueId> all = {add(OpKind::Concat, rows, {{"axis", int64_t{0}}})};
  if (!type_values(in_, first, id_, all)) return {};
  return all[0];
}

bool Unrolling::run() {
  if (!read_operands()) return false;
  const int64_t ops = std::max<int64_t>(static_cast<int64_t>(loop_.regions[0].op_count()), 1);
  for (int64_t number = 0; goes_on_ && (!trips_ || number < *trips_); ++number) {
    if (number * ops > kMostOps || static_cast<int64_t>(in_.graph.op_count()) > kLargestGraph)
      return fail("they make too large a graph");
    if (!trip(number)) return false;
  }
  std::vector<ValueId> results = carried_;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const std::optional<ValueId> all = collected(r);
    if (!all) return false;
    results.push_back(*all);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const std::string name = in_.graph.value(loop_.outputs[r]).name;
    in_.graph.replace_uses(loop_.outputs[r], results[r]);
    if (std::ranges::find(loop_.inputs, results[r]) != loop_.inputs.end()) continue;
    in_.graph.rename(loop_.outputs[r], name + "/loop");
    in_.graph.rename(results[r], name);
  }
  in_.graph.erase(id_);
  return true;
}

}  // namespace

bool carries_unfolded(const Graph& graph, const UnfoldedValues& values, OpId id) {
  const Op& op = graph.op(id);
  for (size_t i = 0; i < carried_count(op); ++i)
    if (!op.inputs[2 + i] || values.contains(op.inputs[2 + i])) return true;
  return false;
}

bool may_unroll(const Module& module, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const std::optional<int64_t> trips = op.inputs[0] ? known(module, graph, op.inputs[0]) : std::nullopt;
  if (!trips || *trips < 1) return false;
  const int64_t ops = static_cast<int64_t>(op.regions[0].op_count());
  return *trips <= kMostOps / std::max<int64_t>(ops, 1) && !draws(op.regions[0]);
}

bool unroll_loop(const TypedGraph& in, OpId id) { return Unrolling(in, id).run(); }

}  // namespace weftc
