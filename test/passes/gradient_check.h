// Derivatives against differences, of small models with parts that a seed chooses.
//
// Ports that have no type are of doubles, and the derivatives by them are compared; the result is z. $a, $b, ... are
// extents that a seed chooses, $(p|q) is one of the choices.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <regex>

#include "test/scheduled.h"

namespace weftc::test {

struct GradientRow {
  const char* record;
  const char* ports;
  const char* body;
  bool rounds = false;  // computes in single precision what its operands may be
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : numbers_(seed) {}
  size_t roll(size_t sides) { return numbers_() % sides; }

 private:
  std::mt19937_64 numbers_;
};

/// The text with one of the words of each $(p|q), and a number for each letter $a: the same one wherever it stands.
inline std::string chosen(const std::string& text, Dice& dice, std::map<char, int>& extents) {
  std::string made;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$') {
      made += text[at];
    } else if (text[++at] == '(') {
      const size_t end = text.find(')', at);
      std::vector<std::string> words{""};
      for (const char c : text.substr(at + 1, end - at - 1)) {
        if (c == '|')
          words.emplace_back();
        else
          words.back() += c;
      }
      made += chosen(words[dice.roll(words.size())], dice, extents);
      at = end;
    } else {
      const auto extent = extents.try_emplace(text[at], 2 + static_cast<int>(dice.roll(3))).first;
      made += std::to_string(extent->second);
    }
  }
  return made;
}

struct ModelPort {
  std::string type, name;  // "double[2, 3]"
  bool is_real = false;
};

inline std::vector<ModelPort> ports_of(const std::string& text) {
  static const std::regex kPort(R"((\w+ )?(\w+)\[([^\]]*)\])");
  std::vector<ModelPort> ports;
  for (std::sregex_iterator at(text.begin(), text.end(), kPort), end; at != end; ++at) {
    const std::string dims = (*at)[3].length() ? "[" + (*at)[3].str() + "]" : "", dtype = (*at)[1];
    ports.push_back({(dtype.empty() ? "double" : dtype.substr(0, dtype.size() - 1)) + dims, (*at)[2], dtype.empty()});
  }
  return ports;
}

/// A model whose scalar `total` depends on every element of z with a factor of its own.
inline std::string model_of(const std::vector<ModelPort>& ports, const std::string& body,
                            const std::vector<std::string>& xs) {
  std::string inputs, names, operands, results, derivatives;
  for (const ModelPort& port : ports) inputs += (inputs.empty() ? "" : ", ") + port.type + " " + port.name;
  for (const std::string& x : xs) {
    const auto of_x = [&](const ModelPort& port) { return port.name == x; };
    results += ", " + std::ranges::find_if(ports, of_x)->type + " d" + x;
    names += (names.empty() ? "\"" : ", \"") + x + "\"";
    operands += (operands.empty() ? "" : ", ") + x;
    derivatives += (derivatives.empty() ? "d" : ", d") + x;
  }
  std::string text = R"(<ir_version: 10, opset_import: ["" : 28, "ai.onnx.ml" : 3, "com.microsoft" : 1, "weft" : 1, )"
                     R"("ai.onnx.preview.training" : 1]>
m ()" + inputs + ") => (double total" +
                     results +
                     R"() <double quarter = {0.25}, double half = {0.5}, double two = {2}, double four = {4},
int64[1] zero_i = {0}, int64[1] one_i = {1}, int64[1] two_i = {2}, int64[1] last_i = {-1}, int64 zero_s = {0},
int64 one_s = {1}, int64 last_s = {-1}> {
)" + body + "\nsine_of_z = Sin(z) total = ReduceSum<keepdims = 0>(sine_of_z)\n";
  if (!xs.empty())
    text +=
        derivatives + " = ai.onnx.preview.training.Gradient<xs = [" + names + R"(], y = "total">()" + operands + ")";
  return text + "}";
}

inline double value_at(const Module& module, const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction,
                       double step) {
  std::vector<Tensor> moved = inputs;
  for (size_t k = 0; k < moved.size(); ++k)
    for (size_t i = 0; i < direction[k].real.size(); ++i) moved[k].real[i] += step * direction[k].real[i];
  const EvalResult result = evaluate(module, moved);
  REQUIRE_MESSAGE(result.error.empty(), result.error);
  return result.outputs[0].at(0);
}

/// The derivative in a direction by five points.
inline double difference(const Module& module, const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction,
                         double step) {
  const auto at = [&](double steps) { return value_at(module, inputs, direction, steps * step); };
  return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
}

/// Compares the derivatives by `xs` along one direction, at a point with no kink beside it. True if they are not 0.
inline bool check_along(const GradientRow& row, const Module& forward, const Module& both,
                        const std::vector<ModelPort>& ports, const std::vector<std::string>& xs) {
  const double step = row.rounds ? 0.05 : 2e-3, tolerance = row.rounds ? 1e-3 : 1e-6;
  for (uint32_t seed = 1; seed < 40; ++seed) {
    std::vector<Tensor> inputs, direction;
    for (size_t k = 0; k < ports.size(); ++k) {
      const TensorType type = forward.graph.type(forward.graph.inputs()[k]);
      inputs.push_back(seeded_tensor(type, 10 * seed + static_cast<uint32_t>(k)));
      direction.push_back(seeded_tensor(type, 10 * seed + 5 + static_cast<uint32_t>(k)));
      if (std::ranges::find(xs, ports[k].name) == xs.end()) direction[k] = Tensor(type.dtype, type.dims());
    }
    const double far = difference(forward, inputs, direction, step),
                 near = difference(forward, inputs, direction, step / 4);
    const double scale = std::max(1.0, std::abs(near));
    if (!(std::abs(far - near) < 0.1 * tolerance * scale)) continue;
    const EvalResult made = evaluate(both, inputs);
    REQUIRE_MESSAGE(made.error.empty(), made.error);
    double sum = 0;
    for (size_t x = 0, k = 0; k < ports.size(); ++k)
      if (std::ranges::find(xs, ports[k].name) != xs.end()) {
        const Tensor& derivative = made.outputs[++x];
        for (int64_t i = 0; i < derivative.size(); ++i)
          sum += derivative.at(i) * direction[k].real[static_cast<size_t>(i)];
      }
    CHECK(made.outputs[0].at(0) ==
          doctest::Approx(evaluate(forward, inputs).outputs[0].at(0)).epsilon(tolerance * 1e-3));
    CHECK(std::abs(sum - near) < tolerance * scale);
    return near != 0;
  }
  FAIL_CHECK("no point without a kink");
  return false;
}

/// Differentiates by all ports of reals, and by each alone. True if something depends on what is trained.
inline bool check_instance(const GradientRow& row, const std::vector<ModelPort>& ports, const std::string& body) {
  INFO(body);
  const auto forward = prepare(model_of(ports, body, {}), "", "decompose");
  CHECK_MESSAGE(forward->ok(), forward->diags.text());
  if (!forward->ok()) return false;
  std::vector<std::string> reals;
  for (const ModelPort& port : ports)
    if (port.is_real) reals.push_back(port.name);
  std::vector<std::vector<std::string>> choices{reals};
  for (size_t r = 0; r < reals.size() && reals.size() > 1; ++r) choices.push_back({reals[r]});
  bool depends = false;
  for (const std::vector<std::string>& xs : choices) {
    INFO("trained: ", xs.size(), " from ", xs[0], " on");
    const auto both = prepare(model_of(ports, body, xs), "", "decompose");
    CHECK_MESSAGE(both->ok(), both->diags.text());
    if (both->ok()) depends |= check_along(row, *forward->module, *both->module, ports, xs);
  }
  return depends;
}

/// The model must have an op of the record.
inline void check_record(const GradientRow& row, const std::vector<ModelPort>& ports, const std::string& body) {
  const auto read = prepare(model_of(ports, body, {}), "", "bind-states");
  CHECK_MESSAGE(read->ok(), read->diags.text());
  bool has_op = false;
  for (const OpDef* def : all_op_defs())
    if (read->ok() && std::string(def->name) == row.record) has_op = count_ops(read->module->graph, def->kind) > 0;
  CHECK(has_op);
}

/// A random instance, then the same with one value as two of its operands. True if something depends on it.
inline bool check_row(const GradientRow& row, uint64_t seed) {
  CAPTURE(std::string(row.record));
  Dice dice(seed);
  std::map<char, int> extents;
  std::vector<ModelPort> ports = ports_of(chosen(row.ports, dice, extents));
  std::string body = chosen(row.body, dice, extents);
  if (seed == 1) check_record(row, ports, body);
  const bool depends = check_instance(row, ports, body);
  const auto same =
      std::find_if(ports.begin() + 1, ports.end(), [&](const ModelPort& port) { return port.type == ports[0].type; });
  if (same == ports.end()) return depends;
  body = std::regex_replace(body, std::regex("\\b" + same->name + "\\b"), ports[0].name);
  ports.erase(same);
  check_instance(row, ports, body);
  return depends;
}

}  // namespace weftc::test
