// Builds one-op graphs, runs the reference on them, and follows decompositions.
#pragma once
#include <map>
#include <utility>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace weftc {

inline Tensor reals(Dims dims, std::vector<double> values, DType dtype = DType::F32) {
  Tensor t(dtype, std::move(dims));
  t.real = std::move(values);
  return t;
}
inline Tensor ints(Dims dims, std::vector<int64_t> values, DType dtype = DType::I64) {
  Tensor t(dtype, std::move(dims));
  t.integers = std::move(values);
  return t;
}

/// A graph with one op on constants or inputs.
struct OneOp {
  Module module;
  OpId op;
  Diags diags;
  std::map<uint32_t, Tensor> values;  // of the inputs, by value

  ValueId input(const Tensor& tensor) {
    NewOp made;
    made.kind = OpKind::Input;
    made.results = {{tensor.dtype, shape_of(tensor.dims), {}}};
    made.name = "x";
    const ValueId value = module.graph.result(module.graph.add(std::move(made)));
    values[value.index] = tensor;
    return value;
  }
  ValueId constant(const Tensor& tensor) {
    NewOp made;
    made.kind = OpKind::Constant;
    made.results = {{tensor.dtype, shape_of(tensor.dims), {}}};
    made.name = "c";
    made.attrs = {{"value", module.constants.add("c", tensor)}};
    return module.graph.result(module.graph.add(std::move(made)));
  }
  /// False where infer refuses the op.
  bool add(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {}, int outputs = 1) {
    NewOp made;
    made.kind = kind;
    made.inputs = std::move(inputs);
    made.attrs = std::move(attrs);
    made.results.resize(outputs);
    made.name = op_def(kind).name;
    op = module.graph.add(std::move(made));
    const bool inferred = infer_op(module, module.graph, op, &diags);
    if (inferred)
      for (ValueId v : module.graph.op(op).outputs) module.graph.add_output(v, "y");
    return inferred;
  }
  OpView view() { return OpView(module, module.graph, module.graph.op(op)); }

  std::vector<Tensor> eval_op(OpId id) {
    const Op& at = module.graph.op(id);
    if (at.kind == OpKind::Input) return {values.at(at.outputs[0].index)};
    if (at.kind == OpKind::Constant) return {module.constants.tensor(at.constant("value"))};
    std::vector<Tensor> results(at.outputs.size());
    EvalContext context{at, {}, {}, {}, results, {}, {}, {}, {}, {}};
    for (ValueId v : at.inputs) context.inputs.push_back(v ? &values.at(v.index) : nullptr);
    for (ValueId v : at.outputs) {
      context.result_dims.push_back(module.graph.type(v).dims());
      context.result_dtypes.push_back(module.graph.type(v).dtype);
    }
    op_def(at).eval(context);
    return results;
  }
  /// The outputs of the graph as it is.
  std::vector<Tensor> run() {
    for (OpId id : module.graph.order()) {
      std::vector<Tensor> results = eval_op(id);
      for (size_t i = 0; i < results.size(); ++i) values[module.graph.op(id).outputs[i].index] = std::move(results[i]);
    }
    std::vector<Tensor> outputs;
    for (const Graph::Output& output : module.graph.outputs()) outputs.push_back(values.at(output.value.index));
    return outputs;
  }
  /// Decomposes until only primitive ops are left; false where something is not supported.
  bool decompose() {
    for (bool changed = true; changed;) {
      changed = false;
      for (OpId id : module.graph.order()) {
        if (!decomposes(OpView(module, module.graph, module.graph.op(id)))) continue;
        const std::vector<ValueId> made = decompose_op(module, module.graph, id, &diags);
        if (made.empty()) return false;
        for (size_t i = 0; i < made.size() && i < module.graph.op(id).outputs.size(); ++i)
          if (made[i]) module.graph.replace_uses(module.graph.op(id).outputs[i], made[i]);
        module.graph.erase(id);
        changed = true;
      }
    }
    return true;
  }
};

/// The result of an op after decomposition.
inline Tensor decomposed(OpKind kind, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  OneOp one;
  std::vector<ValueId> operands;
  for (const Tensor& tensor : inputs) operands.push_back(one.input(tensor));
  REQUIRE(one.add(kind, operands, attrs));
  REQUIRE(one.decompose());
  return one.run()[0];
}

}  // namespace weftc
