// A kernel that normalises rows and also stores their sums has one space, (rows, columns), whose rows are reduced
// first:
//
//   s = ReduceSum(x, axes = [1]);  y = Div(x, s)      space [4, 8], reduced {1}: row output s, output y
//
// Outputs of other shapes get spaces of their own, in later nests.
#include "backend/iteration_space.h"

#include "ir/op_def.h"

namespace weftc {

std::optional<IndexList> place_in(const KernelContext& context, ValueId output, const IndexDims& space,
                                  const IndexList& index) {
  const Dims dims = context.dims(output);
  if (context.extents(output) == space) return index;
  const Op& op = context.body.producer_op(output);
  if (op.inputs.empty()) return {};
  if (category(op) == Category::Pointwise) {
    for (ValueId input : op.inputs)
      if (context.dims(input) == dims)
        if (std::optional<IndexList> at = place_in(context, input, space, index)) return at;
    return {};
  }
  if (category(op) != Category::View && category(op) != Category::Collective) return {};
  const bool is_transpose = op.kind == OpKind::Transpose;
  const bool is_reshape = op.kind == OpKind::Reshape || op.kind == OpKind::Squeeze || op.kind == OpKind::Unsqueeze ||
                          op.kind == OpKind::Flatten;
  if (!is_transpose && !is_reshape) return {};
  const std::optional<IndexList> at = place_in(context, op.inputs[0], space, index);
  if (!at) return {};
  if (is_reshape) return unravel(linear_index(*at, context.extents(op.inputs[0])), context.extents(output));
  IndexList moved(at->size());
  for (size_t d = 0; d < moved.size(); ++d) moved[d] = (*at)[static_cast<size_t>(op.ints("perm")[d])];
  return moved;
}

/// The first reduction that an output needs at indices of its own row.
static std::optional<IterationSpace> reduction_space(const KernelContext& context) {
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Reduction || !op.has("axes") || op.ints("axes").empty()) continue;
    const ValueId from = op.inputs[0];
    return IterationSpace{.type = context.body.type(from),
                          .dims = context.dims(from),
                          .extents = context.extents(from),
                          .reduced = op.ints("axes")};
  }
  return {};
}

static bool is_row_shape(const KernelContext& context, const IterationSpace& space, ValueId value) {
  IndexDims kept, full;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    full.push_back(space.is_reduced(d) ? Scale(1) : space.extents[d]);
    if (!space.is_reduced(d)) kept.push_back(space.extents[d]);
  }
  const IndexDims extents = context.extents(value);
  return !space.reduced.empty() && (extents == kept || extents == full);
}

std::vector<IterationSpace> spaces_of(const KernelContext& context) {
  std::vector<IterationSpace> spaces;
  if (std::optional<IterationSpace> rows = reduction_space(context)) spaces.push_back(std::move(*rows));
  for (size_t o = 0; o < context.body.outputs().size(); ++o) {
    const ValueId value = context.computed_value(o);
    const Dims dims = context.dims(value);
    if (element_count(dims) == 0) continue;
    bool placed = false;
    for (IterationSpace& space : spaces) {
      const bool row = is_row_shape(context, space, value);
      placed = row || place_in(context, value, space.extents, IndexList(space.dims.size())).has_value();
      if (!placed) continue;
      (row ? space.row_outputs : space.outputs).push_back(o);
      break;
    }
    if (!placed)
      spaces.push_back(
          {.type = context.body.type(value), .dims = dims, .extents = context.extents(value), .outputs = {o}});
  }
  std::erase_if(spaces, [](const IterationSpace& s) { return s.outputs.empty() && s.row_outputs.empty(); });
  return spaces;
}

/// Whether elements of two parameters have the same position in memory.
static bool are_alike(const KernelContext& context, ValueId a, ValueId b) {
  if (context.body.producer_op(a).kind != OpKind::Input || context.body.producer_op(b).kind != OpKind::Input)
    return false;
  const Parameter& x = context.kernel.parameters[context.input_parameter(a)];
  const Parameter& y = context.kernel.parameters[context.input_parameter(b)];
  return !x.window && !y.window && is_static(x.type.shape) && x.type == y.type && x.storage == y.storage &&
         x.whole_over == y.whole_over;
}

std::vector<AlikeOperands> alike_operands(const KernelContext& context, const Op& concat) {
  constexpr size_t kFewest = 4;
  const size_t axis = static_cast<size_t>(concat.integer("axis"));
  std::vector<AlikeOperands> all;
  int64_t start = 0;
  for (size_t i = 0; i < concat.inputs.size();) {
    const int64_t width = context.dims(concat.inputs[i])[axis];
    size_t count = 1;
    while (!context.facts().has_grid && i + count < concat.inputs.size() &&
           are_alike(context, concat.inputs[i], concat.inputs[i + count]))
      ++count;
    if (count < kFewest) count = 1;
    all.push_back({i, count, start, width});
    i += count, start += width * static_cast<int64_t>(count);
  }
  return all;
}

/// Positions in dimension d at which a Concat or Pad with the shape of the space changes operand.
static std::vector<int64_t> borders(KernelContext& context, const IterationSpace& space, size_t d) {
  std::vector<int64_t> found = {0, space.dims[d]};
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if ((op.kind != OpKind::Concat && op.kind != OpKind::Pad) || context.extents(op.outputs[0]) != space.extents)
      continue;
    if (op.kind == OpKind::Pad) {
      const int64_t before =
          op.ints("pads")[d] / parts_of(context.body.type(op.inputs[0]), static_cast<int>(d), context.kernel.mesh);
      for (int64_t at : {before, before + context.dims(op.inputs[0])[d]}) found.push_back(at);
    }
    if (op.kind == OpKind::Concat && op.integer("axis") == static_cast<int64_t>(d))
      for (const AlikeOperands& operands : alike_operands(context, op)) found.push_back(operands.start);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase_if(found, [&](int64_t at) { return at < 0 || at > space.dims[d]; });
  return found;
}

std::vector<IterationSpace> segments(KernelContext& context, const IterationSpace& space) {
  constexpr size_t kMost = 12;
  std::vector<IterationSpace> parts = {space};
  parts[0].start.assign(space.dims.size(), 0);
  parts[0].extent = space.dims;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const std::vector<int64_t> cuts = borders(context, space, d);
    if (space.is_reduced(d) || cuts.size() < 3 || parts.size() * (cuts.size() - 1) > kMost) continue;
    if (!context.run_extent(space.type, static_cast<int>(d)).empty()) continue;
    std::vector<IterationSpace> finer;
    for (const IterationSpace& part : parts)
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        finer.push_back(part);
        finer.back().start[d] = cuts[c], finer.back().extent[d] = cuts[c + 1] - cuts[c];
      }
    parts = std::move(finer);
  }
  return parts.size() == 1 ? std::vector<IterationSpace>{space} : parts;
}

}  // namespace weftc
