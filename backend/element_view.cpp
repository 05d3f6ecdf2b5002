// Elements of views and look-ups: the same element of an operand at other indices. Most views only rewrite the
// index; Concat chooses among operands, Pad between operand and filler, and a look-up reads an index from data:
//
//   Concat(a, b)[i]      i < 3 ? a[i] : b[i - 3]
//   Pad(x, 2)[i]         i - 2 >= 0 && i - 2 < 8 ? x[inner_index] : float(0)
//   Gather(w, ids)[i]    w[ids_index * 768 + c], where ids_index comes from ids[i]
#include <algorithm>

#include "backend/element.h"
#include "backend/index_checks.h"
#include "ir/op_def.h"

namespace weftc {

Element Elements::view(ValueId value, const Op& op, const IndexList& index) {
  if (op.kind == OpKind::Concat) return concat(value, op, index);
  if (op.kind == OpKind::Pad) return pad(value, op, index);
  if (const std::optional<IndexList> at = context_.view_index(value, index)) return this->at(op.inputs[0], *at);
  return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
}

// The address of the operand that has the element is read from a table.
Element Elements::alike_operand(const Op& concat, const AlikeOperands& operands, const IndexList& index) {
  const size_t axis = static_cast<size_t>(concat.integer("axis"));
  const ValueId first = concat.inputs[operands.first];
  const Parameter& parameter = context_.kernel.parameters[context_.input_parameter(first)];
  const std::string type = memory_type(parameter.type.dtype);
  std::vector<size_t> parameters;
  for (size_t i = 0; i < operands.count; ++i)
    parameters.push_back(context_.input_parameter(concat.inputs[operands.first + i]));
  const std::string table = context_.table_of(parameters);
  IndexList at = index;
  at[axis] = remainder(index[axis] - operands.start, operands.width);
  const IndexExpr number = quotient(index[axis] - operands.start, operands.width);
  const IndexExpr offset = context_.offset(parameter, at);
  Scope* scope = scopes.home({number});
  const Expr part = name(scopes.names.unique("part"));
  scope->put(Let{type + "* const", part.node().text, weftc::element(table, number)});
  const Expr loaded = weftc::element(part.node().text, offset);
  return {converted(loaded, parameter.type.dtype), scopes.home({number, offset})};
}

// The operands that may contain the position, as a chain of conditions; bounds of the index exclude operands
// beforehand.
Element Elements::concat(ValueId value, const Op& op, const IndexList& index) {
  const size_t axis = static_cast<size_t>(op.integer("axis"));
  const IndexExpr& position = index[axis];
  for (const AlikeOperands& operands : alike_operands(context_, op)) {
    const IndexExpr within = position - operands.start;
    if (operands.count == 1 || within.low() < 0) continue;
    if (within.high() >= operands.width * static_cast<int64_t>(operands.count)) continue;
    const Element element = named(value, alike_operand(op, operands, index));
    bind(value, index, element.expr, element.scope);
    return element;
  }
  IndexExpr start;
  std::vector<std::pair<Expr, Expr>> choices;  // upper bound of the position, and the element below it
  Scope* scope = scopes.home({position});
  for (const ValueId& input : op.inputs) {
    const int64_t bound = context_.dims(input)[axis];
    const std::string count = context_.run_extent(body_.type(input), static_cast<int>(axis));
    const IndexExpr end = start + (count.empty() ? IndexExpr(bound) : index_variable(count, 0, bound));
    const IndexExpr within = position - start;
    const bool last = &input == &op.inputs.back();
    const bool none = bound == 0 || within.high() < 0 || (position - end).low() >= 0;
    start = end;
    if (none && !(last && choices.empty())) continue;
    const bool certain = last || (position - end).high() < 0;
    std::vector<Expr> inside;
    IndexList at = index;
    at[axis] = clamped(within, bound, inside);
    const Element element = this->at(input, at);
    scope = scopes.deeper(scope, element.scope);
    if (!certain) {
      choices.emplace_back(binary(position, "<", end), element.expr);
      continue;
    }
    if (choices.empty()) return {element.expr, scope};
    Expr chosen = element.expr;
    for (size_t c = choices.size(); c-- > 0;) chosen = choice(choices[c].first, choices[c].second, chosen);
    const Element result = named(value, {chosen, scope});
    bind(value, index, result.expr, scope);
    return result;
  }
  return fail("kernel-concat-unsupported", op, "a Concat without elements");
}

/// `a` modulo `b` for any `a`: not negative.
static Expr modulo(const Expr& a, const Expr& b) { return binary(binary(binary(a, "%", b), "+", b), "%", b); }

/// The source of index `i` of a dimension of `extent` elements, for a padding mode that repeats elements. A run-time
/// length may be 0 or 1, which leaves nothing to repeat.
static Expr repeated_index(const std::string& mode, const Expr& i, const IndexExpr& extent) {
  const auto period = [&](const IndexExpr& elements) {
    return elements.is_constant() ? Expr(elements) : call("std::max<int64_t>", {elements, 1});
  };
  const IndexExpr last = extent - 1;
  if (mode == "edge") return call("std::clamp<int64_t>", {i, 0, last});
  if (mode == "wrap") return modulo(i, period(extent));
  if (extent == 1) return 0;
  return binary(last, "-", call("std::abs", {binary(last, "-", modulo(i, period(last * 2)))}));
}

Element Elements::pad(ValueId value, const Op& op, const IndexList& index) {
  const ValueId from = op.inputs[0];
  const TensorType& type = body_.type(from);
  const Dims dims = context_.dims(from);
  const IndexDims extents = context_.extents(from);
  const std::string& mode = op.text("mode");
  std::vector<Expr> inside;
  bool is_empty = false;  // the operand has no elements
  IndexList at = index;
  for (int d = 0; d < type.ndim(); ++d) {
    const IndexExpr place = index[d] - local_position(op.ints("pads")[d], type, d, context_.kernel.mesh);
    const bool is_whole = op.ints("pads")[d] == 0 && op.ints("pads")[type.ndim() + d] == 0;
    const bool certain = is_whole || (place.low() >= 0 && place.high() < dims[d] && extents[d].is_number());
    if (certain) {
      at[d] = place;
    } else if (mode == "constant") {
      at[d] = dims[d] ? clamped(place, extents[d], inside) : IndexExpr(0);
    } else {
      const IndexExpr extent = IndexExpr::of(extents[d]);
      context_.need_lengths(extent);
      at[d] = data_index({repeated_index(mode, place, extent), scopes.home({place})}, "inner", dims[d]);
    }
    is_empty |= dims[d] == 0;
  }
  const DType dtype = body_.type(value).dtype;
  const Expr filler = literal(is_float(dtype) ? real_literal(op.find("value") ? op.real("value") : 0, dtype)
                                              : int_literal(op.integer_or("whole", 0), dtype));
  if (is_empty) return {filler, scopes.floor};
  const Element element = this->at(from, at);
  if (inside.empty()) return element;
  const Element result =
      named(value, {choice(all_of(inside), element.expr, filler), scopes.deeper(scopes.home(index), element.scope)});
  bind(value, index, result.expr, result.scope);
  return result;
}

/// An index from data as a position in [0, extent): negative ones count from the end. Memory after a run-time extent
/// may belong to another request.
static Expr wrapped(const Expr& index, const Expr& extent, const Extent& of) {
  const Expr position = call("int64_t", {index});
  const Expr last = of.is_run_time() ? call("std::max<int64_t>", {binary(extent, "-", 1), 0})
                                     : Expr(std::max<int64_t>(of.bound - 1, 0));
  return call("std::clamp<int64_t>", {choice(binary(index, "<", 0), binary(position, "+", extent), position), 0, last});
}

IndexExpr Elements::entry_index(const Op& op, const Element& entry, int dim, std::vector<Expr>& held) {
  const TensorType& type = body_.type(op.inputs[0]);
  const std::vector<Digit> digits = context_.digits(type, dim);
  const int64_t bound = type.shape[dim].bound;
  const std::string local = identifier(last_component(body_.value(op.inputs[1]).name));
  const Expr position = are_positions(context_, op)
                            ? entry.expr
                            : wrapped(entry.expr, whole_extent(context_, type, dim), type.shape[dim]);
  const IndexExpr global = data_index({position, entry.scope}, local, bound);
  if (digits.empty()) return global;
  // Only the rank that holds the element reads it; the others give 0, and the sum over the ranks is the element.
  const std::vector<IndexExpr> coordinates = digits_at(global, digits);
  std::vector<Expr> mine;
  for (size_t i = 0; i < digits.size(); ++i)
    mine.push_back(binary(coordinates[i], "==", context_.coordinate(digits[i].axis)));
  const Expr flag = name(scopes.names.unique(local + "_held"));
  entry.scope->put(Let{"bool", flag.node().text, all_of(mine)});
  held.push_back(flag);
  return data_index({choice(flag, without_digits(global, digits), 0), entry.scope}, local + "_local",
                    buffer_extent(bound, digits));
}

// A function of an element and of whole tables: constants, which are in memory unpacked.
Element Elements::look_up(ValueId value, const Op& op, const IndexList& index) {
  const Element from = at(op.inputs[0], index);
  std::vector<Expr> operands = {from.expr};
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    const size_t number = context_.input_parameter(op.inputs[i]);
    operands.push_back(name(context_.parameter_name(number)));
  }
  const DType type = body_.type(op.inputs[0]).dtype;
  const std::string text = scalar_pattern(op, op_def(op).scalar, type, body_.type(value).dtype);
  return named(value, {pattern(text, operands, Binding::Choice), from.scope});
}

// Gather, GatherElements and GatherND: entries of the index tensor give `tuple` dimensions of the data from `axis` on;
// the result's own indices give the others.
Element Elements::index_op(ValueId value, const Op& op, const IndexList& index) {
  if (op_def(op).scalar) return look_up(value, op, index);
  const bool elements = op.kind == OpKind::GatherElements, nd = op.kind == OpKind::GatherND;
  if (op.kind != OpKind::Gather && !elements && !nd)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " inside a kernel of another kind");
  const ValueId data = op.inputs[0], indices = op.inputs[1];
  const TensorType& type = body_.type(data);
  const int count = body_.type(indices).ndim();
  const int batch = nd ? static_cast<int>(op.integer_or("batch_dims", 0)) : 0;
  const int tuple = nd ? static_cast<int>(context_.dims(indices).back()) : 1;
  const int axis = nd ? batch : static_cast<int>(op.integer("axis"));
  // Position of the entries in `indices`, and the data's index in the dimensions around the looked-up ones.
  IndexList where =
      elements ? index : IndexList(index.begin() + (nd ? 0 : axis), index.begin() + (nd ? count - 1 : axis + count));
  IndexList at(type.shape.size());
  for (int d = 0; d < axis; ++d) at[d] = index[d];
  for (int d = axis + tuple; d < type.ndim(); ++d)
    at[d] = index[elements ? d : nd ? count - 1 + d - axis - tuple : d - 1 + count];
  std::vector<Expr> held;
  Scope* scope = scopes.floor;
  for (int e = 0; e < tuple; ++e) {
    IndexList entry = where;
    if (nd) entry.push_back(e);
    Element raw = this->at(indices, entry);
    if (!raw.expr.is_simple()) raw = named(indices, raw);
    scope = scopes.deeper(scope, raw.scope);
    at[axis + e] = entry_index(op, raw, axis + e, held);
  }
  const Element element = this->at(data, at);
  if (held.empty()) return element;
  const Expr zero = literal(std::string(compute_type(body_.type(value).dtype)) + "(0)");
  return named(value, {choice(all_of(held), element.expr, zero), scopes.deeper(scope, element.scope)});
}

}  // namespace weftc
