// The alternatives of a layout plan, and the schedule entries that lead to a choice.
#include <algorithm>

#include "frontend/schedule_reader.h"
#include "passes/layout/layout_requests.h"
#include "passes/sharding/shard_entries.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr const char* kHeads = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 16] x) => (float[4, 64] y)
<float[16, 192] w = random(1, 0.5), int64[3] parts = {64, 64, 64}> {
  [qkv] qkv = MatMul(x, w) [cut] q, k, v = Split<axis = 1>(qkv, parts) [sum] s = Add(q, k) [all] y = Mul(s, v)
})";

std::unique_ptr<Scheduled> at_layouts(const std::string& model, const std::string& mesh) {
  auto made = prepare(model, "weft: 1\nmesh: {" + mesh + "}\n", "bind-collectives");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return made;
}

KeptLayouts none_kept(const Module& module) {
  static const Schedule empty;
  return {module, empty};
}

std::vector<std::string> texts(const std::vector<AxisState>& states) {
  std::vector<std::string> out;
  for (const AxisState& state : states) out.push_back(state_text(state));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("slices of a fused projection are found after the ops that cut it") {
  const auto made = at_layouts(kHeads, "tp: 4");
  const Graph& graph = made->module->graph;
  const KeptLayouts kept = none_kept(*made->module);
  const LayerClasses classes = LayerClasses::of_one(graph);
  const SliceCandidates slices(*made->module, graph, classes, kept);
  // Rows; columns as one run; columns of each of the three parts.
  CHECK(texts(slices.of(graph.find_value("qkv"), 0)) == std::vector<std::string>{"S(0,1)", "S(1,16)", "S(1,48)"});
  CHECK(texts(slices.of(graph.find_value("w"), 0)) == std::vector<std::string>{"S(0,4)", "S(1,16)", "S(1,48)"});
}

TEST_CASE("a product serves one of its loops on an axis, or none") {
  const auto made = at_layouts(kHeads, "tp: 4");
  const Graph& graph = made->module->graph;
  const KeptLayouts kept = none_kept(*made->module);
  const LayerClasses classes = LayerClasses::of_one(graph);
  const SliceCandidates slices(*made->module, graph, classes, kept);
  std::vector<std::string> found;
  const Mesh mesh = made->module->mesh(graph, PlaceId(0));
  for (const OpChoice& choice : op_choices(*made->module, graph, graph.find_op("qkv"), slices, kept))
    found.push_back(layout_text(choice.operands[0], mesh) + layout_text(choice.operands[1], mesh) + " " +
                    layout_text(choice.results[0], mesh));
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<std::string>{"[][] []", "[][tp: S(1,16)] [tp: S(1,16)]", "[][tp: S(1,48)] [tp: S(1,48)]",
                                          "[tp: S(0,1)][] [tp: S(0,1)]", "[tp: S(1,4)][tp: S(0,4)] [tp: P(sum)]"});
}

TEST_CASE("an entry that is kept leaves the choices that it allows") {
  const auto made = at_layouts(kHeads, "dp: 2, tp: 2");
  const Graph& graph = made->module->graph;
  const Mesh mesh = made->module->mesh(graph, PlaceId(0));
  Diags diags;
  const auto schedule = read_schedule_text(
      "s.yaml",
      "weft: 1\nmesh: {dp: 2, tp: 2}\nshard:\n  w: {tp: {dim: 1, parts: 3}}\n  s: {dp: 0}\n  w.use: {tp: R}\n", diags);
  REQUIRE_MESSAGE(schedule, diags.text());
  const KeptLayouts kept(*made->module, *schedule);
  const LayerClasses classes = LayerClasses::of_one(graph);
  const SliceCandidates slices(*made->module, graph, classes, kept);
  const auto choices = [&](const char* name) {
    std::vector<std::string> found;
    for (const Layout& layout : value_choices(*made->module, graph, graph.find_value(name), slices, kept))
      found.push_back(layout_text(layout, mesh));
    return found;
  };
  // A constant lies as its entry says; a result may be sliced further on the other axis.
  CHECK(choices("w") == std::vector<std::string>{"[tp: S(1,32)]"});
  const std::vector<std::string> of_sum = choices("s");
  CHECK(of_sum.size() > 1);
  for (const std::string& layout : of_sum) CHECK_MESSAGE(layout.find("dp: S(0,2)") != std::string::npos, layout);
  for (const OpChoice& choice : op_choices(*made->module, graph, graph.find_op("qkv"), slices, kept))
    CHECK(choice.operands[1][1].is(AxisState::Kind::R));
  CHECK(kept.mark(graph.find_value("q")).empty());
  CHECK(kept.mark(graph.find_value("s")) != kept.mark(graph.find_value("w")));
}

TEST_CASE("an entry says each layout, also of two axes") {
  const auto made = at_layouts(kHeads, "dp: 2, tp: 2");
  const Graph& graph = made->module->graph;
  const KeptLayouts kept = none_kept(*made->module);
  const LayerClasses classes = LayerClasses::of_one(graph);
  const SliceCandidates slices(*made->module, graph, classes, kept);
  const Mesh mesh = made->module->mesh(graph, PlaceId(0));
  int said = 0;
  for (const OpId id : graph.order())
    for (const ValueId v : graph.op(id).outputs)
      for (const Layout& layout : value_choices(*made->module, graph, v, slices, kept)) {
        const auto requests = axis_requests(graph.type(v), layout, {}, mesh);
        if (!requests || requests->empty()) continue;
        Diags diags;
        CHECK(requested_layout({&*requests, "v"}, graph.type(v), mesh, diags) == layout);
        ++said;
      }
  CHECK(said > 50);
}

TEST_CASE("layers are one class by the number in their names") {
  CHECK(layer_readings("h.3.ln_1") ==
        std::vector<std::pair<std::string, int64_t>>{{"h.{l}.ln_1", 3}, {"h.3.ln_{l}", 1}});
  CHECK(layer_readings("conv2d").empty());
  const auto made = at_layouts(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 8] x) => (float[4, 8] y)
<float[8, 8] "l.0.w" = random(1, 0.5), float[8, 8] "l.1.w" = random(2, 0.5), float[8, 8] last = random(3, 0.5)> {
  ["l.0.fc"] a = MatMul(x, "l.0.w") ["l.1.fc"] b = MatMul(a, "l.1.w") [head] y = MatMul(b, last)
})",
                               "tp: 2");
  const Graph& graph = made->module->graph;
  const LayerClasses classes(graph);
  CHECK(classes.of(graph.find_op("l.0.fc")) == classes.of(graph.find_op("l.1.fc")));
  CHECK(classes.of(graph.find_op("l.0.w")) == classes.of(graph.find_op("l.1.w")));
  CHECK(classes.of(graph.find_op("head")) != classes.of(graph.find_op("l.1.fc")));
}

TEST_CASE("an op that every second layer has is one class, others of one pattern are none") {
  const auto made = at_layouts(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4, 8] x) => (float[4, 8] y) {
  ["l.1.f"] a = Sin(x) ["l.3.f"] b = Sin(a) ["l.5.f"] c = Sin(b)
  ["l.0.g"] d = Exp(c) ["l.1.g"] e = Exp(d) ["l.5.g"] y = Exp(e)
})",
                               "tp: 2");
  const Graph& graph = made->module->graph;
  const LayerClasses classes(graph);
  CHECK(classes.of(graph.find_op("l.1.f")) == classes.of(graph.find_op("l.5.f")));
  CHECK(classes.class_of(graph.find_op("l.3.f")).pattern == "l.{l}.f");
  CHECK(classes.layer_of(graph, graph.find_op("l.3.f")) == 3);
  CHECK(classes.of(graph.find_op("l.0.g")) != classes.of(graph.find_op("l.1.g")));
  CHECK_FALSE(classes.layer_of(graph, graph.find_op("l.0.g")));
}
