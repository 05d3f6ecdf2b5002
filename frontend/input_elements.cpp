// Matches the inputs of a model with the options for their elements.
#include "frontend/input_elements.h"

#include "ir/base/contains.h"

namespace weftc {

std::string names_there_are(const std::string& name, const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(name, known);
  if (!meant.empty()) return meant;
  std::vector<std::string> shown;
  for (const std::string& one : known)
    if (!contains(shown, printable(one))) shown.push_back(printable(one));
  return shown.empty() ? "; there are none" : "; there are: " + join(shown, ", ");
}

/// The flags that give the number of tensors of an input.
static std::string elements_flag(const OnnxValue& input) {
  const std::string name = printable(input.name);
  std::vector<std::string> flags;
  if (input.form.is_sequence) flags.push_back(format("--sequence {}=NUMBER", name));
  if (!input.form.is_sequence) flags.push_back(format("--optional {}=present", name));
  if (input.form.is_optional) flags.push_back(format("--optional {}=absent", name));
  return join(flags, " or ");
}

/// True if the request matches the form of such an input.
static bool fits(const ElementsRequest& request, const OnnxForm& form) {
  return request.is_absent ? form.is_optional : request.elements.has_value() == form.is_sequence;
}

/// The tensors of one input.
static bool unfold_input(const OnnxValue& input, const ReadOptions& options, ImportState& state,
                         std::vector<OnnxValue>& tensors, std::vector<WholeInput>& wholes) {
  for (const ElementsRequest& request : options.elements) {
    if (request.input != input.name || !fits(request, input.form)) continue;
    OnnxValue tensor = input;
    tensor.form = {};
    if (!request.is_absent && !request.elements) {  // a present optional is an ordinary input
      tensors.push_back(tensor);
      return true;
    }
    WholeInput whole{input, request.is_absent, {}};
    for (int64_t k = 0; k < request.elements.value_or(0); ++k) {
      tensor.name = format("{}.{}", input.name, k);
      whole.tensors.push_back(tensor.name);
      tensors.push_back(tensor);
    }
    wholes.push_back(std::move(whole));
    return true;
  }
  state.diags.error("open-sequence", Loc::in_file(state.model.file),
                    "input '{}' is {}: say with {} how many tensors that is", printable(input.name), type_text(input),
                    elements_flag(input));
  return false;
}

bool unfold_inputs(const std::vector<OnnxValue>& inputs, const ReadOptions& options, ImportState& state,
                   std::vector<OnnxValue>& tensors, std::vector<WholeInput>& wholes) {
  bool ok = true;
  std::vector<std::string> names;
  for (const OnnxValue& input : inputs) {
    if (input.form.is_tensor()) {
      tensors.push_back(input);
      continue;
    }
    names.push_back(input.name);
    ok &= unfold_input(input, options, state, tensors, wholes);
  }
  for (const ElementsRequest& request : options.elements) {
    if (contains(names, request.input)) continue;
    state.diags.error("unknown-elements", Loc::in_file(state.model.file), "{}: the model has no such input '{}'{}",
                      request.elements ? "--sequence" : "--optional", printable(request.input),
                      names_there_are(request.input, names));
    ok = false;
  }
  return ok;
}

void fold_inputs(const std::vector<WholeInput>& wholes, ImportState& state, ImportScope& scope) {
  for (const WholeInput& whole : wholes) {
    NewOp made = new_op(whole.is_absent ? OpKind::Optional : OpKind::SequenceConstruct, {});
    for (const std::string& tensor : whole.tensors)
      if (const auto value = scope.values.find(tensor); value != scope.values.end())
        made.inputs.push_back(value->second);
    if (made.inputs.size() < whole.tensors.size()) {  // reported with the tensor
      scope.failed.insert(whole.input.name);
      continue;
    }
    made.name = state.unique_op_name(whole.input.name + ".elements");
    made.result_names = {whole.input.name};
    scope.values[whole.input.name] = scope.graph.result(scope.graph.add(std::move(made)));
  }
}

}  // namespace weftc
