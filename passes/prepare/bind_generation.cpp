// Binds the schedule's `generate:` section to inputs, outputs and states of the model, whose types are known:
//
//   tokens i64[1, seq<=64], state past f32[1, 12, past<=64, 64] whose next value has past + seq rows, logits f32[1,
//   seq, V]
//
// The executable feeds seq tokens at a time, and so every other length that changes with each token is fed with them
// (positions, mask) or grows with them (states). States of a fixed size, as in a recurrence, do not tell how many
// tokens they have seen: then the executable counts.
#include <algorithm>

#include "ir/base/contains.h"
#include "passes/graph_order.h"
#include "passes/passes.h"

namespace weftc {

namespace {

constexpr int64_t kCounted = -1;             // Generation::past_dim of states that have a fixed size
constexpr int64_t kLongestPrompt = 1 << 16;  // where neither states nor a mask bound it: a server has memory for it

class GenerationBinder {
 public:
  GenerationBinder(Module& module, const GenerateRequest& request, Diags& diags)
      : module_(module), graph_(module.graph), request_(request), diags_(diags) {}

  void run() {
    if (module_.per_rank)
      diags_.error("generate-per-rank", request_.loc, "a model with 'view: per-rank' has no global tokens to generate");
    tokens_ = input(request_.tokens, "tokens", {DType::I64, DType::I32}, {2});
    positions_ = input(request_.positions, "positions", {DType::I64, DType::I32}, {1, 2});
    mask_ = input(request_.mask, "mask", {DType::I64, DType::I32, DType::Bool, DType::F32}, {2});
    logits_ = logits();
    if (!diags_.ok()) return;
    check_tokens();
    check_logits();
    check_fed_inputs();
    find_past();
    check_room();
    check_other_inputs();
    check_cache_places();
    if (diags_.ok()) bind();
  }

 private:
  using Name = GenerateRequest::Name;

  std::optional<TensorType> input(const Name& name, const char* what, const std::vector<DType>& dtypes,
                                  const std::vector<int>& ndims);
  std::optional<TensorType> logits();
  void check_tokens();
  void check_logits();
  void check_fed_inputs();
  void find_growing_state();
  void find_fixed_state();
  void find_past();
  void check_room();
  void check_other_inputs();
  void check_cache_places();
  void bind();

  bool is_state(const std::string& input) const {
    return std::any_of(module_.states.begin(), module_.states.end(),
                       [&](const State& state) { return state.input == input; });
  }
  bool is_fed(const std::string& input) const {
    return input == request_.tokens.text || input == request_.positions.text || input == request_.mask.text;
  }
  Extent length() const { return tokens_->shape[1]; }
  std::optional<TensorType> output_type(const std::string& name) const {
    for (const Graph::Output& output : graph_.outputs())
      if (output.name == name) return graph_.type(output.value);
    return {};
  }

  Module& module_;
  const Graph& graph_;
  const GenerateRequest& request_;
  Diags& diags_;
  std::optional<TensorType> tokens_, positions_, mask_, logits_;
  Generation made_;
};

std::string type_of(const TensorType& type) { return format("{} {}", dtype_name(type.dtype), shape_text(type.shape)); }

std::optional<TensorType> GenerationBinder::input(const Name& name, const char* what, const std::vector<DType>& dtypes,
                                                  const std::vector<int>& ndims) {
  if (name.text.empty()) return {};
  std::vector<std::string> names;
  for (const ValueId v : graph_.inputs()) names.push_back(graph_.value(v).name);
  if (!contains(names, name.text)) {
    diags_.error("generate-input", name.loc, "the model has no input '{}'{}", printable(name.text),
                 did_you_mean(name.text, names));
    return {};
  }
  const TensorType type = graph_.type(graph_.find_value(name.text));
  if (is_state(name.text))
    diags_.error("generate-state", name.loc, "'{}' is a state, not the {} of a generation", printable(name.text), what);
  else if (!contains(dtypes, type.dtype) || !contains(ndims, type.ndim()))
    diags_.error("generate-input-type", name.loc, "'{}' is {}, but the {} of a generation are {}", printable(name.text),
                 type_of(type), what,
                 what == std::string("positions") ? "i64 or i32, [length] or [batch, length]"
                 : what == std::string("mask")    ? "i64, i32, f32 or bool, [batch, length of the text]"
                                                  : "i64 or i32, [batch, length]");
  else
    return type;
  return {};
}

std::optional<TensorType> GenerationBinder::logits() {
  const Name& name = request_.logits;
  const std::optional<TensorType> type = output_type(name.text);
  std::vector<std::string> names;
  for (const Graph::Output& output : graph_.outputs()) names.push_back(output.name);
  if (!type)
    diags_.error("generate-output", name.loc, "the model has no output '{}'{}", printable(name.text),
                 did_you_mean(name.text, names));
  else if (!is_float(type->dtype) || is_small_float(type->dtype) || type->ndim() < 2 || type->ndim() > 3 ||
           type->shape.back().is_run_time())
    diags_.error("generate-logits", name.loc,
                 "'{}' is {}, but logits are numbers for each token of a fixed vocabulary, [batch, length, vocabulary] "
                 "or [batch, vocabulary]",
                 printable(name.text), type_of(*type));
  else
    return type;
  return {};
}

/// Tokens are fed one by one or, where the length may be any, as many as there are.
void GenerationBinder::check_tokens() {
  if (!length().is_run_time() && length().bound != 1 && !request_.has_variants)
    diags_.error("generate-length", request_.tokens.loc,
                 "'{}' always has {} tokens: a prompt has any number of them (a bound, such as --dim NAME<={}), or is "
                 "fed one by one (1)",
                 printable(request_.tokens.text), length().bound, length().bound);
}

void GenerationBinder::check_logits() {
  // The last token is a row of its own, or the row that a slice leaves of any number of them; no request is without
  // tokens.
  const Length last = 1, given = length_of(length());
  const auto is_fed = [&](const Length& rows) { return rows == given || rows == last || rows == minimum(last, given); };
  const bool fits = length_of(logits_->shape[0]) == length_of(tokens_->shape[0]) &&
                    (logits_->ndim() != 3 || is_fed(length_of(logits_->shape[1])));
  if (!fits)
    diags_.error("generate-logits-shape", request_.logits.loc,
                 "'{}' is {}, which does not fit '{}', {}: the logits of each token, or of the last, are expected",
                 printable(request_.logits.text), type_of(*logits_), printable(request_.tokens.text),
                 type_of(*tokens_));
  for (const int64_t token : request_.end)
    if (token >= logits_->shape.back().bound)
      diags_.error("generate-end", request_.end_loc, "token {} lies outside of the vocabulary of '{}', which has {}",
                   token, printable(request_.logits.text), logits_->shape.back().bound);
}

void GenerationBinder::check_fed_inputs() {
  const Length batch = length_of(tokens_->shape[0]);
  if (positions_) {
    const Shape& shape = positions_->shape;
    const bool fits = length_of(shape.back()) == length_of(length()) &&
                      (shape.size() == 1 || length_of(shape[0]) == batch || length_of(shape[0]) == Length(1));
    if (!fits)
      diags_.error("generate-positions", request_.positions.loc, "'{}' is {}, which does not fit '{}', {}",
                   printable(request_.positions.text), type_of(*positions_), printable(request_.tokens.text),
                   type_of(*tokens_));
  }
  if (mask_ && (!(length_of(mask_->shape[0]) == batch) || !mask_->shape[1].is_run_time()))
    diags_.error(
        "generate-mask", request_.mask.loc,
        "'{}' is {}, but the mask of a generation has a row for each text of '{}', {}, and a column of run-time "
        "length for each token so far",
        printable(request_.mask.text), type_of(*mask_), printable(request_.tokens.text), type_of(*tokens_));
}

/// The state whose next value is longer by the tokens that are fed.
void GenerationBinder::find_growing_state() {
  for (const State& state : module_.states) {
    const Shape& now = graph_.type(graph_.find_value(state.input)).shape;
    const Shape next = output_type(state.output)->shape;
    for (size_t d = 0; d < now.size(); ++d) {
      if (!now[d].is_run_time() || !(length_of(next[d]) - length_of(now[d]) == length_of(length()))) continue;
      if (made_.past.empty())
        made_.past = state.input, made_.past_dim = static_cast<int64_t>(d), made_.room = now[d].bound;
      made_.room = std::min(made_.room, now[d].bound);
    }
  }
}

/// Finds a state of a fixed size that is computed from the tokens. A state that does not depend on them holds no text.
void GenerationBinder::find_fixed_state() {
  const OpId tokens = graph_.producer(graph_.find_value(request_.tokens.text));
  for (const Graph::Output& output : graph_.outputs()) {
    const auto state = std::find_if(module_.states.begin(), module_.states.end(),
                                    [&](const State& s) { return s.output == output.name; });
    if (state == module_.states.end() || !ancestors_of(graph_, {output.value})[tokens.index]) continue;
    if (graph_.type(graph_.find_value(state->input)).shape != graph_.type(output.value).shape) continue;
    made_.past = state->input, made_.past_dim = kCounted, made_.room = kLongestPrompt;
    return;
  }
}

void GenerationBinder::find_past() {
  if (module_.states.empty()) return;
  find_growing_state();
  if (made_.past.empty()) find_fixed_state();
  if (made_.past.empty())
    diags_.error("generate-past-unsupported", request_.loc,
                 "no state grows by a row for each token of '{}', and none of a fixed size is computed from them: "
                 "states that do not hold the tokens before are not supported",
                 printable(request_.tokens.text));
  if (!made_.past.empty() && mask_ && length_of(mask_->shape[1]) == length_of(length()))
    diags_.error("generate-mask-length", request_.mask.loc,
                 "'{}' is as long as '{}', but the mask of a generation has a column for the tokens in '{}' too",
                 printable(request_.mask.text), printable(request_.tokens.text), printable(made_.past));
}

void GenerationBinder::check_room() {
  if (made_.past.empty()) made_.room = length().bound;
  if (mask_) made_.room = std::min(made_.room, mask_->shape[1].bound);
  if (diags_.ok() && request_.sampling.max_new > made_.room)
    diags_.error("generate-max-new", request_.max_new_loc, "max_new is {}, but a text has at most {} tokens",
                 request_.sampling.max_new, made_.room);
}

/// Checks that no input that is given once has a length that changes with each token.
void GenerationBinder::check_other_inputs() {
  for (const ValueId v : graph_.inputs()) {
    const std::string& name = graph_.value(v).name;
    if (is_state(name) || is_fed(name)) continue;
    for (const Extent& extent : graph_.type(v).shape) {
      const bool changes = length().is_run_time() && length_of(extent) == length_of(length());
      if (changes || (extent.is_run_time() && mask_ && length_of(extent) == length_of(mask_->shape[1])))
        diags_.error(
            "generate-other-input-unsupported", request_.loc,
            "input '{}' has a length that changes with each token, and is neither tokens nor positions nor mask",
            printable(name));
    }
  }
}

/// The position at which a cache of a fixed size is written, and how much of it is filled, change with each token too:
/// they must depend on the positions input.
void GenerationBinder::check_cache_places() {
  std::vector<ValueId> places;
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    const size_t operand = op.kind == OpKind::TensorScatter ? 2 : op.kind == OpKind::Attention ? 6 : SIZE_MAX;
    if (operand < op.inputs.size() && op.inputs[operand]) places.push_back(op.inputs[operand]);
  }
  const std::vector<bool> says = ancestors_of(graph_, places);
  for (const ValueId v : graph_.inputs()) {
    const std::string& name = graph_.value(v).name;
    if (says[graph_.producer(v).index] && !is_state(name) && !is_fed(name))
      diags_.error(
          "generate-other-input-unsupported", request_.loc,
          "input '{}' says where a cache is written or how much of it is filled, which changes with each token; "
          "it is neither tokens nor positions nor mask",
          printable(name));
  }
}

void GenerationBinder::bind() {
  made_.tokens = request_.tokens.text;
  made_.logits = request_.logits.text;
  made_.positions = request_.positions.text;
  made_.mask = request_.mask.text;
  made_.end = request_.end;
  made_.sampling = request_.sampling;
  module_.generation = std::move(made_);
}

}  // namespace

void bind_generation(Module& module, const Env& env) {
  if (env.schedule.generate) GenerationBinder(module, *env.schedule.generate, env.diags).run();
}

}  // namespace weftc
