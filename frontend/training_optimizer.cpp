// Types of operands are patterns. Symbols stand for the extents of the parameter's dims, and the element type of the
// parameter for its own, so that a function for float also works for double.
#include "frontend/training_optimizer.h"

#include <map>

namespace weftc {

namespace {

constexpr size_t kParameter = 0, kFirstState = 2, kAfterStates = 2;  // operands: w, gradient, ..., step, rate

/// True for an optimizer's signature: it returns the next parameter, then the next value of each state.
bool is_optimizer(const OnnxFunction& function) {
  return function.inputs.size() >= kFirstState + kAfterStates &&
         function.outputs.size() + 1 + kAfterStates == function.inputs.size();
}

const OnnxValue* type_of(const OnnxFunction& function, size_t operand) {
  const auto type = function.types.find(function.inputs[operand]);
  return type == function.types.end() ? nullptr : &type->second;
}

using Symbols = std::map<std::string, int64_t>;

/// The extents of the symbols in a type; nothing if the type does not match the dims.
std::optional<Symbols> symbols_in(const OnnxValue* type, const Dims& dims) {
  Symbols symbols;
  if (!type || !type->dims) return symbols;
  if (type->dims->size() != dims.size()) return {};
  for (size_t d = 0; d < dims.size(); ++d) {
    const OnnxDim& dim = (*type->dims)[d];
    if (dim.kind == OnnxDim::Kind::Fixed && dim.extent != dims[d]) return {};
    if (dim.kind == OnnxDim::Kind::Named && symbols.emplace(dim.name, dims[d]).first->second != dims[d]) return {};
  }
  return symbols;
}

/// The extents of declared dims; nothing if one does not follow from the parameter's dims.
std::optional<Dims> dims_by(const Symbols& symbols, const std::vector<OnnxDim>& declared) {
  Dims dims;
  for (const OnnxDim& dim : declared) {
    const auto symbol = symbols.find(dim.name);
    if (dim.kind == OnnxDim::Kind::Fixed)
      dims.push_back(dim.extent);
    else if (dim.kind == OnnxDim::Kind::Named && symbol != symbols.end())
      dims.push_back(symbol->second);
    else
      return {};
  }
  return dims;
}

}  // namespace

std::optional<TrainingOptimizer> TrainingOptimizer::find(TrainingFunctions& functions, const FunctionCall& call,
                                                         Diags& diags) {
  const std::optional<OnnxFunction> first = functions.find(call, "optimizer", "");
  if (!first) return {};
  TrainingOptimizer made;
  made.functions_ = functions.overloads_of(*first);
  made.loc_ = call.loc;
  for (const OnnxFunction& function : made.functions_) {
    if (is_optimizer(function)) continue;
    diags.error("train-optimizer", call.loc,
                "'{}' is no optimizer, which makes of (parameter, gradient, states ..., step, rate) the next "
                "(parameter, states ...)",
                function.name);
    return {};
  }
  return made;
}

const OnnxFunction* TrainingOptimizer::function_for(const OnnxTensor& parameter, Diags& diags) const {
  for (const OnnxFunction& function : functions_)
    if (symbols_in(type_of(function, kParameter), parameter.dims)) return &function;
  diags.error("train-optimizer-dims", loc_, "no '{}' is for a parameter of {} dimensions and the shape of '{}'",
              functions_.front().name, parameter.dims.size(), printable(parameter.name));
  return nullptr;
}

std::optional<std::vector<OptimizerState>> TrainingOptimizer::states_of(const OnnxFunction& function,
                                                                        const OnnxTensor& parameter,
                                                                        Diags& diags) const {
  const OnnxValue* const own = type_of(function, kParameter);
  const std::optional<Symbols> symbols = symbols_in(own, parameter.dims);
  std::vector<OptimizerState> states;
  for (size_t i = kFirstState; i + kAfterStates < function.inputs.size(); ++i) {
    OptimizerState& state = states.emplace_back();
    state.name = function.inputs[i], state.element_type = parameter.element_type, state.dims = parameter.dims;
    const OnnxValue* const type = type_of(function, i);
    if (!type) continue;
    if (!own || own->element_type != type->element_type) state.element_type = type->element_type;
    const std::optional<Dims> dims = type->dims ? dims_by(*symbols, *type->dims) : state.dims;
    if (!dims) {
      diags.error("train-state-dims", loc_, "'{}' says {} of its state '{}', which are not the dims of the parameter",
                  function.name, type_text(*type), state.name);
      return {};
    }
    state.dims = *dims;
  }
  return states;
}

}  // namespace weftc
