#include "frontend/choose_parameters.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/name_pattern.h"

namespace weftc {

namespace {

/// "'cos', 'sin' and 3 more", with each one's description.
template <class Shown>
std::string some_of(const std::vector<const OnnxTensor*>& tensors, const Shown& shown) {
  constexpr size_t kShown = 10;
  std::vector<std::string> names;
  for (const OnnxTensor* tensor : tensors)
    if (names.size() < kShown) names.push_back(shown(*tensor));
  return join(names, ", ") + (tensors.size() > kShown ? format(" and {} more", tensors.size() - kShown) : "");
}

/// An entry of `parameters` that stands for the default choice of parameters.
constexpr const char* kDefault = "default";

bool is_default(const ParameterMatch& match) { return !match.ndim && match.name == kDefault; }

std::string quoted(const OnnxTensor& tensor) { return "'" + printable(tensor.name) + "'"; }

}  // namespace

bool ParameterChoice::matches(const std::vector<ParameterMatch>& list, const OnnxTensor& tensor,
                              std::unordered_set<size_t>& used) {
  bool is_matched = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool fits = list[i].ndim ? *list[i].ndim == static_cast<int64_t>(tensor.dims.size())
                                   : NamePattern(list[i].name).match(tensor.name).has_value();
    if (fits) used.insert(i), is_matched = true;
  }
  return is_matched;
}

bool ParameterChoice::check_used(const std::vector<ParameterMatch>& list,
                                 const std::unordered_set<size_t>& used) const {
  std::vector<std::string> names;
  for (const OnnxTensor* tensor : found_.trainable) names.push_back(tensor->name);
  for (size_t i = 0; i < list.size(); ++i) {
    if (used.contains(i)) continue;
    const auto tie = std::ranges::find(ties_, list[i].name, &TiedCopy::copy);
    if (contains(names, list[i].name)) {
      diags_.error("train-parameter", list[i].loc, "'{}' is frozen", printable(list[i].name));
    } else if (tie != ties_.end()) {
      diags_.error("train-parameter", list[i].loc, "'{}' is a copy of '{}', which stands for both",
                   printable(tie->copy), printable(tie->original));
    } else {
      const std::string shown =
          list[i].ndim ? format("{ndim: {}}", *list[i].ndim) : "'" + printable(list[i].name) + "'";
      diags_.error("train-parameter", list[i].loc, "{} is no initializer of real numbers that the loss depends on{}",
                   shown, list[i].ndim ? "" : did_you_mean(list[i].name, names));
    }
  }
  return used.size() == list.size();
}

/// True if an entry of `parameters` is the name itself, not a pattern.
bool ParameterChoice::is_named(const std::string& name) const {
  return std::ranges::any_of(request_.parameters, [&](const ParameterMatch& m) { return !m.ndim && m.name == name; });
}

bool ParameterChoice::takes_default() const {
  return request_.parameters.empty() || std::ranges::any_of(request_.parameters, is_default);
}

void ParameterChoice::tie_copies(TrainingWriter& step) {
  for (TiedCopy& tie : find_tied_copies(model_)) {
    if (is_named(tie.copy)) continue;
    const auto copy = std::ranges::find(model_.graph.initialisers, tie.copy, &OnnxTensor::name);
    step.add_for(request_.loc);
    if (tie.order.empty()) {
      const std::string dims = tie.copy + ".dims";
      step.add("Constant", {}, {dims}).attrs = {attr_of_ints("value_ints", copy->dims)};
      step.add("Reshape", {tie.original, dims}, {tie.copy});
    } else {
      step.add("Transpose", {tie.original}, {tie.copy}).attrs = {attr_of_ints("perm", tie.order)};
    }
    std::erase_if(model_.graph.inputs, [&](const OnnxValue& input) { return input.name == tie.copy; });
    model_.graph.initialisers.erase(copy);
    ties_.push_back(std::move(tie));
  }
}

void ParameterChoice::find(const std::string& loss) {
  loss_ = loss;
  found_ = find_parameters(model_, loss);
}

/// An initialiser that is requested by name is trained, whatever its role seems to be.
bool ParameterChoice::is_chosen(const OnnxTensor& tensor, std::unordered_set<size_t>& used) const {
  const bool is_parameter = contains(found_.trainable, &tensor);
  bool is_any = request_.parameters.empty() && is_parameter;
  for (size_t i = 0; i < request_.parameters.size(); ++i) {
    const ParameterMatch& match = request_.parameters[i];
    const bool is_among = is_parameter || !match.ndim;
    std::unordered_set<size_t> fits;
    if (is_default(match) ? !is_parameter : !is_among || !matches({match}, tensor, fits)) continue;
    used.insert(i), is_any = true;
  }
  return is_any;
}

/// Refuses parameters that the loss does not depend on: they would silently keep their values, unless the request
/// excludes them.
bool ParameterChoice::all_have_gradients() {
  const std::vector<const OnnxTensor*>& apart = found_.apart;
  if (apart.empty() || !takes_default()) return true;
  diags_.error("train-apart", request_.loss_loc,
               "the loss '{}' does not depend on {}, which would get no gradient: name {} in 'frozen'",
               printable(loss_), some_of(apart, quoted), apart.size() == 1 ? "it" : "them");
  return false;
}

bool ParameterChoice::all_are_real(const std::vector<const OnnxTensor*>& chosen) {
  for (const OnnxTensor* tensor : chosen) {
    const DType dtype = *dtype_of_element_type(tensor->element_type);
    if (dtype == DType::F32 || dtype == DType::F64) continue;
    diags_.error("train-dtype-unsupported", request_.loc, "parameter '{}' is {}: only f32 and f64 are trained",
                 printable(tensor->name), dtype_name(dtype));
  }
  return diags_.ok();
}

/// In a file without marks, any constant may be meant as a parameter. If all initialisers have marks, a constant is
/// certain to be one.
void ParameterChoice::warn_of_constants() const {
  if (found_.constants.empty() || !found_.is_guessed || !takes_default()) return;
  const auto shown = [](const OnnxTensor& tensor) { return quoted(tensor) + " [" + dims_text(tensor.dims) + "]"; };
  diags_.warning(
      "train-constants", request_.loc,
      "the file does not say which initializers are parameters, and what reads these makes them look like "
      "constants, which stay as they are: {}; 'parameters: [default, NAMES]' trains some of them, too, and 'frozen: "
      "[NAMES]' says that they are constants",
      some_of(found_.constants, shown));
}

void ParameterChoice::warn_of_computed(const std::vector<const OnnxTensor*>& chosen) const {
  for (const auto& [tensor, sources] : found_.computed) {
    if (!contains(chosen, tensor)) continue;
    std::vector<std::string> shown;
    for (const std::string& source : sources) shown.push_back("'" + printable(source) + "'");
    diags_.warning("train-computed", request_.loc,
                   "{} is what the exporter computed from {}; it is trained itself, as if it were a parameter: "
                   "torch.onnx.export with optimize=False leaves the computation in the file",
                   quoted(*tensor), join(shown, ", "));
  }
}

std::optional<std::vector<const OnnxTensor*>> ParameterChoice::choose(const std::string& loss) {
  find(loss);
  std::unordered_set<size_t> chosen, frozen;
  std::vector<const OnnxTensor*> parameters, constants;
  for (const OnnxTensor& tensor : model_.graph.initialisers) {
    const bool is_constant = contains(found_.constants, &tensor), is_number = contains(found_.numbers, &tensor);
    if (!is_constant && !is_number && !contains(found_.trainable, &tensor)) continue;
    const bool is_frozen = matches(request_.frozen, tensor, frozen);
    if (is_number && !is_named(tensor.name)) continue;
    const bool is_asked_for = is_chosen(tensor, chosen);
    if (is_asked_for && !is_frozen) parameters.push_back(&tensor);
    if (is_constant && !is_asked_for && !is_frozen) constants.push_back(&tensor);
  }
  found_.constants = std::move(constants);
  std::erase_if(found_.apart, [&](const OnnxTensor* tensor) { return matches(request_.frozen, *tensor, frozen); });
  if (!check_used(request_.parameters, chosen) || !check_used(request_.frozen, frozen) || !all_have_gradients())
    return {};
  if (parameters.empty())
    diags_.error(
        "train-no-parameters", request_.loc,
        "'{}' depends on no initializer that could be trained: real numbers, which are not frozen{}", printable(loss_),
        found_.constants.empty() && found_.numbers.empty() ? ""
                                                           : "; 'parameters: [NAMES]' takes what looks like constants");
  if (!all_are_real(parameters)) return {};
  warn_of_constants();
  warn_of_computed(parameters);
  return parameters;
}

}  // namespace weftc
