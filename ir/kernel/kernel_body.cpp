// Follows indices through the body of a kernel: from an element of a value back through views to a position in memory,
// and from an element of a contraction forward to the results. A strategy is legal or not depending on which indices
// are affine.
#include "ir/kernel/kernel_body.h"

#include <algorithm>
#include <map>

#include "ir/base/check.h"
#include "ir/base/naming.h"
#include "ir/op_def.h"
#include "ir/ops/window.h"

namespace weftc {

KernelBody::KernelBody(const Kernel& kernel, size_t place_axes)
    : kernel(kernel), body(kernel.body), place_axes_(static_cast<int>(place_axes)) {
  std::vector<std::string> names;
  for (const RunExtent& extent : kernel.extents)
    names.push_back(extent.name.empty() ? "length" + std::to_string(names.size()) : extent.name);
  find_lengths(names);
}

/// The length as a product of known ones (in the order in which they are known) and a number.
static std::optional<Scale> as_product(const Length& length, const std::vector<std::pair<Length, Scale>>& known) {
  Scale product;
  Length rest = length;
  for (const auto& [factor, scale] : known)
    for (std::optional<Length> left; !rest.is_constant() && (left = exact_quotient(rest, factor)); rest = *left)
      product = product * scale;
  return rest.is_constant() ? std::optional(product * rest.constant()) : std::nullopt;
}

/// Sort key: a length comes after those that it may be a multiple of.
static std::pair<size_t, int64_t> rank_of(const Length& length) {
  size_t degree = 0;
  for (const Length::Term& term : length.terms()) degree = std::max(degree, term.factors.size());
  return {degree, length.high()};
}

void KernelBody::find_lengths(const std::vector<std::string>& names) {
  lengths_.clear();
  std::vector<size_t> order;
  for (size_t i = 0; i < names.size(); ++i) {
    const RunExtent& extent = kernel.extents[i];
    lengths_.push_back(Scale::length(names[i], extent.bound));
    if (extent.length && !extent.is_slice() && !extent.length->is_constant()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rank_of(*kernel.extents[a].length) < rank_of(*kernel.extents[b].length);
  });
  std::vector<std::pair<Length, Scale>> known;
  for (const size_t i : order) {
    const Length& length = *kernel.extents[i].length;
    if (const std::optional<Scale> product = as_product(length, known))
      lengths_[i] = *product;
    else
      known.emplace_back(length, lengths_[i]);
  }
}

IndexDims KernelBody::extents(const TensorType& type) const {
  IndexDims extents = dims(type);
  for (int d = 0; d < type.ndim(); ++d)
    if (type.shape[d].is_run_time()) extents[static_cast<size_t>(d)] = lengths_[*run_extent_of(type, d)];
  return extents;
}

/// Whether the run-time extent is the length, on this rank, of a dimension with these slices.
static bool is_extent_of(const RunExtent& run, const Extent& extent, const std::vector<Digit>& digits) {
  if (run.is_slice() == digits.empty()) return false;
  if (run.is_slice() && (run.axis != digits[0].axis || run.block != digits[0].block)) return false;
  return extent.is_run_time() ? run.length && *run.length == *extent.length : !run.length && run.extent == extent.bound;
}

std::optional<size_t> KernelBody::run_extent_of(const TensorType& type, int dim) const {
  const Extent& extent = type.shape[dim];
  const std::vector<Digit> digits = this->digits(type, dim);
  if (!extent.is_run_time() && !is_ragged(extent.bound, digits)) return {};
  for (size_t i = 0; i < kernel.extents.size(); ++i)
    if (is_extent_of(kernel.extents[i], extent, digits)) return i;
  check_failed(__FILE_NAME__, __LINE__, "kernel '" + kernel.name + "' lacks a run-time extent");
}

Scale KernelBody::scale_of(const Length& length) const {
  if (length.is_constant()) return length.constant();
  for (size_t i = 0; i < kernel.extents.size(); ++i) {
    const RunExtent& extent = kernel.extents[i];
    if (!extent.is_slice() && extent.length && *extent.length == length) return lengths_[i];
  }
  check_failed(__FILE_NAME__, __LINE__, "kernel '" + kernel.name + "' lacks the length " + length.text());
}

bool KernelBody::has_ragged(const TensorType& type, int first, int end) const {
  for (int d = first; d < end; ++d)
    if (!type.shape[d].is_run_time() && is_ragged(type.shape[d].bound, digits(type, d))) return true;
  return false;
}

std::string KernelBody::coordinate_name(int axis) const { return identifier(kernel.mesh[axis].name) + "_index"; }

IndexExpr KernelBody::coordinate(int axis) const {
  return index_variable(coordinate_name(axis), 0, kernel.mesh[axis].size - 1);
}

IndexExpr KernelBody::offset(const Parameter& parameter, const IndexList& index) const {
  IndexList at = index;
  IndexDims dims;
  const TensorType memory = parameter.memory_type();
  const auto is_unsliced = [&](int axis) {
    return std::find(parameter.whole_over.begin(), parameter.whole_over.end(), axis) != parameter.whole_over.end();
  };
  for (int d = 0; d < parameter.type.ndim(); ++d) {
    const std::vector<Digit> digits = this->digits(memory, d);
    int64_t extent = buffer_extent(memory.shape[d].bound, digits);
    for (const Digit& digit : digits)
      if (is_unsliced(digit.axis)) extent *= digit.size;
    at[d] = with_digits(index[d], digits, is_unsliced, [this](int axis) { return coordinate(axis); });
    const bool is_length = memory.shape[d].is_run_time() && !parameter.storage.by_bounds;
    dims.push_back(is_length ? lengths_[*run_extent_of(memory, d)] : Scale(extent));
  }
  return parameter.storage.offset(dims, at);
}

size_t KernelBody::input_parameter(ValueId input) const {
  const std::vector<ValueId>& inputs = body.inputs();
  return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin());
}

int64_t local_position(int64_t position, const TensorType& type, int dim, const Mesh& mesh) {
  return position / parts_of(type, dim, mesh);
}

ValueId KernelBody::computed_value(size_t number) const {
  const ValueId value = body.outputs()[number].value;
  const Op& op = body.producer_op(value);
  return op.kind == OpKind::AllGather ? op.inputs[0] : value;
}

IndexList broadcast_index(const IndexList& index, const Dims& dims) {
  IndexList at(dims.size());
  const size_t offset = index.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) at[d] = dims[d] == 1 ? IndexExpr(0) : index[offset + d];
  return at;
}

/// The same element's index in another shape. Dimensions of one element appear and disappear without arithmetic.
static IndexList reshaped(const IndexList& index, const IndexDims& from, const IndexDims& to) {
  IndexList moved(to.size());
  size_t next = 0;
  const auto skip = [&] {
    while (next < from.size() && from[next] == Scale(1)) ++next;
  };
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == Scale(1)) continue;
    skip();
    if (next == from.size() || !(from[next] == to[d])) return unravel(linear_index(index, from), to);
    moved[d] = index[next++];
  }
  skip();
  return next == from.size() ? moved : unravel(linear_index(index, from), to);
}

std::optional<IndexList> KernelBody::view_index(ValueId value, const IndexList& index) const {
  const Op& op = body.producer_op(value);
  if (category(op) != Category::View) return {};
  const TensorType& type = body.type(op.inputs[0]);
  const Dims from_dims = dims(op.inputs[0]);
  IndexList at = index;
  switch (op.kind) {
    case OpKind::Reshape:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
    case OpKind::Flatten:
      // An empty operand is not read; the loop around this has no iterations.
      if (element_count(from_dims) == 0) return IndexList(from_dims.size());
      return reshaped(index, extents(value), extents(type));
    case OpKind::Transpose:
      for (size_t d = 0; d < index.size(); ++d) at[static_cast<size_t>(op.ints("perm")[d])] = index[d];
      return at;
    case OpKind::Expand:
      return broadcast_index(index, from_dims);
    case OpKind::Slice:
      for (int d = 0; d < type.ndim(); ++d)
        at[d] = index[d] * op.ints("steps")[d] + local_position(op.ints("starts")[d], type, d, kernel.mesh);
      return at;
    case OpKind::Tile:
      for (size_t d = 0; d < index.size(); ++d)
        at[d] = from_dims[d] == 1 ? IndexExpr(0) : remainder(index[d], extents(type)[d]);
      return at;
    case OpKind::Split: {
      const size_t axis = static_cast<size_t>(op.integer("axis"));
      for (uint32_t r = 0; r < body.value(value).result; ++r) at[axis] = at[axis] + dims(op.outputs[r])[axis];
      return at;
    }
    default:
      return {};
  }
}

std::optional<Load> KernelBody::load_of(ValueId value, IndexList index) const {
  while (body.producer_op(value).kind != OpKind::Input) {
    const std::optional<IndexList> moved = view_index(value, index);
    if (!moved) return {};
    index = *moved;
    value = body.producer_op(value).inputs[0];
  }
  const size_t parameter = input_parameter(value);
  return Load{parameter, offset(kernel.parameters[parameter], index)};
}

std::vector<int64_t> KernelBody::group() const {
  for (OpId id = body.first(); id; id = body.next(id)) {
    const Op& op = body.op(id);
    if (category(op) == Category::Collective && op.kind != OpKind::ShardSlice) return op.ints("axes");
  }
  return {};
}

int64_t KernelBody::ranks() const {
  int64_t ranks = 1;
  for (int64_t axis : group()) ranks *= kernel.mesh[axis].size;
  return ranks;
}

namespace {

/// Collects run-time extents.
struct RunExtentList {
  std::vector<RunExtent> extents;

  void add(RunExtent extent) {
    const auto same = std::find_if(extents.begin(), extents.end(), [&](const RunExtent& known) {
      return known.axis == extent.axis && known.extent == extent.extent && known.block == extent.block &&
             known.length == extent.length;
    });
    if (same == extents.end())
      extents.push_back(std::move(extent));
    else
      same->bound = std::max(same->bound, extent.bound);
  }
  void add(const Length& length, int64_t bound) {
    for_each_name(length,
                  [&](const LengthSymbolPtr& name) { add({.name = "", .length = Length(name), .bound = name->high}); });
    if (!as_name(length)) add({.name = "", .length = length, .bound = bound});
  }
  void add_slice(const Extent& extent, const Digit& digit) {
    RunExtent slice{.name = "", .axis = digit.axis, .extent = extent.bound, .block = digit.block};
    if (extent.is_run_time()) slice.length = *extent.length, slice.bound = digit.block;
    add(std::move(slice));
  }
};

}  // namespace

/// The padding before the images of a window op, if it is a run-time length.
static std::vector<Length> open_paddings(const Graph& body, const Op& op) {
  std::vector<Length> paddings;
  if (!op.has("auto_pad") || !pads_by_length(op)) return paddings;
  const Shape& image = body.type(op.inputs[0]).shape;
  for (size_t d = 2; d < image.size(); ++d) paddings.push_back(padding_before(op, d - 2, length_of(image[d])));
  std::erase_if(paddings, [](const Length& padding) { return padding.is_constant(); });
  return paddings;
}

std::vector<RunExtent> run_extents_of(const Module& module, const Graph& body, const Mesh& mesh,
                                      const std::vector<Parameter>& parameters) {
  RunExtentList list;
  for (OpId id = body.first(); id; id = body.next(id)) {
    const Op& op = body.op(id);
    if (op.kind == OpKind::LengthOf) {
      const Length length = OpView(module, body, op).length().value();
      list.add(length, length.high());
    }
    for (const Length& length : open_paddings(body, op)) list.add(length, length.high());
    for (ValueId v : op.outputs)
      for (int d = 0; d < body.type(v).ndim(); ++d) {
        const Extent& e = body.type(v).shape[d];
        if (e.is_run_time()) list.add(*e.length, e.bound);
        const std::vector<Digit> digits = digits_of(body.type(v).layout, d, mesh);
        if (is_ragged(e, digits)) list.add_slice(e, digits[0]);
      }
    for (const Graph& region : op.regions)
      for (const RunExtent& inner : run_extents_of(module, region, mesh)) list.add(inner);
  }
  for (const Parameter& parameter : parameters)
    for (const Extent& e : parameter.memory.value_or(Shape{}))
      if (e.is_run_time() && !parameter.storage.by_bounds) list.add(*e.length, e.bound);
  return std::move(list.extents);
}

/// True if an element of the result is computed without a loop of its own.
static bool has_no_loop(const Op& op) {
  const Category c = category(op);
  return c == Category::Pointwise || c == Category::View || c == Category::Source || op.kind == OpKind::Gather;
}

/// The one op of category `wanted`, if all others are pointwise ops, views, look-ups and sources.
static ValueId only_loop(const Graph& body, Category wanted) {
  ValueId found;
  for (OpId id = body.first(); id; id = body.next(id)) {
    const Op& op = body.op(id);
    if (has_no_loop(op)) continue;
    if (found || category(op) != wanted) return {};
    found = op.outputs[0];
  }
  return found;
}

ValueId contraction_of(const Graph& body) { return only_loop(body, Category::Contraction); }

ValueId scan_of(const Graph& body) { return only_loop(body, Category::Scan); }

/// The result's index for an index of a view's operand: the inverse of view_index, for invertible views.
static std::optional<IndexList> moved_by(const KernelBody& body, const Op& op, const IndexList& from) {
  if (op.kind == OpKind::Reshape) return reshaped(from, body.extents(op.inputs[0]), body.extents(op.outputs[0]));
  if (op.kind != OpKind::Transpose) return {};
  IndexList moved(from.size());
  for (size_t d = 0; d < from.size(); ++d) moved[d] = from[static_cast<size_t>(op.ints("perm")[d])];
  return moved;
}

std::optional<std::vector<std::optional<IndexList>>> indices_after(const KernelBody& body, ValueId root,
                                                                   const IndexList& index) {
  const Graph& graph = body.body;
  std::vector<std::optional<IndexList>> found(graph.value_capacity());
  found[root.index] = index;
  for (OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.outputs.size() != 1 || op.inputs.empty() || found[op.outputs[0].index]) continue;
    std::optional<IndexList>& to = found[op.outputs[0].index];
    const Dims dims = body.dims(op.outputs[0]);
    if (category(op) == Category::Pointwise) {
      for (ValueId input : op.inputs)
        if (!to && found[input.index] && body.dims(input) == dims) to = found[input.index];
    } else if (category(op) == Category::View && found[op.inputs[0].index]) {
      to = moved_by(body, op, *found[op.inputs[0].index]);
    }
  }
  for (const Graph::Output& output : graph.outputs())
    if (!found[output.value.index]) return {};
  return found;
}

}  // namespace weftc
