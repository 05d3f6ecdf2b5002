// Running sums and products through weft/scan.h and weft/device_scan.h: each element is read and written once. The
// epilogue is computed where a sum is stored: pointwise ops, and views that only move elements.
//
//   const auto load = [&](int64_t outer, int64_t i, int64_t inner) { return x[outer * 512 + i * 8 + inner]; };
//   weft::scan<float, weft::ScanOrder{}>(
//       team, 4, 64, 8, load, [&](int64_t outer, int64_t i, int64_t inner, float sum) {
//     y[outer * 512 + i * 8 + inner] = sum;
//   });
#include "backend/epilogue.h"
#include "backend/kernel_text.h"
#include "backend/print.h"
#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

class ScanWriter {
 public:
  explicit ScanWriter(KernelContext& context)
      : context_(context),
        body_(context.body),
        root_(scan_of(context.body)),
        op_(body_.producer_op(root_)),
        dims_(context.dims(root_)),
        axis_(static_cast<size_t>(op_.integer("axis"))),
        outer_(context.names.unique("outer")),
        i_(context.names.unique("i")),
        inner_(context.names.unique("inner")),
        after_(context, root_) {}

  Statements run(const Scan& strategy);

 private:
  // The dimensions before and after the scanned axis, which become `outer` and `inner`.
  Dims dims_before() const { return {dims_.begin(), dims_.begin() + static_cast<long>(axis_)}; }
  Dims dims_after() const { return {dims_.begin() + static_cast<long>(axis_) + 1, dims_.end()}; }
  IndexList index() const;
  std::string variables() const { return "int64_t " + outer_ + ", int64_t " + i_ + ", int64_t " + inner_; }
  void own_variables(Elements& elements, Scope& scope) const;
  // The lambda `load` that returns an element of the operand, computed from the ops before the scan in the kernel.
  Statements load(const std::string& load);
  // The call `head`, with a lambda as its last argument that takes a sum and computes the epilogue.
  Statements put(const std::string& head);
  void cover_lines(int64_t lines, bool by_block);

  KernelContext& context_;
  const Graph& body_;
  const ValueId root_;
  const Op& op_;
  const Dims dims_;
  const size_t axis_;
  const std::string outer_, i_, inner_;
  Epilogue after_;
};

/// The index of an element, from the three variables.
IndexList ScanWriter::index() const {
  const IndexDims extents = context_.extents(root_);
  const auto axis = extents.begin() + static_cast<long>(axis_);
  const IndexDims before(extents.begin(), axis), after(axis + 1, extents.end());
  IndexList index = unravel(index_variable(outer_, before.count()), before);
  index.push_back(index_variable(i_, *axis));
  for (const IndexExpr& at : unravel(index_variable(inner_, after.count()), after)) index.push_back(at);
  return index;
}

// Declares the lambda's parameters as variables of its scope, so that statements using them stay inside.
void ScanWriter::own_variables(Elements& elements, Scope& scope) const {
  elements.scopes.floor = elements.scopes.current = &scope;
  for (const std::string& variable : {outer_, i_, inner_}) elements.scopes.own(variable, &scope);
}

Statements ScanWriter::load(const std::string& load) {
  Cuts cuts;
  Elements elements(context_, cuts);
  Scope scope(&elements.scopes.root, Callback{"const auto " + load + " = [&](" + variables() + ") {", {}, "};"});
  own_variables(elements, scope);
  const Element element = elements.at(op_.inputs[0], index());
  scope.put(Return{element.expr});
  scope.finish();
  return elements.scopes.root.take_body();
}

Statements ScanWriter::put(const std::string& head) {
  Cuts cuts;
  Elements elements(context_, cuts);
  const std::string sum = elements.scopes.names.unique("sum");
  const std::string type = compute_type(body_.type(root_).dtype);
  Scope scope(&elements.scopes.root, Callback{head + "[&](" + variables() + ", " + type + " " + sum + ") {"});
  own_variables(elements, scope);
  after_.write(elements, sum);
  scope.finish();
  return elements.scopes.root.take_body();
}

/// A thread has a line; a block has one if lines are few and long.
void ScanWriter::cover_lines(int64_t lines, bool by_block) {
  constexpr int64_t kThreads = 256;
  context_.need_header("device_scan.h");
  context_.cover(by_block ? lines : (lines + kThreads - 1) / kThreads, kThreads);
}

Statements ScanWriter::run(const Scan& strategy) {
  const IndexList at = index();
  WEFT_CHECK(after_.reach(at), "a result is not after the running sum");
  const TensorType& type = body_.type(root_);
  std::string length = context_.run_extent(type, static_cast<int>(axis_));
  if (length.empty()) length = std::to_string(dims_[axis_]);
  const int64_t lines = element_count(dims_before()) * element_count(dims_after());
  const bool has_team = !context_.facts().has_grid;
  if (has_team)
    context_.need({Argument::Kind::Team});
  else
    cover_lines(lines, strategy.by_block);
  const bool exclusive = op_.integer_or("exclusive", 0) != 0, reverse = op_.integer_or("reverse", 0) != 0;
  std::vector<std::string> fields;
  if (exclusive) fields.push_back(".exclusive = true");
  if (reverse) fields.push_back(".reverse = true");
  if (op_.kind == OpKind::CumProd) fields.push_back(".product = true");
  const std::string order = "weft::ScanOrder{" + join(fields, ", ") + "}";
  const std::string load_name = context_.names.unique("load");
  Statements statements = load(load_name);
  append(statements,
         put(std::string("weft::scan") + (strategy.by_block ? "_by_block<" : "<") + compute_type(type.dtype) + ", " +
             order + ">(" + (has_team ? "team, " : "") + count_text(context_, type, 0, static_cast<int>(axis_)) + ", " +
             length + ", " + count_text(context_, type, static_cast<int>(axis_) + 1, type.ndim()) + ", " + load_name +
             ", "));
  return statements;
}

}  // namespace

Statements write_body(KernelContext& context, const Scan& strategy, Writer<Scan>) {
  return ScanWriter(context).run(strategy);
}

}  // namespace weftc
