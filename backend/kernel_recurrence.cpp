// A loop over steps inside one kernel. Each element goes through all steps, and its carried values are variables. On
// the host several elements are computed together: a variable is then an array with one entry for each, and the loops
// over them vectorise.
//
//   team.parallel(.., [=](int64_t begin, int64_t end) {            a device: a thread for each element
//     for (int64_t block = begin; block < end; ++block) {
//       float x[32];                                               float x = x0[i];
//       for (lane) x[lane] = x0[block * 32 + lane];
//       for (int64_t step = 0; step < 200; ++step)                 for (int64_t step = 0; step < 200; ++step) {
//         for (lane) {                                               const float x_now = x;
//           const float x_now = x[lane];                             x = x_now + dt * a[step * 1024 + i];
//           x[lane] = x_now + dt * a[step * 1024 + block * 32 + lane];
//         }                                                        }
//       for (lane) y[block * 32 + lane] = x[lane];                 y[i] = x;
//
// Elements writes the body as in any kernel. For that, the loop and the ops around it become one graph. The number of
// the step and the carried values are inputs of it that are never loaded.
#include <map>
#include <optional>
#include <set>

#include "backend/element.h"
#include "backend/kernel_text.h"
#include "backend/outer_loops.h"
#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The body of the kernel without its loop. Its outputs are the values after a step: carried ones, then collected ones,
/// in the order of the loop's results.
struct FlatBody {
  Kernel kernel;
  ValueId trips, step;
  std::vector<ValueId> initial, carried;  // values before the loop; values before a step

  ValueId next(size_t result) const { return kernel.body.outputs()[result].value; }
};

/// Writes the flat body of one kernel.
class BodyFlattener {
 public:
  explicit BodyFlattener(const Kernel& kernel) : old_(kernel) { flat_.kernel = kernel; }

  FlatBody run() {
    graph() = Graph();
    const size_t inputs = old_.body.inputs().size();
    flat_.kernel.parameters.resize(inputs);
    for (OpId id : old_.body.order())
      if (old_.body.op(id).kind != OpKind::Loop) copy(old_.body.op(id));
    for (OpId id : old_.body.order())
      if (old_.body.op(id).kind == OpKind::Loop) flatten(old_.body.op(id));
    for (size_t p = inputs; p < old_.parameters.size(); ++p) flat_.kernel.parameters.push_back(old_.parameters[p]);
    return std::move(flat_);
  }

 private:
  Graph& graph() { return flat_.kernel.body; }

  /// Copies an op from before the loop.
  void copy(const Op& op) {
    NewOp made = copy_of(op);
    for (ValueId v : op.inputs) made.inputs.push_back(v ? now_.at(v) : ValueId{});
    for (ValueId v : op.outputs) {
      made.results.push_back(old_.body.type(v));
      made.result_names.push_back(old_.body.value(v).name);
    }
    const OpId fresh = graph().add(std::move(made));
    for (size_t r = 0; r < op.outputs.size(); ++r) now_[op.outputs[r]] = graph().op(fresh).outputs[r];
  }

  /// An input for a parameter of the loop's body; it is never loaded.
  ValueId add_variable(const Graph& region, ValueId parameter) {
    NewOp made = copy_of(region.producer_op(parameter));
    made.results = {region.type(parameter)};
    made.result_names = {region.value(parameter).name};
    flat_.kernel.parameters.push_back({"never loaded", region.type(parameter), {}, false, false, {}});
    return graph().result(graph().add(std::move(made)));
  }

  void flatten(const Op& loop) {
    const Graph& region = loop.regions[0];
    const size_t carried = static_cast<size_t>(loop.integer("carried"));
    WEFT_CHECK(old_.body.outputs().size() == loop.outputs.size(), "a recurrence has the results of its loop");
    flat_.trips = now_.at(loop.inputs[0]);
    flat_.step = add_variable(region, region.inputs()[0]);
    std::vector<ValueId> arguments = {flat_.step, add_variable(region, region.inputs()[1])};
    for (size_t i = 2; i < loop.inputs.size(); ++i) {
      const ValueId operand = now_.at(loop.inputs[i]);
      if (i >= 2 + carried) {
        arguments.push_back(operand);
        continue;
      }
      flat_.initial.push_back(operand);
      flat_.carried.push_back(add_variable(region, region.inputs()[i]));
      arguments.push_back(flat_.carried.back());
    }
    const std::vector<ValueId> results = inline_region(graph(), region, arguments);
    for (size_t r = 1; r < results.size(); ++r) graph().add_output(results[r], region.outputs()[r].name);
  }

  const Kernel& old_;
  FlatBody flat_;
  std::map<ValueId, ValueId> now_;
};

/// Writes the nest: blocks of lanes (on a device: elements), the steps, and the lanes.
class RecurrenceWriter {
 public:
  RecurrenceWriter(KernelContext& context, const FlatBody& flat, Elements& elements, Cuts& cuts, int64_t lanes)
      : context_(context),
        flat_(flat),
        elements_(elements),
        cuts_(cuts),
        dims_(context.dims(flat.next(0))),
        count_(element_count(dims_)),
        lanes_(std::min(lanes, std::max<int64_t>(1, count_))) {}

  void run() {
    if (context_.facts().has_grid) elements_.scopes.lanes = Lanes::Thread;
    OuterLoops outer;
    const std::optional<int64_t> trips = known_trips();
    outer.axes = {{"i", (count_ + lanes_ - 1) / lanes_}};
    outer.work = lanes_ * trips.value_or(1);
    OpenOuter open = open_outer(elements_.scopes, outer, cuts_, context_);
    block_ = open.index[0];
    Scope& element = open.inner();
    declare_variables(element);
    if (lanes_ > 1) hide_constants(element);
    on_lanes(element, [&](const IndexList& index) { start(index); });
    write_steps(element, trips);
    on_lanes(element, [&](const IndexList& index) { finish(index); });
    close_outer(elements_.scopes, open);
  }

 private:
  std::optional<int64_t> known_trips() const {
    const Op& op = flat_.kernel.body.producer_op(flat_.trips);
    if (op.kind != OpKind::Constant) return {};
    return context_.plan.constants->tensor(op.constant("value")).int_at(0);
  }

  void declare_variables(Scope& scope) {
    for (ValueId v : flat_.carried) variables_.push_back(declare_variable(scope, v));
    if (lanes_ == 1) return;
    for (ValueId v : context_.body.inputs()) {
      const bool is_read = !context_.body.value(v).uses.empty() && context_.dims(v) == dims_;
      if (!is_read || contains(flat_.carried, v)) continue;
      kept_.push_back(v), kept_variables_.push_back(declare_variable(scope, v));
    }
    declare_bytes(scope);
  }

  /// A loop that stores bytes takes as many lanes at once as a vector has bytes. The many values of a long step then do
  /// not fit into registers: bytes that it collects are stored by a separate loop.
  void declare_bytes(Scope& scope) {
    constexpr size_t kLongStep = 100;
    if (context_.body.order().size() < kLongStep) return;
    for (size_t r = flat_.carried.size(); r < context_.body.outputs().size(); ++r) {
      const DType dtype = context_.body.type(flat_.next(r)).dtype;
      if (dtype != DType::Bool && dtype != DType::I8 && dtype != DType::U8) continue;
      const std::string variable = elements_.scopes.names.unique(last_component(context_.body.outputs()[r].name));
      scope.put(LocalArray{"int32_t", variable, lanes_, true});
      bytes_[r] = variable;
    }
  }

  std::string declare_variable(Scope& scope, ValueId v) {
    const std::string type = compute_type(context_.body.type(v).dtype);
    const std::string variable = elements_.scopes.names.unique(last_component(context_.body.value(v).name));
    if (lanes_ > 1)
      scope.put(LocalArray{type, variable, lanes_, true});
    else
      scope.put(Let{type, variable, {}, true});
    return variable;
  }

  /// Hides constants that a Max, Min or Where may choose in variables whose value g++ does not know. Otherwise it makes
  /// a branch for each of them through the comparisons that follow, and the loop over the lanes does not vectorise.
  void hide_constants(Scope& scope) {
    std::set<ValueId> hidden;
    for (OpId id : context_.body.order()) {
      const Op& op = context_.body.op(id);
      if (op.kind != OpKind::Max && op.kind != OpKind::Min && op.kind != OpKind::Where) continue;
      for (ValueId v : op.inputs) {
        const TensorType& type = context_.body.type(v);
        const bool is_number = context_.body.producer_op(v).kind == OpKind::Constant && is_float(type.dtype);
        if (!is_number || element_count(context_.dims(v)) != 1 || !hidden.insert(v).second) continue;
        const IndexList index(context_.dims(v).size());
        const std::string variable = elements_.scopes.names.unique("number");
        scope.put(Let{compute_type(type.dtype), variable, call("weft::opaque", {elements_.at(v, index).expr})});
        elements_.bind(v, index, name(variable), &scope);
      }
    }
  }

  /// A variable of the current lane.
  Expr of_lane(const std::string& variable) const {
    return lanes_ > 1 ? element(variable, Expr(lane_)) : name(variable);
  }
  Expr variable(size_t carried) const { return of_lane(variables_[carried]); }

  /// Writes statements for one element, in a loop over the lanes if there are several.
  template <class Body>
  void on_lanes(Scope& under, Body&& body) {
    LoopScopes& scopes = elements_.scopes;
    if (lanes_ == 1) {
      scopes.current = &under;
      lane_ = 0;
      body(unravel(block_, dims_));
      return;
    }
    const bool is_cut = count_ % lanes_ != 0;
    const Expr bound =
        is_cut ? call("std::min<int64_t>", {lanes_, binary(count_, "-", Expr(block_ * lanes_))}) : Expr();
    LoopScopes::Open lanes =
        scopes.open(&under, scopes.fresh_axis("lane", lanes_, bound, &under), {.kind = LoopKind::Vector});
    lane_ = lanes.index;
    body(unravel(element_of_lane(lanes.inner(), is_cut), dims_));
    scopes.close(lanes);
  }

  /// The number of the lane's element. If the last block has fewer lanes, it is a variable, which is known to be below
  /// the number of all elements.
  IndexExpr element_of_lane(Scope& scope, bool is_cut) {
    const IndexExpr element = block_ * lanes_ + lane_;
    if (!is_cut) return element;
    const std::string variable = elements_.scopes.names.unique("element");
    scope.put(Let{"int64_t", variable, element});
    elements_.scopes.own(variable, &scope);
    return index_variable(variable, 0, count_ - 1);
  }

  void start(const IndexList& index) {
    for (size_t i = 0; i < flat_.initial.size(); ++i) {
      const Element first = elements_.at(flat_.initial[i], broadcast_index(index, context_.dims(flat_.initial[i])));
      elements_.scopes.current->put(Store{variable(i), first.expr});
    }
    for (size_t i = 0; i < kept_.size(); ++i)
      elements_.scopes.current->put(Store{of_lane(kept_variables_[i]), elements_.at(kept_[i], index).expr});
  }

  void write_steps(Scope& under, const std::optional<int64_t>& trips) {
    LoopScopes& scopes = elements_.scopes;
    Expr bound;
    if (!trips) bound = elements_.at(flat_.trips, IndexList(context_.dims(flat_.trips).size())).expr;
    scopes.current = &under;
    LoopScopes::Open steps =
        scopes.open(&under, scopes.fresh_axis("step", trips.value_or(int64_t{1} << 40), bound, &under));
    elements_.bind(flat_.step, {}, Expr(steps.index), &steps.inner());
    on_lanes(steps.inner(), [&](const IndexList& index) { step(index, steps.index); });
    if (!bytes_.empty())
      on_lanes(steps.inner(), [&](const IndexList& index) {
        for (const auto& [r, variable] : bytes_)
          elements_.store(r, row_of_step(index, steps.index), {of_lane(variable), scopes.current});
      });
    scopes.close(steps);
  }

  /// One step of one element: computes all next values before any of them replaces the old one.
  void step(const IndexList& index, const IndexExpr& number) {
    Scope& scope = *elements_.scopes.current;
    for (size_t i = 0; i < kept_.size(); ++i) elements_.bind(kept_[i], index, of_lane(kept_variables_[i]), &scope);
    for (size_t i = 0; i < flat_.carried.size(); ++i) {
      const ValueId v = flat_.carried[i];
      const Element now = elements_.named(v, {variable(i), &scope});
      elements_.bind(v, index, now.expr, &scope);
    }
    std::vector<Element> next;
    for (size_t r = 0; r < context_.body.outputs().size(); ++r)
      next.push_back(elements_.at(flat_.next(r), broadcast_index(index, context_.dims(flat_.next(r)))));
    for (size_t r = 0; r < next.size(); ++r) {
      if (r < flat_.carried.size()) {
        scope.put(Store{variable(r), next[r].expr});
        continue;
      }
      if (const auto bytes = bytes_.find(r); bytes != bytes_.end())
        scope.put(Store{of_lane(bytes->second), next[r].expr});
      else
        elements_.store(r, row_of_step(index, number), next[r]);
    }
  }

  static IndexList row_of_step(IndexList index, const IndexExpr& number) {
    index.insert(index.begin(), number);
    return index;
  }

  void finish(const IndexList& index) {
    for (size_t i = 0; i < flat_.carried.size(); ++i)
      elements_.store(i, index, {variable(i), elements_.scopes.current});
  }

  KernelContext& context_;
  const FlatBody& flat_;
  Elements& elements_;
  Cuts& cuts_;
  const Dims dims_;
  const int64_t count_, lanes_;
  IndexExpr block_, lane_;
  std::vector<std::string> variables_;
  // Values that steps read and that stay constant. They are loaded once. A load in a branch that only some lanes take
  // would keep the loop over the lanes from vectorising.
  std::vector<ValueId> kept_;
  std::vector<std::string> kept_variables_;
  std::map<size_t, std::string> bytes_;  // by result: bytes that a step collects, until they are stored
};

}  // namespace

Statements write_body(KernelContext& context, const Recurrence& strategy, Writer<Recurrence>) {
  const FlatBody flat = BodyFlattener(context.kernel).run();
  Diags diags;
  KernelContext inner(context.plan, flat.kernel, diags);
  Statements nest = build_nest(inner, [&](Elements& elements, Cuts& cuts) {
    RecurrenceWriter(inner, flat, elements, cuts, strategy.lanes).run();
  });
  if (inner.failed()) context.refuse("kernel-op-unsupported", context.body.op(context.body.first()), diags.text());
  for (const Argument& argument : inner.arguments()) context.need(argument);
  context.cover(inner.blocks(), inner.threads());
  return nest;
}

}  // namespace weftc
