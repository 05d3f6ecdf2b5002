// Elements of views and look-ups: the same element of an operand at other indices.
#include <algorithm>

#include "backend/element.h"
#include "ir/op_def.h"

namespace weftc {

Element Elements::view(ValueId value, const Op& op, const IndexList& index) {
  if (op.kind == OpKind::Concat) return concat(value, op, index);
  if (op.kind == OpKind::Pad) return pad(value, op, index);
  if (const std::optional<IndexList> at = context_.view_index(value, index)) return this->at(op.inputs[0], *at);
  return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
}

Element Elements::concat(ValueId value, const Op& op, const IndexList& index) {
  const size_t axis = static_cast<size_t>(op.integer("axis"));
  const IndexExpr& place = index[axis];
  IndexExpr start;
  std::string text;
  Scope* scope = scopes.home({place});
  for (const ValueId& input : op.inputs) {
    const int64_t bound = context_.dims(input)[axis];
    const std::string count = context_.run_extent(body_.type(input), static_cast<int>(axis));
    const IndexExpr end = start + (count.empty() ? IndexExpr(bound) : index_variable(count, 0, bound));
    const IndexExpr within = place - start;
    const bool last = &input == &op.inputs.back();
    const bool none = bound == 0 || within.high() < 0 || (count.empty() && (place - end).low() >= 0);
    start = end;
    if (none && !(last && text.empty())) continue;
    const bool certain = last || (count.empty() && (place - end).high() < 0);
    std::string inside;
    IndexList at = index;
    at[axis] = clamped(within, bound, inside);
    const Element element = this->at(input, at);
    scope = scopes.deeper(scope, element.scope);
    text +=
        certain ? element.text : "(" + scopes.text(place) + ") < " + scopes.text(end) + " ? " + element.text + " : ";
    if (certain) {
      const bool choice = text != element.text;
      const Element result = choice ? named(value, {text, scope}) : Element{text, scope};
      if (choice) bind(value, index, result.text, scope);
      return result;
    }
  }
  return fail("kernel-concat-unsupported", op, "a Concat without elements");
}

/// Where `i` of a dimension of `extent` elements is read from under a padding mode that repeats elements.
static std::string repeated_index(const std::string& mode, const std::string& i, int64_t extent) {
  const std::string e = std::to_string(extent), last = std::to_string(extent - 1),
                    period = std::to_string(2 * extent - 2);
  if (mode == "edge") return "std::clamp<int64_t>(" + i + ", 0, " + last + ")";
  if (mode == "wrap") return "((" + i + ") % " + e + " + " + e + ") % " + e;
  if (extent == 1) return "0";
  return last + " - std::abs(" + last + " - ((" + i + ") % " + period + " + " + period + ") % " + period + ")";
}

Element Elements::pad(ValueId value, const Op& op, const IndexList& index) {
  const ValueId from = op.inputs[0];
  const TensorType& type = body_.type(from);
  const Dims dims = context_.dims(from);
  const std::string& mode = op.text("mode");
  std::string inside;
  IndexList at = index;
  for (int d = 0; d < type.ndim(); ++d) {
    const IndexExpr place = index[d] - local_position(op.ints("pads")[d], type, d, context_.kernel.mesh);
    const bool certain = place.low() >= 0 && place.high() < dims[d];
    if (certain || mode == "constant")
      at[d] = dims[d] ? clamped(place, dims[d], inside) : IndexExpr(0);
    else
      at[d] = data_index({repeated_index(mode, scopes.text(place), dims[d]), scopes.home({place})}, "inner", dims[d]);
    if (dims[d] == 0) inside = "false";
  }
  const DType dtype = body_.type(value).dtype;
  const double fill = op.find("value") ? op.real("value") : 0;
  const std::string filler =
      is_float(dtype) ? real_literal(fill, dtype) : int_literal(static_cast<int64_t>(fill), dtype);
  if (inside == "false") return {filler, scopes.floor};
  const Element element = this->at(from, at);
  if (inside.empty()) return element;
  const Element result =
      named(value, {inside + " ? " + element.text + " : " + filler, scopes.deeper(scopes.home(index), element.scope)});
  bind(value, index, result.text, result.scope);
  return result;
}

/// An index from data as a position in [0, extent): negative ones count from the end.
static std::string wrapped(const std::string& index, const std::string& extent, int64_t bound) {
  return "std::clamp<int64_t>(" + index + " < 0 ? int64_t(" + index + ") + " + extent + " : int64_t(" + index +
         "), 0, " + std::to_string(std::max<int64_t>(bound - 1, 0)) + ")";
}

Element Elements::index_op(ValueId value, const Op& op, const IndexList& index) {
  const bool elements = op.kind == OpKind::GatherElements, nd = op.kind == OpKind::GatherND;
  if (op.kind != OpKind::Gather && !elements && !nd)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " inside a kernel of another kind");
  const ValueId data = op.inputs[0], indices = op.inputs[1];
  const TensorType& type = body_.type(data);
  const int count = body_.type(indices).ndim();
  const int batch = nd ? static_cast<int>(op.integer_or("batch_dims", 0)) : 0;
  const int tuple = nd ? static_cast<int>(context_.dims(indices).back()) : 1;
  const int axis = nd ? batch : static_cast<int>(op.integer("axis"));
  // Where the entries of `indices` are, and the data's index around the dimensions looked up.
  IndexList where =
      elements ? index : IndexList(index.begin() + (nd ? 0 : axis), index.begin() + (nd ? count - 1 : axis + count));
  IndexList at(type.shape.size());
  for (int d = 0; d < axis; ++d) at[d] = index[d];
  for (int d = axis + tuple; d < type.ndim(); ++d)
    at[d] = index[elements ? d : nd ? count - 1 + d - axis - tuple : d - 1 + count];
  std::string held;
  Scope* scope = scopes.floor;
  for (int t = 0; t < tuple; ++t) {
    IndexList entry = where;
    if (nd) entry.push_back(t);
    Element raw = this->at(indices, entry);
    if (raw.text.find_first_of("[(") != std::string::npos) raw = named(indices, raw);
    const std::vector<Digit> digits = context_.digits(type, axis + t);
    const int64_t bound = type.shape[axis + t].bound;
    const std::string extent = digits.empty() ? context_.run_extent(type, axis + t) : "";
    const std::string name = identifier(last_component(body_.value(indices).name));
    const IndexExpr global =
        data_index({wrapped(raw.text, extent.empty() ? std::to_string(bound) : extent, bound), raw.scope}, name, bound);
    scope = scopes.deeper(scope, raw.scope);
    at[axis + t] = global;
    if (digits.empty()) continue;
    // Only the rank that holds the element reads it; the others give 0, and the sum over the ranks is the element.
    const std::vector<IndexExpr> coordinates = digits_at(global, digits);
    std::string mine;
    for (size_t i = 0; i < digits.size(); ++i)
      mine += (i ? " && " : "") + scopes.text(coordinates[i]) + " == " + context_.coordinate(digits[i].axis).text();
    const std::string flag = scopes.names.unique(name + "_held");
    raw.scope->put("const bool " + flag + " = " + mine + ";");
    held += (held.empty() ? "" : " && ") + flag;
    const int64_t local_extent = buffer_extent(bound, digits);
    at[axis + t] = data_index({flag + " ? " + scopes.text(without_digits(global, digits)) + " : 0", raw.scope},
                              name + "_local", local_extent);
  }
  const Element element = this->at(data, at);
  if (held.empty()) return element;
  const DType dtype = body_.type(value).dtype;
  return named(
      value, {held + " ? " + element.text + " : " + compute_type(dtype) + "(0)", scopes.deeper(scope, element.scope)});
}

}  // namespace weftc
