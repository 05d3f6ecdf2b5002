// A state that grows: only the new rows are written.
//
//   present = Concat(past, k), past and present one memory:
//
//   for (int64_t i2 = 0; i2 < total - past_length; ++i2)
//     present[past_length + i2] = k[i2];
#include "backend/element.h"
#include "backend/kernel_text.h"
#include "backend/outer_loops.h"

namespace weftc {

namespace {

/// The dimensions before the growing one, that one, and those after it: three axes of the loop nest.
struct GrowingShape {
  Dims before, after;
  int64_t rows;   // maximum number of new rows
  Expr new_rows;  // their actual number
  IndexExpr old_rows;
};

GrowingShape growing_shape(KernelContext& context, const Op& concat, const Append& append) {
  const TensorType &from = context.body.type(concat.inputs[0]), &to = context.body.type(concat.outputs[0]);
  const Dims dims = context.dims(to), old = context.dims(from);
  const auto at = dims.begin() + static_cast<long>(append.axis);
  const int axis = static_cast<int>(append.axis);
  int64_t added = 0;
  for (size_t i = 1; i < concat.inputs.size(); ++i) added += context.dims(concat.inputs[i])[append.axis];
  const std::string old_rows = context.run_extent(from, axis);
  return {.before = {dims.begin(), at},
          .after = {at + 1, dims.end()},
          .rows = std::min(added, *at),
          .new_rows = binary(run_bound(context, to, append.axis), "-", name(old_rows)),
          .old_rows = index_variable(old_rows, 0, old[append.axis])};
}

}  // namespace

Statements write_body(KernelContext& context, const Append& append, Writer<Append>) {
  const ValueId value = context.body.outputs()[0].value;
  const GrowingShape shape = growing_shape(context, context.body.producer_op(value), append);
  return build_nest(context, [&](Elements& elements, Cuts& cuts) {
    if (context.facts().has_grid) elements.scopes.lanes = Lanes::Thread;
    OuterLoops outer;
    outer.axes = {
        {"i", element_count(shape.before)}, {"row", shape.rows, shape.new_rows}, {"c", element_count(shape.after)}};
    OpenOuter open = open_outer(elements.scopes, outer, cuts, context);
    IndexList index = unravel(open.index[0], shape.before);
    index.push_back(open.index[1] + shape.old_rows);
    for (const IndexExpr& at : unravel(open.index[2], shape.after)) index.push_back(at);
    elements.store(0, index, elements.at(value, index));
    if (For* loop = open.inner().loop(); loop && elements.scopes.lanes == Lanes::Host) loop->kind = LoopKind::Vector;
    close_outer(elements.scopes, open);
  });
}

}  // namespace weftc
