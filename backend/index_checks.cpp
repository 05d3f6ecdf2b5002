// A loop nest for each op whose indices may be outside. It uses the same means as strategies: elements, and the outer
// loops shared by a team or a grid.
#include "backend/index_checks.h"

#include <algorithm>

#include "backend/element.h"
#include "backend/outer_loops.h"
#include "ir/looked_up_dims.h"
#include "ir/op_def.h"

namespace weftc {

Expr whole_extent(KernelContext& context, const TensorType& type, int dim) {
  const Extent& extent = type.shape[static_cast<size_t>(dim)];
  const TensorType whole{type.dtype, type.shape, {}};
  return extent.is_run_time() ? run_bound(context, whole, static_cast<size_t>(dim)) : Expr(extent.bound);
}

namespace {

/// The value that has exactly the elements of a given value.
ValueId origin_of(const Graph& body, ValueId value) {
  while (true) {
    const Op& op = body.producer_op(value);
    const bool moves = op.kind == OpKind::Reshape || op.kind == OpKind::Transpose || op.kind == OpKind::Expand;
    const bool widens = op.kind == OpKind::Cast && is_integer(body.type(op.inputs[0]).dtype);
    if (!moves && !widens) return value;
    value = op.inputs[0];
  }
}

bool has_constant_indices(const KernelContext& context, const Op& op) {
  const ValueId origin = origin_of(context.body, op.inputs[1]);
  const OpKind maker = context.body.producer_op(origin).kind;
  return maker == OpKind::Constant ||
         (maker == OpKind::Input && context.kernel.parameters[context.input_parameter(origin)].weight);
}

/// Whether an op's indices are known to be inside: indices that the compiler made, and constants, which it has compared
/// with their dimensions.
bool lie_inside(const KernelContext& context, const Op& op) {
  return op.integer_or("inside", 0) || has_constant_indices(context, op);
}

/// Indices that have been compared with the length of a dimension; by number if an entry has several.
struct ComparedIndices {
  ValueId indices;
  int number;
  Length extent;
  bool is_from_front;  // with 0 as well: negative ones do not count from the end

  bool imply(const ComparedIndices& other) const {
    return indices == other.indices && number == other.number && (other.extent - extent).low() >= 0 &&
           (is_from_front || !other.is_from_front);
  }
};

/// Writes the loops over the indices of one op, one nest for each dimension that they address.
class CheckWriter {
 public:
  CheckWriter(KernelContext& context, OpId id, const LookedUpDims& dims)
      : context_(context),
        op_(context.body.op(id)),
        dims_(dims),
        data_(context.body.type(op_.inputs[0])),
        indices_(context.body.type(op_.inputs[1])),
        check_{Argument::Kind::Indices, static_cast<int>(id.index)} {}

  /// `known`: comparisons made before this op.
  Statements run(std::vector<ComparedIndices>& known) {
    const ValueId indices = dims_.has_tuples ? op_.inputs[1] : origin_of(context_.body, op_.inputs[1]);
    std::vector<int> numbers;
    for (int i = 0; i < dims_.count; ++i) {
      const Extent& extent = data_.shape[static_cast<size_t>(dims_.first) + static_cast<size_t>(i)];
      const ComparedIndices own{indices, i, length_of(extent), is_from_front()};
      if (std::any_of(known.begin(), known.end(), [&](const ComparedIndices& k) { return k.imply(own); })) continue;
      known.push_back(own);
      numbers.push_back(i);
    }
    if (numbers.empty()) return {};
    context_.need(check_);
    return build_nest(context_, [&](Elements& elements, Cuts& cuts) { check(elements, cuts, numbers); });
  }

 private:
  /// The nest over the indices that compares those with these numbers.
  void check(Elements& elements, Cuts& cuts, const std::vector<int>& numbers) {
    LoopScopes& scopes = elements.scopes;
    if (context_.facts().has_grid) scopes.lanes = Lanes::Thread;
    OpenOuter open = open_outer(scopes, loops(), cuts, context_);
    Statements demands;
    for (const int i : numbers) {
      const std::string range =
          scopes.names.unique(std::string(last_component(context_.body.value(op_.inputs[1]).name)) + "_range");
      // Each thread of a team has a range of its own, inside the lambda.
      scopes.floor->put(Let{"weft::IndexRange", range, {}, true});
      const Element index = elements.at(op_.inputs[1], index_of(open, i));
      scopes.current->put(Call{call(range + ".add", {index.expr})});
      const Expr extent = whole_extent(context_, data_, dims_.first + i);
      const std::string demand = is_from_front() ? ".demand_from_front" : ".demand";
      demands.push_back(Call{call(context_.argument_name(check_) + demand, {name(range), extent})});
    }
    put_after_loops(scopes, open, std::move(demands));
    close_outer(scopes, open);
  }

  bool is_from_front() const { return op_.integer_or("from_front", 0) != 0; }

  /// Dimensions of the loops: all, except the dimension of the tuples.
  size_t loop_dims() const { return indices_.shape.size() - (dims_.has_tuples ? 1 : 0); }
  /// Dimensions with static extents that are equal on all ranks become one loop.
  bool has_one_loop() const {
    for (size_t d = 0; d < loop_dims(); ++d)
      if (context_.run_extent_of(indices_, static_cast<int>(d))) return false;
    return true;
  }
  Dims loop_extents() const {
    Dims dims = context_.dims(indices_);
    dims.resize(loop_dims());
    return dims;
  }

  std::string axis_name(const std::string& wanted) const {
    return context_.names.has(wanted) ? wanted + "_at" : wanted;
  }

  OuterLoops loops() {
    OuterLoops outer;
    const Dims dims = loop_extents();
    if (has_one_loop()) {
      outer.axes = {{axis_name("i"), element_count(dims)}};
      return outer;
    }
    for (size_t d = 0; d < dims.size(); ++d)
      outer.axes.push_back({axis_name("i" + std::to_string(d)), dims[d], run_bound(context_, indices_, d),
                            run_scale(context_, indices_, d)});
    return outer;
  }

  /// The position of the index with that number in an entry.
  IndexList index_of(const OpenOuter& open, int number) const {
    IndexList index = has_one_loop() ? unravel(open.index[0], loop_extents()) : open.index;
    if (dims_.has_tuples) index.push_back(number);
    return index;
  }

  static void put_after_loops(LoopScopes& scopes, OpenOuter& open, Statements statements) {
    const auto outermost = std::find_if(open.scopes.begin(), open.scopes.end(),
                                        [&](const auto& scope) { return scope->parent == scopes.floor; });
    for (Statement& statement : statements) {
      if (outermost == open.scopes.end())
        scopes.floor->put(std::move(statement));
      else
        (*outermost)->put_after(std::move(statement));
    }
  }

  KernelContext& context_;
  const Op& op_;
  const LookedUpDims dims_;
  const TensorType &data_, &indices_;
  const Argument check_;
};

}  // namespace

bool are_positions(const KernelContext& context, const Op& op) {
  return op.integer_or("inside", 0) && has_constant_indices(context, op);
}

Statements index_checks(KernelContext& context) {
  Statements statements;
  std::vector<ComparedIndices> known;
  for (const OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Index || op.inputs.size() < 2) continue;
    const auto dims = looked_up_dims(op, context.body.type(op.inputs[0]), context.body.type(op.inputs[1]));
    if (dims && !lie_inside(context, op)) append_part(statements, CheckWriter(context, id, *dims).run(known));
  }
  return statements;
}

}  // namespace weftc
