// Device annotations of a model are schedule data: the same Plan as the schedule that says it, the same numbers as
// without; what they cannot say is refused.
#include "test/fixtures.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// The model with its annotations, which stand at the ends of lines, left out.
std::string stripped(const std::string& model) {
  std::string plain;
  for (const std::string& line : split(model, '\n')) plain += line.substr(0, line.find(" @ ")) + "\n";
  return plain;
}

const char* const kMlpLayouts = R"(weft: 1
mesh: {d0: 2, d1: 2}
shard:
  x: {d0: 0, d1: R}
  w1: {d0: R, d1: 1}
  h: {d0: 0, d1: 1}
  w2: {d0: R, d1: 0}
  p: {d0: 0, d1: R}
  y: {d0: R, d1: R}
)";

const char* const kTwoStageLayouts = R"(weft: 1
places: {stage0: {ranks: [0], mesh: {d0: 1}}, stage1: {ranks: [1, 2], mesh: {d0: 2}}}
shard: {w2: {d0: 0}, p: {d0: R}}
pipeline:
  stages: {stage0: {place: stage0, nodes: [fc, act]}, stage1: {place: stage1, nodes: [proj, res]}}
  micro_batches: 1
)";

/// One node on x and w, annotated.
std::string product(const std::string& annotation, const std::string& configuration = "\"four\" : 4") {
  return "<ir_version: 11, opset_import: [\"\" : 20], configuration: [" + configuration +
         "]>\nm (float[12,12] x) => (float[12,12] y)\n<float[12,12] w = random(1, 0.5)>\n{\n[mm] y = MatMul(x, w)" +
         annotation + "\n}";
}

struct Refusal {
  const char* id;
  std::string model;
  std::string yaml = "";
};

const std::string kHalves = " @ four { w [1: 2] [{0, 1}, {2, 3}] }";

const Refusal kRefusals[] = {
    {"unknown-configuration", product(" @ fore { w [] [0] }")},
    {"unknown-configuration", product(kHalves), "annotations: five\n"},
    {"several-configurations", product(kHalves + " @ two stage 0", "\"four\" : 4, \"two\" : 2")},
    {"configuration-devices", product(kHalves, "\"four\" : 0")},
    {"annotation-tensor", product(" @ four { v [1: 2] [{0, 1}, {2, 3}] }")},
    {"annotation-name-unsupported",
     "<ir_version: 11, opset_import: [\"\" : 20], configuration: [\"one\" : 1]>\nm (float[2] x) => (float[2] y)\n{\n"
     "\"a*\" = Relu(x) @ one { \"a*\" [] [0] }\ny = Exp(\"a*\")\n}"},
    {"annotation-device", product(" @ four { w [1: 2] [{0, 1}, {2, 4}] }")},
    {"annotation-devices", product(" @ four { w [1: 2] [{0, 1, 2, 3}] }")},
    {"annotation-device-twice", product(" @ four { w [1: 2] [{0, 1}, {1, 2, 3}] }")},
    {"annotation-device-missing", product(" @ four { w [1: 2] [0, 1] }")},
    {"annotation-axis", product(" @ four { w [1: 2, 1: 2] [0, 1, 2, 3] }")},
    {"annotation-shards", product(" @ four { w [1: 0] [0] }")},
    {"annotation-shards", product(" @ four { w [1: (3: 2, 4: 2)] [0, 1, 2, 3] }")},
    {"annotation-order-unsupported", product(" @ four { w [1: 4] [1, 0, 2, 3] }")},
    {"annotation-nesting-unsupported", product(" @ four { w [1: (6: 2, 2: 2)] [0, 2, 1, 3] }")},
    {"annotation-mesh-shape",
     product(" @ six { w [1: 2] [{0, 2, 4}, {1, 3, 5}], x [0: 3] [{0, 3}, {1, 4}, {2, 5}] }", "\"six\" : 6")},
    {"annotation-mesh-shape", product(kHalves), "mesh: {tp: 4}\n"},
    {"annotation-mesh", product(kHalves), "mesh: {tp: 2}\n"},
    {"annotation-mesh", product(" @ two stage 0", "\"two\" : 1"), "mesh: {tp: 2}\n"},
    {"annotation-view", product(kHalves), "view: per-rank\n"},
    {"annotation-places", product(kHalves), "places: {a: {ranks: [0, 1], mesh: {tp: 2}}}\n"},
    {"annotation-pipeline", product(" @ two stage 0", "\"two\" : 1"),
     "pipeline: {stages: {all: {place: all, nodes: [mm]}}, micro_batches: 1}\n"},
    {"annotation-shard", product(kHalves), "mesh: {a: 2, b: 2}\nshard: {w: {a: 0, b: R}}\n"},
    {"annotation-stage-devices", product(" @ four stage 0")},
    {"annotation-readers-unsupported",
     "<ir_version: 11, opset_import: [\"\" : 20], configuration: [\"two\" : 2]>\nm (float[4,4] x) => (float[4,4] "
     "y)\n{\n"
     "[a] a = Relu(x) @ two { x [0: 2] [0, 1] }\n[b] b = Exp(x) @ two { x [1: 2] [0, 1] }\ny = Add(a, b)\n}"},
    {"annotation-stage-missing",
     "<ir_version: 11, opset_import: [\"\" : 20], configuration: [\"two\" : 2]>\nm (float[4] x) => (float[4] y)\n{\n"
     "[a] a = Relu(x) @ two stage 0\n[b] y = Exp(a) @ two { y [] [1] }\n}"},
    {"annotation-subgraph-unsupported",
     "<ir_version: 11, opset_import: [\"\" : 20], configuration: [\"one\" : 1]>\nm (bool c, float[2] x) => (float[2] y)"
     "\n{\ny = If<then_branch = t () => (float[2] a) { a = Relu(x) @ one stage 0\n},"
     " else_branch = e () => (float[2] b) { b = Exp(x) }>(c)\nz = Relu(x) @ one stage 0\n}"},
};

}  // namespace

TEST_CASE("an annotated model has the Plan of the schedule that says the same") {
  const std::pair<const char*, const char*> kModels[] = {{"annotated_mlp", kMlpLayouts},
                                                         {"annotated_stages", kTwoStageLayouts}};
  for (const auto& [name, yaml] : kModels) {
    CAPTURE(name);
    const std::string model = read_fixture(name).model;
    const Planned annotated = plan_of(model), said = plan_of(stripped(model), yaml), plain = plan_of(stripped(model));
    CHECK(print_plan(annotated.plan) == print_plan(said.plan));
    CHECK(annotated.plan.world > 1);
    CHECK(plain.plan.world == 1);
    CHECK(print_plan(plan_of(model, "weft: 1\nannotations: none\n").plan) == print_plan(plain.plan));
    CHECK(error_against_one_rank(model, "", "") < 2e-5);
  }
}

TEST_CASE("a schedule's mesh gives names to the axes that annotations cut") {
  const std::string model = read_fixture("annotated_mlp").model;
  const Planned named = plan_of(model, "weft: 1\nmesh: {rows: 2, columns: 2}\nannotations: four\n");
  CHECK(print_plan(named.plan).find("rows") != std::string::npos);
  CHECK(error_against_one_rank(model, "weft: 1\nmesh: {rows: 2, columns: 2}\n", "") < 2e-5);
}

TEST_CASE("dims that were fused keep their blocks") {
  const std::string fused = product(" @ two { w [1: (3: 1, 4: 2)] [0, 1] }", "\"two\" : 2");
  const Planned annotated = plan_of(fused);
  const Planned said = plan_of(stripped(fused), "weft: 1\nmesh: {d0: 2}\nshard: {w: {d0: {dim: 1, parts: 3}}}\n");
  CHECK(print_plan(annotated.plan) == print_plan(said.plan));
  const std::string both = product(" @ four { w [1: (6: 2, 2: 2)] [0, 1, 2, 3] }");
  const Planned nested = plan_of(both);
  const Planned blocks =
      plan_of(stripped(both), "weft: 1\nmesh: {d0: 2, d1: 2}\nshard: {w: {d0: 1, d1: {dim: 1, parts: 3}}}\n");
  CHECK(print_plan(nested.plan) == print_plan(blocks.plan));
}

TEST_CASE("annotations that cannot be met are refused by name") {
  for (const Refusal& row : kRefusals) {
    CAPTURE(row.model);
    const auto made = prepare(row.model, "weft: 1\n" + row.yaml, "");
    INFO(made->diags.text());
    REQUIRE(!made->diags.all().empty());
    CHECK(made->diags.all()[0].id == row.id);
  }
}
