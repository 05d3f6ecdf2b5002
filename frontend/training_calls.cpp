// Functions that training calls; they come from the compiler's own texts or from a file of the user's.
#include "frontend/training_calls.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "frontend/mapped_file.h"
#include "frontend/onnx_text.h"
#include "frontend/training_functions.h"
#include "ir/base/contains.h"

namespace weftc {

OnnxAttr attr_of_real(const std::string& name, double real) {
  OnnxAttr attr;
  attr.name = name, attr.kind = OnnxAttr::Kind::Real, attr.real = real;
  return attr;
}

/// Nodes of other files have no position in this one.
static void forget_positions(std::vector<OnnxNode>& nodes) {
  for (OnnxNode& node : nodes) {
    node.line = node.column = 0;
    for (OnnxAttr& attr : node.attrs)
      for (OnnxGraph& graph : attr.graphs) forget_positions(graph.nodes);
  }
}

bool TrainingFunctions::take(OnnxModel from) {
  for (OnnxFunction& function : from.functions) {
    forget_positions(function.nodes);
    model_.functions.push_back(std::move(function));
  }
  for (auto& memory : from.memory) model_.memory.push_back(std::move(memory));
  return !from.functions.empty();
}

std::optional<OnnxFunction> TrainingFunctions::known_function(const FunctionCall& call, const std::string& domain,
                                                              const std::string& name) {
  std::vector<std::string> known;
  for (const OnnxFunction& function : model_.functions) {
    if (function.domain != domain) continue;
    if (function.name == name) return function;
    if (!contains(known, function.name)) known.push_back(function.name);
  }
  diags_.error("train-function", call.loc, "there is no {} '{}'{}", domain.substr(domain.find('.') + 1),
               printable(name), did_you_mean(name, known));
  return {};
}

bool TrainingFunctions::take_known() {
  std::optional<OnnxModel> known =
      read_onnx_functions("the functions for training", training_functions(), diags_, true);
  return known && take(std::move(*known));
}

/// The first function of the file. Like the model's, its path is relative to the working directory.
std::optional<OnnxFunction> TrainingFunctions::function_of_file(const FunctionCall& call) {
  const MappedFile file = map_file(call.function);
  if (!file.error.empty()) {
    diags_.error("train-function-file", call.loc, "'{}' cannot be read: {}", printable(call.function), file.error);
    return {};
  }
  const std::string text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  std::optional<OnnxModel> read = read_onnx_functions(call.function, text, diags_);
  if (!read) return {};
  const size_t first = model_.functions.size();
  if (take(std::move(*read))) return model_.functions[first];
  diags_.error("train-function-file", call.loc, "'{}' holds no function", printable(call.function));
  return {};
}

std::optional<OnnxFunction> TrainingFunctions::find(const FunctionCall& call, const std::string& kind,
                                                    const char* otherwise) {
  if (call.function.ends_with(".onnxtxt")) return function_of_file(call);
  return known_function(call, "weft." + kind, call.function.empty() ? otherwise : call.function);
}

std::vector<OnnxFunction> TrainingFunctions::overloads_of(const OnnxFunction& function) const {
  std::vector<OnnxFunction> found;
  for (const OnnxFunction& each : model_.functions)
    if (each.domain == function.domain && each.name == function.name) found.push_back(each);
  return found;
}

/// Ranges of attributes of the compiler's own functions, by name.
struct Range {
  const char* name;
  double least, below;
};
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr Range kRanges[] = {
    {"rate", 0, kUnbounded},         {"betas", 0, 1},           {"momentum", 0, 1},       {"epsilon", 0, kUnbounded},
    {"weight_decay", 0, kUnbounded}, {"warmup", 0, kUnbounded}, {"steps", 1, kUnbounded}, {"final", 0, kUnbounded}};

/// Parses a whole word as a number.
template <class Number>
static bool parse(const std::string& word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

/// Converts the words to the attribute's kind; false after reporting.
bool TrainingFunctions::read_argument(const FunctionCall::Argument& argument, OnnxAttr& into) {
  using Kind = OnnxAttr::Kind;
  const bool is_list = into.kind == Kind::Ints || into.kind == Kind::Reals || into.kind == Kind::Texts;
  bool fits = is_list || argument.words.size() == 1;
  into.ints.clear(), into.reals.clear(), into.texts.clear();
  for (const std::string& word : argument.words) {
    if (into.kind == Kind::Int) fits &= parse(word, into.integer);
    if (into.kind == Kind::Real) fits &= parse(word, into.real);
    if (into.kind == Kind::Ints) fits &= parse(word, into.ints.emplace_back());
    if (into.kind == Kind::Reals) fits &= parse(word, into.reals.emplace_back());
    if (into.kind == Kind::Text) into.text = word;
    if (into.kind == Kind::Texts) into.texts.push_back(word);
  }
  if (!fits)
    diags_.error("train-argument", argument.value_loc, "'{}' is {}, not '{}'", printable(argument.name),
                 attr_kind_name(into.kind), printable(join(argument.words, ", ")));
  return fits;
}

/// Refuses numbers that would make a training stand still, or end as NaN, at once.
bool TrainingFunctions::is_in_range(const OnnxFunction& function, const FunctionCall::Argument& given,
                                    const OnnxAttr& read) {
  std::vector<double> numbers = read.reals;
  if (read.kind == OnnxAttr::Kind::Real) numbers.push_back(read.real);
  if (read.kind == OnnxAttr::Kind::Int) numbers.push_back(static_cast<double>(read.integer));
  const auto* range = std::ranges::find_if(kRanges, [&](const Range& each) { return each.name == given.name; });
  const bool is_ours = function.domain.starts_with("weft.") && range != std::end(kRanges);
  const double least = is_ours ? range->least : -kUnbounded, below = is_ours ? range->below : kUnbounded;
  const auto fits = [&](double x) { return std::isfinite(x) && x >= least && x < below; };
  if (std::ranges::all_of(numbers, fits)) return true;
  const std::string wanted = below < kUnbounded    ? format("from {} to less than {}", shortest(least), shortest(below))
                             : least > -kUnbounded ? format("at least {}", shortest(least))
                                                   : std::string("a finite number");
  diags_.error("train-argument-range", given.value_loc, "'{}' is {}, not {}", printable(given.name), wanted,
               join(given.words, ", "));
  return false;
}

bool TrainingFunctions::set_argument(const OnnxFunction& function, const FunctionCall::Argument& given,
                                     std::vector<OnnxAttr>& attrs) {
  std::vector<std::string> known = function.attrs;
  OnnxAttr made = attr_of_real(given.name, 0);
  bool is_known = contains(function.attrs, given.name);
  for (const OnnxAttr& otherwise : function.defaults) {
    known.push_back(otherwise.name);
    if (otherwise.name == given.name) made = otherwise, is_known = true;
  }
  if (!is_known) {
    diags_.error("train-argument", given.loc, "'{}' has no attribute '{}'{}", function.name, printable(given.name),
                 did_you_mean(given.name, known));
    return false;
  }
  const size_t otherwise = made.reals.size() + made.ints.size();
  if (!read_argument(given, made) || !is_in_range(function, given, made)) return false;
  // The compiler's own functions unpack their lists, so these have a fixed length.
  if (function.domain.starts_with("weft.") && otherwise > 0 && given.words.size() != otherwise) {
    diags_.error("train-argument-count", given.value_loc, "'{}' is {} numbers, not {}", printable(given.name),
                 otherwise, given.words.size());
    return false;
  }
  std::erase_if(attrs, [&](const OnnxAttr& attr) { return attr.name == made.name; });
  attrs.push_back(std::move(made));
  return true;
}

bool TrainingFunctions::has_required(const OnnxFunction& function, const std::vector<OnnxAttr>& attrs,
                                     const FunctionCall& call) {
  for (const std::string& name : function.attrs)
    if (std::ranges::none_of(attrs, [&](const OnnxAttr& attr) { return attr.name == name; })) {
      diags_.error("train-argument", call.loc, "'{}' needs the attribute '{}'", function.name, name);
      return false;
    }
  return true;
}

}  // namespace weftc
