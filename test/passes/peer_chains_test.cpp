// Kernels over the peer table that meet ranks of different axes, one after the other: each waits for the ranks that the
// one before it has not met. Plans of random chains of them are proved, and compute what their layouts alone compute.
#include "test/effort.h"
#include "test/passes/planned.h"
#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8, 16] x) => (float[8, 16] z)
<float[16, 16] w0 = random(1, 0.5), float[16, 16] w1 = random(2, 0.5), float[16, 16] w2 = random(3, 0.5)> {
  [y0] y0 = MatMul(x, w0) [a0] a0 = Tanh(y0) [y1] y1 = MatMul(a0, w1) [a1] a1 = Add(y1, a0) [y2] y2 = MatMul(a1, w2) [z] z = Tanh(y2)
})";

/// A schedule of two or three axes: entries, and transforms that were accepted one after the other.
class Chain {
 public:
  explicit Chain(uint32_t seed) : dice_(seed) {
    const int axes = dice_.chance(30) ? 3 : 2;
    for (int a = 0; a < axes; ++a) axes_.push_back(std::string(1, static_cast<char>('a' + a)));
    head_ = "weft: 1\nmesh: {" + std::string(axes == 2 ? "a: 2, b: 2" : "a: 2, b: 2, c: 2") + "}\nshard:\n";
    for (const char* value : {"x", "w0", "w1", "w2", "y0", "y1", "a0.use", "y0.use", "y1.use", "y2.use"})
      add_entry(value);
  }

  /// The text with some transforms; "" where the entries are refused.
  std::string text() {
    if (!accepts("")) return "";
    for (int tries = 0; tries < 12; ++tries)
      if (const std::string step = any_step(); !step.empty() && accepts(steps_ + step)) steps_ += step;
    return head_ + tail(steps_);
  }
  std::string plain() const { return head_; }
  bool has_steps() const { return !steps_.empty(); }

 private:
  void add_entry(const std::string& value) {
    if (dice_.chance(35)) return;
    const std::string state = value.ends_with(".use") ? "R" : dice_.chance(50) ? "0" : "1";
    head_ += "  \"" + value + "\": {" + dice_.pick(axes_) + ": " + state + "}\n";
  }
  static std::string tail(const std::string& steps) { return steps.empty() ? "" : "transform:\n" + steps; }

  std::unique_ptr<Scheduled> transformed(const std::string& steps) const {
    return prepare(kModel, head_ + tail(steps), "apply-transforms");
  }
  bool accepts(const std::string& steps) const { return transformed(steps)->ok(); }

  static bool meets(const Graph& graph, OpId id) {
    return category(graph.op(id)) == Category::Collective && graph.op(id).kind != OpKind::ShardSlice;
  }

  /// A collective as two, or as a kernel; a stretch of ops in chunks; a kernel beside others.
  std::string any_step() {
    const auto made = transformed(steps_);
    const Graph& graph = made->module->graph;
    std::vector<OpId> collectives, kernels, ops;
    for (const OpId id : graph.order()) {
      if (meets(graph, id)) collectives.push_back(id);
      if (graph.op(id).kind == OpKind::Fused) kernels.push_back(id);
      if (category(graph.op(id)) != Category::Source && graph.op(id).kind != OpKind::Chunk) ops.push_back(id);
    }
    const std::string name = "t" + std::to_string(number_++);
    if (!kernels.empty() && dice_.chance(30))
      return "  - overlap: {ops: [\"" + graph.op(dice_.pick(kernels)).name + "\"]}\n";
    if (ops.empty()) return "";
    if (dice_.chance(50) || collectives.empty()) return overlap_of(graph, dice_.pick(ops));
    const std::string& op = graph.op(dice_.pick(collectives)).name;
    if (dice_.chance(50)) return "  - fuse: {ops: [\"" + op + "\"], into: " + name + "}\n";
    return "  - split: {op: \"" + op + "\", dim: " + (dice_.chance(50) ? "0" : "1") + ", into: [" + name + "s, " +
           name + "g]}\n" + "  - fuse: {ops: [" + name + "s, " + name + "g], into: " + name + "}\n";
  }

  std::string overlap_of(const Graph& graph, OpId first) {
    std::string names = "\"" + graph.op(first).name + "\"";
    for (ValueId at = graph.op(first).outputs[0]; dice_.chance(75) && !graph.value(at).uses.empty();) {
      const Use use = dice_.pick(graph.value(at).uses);
      if (!use.op) break;
      names += ", \"" + graph.op(use.op).name + "\"";
      at = graph.op(use.op).outputs[0];
    }
    static constexpr const char* kMechanisms[] = {"streams", "signal", "fused", "fused"};
    return "  - overlap: {ops: [" + names + "], chunks: 2, dim: " + (dice_.chance(50) ? "0" : "1") +
           ", mechanism: " + kMechanisms[dice_.roll(4)] + "}\n";
  }

  Dice dice_;
  std::vector<std::string> axes_;
  std::string head_, steps_;
  int number_ = 0;
};

std::optional<Plan> planned(Scheduled& made) {
  std::vector<PlanningReport> reports;
  return make_plan(*made.module, made.target, made.diags, {{}, made.schedule.kernels}, reports);
}

/// True if there was a Plan to look at.
bool check_chain(uint32_t seed) {
  Chain chain(seed);
  const std::string text = chain.text();
  if (text.empty() || !chain.has_steps()) return false;
  INFO("seed " << seed << "\n" << text);
  const auto made = prepare(kModel, text, "");
  REQUIRE(made->ok());
  const std::optional<Plan> plan = planned(*made);
  if (!plan || !made->diags.ok()) return false;
  for (const std::string& line : prove_plan(*plan)) CHECK_MESSAGE(false, line);
  const Planned plain = plan_of(kModel, chain.plain());
  const std::vector<Tensor> inputs = port_inputs(*plan);
  const PlanRun wanted = evaluate_plan(plain.plan, inputs, 0);
  REQUIRE(wanted.error == "");
  for (uint32_t order = 0; order < 3; ++order) {
    const PlanRun run = evaluate_plan(*plan, inputs, order);
    CHECK(run.error == "");
    for (size_t o = 0; o < wanted.outputs.size(); ++o) CHECK(relative_error(run.outputs[o], wanted.outputs[o]) < 1e-5);
  }
  return true;
}

}  // namespace

TEST_CASE("a fused gather after a kernel that met other ranks") {
  const Planned made =
      plan_of(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 8] x) => (float[4, 8] z) <float[8, 8] w = random(1, 0.5)> { [y] y = MatMul(x, w) [z] z = Relu(y) })",
              "weft: 1\nmesh: {a: 2, b: 2}\nshard:\n  w: {b: 0}\n  x: {a: 0}\n  \"y.use\": {a: R}\ntransform:\n"
              "  - split: {op: y.sum, dim: 1, into: [rs, ag]}\n  - fuse: {ops: [rs, ag], into: far}\n"
              "  - overlap: {ops: [y, y.gather], chunks: 2, dim: 1, mechanism: fused}\n");
  for (const std::string& line : prove_plan(made.plan)) CHECK_MESSAGE(false, line);
}

TEST_CASE("random chains of kernels that meet ranks of different axes") {
  int plans = 0;
  const int wanted = is_full() ? 1000 : random_cases(75);
  for (uint32_t seed = 1; plans < wanted && seed < 20000; ++seed) plans += check_chain(seed);
  CHECK(plans == wanted);
}
