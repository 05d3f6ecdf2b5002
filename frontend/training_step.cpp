#include "frontend/training_step.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_set>

#include "frontend/choose_parameters.h"
#include "frontend/loss_scaling.h"
#include "frontend/onnx_text.h"
#include "frontend/training_calls.h"
#include "frontend/training_mode.h"
#include "frontend/training_optimizer.h"
#include "frontend/training_writer.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

constexpr const char *kStep = "train.step", *kRate = "train.rate", *kNorm = "grad_norm";

/// A trained initialiser with its gradient, optimizer, rate and states.
struct Parameter {
  const OnnxTensor* tensor;
  std::string gradient = {};  // name of its gradient after the last modification
  const OnnxFunction* optimizer = nullptr;
  std::vector<OnnxAttr> attrs = {};  // of its optimizer call
  std::string rate = kRate;          // the learning rate of its update
  std::vector<OptimizerState> states = {};

  std::string part(const char* name) const { return tensor->name + "." + name; }
};

class TrainingStep {
 public:
  TrainingStep(OnnxModel& model, const Schedule& schedule, bool scales_loss, Diags& diags)
      : model_(model),
        schedule_(schedule),
        request_(*schedule.train),
        scales_loss_(scales_loss),
        diags_(diags),
        functions_(model, diags),
        step_(model),
        choice_(model, *schedule.train, diags) {}
  std::optional<WrittenStep> run();

 private:
  bool declare_inputs();
  bool write_call(const FunctionCall& call, const OnnxFunction& function, const std::string& result);
  bool write_loss();
  std::optional<std::string> write_term(const LossRequest& term, const std::string& name);
  bool write_metrics();
  bool is_made(const std::string& value, const Loc& loc) const;
  bool choose_parameters();
  bool choose_optimizers();
  std::string rate_of_group(const FunctionCall::Argument& given);
  bool group_attrs();
  std::vector<const OnnxTensor*> bind(const std::unordered_set<std::string>& names);
  bool carry_statistics();
  void bind_parameters();
  void write_gradient();
  std::string computed_under(const std::string& state, const std::string& next);
  void write_clip();
  bool write_rate();
  void write_updates();
  void write_averages();
  void set_outputs(const Training& training);

  std::vector<std::string> known_names() const;

  OnnxModel& model_;
  const Schedule& schedule_;
  const TrainRequest& request_;
  const bool scales_loss_;
  Diags& diags_;
  TrainingFunctions functions_;
  TrainingWriter step_;
  ParameterChoice choice_;
  std::string loss_, evaluates_;
  std::optional<TrainingOptimizer> optimizer_;
  std::vector<Parameter> parameters_;
  std::map<std::string, double> rates_;  // for groups: factors of the rate
};

std::vector<std::string> TrainingStep::known_names() const {
  std::vector<std::string> names;
  for (const OnnxValue& input : model_.graph.inputs) names.push_back(input.name);
  for (const OnnxTensor& tensor : model_.graph.initialisers) names.push_back(tensor.name);
  for (const OnnxNode& node : model_.graph.nodes) names.insert(names.end(), node.outputs.begin(), node.outputs.end());
  return names;
}

bool TrainingStep::declare_inputs() {
  bool ok = true;
  for (const InputRequest& input : request_.inputs) {
    const std::optional<OnnxValue> type = read_onnx_type(input.name, input.type);
    if (!type || !type->other_type.empty() || !type->dims) {
      diags_.error("train-input", input.loc, "'{}' is no type of a tensor such as int64[N, 3]", printable(input.type));
      ok = false;
    } else if (contains(known_names(), input.name)) {
      diags_.error("train-input", input.loc, "the model has a value '{}' already", printable(input.name));
      ok = false;
    } else {
      model_.graph.inputs.push_back(*type);
    }
  }
  if (ok && model_.graph.inputs.empty()) {
    diags_.error("train-no-inputs", request_.loc,
                 "the model has no inputs: there is nothing that samples are given for");
    return false;
  }
  return ok;
}

/// Writes a call of a function: arguments named like its operands are values, all others attributes.
bool TrainingStep::write_call(const FunctionCall& call, const OnnxFunction& function, const std::string& result) {
  const std::vector<std::string> known = known_names();
  OnnxNode node;
  node.name = node.op_type = function.name, node.domain = function.domain, node.opset = 1;
  node.inputs.resize(function.inputs.size());
  step_.add_for(call.loc);
  node.call_site = step_.call_site();
  bool ok = true;
  for (const FunctionCall::Argument& given : call.arguments) {
    const auto operand = std::ranges::find(function.inputs, given.name);
    if (operand == function.inputs.end()) {
      ok &= functions_.set_argument(function, given, node.attrs);
      continue;
    }
    const std::string& value = given.words.front();
    node.inputs[static_cast<size_t>(operand - function.inputs.begin())] = value;
    if (contains(known, value)) continue;
    diags_.error("train-name", given.value_loc, "the model has no value '{}'{}", printable(value),
                 did_you_mean(value, known));
    ok = false;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) continue;
    diags_.error("train-operand", call.loc, "'{}' needs the value '{}'", function.name, function.inputs[i]);
    ok = false;
  }
  if (!ok || !functions_.has_required(function, node.attrs, call)) return false;
  node.outputs = {result};
  model_.graph.nodes.push_back(std::move(node));
  return true;
}

/// The value of a term; the result of a function gets the name.
std::optional<std::string> TrainingStep::write_term(const LossRequest& term, const std::string& name) {
  if (!term.value.empty()) return is_made(term.value, term.loc) ? std::optional(term.value) : std::nullopt;
  const std::optional<OnnxFunction> loss = functions_.find(term.call, "loss", "");
  return loss && write_call(term.call, *loss, name) ? std::optional(name) : std::nullopt;
}

/// The loss, or the sum of several losses `loss.0`, `loss.1`, ...
bool TrainingStep::write_loss() {
  const std::string name = contains(known_names(), std::string("loss")) ? "train.loss" : "loss";
  const size_t count = request_.losses.size();
  std::string term;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<std::string> next =
        write_term(request_.losses[i], count == 1 ? name : format("{}.{}", name, i));
    if (!next) return false;
    const std::string sum = i + 1 == count ? name : format("{}.of_{}", name, i + 1);
    step_.add_for(request_.loss_loc);
    if (i > 0) step_.add("Add", {term, *next}, {sum});
    term = i > 0 ? sum : *next;
  }
  loss_ = term;
  return true;
}

/// Each metric is an output of its name; losses are metrics, too.
bool TrainingStep::write_metrics() {
  bool ok = true;
  for (const MetricRequest& metric : request_.metrics) {
    const auto is_loss = [&](const OnnxFunction& known) {
      return known.domain == "weft.loss" && known.name == metric.call.function;
    };
    static const std::vector<std::string> kOfLog{"step",    "loss",          "rate",         "grad_norm", "ms",
                                                 "samples", "samples_per_s", "tokens_per_s", kLossScale,  kSkipped};
    if (contains(kOfLog, metric.name) || metric.name.starts_with("train.")) {
      diags_.error("train-metric-name", metric.loc, "the log has a figure '{}' of its own: choose another name",
                   printable(metric.name));
      ok = false;
    } else if (contains(known_names(), metric.name) && metric.value != metric.name) {
      diags_.error("train-metric", metric.loc, "the model has a value '{}' already: choose another name",
                   printable(metric.name));
      ok = false;
    } else if (!metric.value.empty()) {
      ok &= is_made(metric.value, metric.loc);
      step_.add_for(metric.loc);
      if (metric.value != metric.name) step_.add("Identity", {metric.value}, {metric.name});
    } else {
      const bool of_losses = std::ranges::any_of(model_.functions, is_loss);
      const std::optional<OnnxFunction> called = functions_.find(metric.call, of_losses ? "loss" : "metric", "");
      ok &= called && write_call(metric.call, *called, metric.name);
    }
  }
  return ok;
}

bool TrainingStep::is_made(const std::string& value, const Loc& loc) const {
  std::vector<std::string> made;
  for (const OnnxNode& node : model_.graph.nodes) made.insert(made.end(), node.outputs.begin(), node.outputs.end());
  if (contains(made, value)) return true;
  diags_.error("train-name", loc, "no node of the model makes '{}'{}", printable(value), did_you_mean(value, made));
  return false;
}

bool TrainingStep::choose_parameters() {
  const auto chosen = choice_.choose(loss_);
  if (!chosen) return false;
  for (const OnnxTensor* tensor : *chosen) parameters_.push_back({tensor});
  return true;
}

/// Functions of one optimizer differ in the parameters that they accept, and in their states.
bool TrainingStep::choose_optimizers() {
  for (Parameter& parameter : parameters_) {
    parameter.optimizer = optimizer_->function_for(*parameter.tensor, diags_);
    if (!parameter.optimizer) return false;
    auto states = optimizer_->states_of(*parameter.optimizer, *parameter.tensor, diags_);
    if (!states) return false;
    parameter.states = std::move(*states);
  }
  return true;
}

/// The value of a group's rate; "x0.5" multiplies the rate of the others. Empty after reporting.
std::string TrainingStep::rate_of_group(const FunctionCall::Argument& given) {
  const std::string word = given.words.size() == 1 ? given.words[0] : "";
  double factor = 0;
  const auto [end, error] = std::from_chars(word.data() + !word.empty(), word.data() + word.size(), factor);
  const bool is_factor = word.starts_with("x") && error == std::errc() && end == word.data() + word.size();
  if (is_factor && factor >= 0 && std::isfinite(factor)) {
    const std::string value = format("{}.{}", kRate, word);
    rates_.emplace(value, factor);
    return value;
  }
  diags_.error("train-group-rate", given.value_loc,
               "a group's 'rate' is a multiple of the optimizer's, such as x0.5, not {}",
               printable(join(given.words, ", ")));
  return "";
}

/// The rate is a function of its own. Other keys of the optimizer are its attributes; groups may override them.
bool TrainingStep::group_attrs() {
  bool ok = true;
  std::map<const OnnxFunction*, std::vector<OnnxAttr>> all;
  for (Parameter& parameter : parameters_) {
    const auto [attrs, is_new] = all.try_emplace(parameter.optimizer);
    for (const FunctionCall::Argument& given : request_.optimizer.arguments)
      if (is_new && ok && given.name != "rate")
        ok = functions_.set_argument(*parameter.optimizer, given, attrs->second);
    parameter.attrs = attrs->second;
  }
  std::unordered_set<const Parameter*> grouped;
  for (const ParameterGroup& group : request_.groups) {
    std::unordered_set<size_t> used;
    for (Parameter& parameter : parameters_) {
      if (!ParameterChoice::matches(group.match, *parameter.tensor, used) || !grouped.insert(&parameter).second)
        continue;
      for (const FunctionCall::Argument& given : group.arguments)
        if (ok && given.name == "rate")
          ok = !(parameter.rate = rate_of_group(given)).empty();
        else if (ok)
          ok = functions_.set_argument(*parameter.optimizer, given, parameter.attrs);
    }
    ok &= choice_.check_used(group.match, used);
  }
  return ok && std::ranges::all_of(parameters_, [&](const Parameter& parameter) {
           return functions_.has_required(*parameter.optimizer, parameter.attrs, request_.optimizer);
         });
}

/// Turns initialisers into inputs; returns them in the order of the model.
std::vector<const OnnxTensor*> TrainingStep::bind(const std::unordered_set<std::string>& names) {
  std::vector<OnnxTensor> kept;
  std::vector<const OnnxTensor*> bound;
  for (OnnxTensor& tensor : model_.graph.initialisers)
    if (names.contains(tensor.name))
      bound.push_back(&model_.parameters.emplace_back(std::move(tensor)));
    else
      kept.push_back(std::move(tensor));
  model_.graph.initialisers = std::move(kept);
  // Files of old versions list initialisers among the inputs.
  std::erase_if(model_.graph.inputs, [&](const OnnxValue& input) { return names.contains(input.name); });
  return bound;
}

/// Carries statistics of the batches, which have no derivative, as states; false after reporting.
bool TrainingStep::carry_statistics() {
  const std::optional<RunningStatistics> statistics = put_into_training_form(model_, schedule_, diags_);
  if (!statistics) return false;
  for (const OnnxValue& input : model_.graph.inputs)
    if (input.name == kEvaluates) evaluates_ = kEvaluates;
  std::unordered_set<std::string> names;
  for (const auto& [name, next] : *statistics) names.insert(name);
  for (const OnnxTensor* tensor : bind(names))
    step_.add_state(tensor->name, statistics->at(tensor->name), tensor->element_type, tensor->dims).first = tensor;
  return true;
}

void TrainingStep::bind_parameters() {
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : parameters_) names.insert(parameter.tensor->name);
  const std::vector<const OnnxTensor*> bound = bind(names);
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor = bound[i];
}

void TrainingStep::write_gradient() {
  step_.add_for(request_.loss_loc);
  const std::string y = scales_loss_ ? write_scaled_loss(step_, loss_) : loss_;
  std::vector<std::string> xs, gradients;
  for (Parameter& parameter : parameters_) {
    xs.push_back(parameter.tensor->name);
    gradients.push_back(parameter.gradient = parameter.part("grad"));
  }
  OnnxNode& node = step_.add("Gradient", xs, gradients);
  node.name = "gradient", node.domain = "ai.onnx.preview.training", node.opset = 1;
  node.attrs = {attr_of_texts("xs", xs), attr_of_text("y", y)};
  if (!scales_loss_) return;
  write_unscaled(step_, gradients);
  for (Parameter& parameter : parameters_) parameter.gradient += kUnscaled;
}

/// Multiplies gradients by min(1, limit / norm), where the norm is over all gradients.
void TrainingStep::write_clip() {
  if (!request_.clip_norm) return;
  step_.add_for(request_.loc);
  std::vector<std::string> squares;
  for (const Parameter& parameter : parameters_) {
    squares.push_back(parameter.part("grad.squares"));
    step_.add("ReduceSumSquare", {parameter.gradient}, {squares.back()}).attrs = {attr_of_int("keepdims", 0)};
  }
  step_.add("Sum", squares, {"clip.squares"});
  step_.add("Sqrt", {"clip.squares"}, {kNorm});
  step_.add_scalar("clip.limit", *request_.clip_norm);
  step_.add_scalar("clip.least", 1e-6);  // as in PyTorch
  step_.add_scalar("clip.one", 1);
  const bool is_double = parameters_.front().tensor->element_type == element_type_of_name("double");
  for (const char* name : {"clip.limit", "clip.least", "clip.one"})
    if (is_double) step_.add("CastLike", {name, kNorm}, {std::string(name) + ".like"});
  const std::string like = is_double ? ".like" : "";
  step_.add("Add", {kNorm, "clip.least" + like}, {"clip.above"});
  step_.add("Div", {"clip.limit" + like, "clip.above"}, {"clip.share"});
  step_.add("Min", {"clip.share", "clip.one" + like}, {"clip.factor"});
  for (Parameter& parameter : parameters_) {
    const std::string clipped = parameter.part("grad.clipped");
    step_.add("Mul", {parameter.gradient, "clip.factor"}, {clipped});
    parameter.gradient = clipped;
  }
}

/// The number of the step and its rate.
bool TrainingStep::write_rate() {
  step_.add_for(request_.optimizer.loc);
  const std::optional<OnnxFunction> rate = functions_.find(request_.rate, "rate", "constant");
  if (!rate) return false;
  std::vector<OnnxAttr> attrs;
  bool ok = true;
  for (const FunctionCall::Argument& given : request_.optimizer.arguments)
    if (given.name == "rate") ok &= functions_.set_argument(*rate, given, attrs);
  for (const FunctionCall::Argument& given : request_.rate.arguments)
    ok &= functions_.set_argument(*rate, given, attrs);
  if (ok && std::ranges::none_of(attrs, [](const OnnxAttr& attr) { return attr.name == "rate"; })) {
    diags_.error("train-rate", request_.optimizer.loc, "the optimizer needs a 'rate'");
    return false;
  }
  if (!ok || !functions_.has_required(*rate, attrs, request_.rate)) return false;
  step_.add_state(kStep, std::string(kStep) + ".next", element_type_of_name("int64"), {});
  step_.add("Constant", {}, {"train.one"}).attrs = {attr_of_int("value_int", 1)};
  const std::string computed = computed_under(kStep, std::string(kStep) + ".next");
  step_.add("Add", {kStep, "train.one"}, {computed});
  step_.add("Cast", {computed}, {"train.step.real"}).attrs = {attr_of_int("to", element_type_of_name("float"))};
  OnnxNode& call = step_.add(rate->name, {"train.step.real"}, {kRate});
  call.name = kRate, call.domain = rate->domain, call.opset = 1, call.attrs = attrs;
  for (const auto& [value, factor] : rates_) {
    step_.add("Constant", {}, {value + ".factor"}).attrs = {attr_of_real("value_float", factor)};
    step_.add("Mul", {kRate, value + ".factor"}, {value});
  }
  return true;
}

/// The name under which the next value of a state is computed. It becomes `next`, unless the step is skipped.
std::string TrainingStep::computed_under(const std::string& state, const std::string& next) {
  return scales_loss_ ? write_unless_skipped(step_, state, next) : next;
}

void TrainingStep::write_updates() {
  for (const Parameter& parameter : parameters_) {
    const std::string& name = parameter.tensor->name;
    std::vector<std::string> inputs{name, parameter.gradient};
    std::vector<std::string> outputs{computed_under(name, parameter.part("next"))};
    step_.add_state(name, parameter.part("next"), parameter.tensor->element_type, parameter.tensor->dims).first =
        parameter.tensor;
    for (const OptimizerState& state : parameter.states) {
      const std::string kept = parameter.part(state.name.c_str());
      inputs.push_back(kept);
      outputs.push_back(computed_under(kept, kept + ".next"));
      step_.add_state(kept, kept + ".next", state.element_type, state.dims).of = name;
    }
    inputs.insert(inputs.end(), {"train.step.real", parameter.rate});
    OnnxNode& call = step_.call(parameter.part("update"), parameter.optimizer->domain, parameter.optimizer->name,
                                std::move(inputs), std::move(outputs));
    call.attrs = parameter.attrs, call.overload = parameter.optimizer->overload;
  }
}

/// Each parameter's mean over the steps, weighted towards late ones.
void TrainingStep::write_averages() {
  if (!request_.average_decay) return;
  for (const Parameter& parameter : parameters_) {
    const std::string mean = parameter.part("average"), next = parameter.part("average.next");
    TrainedState& state = step_.add_state(mean, next, parameter.tensor->element_type, parameter.tensor->dims);
    state.first = parameter.tensor, state.of = parameter.tensor->name;
    step_.call(mean, "weft.part", "moving_average", {mean, parameter.part("next")}, {computed_under(mean, next)})
        .attrs = {attr_of_real("decay", *request_.average_decay)};
  }
}

void TrainingStep::set_outputs(const Training& training) {
  model_.graph.outputs.clear();
  const auto output = [&](const std::string& name) {
    OnnxValue value;
    value.name = name;
    model_.graph.outputs.push_back(std::move(value));
  };
  output(loss_);
  for (const MetricRequest& metric : request_.metrics) output(metric.name);
  if (request_.clip_norm) output(kNorm);
  output(kRate);
  for (const std::string& name : training.updates) output(name);
  for (const TrainedState& state : step_.states()) output(state.next);
}

std::optional<WrittenStep> TrainingStep::run() {
  if (!functions_.take_known()) return {};
  choice_.tie_copies(step_);
  if (!carry_statistics() || !declare_inputs() || !write_loss() || !write_metrics()) return {};
  optimizer_ = TrainingOptimizer::find(functions_, request_.optimizer, diags_);
  if (!optimizer_ || !choose_parameters() || !choose_optimizers() || !group_attrs()) return {};
  bind_parameters();
  write_gradient();
  write_clip();
  if (!write_rate()) return {};
  write_updates();
  write_averages();
  Training training;
  training.loss = loss_, training.rate = kRate, training.evaluates = evaluates_;
  training.optimizer = request_.optimizer.function;
  if (request_.clip_norm) training.norm = kNorm;
  for (const MetricRequest& metric : request_.metrics) training.figures.push_back(metric.name);
  if (scales_loss_) training.updates = {kLossScale, kSkipped};
  set_outputs(training);
  for (const char* domain : {"ai.onnx.preview.training", "weft"}) model_.opsets.emplace(domain, 1);
  return WrittenStep{std::move(training), std::move(step_.states())};
}

}  // namespace

std::optional<WrittenStep> write_training_step(OnnxModel& model, const Schedule& schedule, bool scales_loss,
                                               Diags& diags) {
  return TrainingStep(model, schedule, scales_loss, diags).run();
}

}  // namespace weftc
