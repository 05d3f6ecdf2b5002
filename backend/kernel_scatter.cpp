// Scatter: the result is a copy of the data in which elements at given indices are replaced, or reduced with updates.
// Several updates of one element are applied in their order, so that a sum has the same bits in every run. A state that
// is updated in place is not copied. If very many updates go to one element, or the elements have 16 bits, sums are
// kept in an array of a wider type (weft/sum_type.h), which then becomes the result.
//
//   host:    for all i: y[i] = data[i];     then for all u: y[indices[u]] += updates[u];
//   device:  each thread has the elements of the result that updates of one place may meet in (a column), copies its
//            part of the data, and goes through all updates of its column in order; where sums are kept in an array, a
//            column has a thread for each part that such an array has room for
#include <algorithm>

#include "backend/index_checks.h"
#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "backend/outer_loops.h"
#include "ir/kernel/scattered_sums.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The new value of an element after an update, by the op's `reduction` attribute; without one the update replaces it.
Expr combined(const std::string& reduction, const Expr& element, const std::string& update) {
  const Expr value = name(update);
  if (reduction == "add") return binary(element, "+", value);
  if (reduction == "mul") return binary(element, "*", value);
  const std::string type = "<decltype(+" + update + ")>";
  if (reduction == "max") return call("weft::maximum" + type, {element, value});
  if (reduction == "min") return call("weft::minimum" + type, {element, value});
  return value;
}

class ScatterWriter {
 public:
  ScatterWriter(KernelContext& context, const Op& op, bool in_place)
      : context_(context), body_(context.body), op_(op), in_place_(in_place) {}

  Statements run() {
    const size_t output = 0;
    const Parameter& parameter = context_.kernel.parameters[static_cast<size_t>(context_.output_parameter(output))];
    name_ = context_.parameter_name(static_cast<size_t>(context_.output_parameter(output)));
    if (context_.facts().has_grid) return columns(parameter);
    if (const char* type = wide_type(); *type) return sums_in_array(parameter, type);
    if (in_place_) return put_updates(parameter);
    Statements statements;
    append_part(statements, copy_data());
    append_part(statements, put_updates(parameter));
    return statements;
  }

 private:
  /// A nest over all elements of a value; `store` writes the statements for one element.
  template <class Store>
  Statements nest(const TensorType& type, const Dims& dims, Store&& store) {
    return build_nest(context_, [&](Elements& elements, Cuts&) {
      IndexList index;
      std::vector<LoopScopes::Open> loops;
      for (size_t d = 0; d < dims.size(); ++d) {
        Scope* under = loops.empty() ? &elements.scopes.root : &loops.back().inner();
        const Expr bound = run_bound(context_, type, d);
        loops.push_back(elements.scopes.open(under, elements.scopes.fresh_axis("i", dims[d], bound, under)));
        index.push_back(loops.back().index);
      }
      store(elements, index);
      for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) elements.scopes.close(*loop);
    });
  }

  /// The type in which sums are kept until all updates are in them; empty where that is the result itself: of a large
  /// table few elements get updates. Threads of a device have few elements each, and copy them anyway.
  const char* wide_type() const {
    const DType dtype = body_.type(op_.outputs[0]).dtype;
    const int64_t elements = element_count(context_.dims(op_.inputs[0]));
    const int64_t updates = element_count(context_.dims(op_.inputs[2]));
    if (const std::optional<DType> sum = scattered_sum_type(op_, dtype, elements, updates))
      return *sum == DType::F64 ? "double" : "float";
    const bool adds_floats = op_.has("reduction") && op_.text("reduction") == "add" && dtype == DType::F32;
    return adds_floats && context_.facts().has_grid && !in_place_ ? "double" : "";
  }

  /// Where an element lies among those of the dimensions `sum_dims_` of the result.
  IndexExpr number_of(const IndexList& index) const {
    const Dims dims = context_.dims(op_.inputs[0]);
    IndexExpr at;
    for (size_t d : sum_dims_) at = at * dims[d] + index[d];
    return at;
  }
  /// The same in the array of sums.
  Expr sum_at(const IndexList& index) const { return element(sums_, number_of(index) - part_ * part_size_); }
  Element sum_of(const Elements& elements, const IndexList& index) const {
    return {call(compute_type(body_.type(op_.outputs[0]).dtype), {sum_at(index)}), elements.scopes.current};
  }

  /// On the host all sums lie in one array.
  Statements sums_in_array(const Parameter& parameter, const std::string& type) {
    const ValueId data = op_.inputs[0];
    const Dims dims = context_.dims(data);
    sums_ = context_.names.unique("sums");
    for (size_t d = 0; d < dims.size(); ++d) sum_dims_.push_back(d);
    const std::string memory = context_.names.unique(sums_ + "_memory");
    Statements statements = {
        "const weft::Scratch<" + type + "> " + memory + "(" + std::to_string(element_count(dims)) + ");",
        type + "* const " + sums_ + " = " + memory + ".get();"};
    append_part(statements, nest(body_.type(data), dims, [&](Elements& elements, const IndexList& index) {
                  elements.scopes.current->put(weftc::Store{sum_at(index), elements.at(data, index).expr});
                }));
    append_part(statements, put_updates(parameter));
    append_part(statements, nest(body_.type(data), dims, [&](Elements& elements, const IndexList& index) {
                  elements.store(0, index, sum_of(elements, index));
                }));
    return statements;
  }

  Statements copy_data() {
    const ValueId data = op_.inputs[0];
    return nest(body_.type(data), context_.dims(data), [&](Elements& elements, const IndexList& index) {
      elements.store(0, index, elements.at(data, index));
    });
  }

  /// True for dimensions that an index selects: updates with different indices may hit the same element, so one thread
  /// has the whole dimension.
  bool meets(size_t dim, size_t tuple) const {
    return op_.kind == OpKind::ScatterND ? dim < tuple : dim == static_cast<size_t>(op_.integer("axis"));
  }

  /// On a grid each thread has a column of the result: it copies the data, and then applies the updates of its column.
  Statements columns(const Parameter& parameter) {
    return build_nest(context_, [&](Elements& elements, Cuts& cuts) {
      elements.scopes.lanes = Lanes::Thread;
      write_columns(elements, cuts, parameter);
    });
  }

  /// Nested loops over some dimensions of a value, around the statements that `body` writes.
  template <class Body>
  void loops_over(Elements& elements, Scope* under, const TensorType& type, const std::vector<size_t>& dims,
                  IndexList& index, Body&& body) {
    const Dims extents = context_.dims(type);
    std::vector<LoopScopes::Open> loops;
    for (size_t d : dims) {
      Scope* parent = loops.empty() ? under : &loops.back().inner();
      const Expr bound = run_bound(context_, type, d);
      const Scale below = run_scale(context_, type, d);
      loops.push_back(elements.scopes.open(parent, elements.scopes.fresh_axis("k", extents[d], bound, parent, below)));
      index[d] = loops.back().index;
    }
    body();
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) elements.scopes.close(*loop);
  }

  // Copies the data of a column, then applies its updates. There may be fewer updates than elements in a dimension of
  // the columns (ScatterElements): the other threads only copy.
  void write_columns(Elements& elements, const Cuts& cuts, const Parameter& parameter) {
    const ValueId data = op_.inputs[0], updates = op_.inputs[2];
    const TensorType &type = body_.type(data), &update_type = body_.type(updates);
    const Dims dims = context_.dims(data), update_dims = context_.dims(updates);
    const size_t tuple = op_.kind == OpKind::ScatterND ? static_cast<size_t>(context_.dims(op_.inputs[1]).back()) : 0;
    const size_t lead = op_.kind == OpKind::ScatterND ? context_.dims(op_.inputs[1]).size() - 1 : 0;
    OuterLoops outer;
    std::vector<size_t> column, met, update_met;
    for (size_t d = 0; d < dims.size(); ++d) (meets(d, tuple) ? met : column).push_back(d);
    const bool has_sums = *wide_type();
    if (has_sums) outer.axes.push_back(sum_parts(elements.scopes.names, met));
    for (size_t d : column)
      outer.axes.push_back(
          {"i" + std::to_string(d), dims[d], run_bound(context_, type, d), run_scale(context_, type, d)});
    OpenOuter open = open_outer(elements.scopes, outer, cuts, context_);
    IndexList index(dims.size()), update(update_dims.size());
    for (size_t c = 0; c < column.size(); ++c) index[column[c]] = open.index[c + (has_sums ? 1 : 0)];
    if (has_sums) {
      open.inner().put(LocalArray{wide_type(), sums_, part_size_});
      part_ = open.index.front();
      loops_over_sums(elements, open.inner(), index, [&] {
        elements.scopes.current->put(weftc::Store{sum_at(index), elements.at(data, index).expr});
      });
    } else if (!in_place_)
      loops_over(elements, &open.inner(), type, met, index,
                 [&] { elements.store(0, index, elements.at(data, index)); });
    std::vector<Expr> inside;
    for (size_t d : column) {
      const size_t to = op_.kind == OpKind::ScatterND ? lead + d - tuple : d;
      update[to] = index[d];
      Expr bound = run_bound(context_, update_type, to);
      if (bound.empty() && update_dims[to] >= dims[d]) continue;
      if (bound.empty()) bound = update_dims[to];
      inside.push_back(binary(index[d], "<", bound));
    }
    for (size_t d = 0; d < update_dims.size(); ++d)
      if (op_.kind == OpKind::ScatterND ? d < lead : meets(d, tuple)) update_met.push_back(d);
    Scope part(&open.inner(), inside.empty() ? Statement(Braces{}) : Statement(If{all_of(inside)}));
    elements.scopes.current = &part;
    loops_over(elements, &part, update_type, update_met, update, [&] { put_update(elements, parameter, update); });
    part.finish();
    elements.scopes.current = &open.inner();
    if (has_sums)
      loops_over_sums(elements, open.inner(), index, [&] { elements.store(0, index, sum_of(elements, index)); });
    close_outer(elements.scopes, open);
  }

  /// On a grid a thread has an array of its column's sums, or of a part of them: returns the axis of the parts.
  LoopAxis sum_parts(Names& names, const std::vector<size_t>& met) {
    constexpr int64_t kMostSums = 64;
    const Dims dims = context_.dims(op_.inputs[0]);
    sums_ = names.unique("sums"), sum_dims_ = met, column_size_ = 1;
    for (size_t d : met) column_size_ *= dims[d];
    const int64_t parts = (column_size_ + kMostSums - 1) / kMostSums;
    part_size_ = (column_size_ + parts - 1) / parts;
    return {names.unique("part"), parts};
  }

  /// A loop over the sums of a thread around the statements that `body` puts. Sets the index of each.
  template <class Body>
  void loops_over_sums(Elements& elements, Scope& under, IndexList& index, Body&& body) {
    const Dims dims = context_.dims(op_.inputs[0]);
    if (part_size_ == column_size_)
      return loops_over(elements, &under, body_.type(op_.inputs[0]), sum_dims_, index, body);
    LoopScopes::Open loop = elements.scopes.open(&under, elements.scopes.fresh_axis("k", part_size_, {}, &under));
    IndexDims of_column;
    for (size_t d : sum_dims_) of_column.push_back(dims[d]);
    const IndexExpr number = part_ * part_size_ + loop.index;
    const IndexList at = unravel(number, of_column);
    std::vector<Expr> is_there;
    if (column_size_ % part_size_ != 0) is_there.push_back(binary(number, "<", column_size_));
    for (size_t i = 0; i < sum_dims_.size(); ++i) {
      index[sum_dims_[i]] = at[i];
      const Expr bound = run_bound(context_, body_.type(op_.inputs[0]), sum_dims_[i]);
      if (!bound.empty()) is_there.push_back(binary(at[i], "<", bound));
    }
    if (is_there.empty()) {
      body();
    } else {
      Scope inside(&loop.inner(), If{all_of(is_there)});
      elements.scopes.current = &inside;
      body();
      inside.finish();
    }
    elements.scopes.close(loop);
  }

  /// A variable with the local index of an entry; -1 if the entry is out of range or another rank holds the element.
  std::string held_index(Elements& elements, const Element& raw, int dim) {
    const TensorType& type = body_.type(op_.inputs[0]);
    LoopScopes& scopes = elements.scopes;
    Scope* scope = scopes.current;
    const int64_t bound = type.shape[static_cast<size_t>(dim)].bound;
    const Expr extent = whole_extent(context_, type, dim);
    const Expr entry = name(scopes.names.unique("entry")), global = name(scopes.names.unique("at"));
    scope->put(Let{"int64_t", entry.node().text, raw.expr});
    scope->put(Let{"int64_t", global.node().text, choice(binary(entry, "<", 0), binary(entry, "+", extent), entry)});
    std::vector<Expr> held = {binary(global, ">=", 0), binary(global, "<", extent)};
    const std::vector<Digit> digits = context_.digits(type, dim);
    const IndexExpr at = index_variable(global.node().text, 0, bound - 1);
    const std::vector<IndexExpr> coordinates = digits_at(at, digits);
    for (size_t i = 0; i < digits.size(); ++i)
      held.push_back(binary(coordinates[i], "==", context_.coordinate(digits[i].axis)));
    const std::string local = scopes.names.unique("place");
    scope->put(Let{"int64_t", local, choice(all_of(held), without_digits(at, digits), -1)});
    return local;
  }

  Statements put_updates(const Parameter& parameter) {
    const ValueId updates = op_.inputs[2];
    return nest(body_.type(updates), context_.dims(updates),
                [&](Elements& elements, const IndexList& index) { put_update(elements, parameter, index); });
  }

  /// Applies the update at `index` to the element that its indices address.
  void put_update(Elements& elements, const Parameter& parameter, const IndexList& index) {
    const ValueId indices = op_.inputs[1], updates = op_.inputs[2];
    const Dims index_dims = context_.dims(indices), data_dims = context_.dims(op_.inputs[0]);
    IndexList to = index;
    std::vector<std::string> places;
    if (op_.kind == OpKind::ScatterND) {
      const size_t tuple = static_cast<size_t>(index_dims.back()), lead = index_dims.size() - 1;
      to.assign(data_dims.size(), 0);
      for (size_t t = 0; t < tuple; ++t) {
        IndexList at(index.begin(), index.begin() + static_cast<long>(lead));
        at.push_back(static_cast<int64_t>(t));
        places.push_back(held_index(elements, elements.at(indices, at), static_cast<int>(t)));
        to[t] = index_variable(places.back(), 0, data_dims[t] - 1);
      }
      for (size_t d = tuple; d < data_dims.size(); ++d) to[d] = index[lead + d - tuple];
    } else {
      const size_t axis = static_cast<size_t>(op_.integer("axis"));
      places.push_back(held_index(elements, elements.at(indices, index), static_cast<int>(axis)));
      to[axis] = index_variable(places.back(), 0, data_dims[axis] - 1);
    }
    std::vector<Expr> held;
    for (const std::string& place : places) held.push_back(binary(name(place), ">=", 0));
    // The part of a column that the element is in.
    if (part_size_ < column_size_) held.push_back(binary(quotient(number_of(to), part_size_), "==", part_));
    const std::string update = elements.scopes.names.unique("update");
    Scope& scope = *elements.scopes.current;
    scope.put(Let{compute_type(parameter.type.dtype), update, elements.at(updates, index).expr});
    const Expr place = sums_.empty() ? element(name_, context_.offset(parameter, to)) : sum_at(to);
    const std::string reduction = op_.has("reduction") ? op_.text("reduction") : "none";
    scope.put(If{all_of(held), {Store{place, combined(reduction, place, update)}}});
  }

  KernelContext& context_;
  const Graph& body_;
  const Op& op_;
  const bool in_place_;  // the result shares the data's memory: nothing is copied
  std::string name_;
  std::string sums_;              // the array of wider sums, if there is one
  std::vector<size_t> sum_dims_;  // its dimensions
  // On a grid: the elements of a column, those of a part that a thread has, and which part that is.
  int64_t column_size_ = 0, part_size_ = 0;
  IndexExpr part_ = 0;
};

}  // namespace

Statements write_body(KernelContext& context, const Scatter& strategy, Writer<Scatter>) {
  const Graph& body = context.body;
  OpId scatter;
  for (OpId id : body.order())
    if (body.op(id).kind == OpKind::ScatterElements || body.op(id).kind == OpKind::ScatterND) scatter = id;
  const Op& op = body.op(scatter);
  if (body.outputs().size() != 1 || body.outputs()[0].value != op.outputs[0]) {
    context.refuse("kernel-scatter-unsupported", op, "a scatter whose result is used in the same kernel");
    return {};
  }
  return ScatterWriter(context, op, strategy.in_place).run();
}

}  // namespace weftc
