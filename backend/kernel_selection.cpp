// Selections by data, through weft/selection.h and weft/box_selection.h, on a device device_selection.h: positions of
// true elements in a mask, and boxes of a line that overlap with no better one.
//
//   const auto load = [=](int64_t i) { return mask[i]; };
//   const auto put = [&](int64_t j, int64_t at) { positions[j] = at; };
//   weft::true_positions(24, 24, load, put, [&](int64_t count) {
//     count_of[0] = count;
//   });
#include "backend/callback.h"
#include "backend/kernel_text.h"
#include "backend/outer_loops.h"
#include "backend/print.h"
#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

const Op& op_of(const Graph& body, OpKind kind) {
  for (OpId id = body.first(); id; id = body.next(id))
    if (body.op(id).kind == kind) return body.op(id);
  check_failed(__FILE_NAME__, __LINE__, "a kernel that selects has no selection");
}

/// Common code for writing both kinds of selections.
class SelectionWriter {
 public:
  SelectionWriter(KernelContext& context, OpKind kind) : context_(context), op_(op_of(context.body, kind)) {
    context_.need_header(on_device()                 ? "device_selection.h"
                         : kind == OpKind::BoxChoice ? "box_selection.h"
                                                     : "selection.h");
  }

 protected:
  bool on_device() const { return context_.facts().has_grid; }
  /// The length of a dimension: a number, or the argument that holds it.
  Expr extent(const TensorType& type, size_t dim) const {
    const Expr bound = run_bound(context_, type, dim);
    return bound.empty() ? Expr(context_.dims(type)[dim]) : bound;
  }
  const TensorType& type(ValueId value) const { return context_.body.type(value); }
  std::string text(const TensorType& of, size_t dim) const { return text_of(extent(of, dim)); }
  /// `const auto NAME = [=](PARAMETERS) { return element; };`
  std::string put_load(Elements& elements, ValueId value, const IndexList& index,
                       const std::vector<std::string>& parameters) const {
    const std::string load = elements.scopes.names.unique("load");
    std::string list;
    for (const std::string& each : parameters) list += (list.empty() ? "int64_t " : ", int64_t ") + each;
    put_callback(elements, "const auto " + load + " = [=](" + list + ") {", "};", parameters,
                 [&](Scope& scope) { scope.put(Return{elements.at(value, index).expr}); });
    return load;
  }
  /// Stores `value` in the outputs for result number `result` of the op.
  void store(Elements& elements, Scope& scope, uint32_t result, const IndexList& index,
             const std::string& value) const {
    const std::vector<Graph::Output>& outputs = context_.body.outputs();
    for (size_t o = 0; o < outputs.size(); ++o)
      if (context_.body.value(outputs[o].value).result == result) elements.store(o, index, {name(value), &scope});
  }

  KernelContext& context_;
  const Op& op_;
};

class MaskWriter : SelectionWriter {
 public:
  explicit MaskWriter(KernelContext& context) : SelectionWriter(context, OpKind::TruePositions) {}

  Statements run() {
    return build_nest(context_, [&](Elements& elements, Cuts& cuts) {
      if (on_device()) elements.scopes.lanes = Lanes::Warp;
      OpenOuter open = open_outer(elements.scopes, {}, cuts, context_);
      put_call(elements);
      close_outer(elements.scopes, open);
    });
  }

 private:
  void put_call(Elements& elements) const {
    Names& names = elements.scopes.names;
    const std::string i = names.unique("i"), j = names.unique("j"), at = names.unique("at"),
                      count = names.unique("count"), put = names.unique("put");
    const TensorType &mask = type(op_.inputs[0]), &places = type(op_.outputs[0]);
    const std::string load = put_load(elements, op_.inputs[0], {index_variable(i, context_.extents(mask)[0])}, {i});
    put_callback(
        elements, "const auto " + put + " = [&](int64_t " + j + ", int64_t " + at + ") {", "};", {j},
        [&](Scope& scope) { store(elements, scope, 0, {index_variable(j, context_.extents(places)[0])}, at); });
    const std::string call = std::string(on_device() ? "weft::true_positions_by_warp(" : "weft::true_positions(") +
                             text(mask, 0) + ", " + text(places, 0) + ", " + load + ", " + put;
    put_callback(elements, call + ", [&](int64_t " + count + ") {", "});", {},
                 [&](Scope& scope) { store(elements, scope, 1, {}, count); });
  }
};

class BoxWriter : SelectionWriter {
 public:
  explicit BoxWriter(KernelContext& context) : SelectionWriter(context, OpKind::BoxChoice) {}

  Statements run() {
    return build_nest(context_, [&](Elements& elements, Cuts& cuts) {
      if (on_device()) elements.scopes.lanes = Lanes::Warp;
      OpenOuter open = open_outer(elements.scopes, lines(), cuts, context_);
      put_call(elements, open.index[0], open.index[1]);
      close_outer(elements.scopes, open);
    });
  }

 private:
  enum Operand : uint8_t { kBoxes, kScores, kMost, kOverlap, kLowest };

  OuterLoops lines() const {
    const Dims dims = context_.dims(op_.inputs[kScores]);
    OuterLoops outer;
    for (const size_t d : {size_t{0}, size_t{1}}) outer.axes.push_back({"i" + std::to_string(d), dims[d]});
    outer.work = dims[2] * 16;  // each box is compared with some others
    return outer;
  }

  std::string function() const {
    return std::string("weft::choose_boxes") + (on_device() ? "_by_warp<" : "<") +
           compute_type(type(op_.inputs[kScores]).dtype) +
           ", weft::BoxForm::" + (op_.integer("center_point_box") ? "Middle" : "Corners") + ">";
  }

  /// "{most, overlap, lowest, true}": a weft::BoxLimits.
  std::string limits(Elements& elements) const {
    const auto scalar = [&](Operand operand) { return text_of(elements.at(op_.inputs[operand], {}).expr); };
    const bool is_filtered = op_.inputs.size() > kLowest;
    return "{" + scalar(kMost) + ", " + scalar(kOverlap) + ", " + (is_filtered ? scalar(kLowest) : "0") + ", " +
           (is_filtered ? "true" : "false") + "}";
  }

  void put_call(Elements& elements, const IndexExpr& image, const IndexExpr& line) const {
    Names& names = elements.scopes.names;
    const std::string i = names.unique("i"), k = names.unique("k"), j = names.unique("j"), at = names.unique("at");
    const TensorType &boxes = type(op_.inputs[kBoxes]), &scores = type(op_.inputs[kScores]),
                     &places = type(op_.outputs[0]);
    const IndexExpr box = index_variable(i, context_.extents(scores)[2]),
                    place = index_variable(j, context_.extents(places)[2]);
    const std::string score = put_load(elements, op_.inputs[kScores], {image, line, box}, {i});
    const std::string edge =
        put_load(elements, op_.inputs[kBoxes], {image, box, index_variable(k, context_.extents(boxes)[2])}, {i, k});
    std::string call = function() + "(" + text(scores, 2) + ", " + text(places, 2) + ", " + limits(elements) + ", " +
                       score + ", " + edge;
    if (on_device()) call += ", " + put_taken(elements, {image, line, place}, j);
    put_callback(elements, call + ", [&](int64_t " + j + ", int64_t " + at + ") {", "});", {j}, [&](Scope& scope) {
      store(elements, scope, 0, {image, line, place}, at);
    });
  }

  /// Boxes that were selected before are read back from the result.
  std::string put_taken(Elements& elements, const IndexList& index, const std::string& j) const {
    const std::string taken = elements.scopes.names.unique("taken");
    const auto number = static_cast<size_t>(context_.output_parameter(0));
    const Expr place =
        element(context_.parameter_name(number), context_.offset(context_.kernel.parameters[number], index));
    put_callback(elements, "const auto " + taken + " = [=](int64_t " + j + ") {", "};", {j},
                 [&](Scope& scope) { scope.put(Return{place}); });
    return taken;
  }
};

}  // namespace

Statements write_body(KernelContext& context, const Selection&, Writer<Selection>) { return MaskWriter(context).run(); }

Statements write_body(KernelContext& context, const BoxSelection&, Writer<BoxSelection>) {
  return BoxWriter(context).run();
}

}  // namespace weftc
