// TopK through weft/top_k.h and weft/device_top_k.h: processes one line of the operand at a time, and stores its first
// elements in sorted order.
//
//   for (int64_t i0 = 0; i0 < 1024; ++i0) {
//     const auto load = [=](int64_t i) { return x[i0 * 64 + i]; };
//     weft::top_k<float, weft::Extreme::Largest>(64, 2, load, [&](int64_t j, float element, int64_t at) {
//       values[i0 * 2 + j] = element;
//       indices[i0 * 2 + j] = at;
//     });
//   }
#include "backend/callback.h"
#include "backend/kernel_text.h"
#include "backend/outer_loops.h"
#include "backend/print.h"
#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

const Op& top_k_of(const Graph& body) {
  for (OpId id = body.first(); id; id = body.next(id))
    if (body.op(id).kind == OpKind::TopK) return body.op(id);
  check_failed(__FILE_NAME__, __LINE__, "a kernel without a TopK");
}

class TopKWriter {
 public:
  TopKWriter(KernelContext& context, RowTeam team)
      : context_(context),
        op_(top_k_of(context.body)),
        from_(context.body.type(op_.inputs[0])),
        to_(context.body.type(op_.outputs[0])),
        axis_(static_cast<size_t>(op_.integer("axis"))),
        team_(team) {}

  Statements run();

 private:
  /// The loops over the lines: all dimensions but the axis.
  OuterLoops lines() const;
  void put_load(Elements& elements, const std::string& load, IndexList index) const;
  void put_call(Elements& elements, const std::string& load, IndexList index) const;
  /// The name of the function with its types: "weft::top_k_by_warp<float, weft::Extreme::Largest>".
  std::string function() const;
  Expr extent(const TensorType& type) const;

  KernelContext& context_;
  const Op& op_;
  const TensorType &from_, &to_;
  const size_t axis_;
  const RowTeam team_;
};

/// A line needs several passes over its keys.
OuterLoops TopKWriter::lines() const {
  constexpr int64_t kPasses = 4;
  const Dims dims = context_.dims(from_);
  OuterLoops outer;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != axis_)
      outer.axes.push_back(
          {"i" + std::to_string(d), dims[d], run_bound(context_, from_, d), run_scale(context_, from_, d)});
  outer.work = dims[axis_] * kPasses;
  return outer;
}

std::string TopKWriter::function() const {
  const std::string suffix = team_ == RowTeam::Thread ? "" : team_ == RowTeam::Warp ? "_by_warp" : "_by_block";
  return "weft::top_k" + suffix + "<" + compute_type(from_.dtype) +
         ", weft::Extreme::" + (op_.integer("largest") ? "Largest" : "Smallest") + ">";
}

Expr TopKWriter::extent(const TensorType& type) const {
  const Expr bound = run_bound(context_, type, axis_);
  return bound.empty() ? Expr(context_.dims(type)[axis_]) : bound;
}

void TopKWriter::put_load(Elements& elements, const std::string& load, IndexList index) const {
  const std::string i = elements.scopes.names.unique("i");
  index[axis_] = index_variable(i, context_.extents(from_)[axis_]);
  put_callback(elements, "const auto " + load + " = [=](int64_t " + i + ") {", "};", {i},
               [&](Scope& scope) { scope.put(Return{elements.at(op_.inputs[0], index).expr}); });
}

void TopKWriter::put_call(Elements& elements, const std::string& load, IndexList index) const {
  Names& names = elements.scopes.names;
  const std::string j = names.unique("j"), element = names.unique("element"), at = names.unique("at");
  const Expr length = extent(from_);
  Expr count = extent(to_);
  // A failed check does not stop later kernels, so the count is clamped.
  if (!run_bound(context_, from_, axis_).empty()) count = weftc::call("std::min<int64_t>", {length, count});
  const std::string call = function() + "(" + text_of(length) + ", " + text_of(count) + ", " + load;
  const std::string put =
      "[&](int64_t " + j + ", " + compute_type(from_.dtype) + " " + element + ", int64_t " + at + ") {";
  index[axis_] = index_variable(j, context_.extents(to_)[axis_]);
  const std::vector<Graph::Output>& outputs = context_.body.outputs();
  put_callback(elements, call + ", " + put, "});", {j}, [&](Scope& scope) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      const bool is_index = context_.body.value(outputs[o].value).result == 1;
      elements.store(o, index, {name(is_index ? at : element), &scope});
    }
  });
}

Statements TopKWriter::run() {
  constexpr int64_t kLongLine = 4096;
  const bool has_grid = context_.facts().has_grid;
  context_.need_header(has_grid ? "device_top_k.h" : "top_k.h");
  return build_nest(context_, [&](Elements& elements, Cuts& cuts) {
    if (has_grid) elements.scopes.lanes = team_ == RowTeam::Warp ? Lanes::Warp : Lanes::Block;
    OpenOuter open = open_outer(elements.scopes, lines(), cuts, context_);
    if (team_ == RowTeam::Block && context_.dims(from_)[axis_] >= kLongLine && !context_.is_in_chunks())
      context_.cover(1, 1024);
    IndexList index(from_.shape.size());
    for (size_t d = 0, loop = 0; d < index.size(); ++d)
      if (d != axis_) index[d] = open.index[loop++];
    const std::string load = elements.scopes.names.unique("load");
    put_load(elements, load, index);
    put_call(elements, load, index);
    close_outer(elements.scopes, open);
  });
}

}  // namespace

Statements write_body(KernelContext& context, const TopK& strategy, Writer<TopK>) {
  return TopKWriter(context, strategy.team).run();
}

}  // namespace weftc
