// Lengths as ops of the graph. They stand in front of everything that computes, because a length may be asked for
// anywhere.
//
//   past + seq * 2   ->   n = ExtentOf(x), m = ExtentOf(past), Mul(n, 2), Add(m, Mul(n, 2))
#include "ir/length_values.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

class LengthWriter {
 public:
  LengthWriter(Module& module, Graph& graph) : module_(module), graph_(graph) {
    WEFT_CHECK(&graph == &module.graph, "a run-time length inside a region");
  }

  ValueId value_of(const Length& length) {
    const auto known = module_.lengths.find(length.text());
    if (known != module_.lengths.end() && graph_.is_live(graph_.producer(known->second))) return known->second;
    const ValueId made = length.is_constant() ? constant(length.constant()) : sum_of(length.terms());
    module_.lengths[length.text()] = made;
    return made;
  }

 private:
  ValueId sum_of(const std::vector<Length::Term>& terms) {
    ValueId sum;
    for (const Length::Term& term : terms) {
      const ValueId part = product_of(term);
      sum = sum ? op(OpKind::Add, sum, part) : part;
    }
    return sum;
  }
  ValueId product_of(const Length::Term& term) {
    ValueId product;
    for (const LengthSymbolPtr& factor : term.factors) {
      const ValueId each = symbol(*factor);
      product = product ? op(OpKind::Mul, product, each) : each;
    }
    if (product && term.coefficient == 1) return product;
    const ValueId number = constant(term.coefficient);
    return product ? op(OpKind::Mul, product, number) : number;
  }
  ValueId symbol(const LengthSymbol& symbol) {
    switch (symbol.kind) {
      case LengthSymbol::Kind::Named:
        return module_.lengths.at(symbol.text);
      case LengthSymbol::Kind::Quotient:
        return function(OpKind::Div, symbol);
      case LengthSymbol::Kind::Remainder:
        return function(OpKind::Mod, symbol);
      case LengthSymbol::Kind::Minimum:
        return function(OpKind::Min, symbol);
      case LengthSymbol::Kind::Maximum:
        return function(OpKind::Max, symbol);
    }
    return {};
  }
  ValueId function(OpKind kind, const LengthSymbol& symbol) {
    const ValueId a = value_of(symbol.operands[0]), b = value_of(symbol.operands[1]);
    return op(kind, a, b);
  }

  /// What follows the last op that gives an input or a length; what an earlier length was computed from stands in front
  /// of that length.
  OpId place() const {
    OpId last;
    for (OpId id = graph_.first(); id; id = graph_.next(id)) {
      const Op& op = graph_.op(id);
      const bool is_length = std::any_of(module_.lengths.begin(), module_.lengths.end(),
                                         [&](const auto& known) { return contains_output(op, known.second); }) ||
                             std::any_of(made_.begin(), made_.end(), [&](ValueId v) { return contains_output(op, v); });
      if (op.kind == OpKind::Input || is_length) last = id;
    }
    return last ? graph_.next(last) : graph_.first();
  }
  static bool contains_output(const Op& op, ValueId value) {
    return std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end();
  }
  /// A scalar op of int64, named after the first input.
  ValueId add(OpKind kind, std::vector<ValueId> operands, Attrs attrs) {
    const Op& like = graph_.op(graph_.first());
    NewOp made = copy_of(like);
    made.kind = kind;
    made.inputs = std::move(operands);
    made.results = {{DType::I64, {}, {}}};
    made.attrs = std::move(attrs);
    made.name = like.name + "/" + op_def(kind).name;
    made.port.reset();
    made_.push_back(graph_.result(graph_.add(std::move(made), place())));
    return made_.back();
  }
  ValueId constant(int64_t number) {
    Tensor tensor(DType::I64, {});
    tensor.put_int(0, number);
    return add(OpKind::Constant, {}, {{"value", module_.constants.add("length", tensor)}});
  }
  ValueId op(OpKind kind, ValueId a, ValueId b) { return add(kind, {a, b}, {}); }

  Module& module_;
  Graph& graph_;
  std::vector<ValueId> made_;
};

}  // namespace

ValueId length_value(Module& module, Graph& graph, const Length& length) {
  return LengthWriter(module, graph).value_of(length);
}

bool count_lengths(Module& module, Graph& graph, OpId id) {
  for (ValueId v : std::vector<ValueId>(graph.op(id).outputs)) {
    TensorType type = graph.type(v);
    bool is_new = false;
    for (Extent& extent : type.shape) {
      if (!extent.length || extent.count) continue;
      if (&graph != &module.graph || !has_values(module, *extent.length)) return false;
      extent.count = length_value(module, graph, *extent.length);
      is_new = true;
    }
    if (is_new) graph.retype(v, std::move(type));
  }
  return true;
}

bool has_values(const Module& module, const Length& length) {
  for (const Length::Term& term : length.terms())
    for (const LengthSymbolPtr& factor : term.factors) {
      if (factor->kind == LengthSymbol::Kind::Named && !module.lengths.contains(factor->text)) return false;
      for (const Length& operand : factor->operands)
        if (!has_values(module, operand)) return false;
    }
  return true;
}

}  // namespace weftc
