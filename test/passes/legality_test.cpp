// The rules of the transforms as a table. Each rule has a last step that it must refuse, by id, at the step's position,
// with the nodes named. Next to it is the nearest case that it must accept, which computes the same as one rank.
#include "passes/plan/make_plan.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Case {
  std::string model, setup;  // mesh and layouts
  std::vector<std::string> steps;
};
struct Rule {
  std::string rule;
  Case refused;
  std::string id;
  std::vector<std::string> named;
  Case accepted;
};

/// A product whose sum over tp is `down.sum`, and what reads it.
std::string sum_and(const std::string& tail, const std::string& outputs = "float[8,4] y") {
  return "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[8,4] x) => (" + outputs +
         ") <float[4,8] v = random(1, 1.0), float[8,4] w = random(2, 1.0), float[8,4] t = random(4, 1.0), float half = "
         "{0.5}, int64 zero = {0}, int64 one = {1}> {\n[up] h = MatMul(x, v)  [bend] r "
         "= Tanh(h)  [down] p = MatMul(r, w)  " +
         tail + "}";
}
const std::string kSum = "mesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}}\n";
const std::string kSplit = "split: {op: down.sum, dim: 0, into: [rs, ag]}";
const std::string kNeg = sum_and("[neg] y = Neg(p)");

/// A layer that starts from slices of its rows: `act.gather`.
const std::string kGathered =
    "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[8,4] x) => (float[8,6] y) <float[4,6] w = random(1, 1.0), "
    "float[6] s = random(2, 1.0)> {[act] a = Tanh(x)  [fc] h = MatMul(a, w)  [bias] y = Add(h, s)}";
const std::string kRows = "mesh: {tp: 2}\nshard: {x: {tp: 0}, a.use: {tp: R}, w: {tp: 1}}\n";

/// Tokens that go to their experts: `act.exchange`.
const std::string kExperts =
    "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[4,8,4] x) => (float[4,8,16] y) <float[4,4,16] w = random(1, "
    "1.0)> {[act] a = Tanh(x)  [experts] y = MatMul(a, w)}";
const std::string kTokens = "mesh: {ep: 2}\nshard: {x: {ep: 1}, w: {ep: 0}}\n";

/// Sums over two axes: `down.sum` over tp, `total.sum` over `dp`, whatever it is.
const std::string kTwoSums =
    "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[8,4] x, float[8,4] e) => (float[8,4] y, float[1,4] z) "
    "<float[4,8] v = random(1, 1.0), float[8,4] w = random(2, 1.0), int64[1] axis = {0}> {[up] h = MatMul(x, v)  "
    "[down] y = MatMul(h, w)  [total] z = ReduceSum(e, axis)}";
const std::vector<std::string> kSplitBoth = {kSplit, "split: {op: total.sum, dim: 1, into: [rs2, ag2]}"};

std::vector<std::string> operator+(std::vector<std::string> steps, const std::string& last) {
  steps.push_back(last);
  return steps;
}

const std::vector<Rule>& layout_rules() {
  static const std::vector<Rule> kRules = {
      {"an axis cuts one dim of a value",
       {kNeg, "mesh: {dp: 2, tp: 2}\nshard: {w: {tp: 0, [tp, dp]: 1}}\n", {}},
       "shard-axis-repeated",
       {"w", "tp"},
       {kNeg, "mesh: {dp: 2, tp: 2}\nshard: {w: {tp: 0, dp: 1}}\n", {}}},
      {"the dim exists",
       {kNeg, "mesh: {tp: 2}\nshard: {w: {tp: 2}}\n", {}},
       "shard-dim",
       {"w"},
       {kNeg, "mesh: {tp: 2}\nshard: {w: {tp: 1}}\n", {}}},
      {"blocks divide the extent",
       {kNeg, "mesh: {tp: 2}\nshard: {v: {tp: {dim: 1, parts: 3}}}\n", {}},
       "shard-indivisible",
       {"v", "tp"},
       {kNeg, "mesh: {tp: 2}\nshard: {v: {tp: {dim: 1, parts: 2}}}\n", {}}},
      {"uneven slices are alone on their dim",
       {kNeg, "mesh: {dp: 2, tp: 3}\nshard: {v: {dp: 1, tp: 1}}\n", {}},
       "shard-indivisible",
       {"v", "tp"},
       {kNeg, "mesh: {dp: 2, tp: 3}\nshard: {v: {dp: 0, tp: 1}}\n", {}}},
  };
  return kRules;
}

const std::vector<Rule>& split_rules() {
  static const std::vector<Rule> kRules = {
      {"an all-reduce is split",
       {kNeg, kSum, {"split: {op: up, dim: 0, into: [rs, ag]}"}},
       "split-not-all-reduce",
       {"up", "MatMul"},
       {kNeg, kSum, {kSplit}}},
      {"the dim exists",
       {kNeg, kSum, {"split: {op: down.sum, dim: 2, into: [rs, ag]}"}},
       "split-dim",
       {"down.sum"},
       {kNeg, kSum, {"split: {op: down.sum, dim: 1, into: [rs, ag]}"}}},
      {"the ranks divide what others leave of the dim",
       {kNeg, "mesh: {dp: 2, tp: 8}\nshard: {v: {tp: 1}, w: {tp: 0}, x: {dp: 0}}\n", {kSplit}},
       "split-indivisible",
       {"down.sum", "tp"},
       {kNeg, "mesh: {dp: 2, tp: 4}\nshard: {v: {tp: 1}, w: {tp: 0}, x: {dp: 0}}\n", {kSplit}}},
      {"names are free",
       {kNeg, kSum, {"split: {op: down.sum, dim: 0, into: [up, ag]}"}},
       "name-taken",
       {"up", "MatMul"},
       {kNeg, kSum, {"split: {op: down.sum, dim: 0, into: [up2, ag]}"}}},
  };
  return kRules;
}

const std::vector<Rule>& reorder_rules() {
  static const std::vector<Rule> kRules = {
      {"an all-gather is moved",
       {kNeg, kSum, {"reorder: {gather: down.sum, past: [neg]}"}},
       "reorder-not-collective",
       {"down.sum", "AllReduce"},
       {kNeg, kSum, {kSplit, "reorder: {gather: ag, past: [neg]}"}}},
      {"past all that read it",
       {sum_and("[a] q = Neg(p)  [b] y = Add(q, p)"), kSum, {kSplit, "reorder: {gather: ag, past: [a]}"}},
       "reorder-read-elsewhere",
       {"ag", "b"},
       {sum_and("[a] q = Neg(p)  [b] y = Add(q, p)"), kSum, {kSplit, "reorder: {gather: ag, past: [a, b]}"}}},
      {"past what reads it only",
       {sum_and("[a] q = Neg(p)  [c] z = Neg(x)  [b] y = Add(q, z)"),
        kSum,
        {kSplit, "reorder: {gather: ag, past: [a, c]}"}},
       "reorder-independent",
       {"c", "ag"},
       {sum_and("[a] q = Neg(p)  [c] z = Neg(x)  [b] y = Add(q, z)"),
        kSum,
        {kSplit, "reorder: {gather: ag, past: [a, b]}"}}},
      {"past ops that run on slices",
       {sum_and("[run] y = CumSum(p, zero)"), kSum, {kSplit, "reorder: {gather: ag, past: [run]}"}},
       "reorder-not-local",
       {"run", "p", "tp"},
       {sum_and("[run] y = CumSum(p, one)"), kSum, {kSplit, "reorder: {gather: ag, past: [run]}"}}},
      {"past softmax along a whole dim",
       {sum_and("[soft] y = Softmax<axis = 0>(p)"), kSum, {kSplit, "reorder: {gather: ag, past: [soft]}"}},
       "reorder-reduces",
       {"soft", "tp"},
       {sum_and("[soft] y = Softmax<axis = 1>(p)"), kSum, {kSplit, "reorder: {gather: ag, past: [soft]}"}}},
      {"past a norm along whole dims",
       {sum_and("[norm] y = LayerNormalization<axis = 0>(p, t)"),
        kSum,
        {kSplit, "reorder: {gather: ag, past: [norm]}"}},
       "reorder-reduces",
       {"norm", "tp"},
       {sum_and("[norm] y = LayerNormalization<axis = 1>(p, half)"),
        kSum,
        {kSplit, "reorder: {gather: ag, past: [norm]}"}}},
      {"past no collective",
       {sum_and("[a] q = Neg(p)  [b] y = Abs(q)"),
        "mesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}, y: {tp: 1}}\n",
        {kSplit, "reorder: {gather: ag, past: [a, b, b.slice]}"}},
       "reorder-past-collective",
       {"b.slice", "ShardSlice"},
       {sum_and("[a] q = Neg(p)  [b] y = Abs(q)"),
        "mesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}, y: {tp: 1}}\n",
        {kSplit, "reorder: {gather: ag, past: [a, b]}"}}},
      {"reduces move past what is linear",
       {sum_and("[act] y = Relu(p)"), kSum, {"reorder: {reduce: [down.sum], past: [act]}"}},
       "reorder-not-local",
       {"act", "partial", "p", "tp"},
       {sum_and("[act] y = Div(p, half)"), kSum, {"reorder: {reduce: [down.sum], past: [act]}"}}},
      {"partial sums and whole values do not add",
       {sum_and("[add] y = Add(p, t)"), kSum, {"reorder: {reduce: [down.sum], past: [add]}"}},
       "reorder-not-local",
       {"add", "p"},
       {sum_and("[twice] q = MatMul(r, w)  [add] y = Add(p, q)"),
        kSum,
        {"reorder: {reduce: [down.sum], past: [add]}"}}},
      {"one factor of a product is partial",
       {sum_and("[mul] y = Mul(p, p)"), kSum, {"reorder: {reduce: [down.sum], past: [mul]}"}},
       "reorder-not-local",
       {"mul", "p"},
       {sum_and("[mul] y = Mul(p, t)"), kSum, {"reorder: {reduce: [down.sum], past: [mul]}"}}},
  };
  return kRules;
}

const std::vector<Rule>& fuse_rules() {
  static const std::vector<Rule> kRules = {
      {"what is reduced comes from outside",
       {sum_and("[half] y = Div(p, half)"),
        kSum,
        {"reorder: {reduce: [down.sum], past: [half]}", "fuse: {ops: [half, down.sum], into: far}"}},
       "fuse-kernel",
       {"down.sum", "half"},
       {sum_and("[turn] y = Transpose<perm = [1, 0]>(p)", "float[4,8] y"),
        kSum,
        {"reorder: {reduce: [down.sum], past: [turn]}", "fuse: {ops: [turn, down.sum], into: far}"}}},
      {"what is gathered is read outside",
       {kNeg, kSum, {kSplit, "fuse: {ops: [rs, ag, neg], into: far}"}},
       "fuse-kernel",
       {"neg", "ag"},
       {kNeg, kSum, {kSplit, "reorder: {gather: ag, past: [neg]}", "fuse: {ops: [rs, ag, neg], into: far}"}}},
      {"one group of ranks, any number of values",
       {kTwoSums, "mesh: {dp: 2, tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}, e: {dp: 0}}\n",
        kSplitBoth + "fuse: {ops: [rs, rs2], into: far}"},
       "fuse-kernel",
       {"rs", "rs2"},
       {kTwoSums, "mesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}, e: {tp: 0}}\n",
        kSplitBoth + "fuse: {ops: [rs, rs2, ag, ag2], into: far}"}},
      {"a contraction meets no ranks",
       {kNeg, kSum, {kSplit, "fuse: {ops: [down, rs], into: far}"}},
       "fuse-kernel",
       {"down", "MatMul"},
       {kNeg, kSum, {"fuse: {ops: [up, bend], into: near}"}}},
      {"one contraction a kernel",
       {kNeg, kSum, {"fuse: {ops: [up, bend, down], into: far}"}},
       "fuse-kernel",
       {"one contraction"},
       {kNeg, kSum, {"fuse: {ops: [bend, down], into: near}"}}},
      {"a kernel holds no all-to-all",
       {kExperts, kTokens, {"fuse: {ops: [act, act.exchange], into: far}"}},
       "fuse-kernel",
       {"act.exchange", "AllToAll"},
       {kGathered, kRows, {"fuse: {ops: [act, act.gather], into: far}"}}},
      {"slices are even",
       {kTwoSums,
        "mesh: {tp: 2}\nshard: {e: {tp: 0}}\n",
        {"split: {op: total.sum, dim: 0, into: [rs, ag]}", "fuse: {ops: [rs, ag], into: far}"}},
       "fuse-kernel",
       {"rs", "ragged"},
       {kTwoSums,
        "mesh: {tp: 2}\nshard: {e: {tp: 0}}\n",
        {"split: {op: total.sum, dim: 1, into: [rs, ag]}", "fuse: {ops: [rs, ag], into: far}"}}},
      {"nothing stands between",
       {sum_and("[a] q = Neg(p)  [b] u = Exp(q)  [c] y = Add(u, q)"), kSum, {"fuse: {ops: [a, c], into: far}"}},
       "fuse-not-convex",
       {"b"},
       {sum_and("[a] q = Neg(p)  [b] u = Exp(q)  [c] y = Add(u, q)"), kSum, {"fuse: {ops: [a, b, c], into: far}"}}},
  };
  return kRules;
}

const std::vector<Rule>& overlap_rules() {
  const std::string chain = sum_and("[a] q = Neg(p)  [b] u = Exp(q)  [c] y = Add(u, q)");
  static const std::vector<Rule> kRules = {
      {"the dim exists",
       {kNeg, kSum, {"overlap: {ops: [down, down.sum], chunks: 2, dim: 2}"}},
       "overlap-dim",
       {"down"},
       {kNeg, kSum, {"overlap: {ops: [down, down.sum], chunks: 2, dim: 1}"}}},
      {"chunks divide the slices",
       {kNeg, kSum, {"overlap: {ops: [down, down.sum], chunks: 3, dim: 0}"}},
       "overlap-indivisible",
       {"down"},
       {kNeg, kSum, {"overlap: {ops: [down, down.sum], chunks: 4, dim: 0}"}}},
      {"nothing stands between",
       {chain, kSum, {"overlap: {ops: [a, c], chunks: 2, dim: 0}"}},
       "overlap-not-convex",
       {"b"},
       {chain, kSum, {"overlap: {ops: [a, b, c], chunks: 2, dim: 0}"}}},
      {"the producer makes the dim in parts",
       {sum_and("[run] y = CumSum(p, zero)"), kSum, {"overlap: {ops: [run], chunks: 2, dim: 0}"}},
       "overlap-dim-not-parallel",
       {"run"},
       {sum_and("[run] y = CumSum(p, one)"), kSum, {"overlap: {ops: [run], chunks: 2, dim: 0}"}}},
      {"the consumer does not reduce the dim",
       {sum_and("[soft] y = Softmax<axis = 0>(p)"),
        kSum,
        {"overlap: {ops: [down, down.sum, soft], chunks: 2, dim: 0}"}},
       "overlap-reshard",
       {"soft"},
       {sum_and("[soft] y = Softmax<axis = 0>(p)"),
        kSum,
        {"overlap: {ops: [down, down.sum, soft], chunks: 2, dim: 1}"}}},
      {"results depend on the chunk",
       {sum_and("[c] z = Neg(x)  [b] y = Add(p, t)", "float[8,4] y, float[8,4] z"),
        kSum,
        {"overlap: {ops: [down, down.sum, b, c], chunks: 2, dim: 1}"}},
       "overlap-reshard",
       {"c"},
       {sum_and("[c] z = Neg(x)  [b] y = Add(p, t)", "float[8,4] y, float[8,4] z"),
        kSum,
        {"overlap: {ops: [down, down.sum, b], chunks: 2, dim: 1}"}}},
      {"a flag joins two sides",
       {kNeg, kSum, {"overlap: {ops: [up, bend], chunks: 2, dim: 0, mechanism: signal}"}},
       "overlap-one-sided",
       {"signal", "collective"},
       {kNeg, kSum, {"overlap: {ops: [down, down.sum], chunks: 2, dim: 0, mechanism: signal}"}}},
      {"a fused loop joins two sides",
       {kNeg, kSum, {"overlap: {ops: [down.sum], chunks: 2, dim: 0, mechanism: fused}"}},
       "overlap-one-sided",
       {"fused", "computation"},
       {kNeg, kSum, {"overlap: {ops: [down.sum, neg], chunks: 2, dim: 0, mechanism: fused}"}}},
      {"an all-to-all is no kernel",
       {kExperts, kTokens, {"overlap: {ops: [act.exchange, experts], chunks: 2, dim: 1, mechanism: fused}"}},
       "overlap-collective-unsupported",
       {"act.exchange", "AllToAll"},
       {kExperts, kTokens, {"overlap: {ops: [act.exchange, experts], chunks: 2, dim: 1, mechanism: signal}"}}},
      {"something is computed",
       {kNeg, kSum, {"overlap: {ops: [x, w], chunks: 2, dim: 0}"}},
       "transform-no-op",
       {"x"},
       {kNeg, kSum, {"overlap: {ops: [down, down.sum, w], chunks: 2, dim: 0}"}}},
      {"dim is counted in something computed",
       {kNeg, kSum, {"overlap: {ops: [x, down, down.sum], chunks: 2, dim: 0}"}},
       "overlap-dim",
       {"x"},
       {kNeg, kSum, {"overlap: {ops: [down, down.sum, x], chunks: 2, dim: 0}"}}},
  };
  return kRules;
}

/// Who is made whole, and who in slices.
const std::vector<Rule>& overlap_slice_rules() {
  const std::string drawn =
      sum_and("[draw] u = RandomUniform<shape = [8, 4]>()  [run] c = CumSum(u, zero)  [add] y = Add(p, c)");
  const std::string square = sum_and(
      "[draw] u = RandomUniform<shape = [8, 8]>()  [left] y = MatMul(u, p)  [turn] q = Transpose<perm = [1, 0]>(p)  "
      "[right] z = MatMul(q, u)",
      "float[8,4] y, float[4,8] z");
  const std::string turned =
      "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[4,8] x) => (float[8,6] y) <float[4,6] w = random(1, 1.0)> "
      "{[gemm] h = Gemm<transA = 1>(x, w)  [neg] y = Neg(h)}";
  static const std::vector<Rule> kRules = {
      {"what accumulates over the chunks meets no whole values",
       {kGathered, kRows, {"overlap: {ops: [act.gather, fc, bias], chunks: 2, dim: 1}"}},
       "overlap-reshard",
       {"bias", "h"},
       {kGathered, kRows, {"overlap: {ops: [act.gather, fc, bias], chunks: 2, dim: 0}"}}},
      {"what depends on no chunk is made in slices, if it can be",
       {drawn, kSum, {"overlap: {ops: [down, down.sum, draw, run, add], chunks: 2, dim: 0}"}},
       "overlap-reshard",
       {"c", "add"},
       {drawn, kSum, {"overlap: {ops: [down, down.sum, draw, run, add], chunks: 2, dim: 1}"}}},
      {"all that read it want the same slices",
       {square, kSum, {"overlap: {ops: [down, down.sum, draw, left, turn, right], chunks: 2, dim: 0}"}},
       "overlap-reshard",
       {"u", "right"},
       {square, kSum, {"overlap: {ops: [down, down.sum, draw, left, turn, right], chunks: 2, dim: 1}"}}},
      {"what some read whole and some in slices is cut for all, if it can be",
       {sum_and("[add] q = Add(p, x)  [run] u = CumSum(x, zero)  [mul] y = Mul(q, u)"),
        kSum,
        {"overlap: {ops: [down, down.sum, add, run, mul], chunks: 2, dim: 0}"}},
       "overlap-reshard",
       {"u", "mul"},
       {sum_and("[add] q = Add(p, x)  [norm] u = ReduceSum(x)  [mul] z = Mul(u, half)  [neg] y = Neg(q)",
                "float[8,4] y, float[1,1] z"),
        kSum,
        {"overlap: {ops: [down, down.sum, add, neg, norm], chunks: 2, dim: 0}"}}},
      {"dim is that of the node's result, not of its first part",
       {turned, "mesh: {tp: 2}\n", {"overlap: {ops: [gemm, neg], chunks: 4, dim: 1}"}},
       "overlap-indivisible",
       {"gemm", "6"},
       {turned, "mesh: {tp: 2}\n", {"overlap: {ops: [gemm, neg], chunks: 3, dim: 1}"}}},
  };
  return kRules;
}

std::string yaml_of(const Case& c) {
  std::string yaml = "weft: 1\n" + c.setup + (c.steps.empty() ? "" : "transform:\n");
  for (const std::string& step : c.steps) yaml += "  - " + step + "\n";
  return yaml;
}

void check_refused(const Rule& rule) {
  const auto made = prepare(rule.refused.model, yaml_of(rule.refused), "apply-transforms");
  INFO(made->diags.text());
  CHECK(!made->ok());
  if (made->diags.all().empty()) return;
  const Diagnostic& refusal = made->diags.all()[0];
  CHECK(refusal.id == rule.id);
  for (const std::string& name : rule.named) CHECK(refusal.message.find(name) != std::string::npos);
  const std::string yaml = yaml_of(rule.refused);
  const auto lines = std::count(yaml.begin(), yaml.end(), '\n');
  CHECK(refusal.loc.kind == Loc::Kind::Text);
  CHECK(refusal.loc.line == lines);  // the last step, or the layouts
  CHECK(refusal.loc.column >= 5);    // the step, or the name in it
}

void check_rules(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    CAPTURE(rule.rule);
    check_refused(rule);
    const auto made = prepare(rule.accepted.model, yaml_of(rule.accepted), "apply-transforms");
    INFO(made->diags.text());
    CHECK(made->ok());
    if (!made->ok()) continue;
    CHECK(error_against_one_rank(rule.accepted.model, yaml_of(rule.accepted), "apply-transforms") < 2e-5);
  }
}

}  // namespace

TEST_CASE("legality: layouts") { check_rules(layout_rules()); }
TEST_CASE("legality: split") { check_rules(split_rules()); }
TEST_CASE("legality: reorder") { check_rules(reorder_rules()); }
TEST_CASE("legality: fuse") { check_rules(fuse_rules()); }
TEST_CASE("legality: overlap") { check_rules(overlap_rules()); }
TEST_CASE("legality: overlap, slices") { check_rules(overlap_slice_rules()); }

TEST_CASE("legality: a view before the chunks is cut with them, or stays outside") {
  const std::string model =
      "<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[6,4] x) => (float[8,3] y) <int64[2] shape = {8, 3}> "
      "{[fold] t = Reshape(x, shape)  [neg] y = Neg(t)}";
  const auto parameter_dims = [&](int chunks) {
    const std::string yaml =
        "weft: 1\nmesh: {tp: 2}\ntransform:\n  - overlap: {ops: [neg], chunks: " + std::to_string(chunks) +
        ", dim: 0}\n";
    const auto made = prepare(model, yaml, "apply-transforms");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    CHECK(error_against_one_rank(model, yaml, "apply-transforms") < 2e-5);
    const Graph& graph = made->module->graph;
    return graph.type(graph.producer_op(graph.outputs()[0].value).inputs[0]).dims();
  };
  CHECK(parameter_dims(2) == Dims{6, 4});
  CHECK(parameter_dims(4) == Dims{8, 3});  // two rows of 3 are no rows of 4
}

TEST_CASE("legality: a loop that is one kernel holds kernels") {
  const auto plan_in = [](const std::string& mechanism) {
    const Case sliced{sum_and("[act] q = Relu(p)  [tanh] y = Tanh(q)"),
                      "mesh: {tp: 2}\nshard: {v: {tp: 1}, w: {tp: 0}, q.use: {tp: 1}}\n",
                      {"overlap: {ops: [down, down.sum, act, tanh], chunks: 2, dim: 0, mechanism: " + mechanism + "}"}};
    auto made = prepare(sliced.model, yaml_of(sliced), "");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    make_plan(*made->module, made->target, made->diags);
    return made;
  };
  CHECK(plan_in("streams")->ok());
  const auto refused = plan_in("signal");
  INFO(refused->diags.text());
  REQUIRE(!refused->ok());
  CHECK(refused->diags.all()[0].id == "overlap-step-unsupported");
  CHECK(refused->diags.all()[0].message.find("act.slice") != std::string::npos);
  CHECK(refused->diags.all()[0].loc.line == 5);
  CHECK(refused->diags.exit_code() == 3);
}
