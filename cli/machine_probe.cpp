// Every node of the model is a step with its own name. Products fill a core's vectors, and arrays are larger than
// caches. Messages range from a cache line to sizes whose time is proportional to their bytes.
#include "cli/machine_probe.h"

#include <algorithm>
#include <cmath>

#include "cli/block_times.h"
#include "ir/base/check.h"
#include "ir/base/text.h"
#include "passes/cost/machine.h"

namespace weftc {

namespace {

struct ProbedProduct {
  const char* name;
  const char* type;
  int64_t extent;
  double Ceilings::*rate;
};
constexpr ProbedProduct kProducts[] = {{"product_f32_256", "float", 256, &Ceilings::f32},
                                       {"product_f32_768", "float", 768, &Ceilings::f32},
                                       {"product_f64_512", "double", 512, &Ceilings::f64},
                                       {"product_f16_256", "float16", 256, &Ceilings::f16}};

struct ProbedExchange {
  const char* name;
  const char* op;
  OpKind kind;
};
constexpr ProbedExchange kExchanges[] = {{"all_reduce", "AllReduce", OpKind::AllReduce},
                                         {"reduce_scatter", "ReduceScatter", OpKind::ReduceScatter},
                                         {"all_gather", "AllGather", OpKind::AllGather},
                                         {"all_to_all", "AllToAll", OpKind::AllToAll}};
/// Floats of a rank's operand, for each rank: collectives cut them evenly.
constexpr int64_t kFloats[] = {16, 1024, 16384, 262144, 1048576};
constexpr double kFunctions = 65536;

/// The floats of 128 MiB for all ranks together, and at least 16 MiB for each, which is more than caches hold.
int64_t memory_floats(int ranks) { return std::max<int64_t>(int64_t{128} / ranks, 16) * (int64_t{1} << 20) / 4; }

std::string step_of(const ProbedExchange& exchange, int64_t floats) { return format("{}_{}", exchange.name, floats); }

/// The texts of a model, gathered node by node.
class ModelText {
 public:
  void add(const std::string& step, const std::string& node, const std::string& result, const std::string& type) {
    nodes_.push_back(format("[{}] {} = {}", step, result, node));
    outputs_.push_back(type + " " + result);
  }
  void add_input(const std::string& type, const std::string& name) { inputs_.push_back(type + " " + name); }

  std::string text() const {
    return format("<ir_version: 10, opset_import: [\"\" : 20, \"weft\" : 1]>\nprobe ({}) => ({}) {\n{}\n}\n",
                  join(inputs_, ", "), join(outputs_, ", "), join(nodes_, "\n"));
  }

 private:
  std::vector<std::string> inputs_, outputs_, nodes_;
};

void add_computation(ModelText& model, int ranks) {
  for (const ProbedProduct& product : kProducts) {
    const std::string type = format("{}[{},{}]", product.type, product.extent, product.extent), name = product.name;
    model.add_input(type, name + "_a");
    model.add_input(type, name + "_b");
    model.add(name, format("MatMul({}_a, {}_b)", name, name), name + "_y", type);
  }
  const auto add_pointwise = [&](const std::string& name, const std::string& op, int64_t floats) {
    const std::string type = format("float[{}]", floats);
    model.add_input(type, name + "_x");
    model.add(name, format("{}({}_x)", op, name), name + "_y", type);
  };
  add_pointwise("memory", "Neg", memory_floats(ranks));
  add_pointwise("function", "Exp", static_cast<int64_t>(kFunctions));
  add_pointwise("step", "Neg", 1);
}

/// The very first exchange finds cold caches, so it is not measured.
void add_first_exchange(ModelText& model, int ranks) {
  model.add_input(format("float[{}]", ranks), "x_first");
  model.add("first", "weft.AllReduce(x_first)", "first_y", format("float[{}]", ranks));
}

void add_exchanges(ModelText& model, int ranks) {
  for (const int64_t floats : kFloats) {
    const std::string input = format("x_{}", floats);
    model.add_input(format("float[{}]", floats * ranks), input);
    for (const ProbedExchange& exchange : kExchanges) {
      const std::string step = step_of(exchange, floats);
      const int64_t result = exchange.kind == OpKind::AllGather       ? floats * ranks * ranks
                             : exchange.kind == OpKind::ReduceScatter ? floats
                                                                      : floats * ranks;
      const std::string group = exchange.kind == OpKind::AllReduce ? "" : format("<group_size = {}>", ranks);
      model.add(step, format("weft.{}{}({})", exchange.op, group, input), step + "_y", format("float[{}]", result));
    }
  }
}

double seconds_of(const StepSeconds& steps, const std::string& step) {
  const auto found = steps.find(step);
  WEFT_CHECK(found != steps.end() && found->second > 0, "the probe has no step " + step);
  return found->second;
}

}  // namespace

StepSeconds seconds_of_steps(const Trace& trace, double part) {
  std::map<std::string, std::map<int, double>> shortest_runs;  // by step and iteration
  for (size_t i = 0; i < trace.all.boxes.size(); ++i) {
    const TimelineBox& box = trace.all.boxes[i];
    const auto [run, is_first] = shortest_runs[trace.all.steps[static_cast<size_t>(box.step)].name].emplace(
        trace.of_box[i], box.end - box.begin);
    if (!is_first) run->second = std::min(run->second, box.end - box.begin);
  }
  StepSeconds seconds;
  for (const auto& [step, runs] : shortest_runs) {
    std::vector<double> all;
    for (const auto& [iteration, each] : runs) all.push_back(each);
    seconds[step] = quantile(std::move(all), part);
  }
  return seconds;
}

std::string probe_model(int ranks, bool computes) {
  ModelText model;
  if (computes) add_computation(model, ranks);
  if (ranks == 1) return model.text();
  add_first_exchange(model, ranks);
  add_exchanges(model, ranks);
  return model.text();
}

std::string probe_schedule(int ranks) {
  return ranks == 1 ? std::string("weft: 1\n") : format("weft: 1\nmesh: {r: {}}\nview: per-rank\n", ranks);
}

Ceilings probed_ceilings(const StepSeconds& steps, int ranks, int cores) {
  const double share = std::min(1.0, static_cast<double>(cores) / ranks);
  Ceilings found;
  for (const ProbedProduct& product : kProducts) {
    const double operations = 2.0 * static_cast<double>(product.extent * product.extent * product.extent);
    double& rate = found.*product.rate;
    rate = std::max(rate, share * operations / seconds_of(steps, product.name));
  }
  found.memory = share * 8.0 * static_cast<double>(memory_floats(ranks)) / seconds_of(steps, "memory");
  found.step = seconds_of(steps, "step") / share;
  found.function = std::max(1.0, std::round(seconds_of(steps, "function") * found.f32 / share / kFunctions));
  return found;
}

std::vector<TimeCurve> probed_curves(const StepSeconds& steps, int ranks) {
  std::vector<TimeCurve> curves;
  for (const ProbedExchange& exchange : kExchanges) {
    TimeCurve curve{exchange.kind, ranks, {}};
    for (const int64_t floats : kFloats) {
      const int64_t before = 4 * floats * ranks;
      const int64_t after = exchange.kind == OpKind::AllGather ? before * ranks : before;
      curve.points.push_back({static_cast<double>(bytes_sent(exchange.kind, before, after, ranks)),
                              seconds_of(steps, step_of(exchange, floats))});
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace weftc
