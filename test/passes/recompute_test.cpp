// The backward pass computes values of the forward pass again: the same numbers, late, and from what is kept.
#include <algorithm>
#include <set>

#include "passes/prepare/smallest_cut.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Two layers in sequence; `between` is before the second product, which reads `read`.
std::string model_of(const std::string& between, const std::string& read) {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 6] r, float[4, 6] target) => (float[4, 6] r1)
<float[6, 8] v0 = random(1, 0.5), float[8, 6] w0 = random(2, 0.5), float[6, 8] v1 = random(3, 0.5),
 float[8, 6] w1 = random(4, 0.5), float half = {0.5}, bool yes = {1}> { )";
  const std::string layer = "[fc#] f# = MatMul(r@, v#) [act#] a# = Gelu(f#) " + between + " [proj#] p# = MatMul(" +
                            read + ", w#) [res#] r# = Add(r@, p#) ";
  for (const std::string number : {"0", "1"})
    for (const char c : layer) text += c == '#' ? number : c == '@' ? (number == "0" ? "" : "0") : std::string(1, c);
  return text + "}";
}

const std::string kPlain = model_of("", "a#");
const std::string kDropout = model_of("[drop#] d# = Dropout(a#, half, yes)", "d#");

std::string schedule_of(const std::string& recompute, const std::string& split = "") {
  return "weft: 1\n" + split +
         "train:\n  loss: {mean_squared_error: {predictions: r1, targets: target}}\n"
         "  optimizer: {momentum: {rate: 0.1}}\n  recompute: " +
         recompute + "\n";
}

std::unique_ptr<Scheduled> prepared(const std::string& model, const std::string& recompute,
                                    const std::string& stop_after, const std::string& split = "") {
  auto made = prepare(model, schedule_of(recompute, split), stop_after);
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

/// Loss, rate and all next states.
std::vector<Tensor> step_of(const Scheduled& made) {
  EvalResult result = evaluate(*made.module, seeded_inputs(*made.module));
  REQUIRE_MESSAGE(result.error.empty(), result.error);
  return result.outputs;
}

void check_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, double tolerance) {
  REQUIRE(found.size() == wanted.size());
  for (size_t o = 0; o < found.size(); ++o) CHECK(relative_error(found[o], wanted[o]) <= tolerance);
}

/// Values of the model that are computed again; those inside of nodes have names with a slash.
std::string again_in(const Module& module) {
  std::set<std::string> names;
  for (const OpId id : module.graph.order())
    for (const ValueId v : module.graph.op(id).outputs) {
      const std::string& name = module.graph.value(v).name;
      if (name.ends_with(kAgain) && name.find('/') == std::string::npos) names.insert(name);
    }
  return join({names.begin(), names.end()}, " ");
}

std::string first_id(const std::string& recompute) {
  const auto made = prepare(kPlain, schedule_of(recompute), "recompute");
  return made->diags.all().empty() ? "" : made->diags.all()[0].id;
}

}  // namespace

TEST_CASE("what is not kept is computed again from what is") {
  CHECK(again_in(*prepared(kPlain, "none", "recompute")->module).empty());
  CHECK(again_in(*prepared(kPlain, "{keep: [r0]}", "recompute")->module) ==
        "a0.again a1.again f0.again f1.again p1.again r1.again");
  CHECK(again_in(*prepared(kPlain, "{keep: [\"fc{l}\", \"proj{l}\"]}", "recompute")->module) ==
        "a0.again a1.again r0.again r1.again");
}

TEST_CASE("all: nothing costly is computed again") {
  const auto made = prepared(kPlain, "all", "recompute");
  CHECK(again_in(*made->module) == "a0.again a1.again");
  CHECK(count_ops(made->module->graph, OpKind::MatMul) ==
        count_ops(prepared(kPlain, "none", "recompute")->module->graph, OpKind::MatMul));
}

TEST_CASE("a step has the numbers that it has without") {
  for (const std::string& model : {kPlain, kDropout})
    for (const std::string recompute : {"all", "{keep: [r0]}", "{keep: [\"act*\"]}"}) {
      const std::vector<Tensor> wanted = step_of(*prepared(model, "none", "decompose"));
      check_equal(step_of(*prepared(model, recompute, "decompose")), wanted, 0);
      check_equal(step_of(*prepared(model, recompute, "")), wanted, 1e-12);
    }
}

TEST_CASE("draws are drawn again by the same key") {
  const auto made = prepared(kDropout, "{keep: [r0]}", "decompose");
  std::multiset<int64_t> keys;
  for (const OpId id : made->module->graph.order())
    if (const Op& op = made->module->graph.op(id); op.kind == OpKind::RandomUniform) keys.insert(op.integer("node"));
  CHECK(keys.size() == 4);
  for (const int64_t key : keys) CHECK(keys.count(key) == 2);
}

TEST_CASE("no kernel is of both passes, and what is computed again comes after the loss") {
  const auto made = prepared(kPlain, "{keep: [r0]}", "");
  const Module& module = *made->module;
  bool is_after_loss = false, is_any_again = false;
  for (const OpId id : module.graph.order()) {
    const Op& op = module.graph.op(id);
    for (const ValueId v : op.outputs) is_after_loss |= module.graph.value(v).name == module.training->loss;
    if (op.regions.empty()) continue;
    for (const OpId inner : op.regions[0].order()) {
      const Op& part = op.regions[0].op(inner);
      if (part.kind == OpKind::Input || part.kind == OpKind::Constant) continue;
      CHECK_MESSAGE(module.is_late(part) == module.is_late(op), op.name);
      const bool is_again = part.name.find(".again") != std::string::npos;
      is_any_again |= is_again;
      if (is_again) CHECK_MESSAGE(is_after_loss, part.name);
    }
  }
  CHECK(is_any_again);
}

TEST_CASE("a layer is through, its update begun, before values of the layer in front are computed again") {
  const auto made = prepared(kPlain, "{keep: [r0]}", "fuse-regions");
  const Graph& graph = made->module->graph;
  std::vector<std::string> names;
  for (const OpId id : graph.order())
    for (const ValueId v : graph.op(id).outputs) names.push_back(graph.value(v).name);
  const auto position = [&](const std::string& name) { return std::ranges::find(names, name) - names.begin(); };
  REQUIRE(position("f0.again") < static_cast<long>(names.size()));
  CHECK(position("f1.again") < position("w1.velocity.next"));
  CHECK(position("w1.velocity.next") < position("f0.again"));
  CHECK(position("v1.velocity.next") < position("f0.again"));
}

TEST_CASE("layouts: the numbers of one rank") {
  const std::vector<Tensor> wanted = step_of(*prepared(kDropout, "none", "apply-layouts"));
  for (const std::string split :
       {"mesh: {dp: 2}\nshard: {r: {dp: 0}, target: {dp: 0}}\n",
        "mesh: {dp: 2}\nshard: {r: {dp: 0}, target: {dp: 0}, \"*.velocity\": {dp: 0}}\n",
        "mesh: {dp: 2}\nshard: {r: {dp: 0}, target: {dp: 0}, \"v{i}\": {dp: 0}, \"v{i}.use\": {dp: R}}\n",
        "mesh: {tp: 2}\nshard: {\"v{i}\": {tp: 1}, \"w{i}\": {tp: 0}}\n"})
    for (const std::string recompute : {"all", "{keep: [r0]}"}) {
      CAPTURE(split);
      check_equal(step_of(*prepared(kDropout, recompute, "apply-layouts", split)), wanted, 1e-12);
    }
}

TEST_CASE("what was gathered is gathered again") {
  const std::string split =
      "mesh: {dp: 2}\nshard: {r: {dp: 0}, target: {dp: 0}, \"v{i}\": {dp: 0}, \"v{i}.use\": {dp: R}}\n";
  const auto gathers = [&](const std::string& recompute) {
    return count_ops(prepared(kPlain, recompute, "apply-layouts", split)->module->graph, OpKind::AllGather);
  };
  CHECK(gathers("none") == 2);
  CHECK(gathers("{keep: [r0]}") == 4);
}

TEST_CASE("what is computed again lies as it does the first time") {
  const auto made =
      prepared(kPlain, "{keep: [r0]}", "apply-layouts", "mesh: {tp: 2}\nshard: {f0: {tp: 1}, a1: {tp: 0}}\n");
  const Graph& graph = made->module->graph;
  for (const std::string name : {"f0", "a1"}) {
    const Layout& first = graph.type(graph.find_value(name)).layout;
    CHECK(graph.type(graph.find_value(name + ".again")).layout == first);
  }
}

TEST_CASE("mistakes in what is kept") {
  CHECK(first_id("most") == "schedule-word");
  CHECK(first_id("{limit: 20GiB}") == "");
  CHECK(first_id("{limit: much}") == "schedule-bytes");
  CHECK(first_id("{most: 20GiB}") == "unknown-key");
  CHECK(first_id("{keep: [r0], limit: 20GiB}") == "recompute-keep-and-limit");
  CHECK(first_id("{}") == "missing-key");
  CHECK(first_id("{keep: []}") == "selector-list");
  CHECK(first_id("{keep: [r0, rest0]}") == "selector-unmatched");
  CHECK(first_id("{keep: [r0.grad]}") == "recompute-keep");
  CHECK(first_id("{keep: [\"*\"]}") == "recompute-nothing");
}

TEST_CASE("the smallest cut, and of two that next to the sink") {
  FlowNetwork network;
  const int a = network.add_node(), b = network.add_node(), c = network.add_node();
  network.add_edge(FlowNetwork::kSource, a, FlowNetwork::kUnlimited);
  network.add_edge(a, b, 3);
  network.add_edge(a, c, 1);
  network.add_edge(b, FlowNetwork::kSink, 2);
  network.add_edge(c, FlowNetwork::kSink, 1);
  const std::vector<bool> after = network.after_smallest_cut();
  CHECK_FALSE(after[a]);
  CHECK_FALSE(after[b]);
  CHECK_FALSE(after[c]);
  CHECK(after[FlowNetwork::kSink]);
}
