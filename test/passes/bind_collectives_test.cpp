// Collectives that a model brings: what each gives on numbered tensors, by the reference and by the Plan; what is
// refused.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Meaning {
  const char* nodes;      // from x, on each rank its own
  const char* result;     // the type of y
  std::vector<double> y;  // the values of all ranks in sequence if it varies
  const char* mesh = "tp: 2";
  const char* input = "float[4]";
};

std::string model(const std::string& input, const std::string& nodes, const std::string& results) {
  return "<ir_version: 10, opset_import: [\"\" : 20, \"weft\" : 1, \"com.microsoft\" : 1]>\nm (" + input + " x) => (" +
         results + ") {" + nodes + "}";
}
std::string per_rank(const std::string& mesh) { return "weft: 1\nmesh: {" + mesh + "}\nview: per-rank\n"; }

// x is 0 1 2 3 on the first rank, 4 5 6 7 on the second ...
const Meaning kMeanings[] = {
    {"y = weft.AllReduce(x)", "float[4] y", {4, 6, 8, 10}},
    {"y = com.microsoft.AllReduce(x)", "float[4] y", {4, 6, 8, 10}},
    {"y = weft.AllReduce<reduce = \"avg\">(x)", "float[4] y", {2, 3, 4, 5}},
    {"y = weft.AllReduce<reduce = \"max\", group_size = 2>(x)", "float[4] y", {4, 5, 6, 7}},
    {"y = weft.AllReduce<reduce = \"min\">(x)", "float[4] y", {0, 1, 2, 3}},
    {"y = weft.AllReduce<reduce = \"prod\">(x)", "float[4] y", {0, 5, 12, 21}},
    {"y = weft.ReduceScatter<group_size = 2>(x)", "float[2] y", {4, 6, 8, 10}},
    {"y = weft.ReduceScatter<group_size = 2, reduce = \"avg\">(x)", "float[2] y", {2, 3, 4, 5}},
    {"y = com.microsoft.AllGather<group_size = 2>(x)", "float[8] y", {0, 1, 2, 3, 4, 5, 6, 7}},
    {"y = weft.AllGather<axis = -1, group_size = 2>(x)",
     "float[2,4] y",
     {0, 1, 4, 5, 2, 3, 6, 7},
     "tp: 2",
     "float[2,2]"},
    {"y = com.microsoft.AllToAll<group_size = 2>(x)", "float[4] y", {0, 1, 4, 5, 2, 3, 6, 7}},
    {"y = weft.AllToAll<split_axis = 1, concat_axis = 0, group_size = 2>(x)",
     "float[4,1] y",
     {0, 2, 4, 6, 1, 3, 5, 7},
     "tp: 2",
     "float[2,2]"},
    {"y = weft.AllToAll<split_axis = 1, group_size = 2>(x)",
     "float[2,2] y",
     {0, 4, 2, 6, 1, 5, 3, 7},
     "tp: 2",
     "float[2,2]"},
    {"y = weft.Broadcast<root = 1>(x)", "float[4] y", {4, 5, 6, 7}},
    {"y = weft.Reduce<root = 1>(x)", "float[4] y", {0, 1, 2, 3, 4, 6, 8, 10}},
    {"y = weft.Reduce<reduce = \"avg\">(x)", "float[4] y", {2, 3, 4, 5, 2, 2.5, 3, 3.5}},
    // Equal copies are a case of others.
    {"b = weft.Broadcast(x) y = weft.AllReduce(b)", "float[4] y", {0, 2, 4, 6}},
    {"b = weft.Broadcast(x) y = weft.AllGather<group_size = 2>(b)", "float[8] y", {0, 1, 2, 3, 0, 1, 2, 3}},
    // Two axes: all ranks in the order of the mesh, or those of one axis.
    {"y = weft.AllGather<group_size = 4>(x)", "float[4] y", {0, 1, 2, 3}, "dp: 2, tp: 2", "float[1]"},
    {"y = weft.AllToAll<group_size = 4>(x)",
     "float[4] y",
     {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},
     "dp: 2, tp: 2"},
    {"y = weft.AllReduce<over = \"tp\">(x)", "float[1] y", {1, 5}, "dp: 2, tp: 2", "float[1]"},
    {"y = weft.AllReduce<over = \"dp\">(x)", "float[1] y", {2, 4}, "dp: 2, tp: 2", "float[1]"},
    {"y = weft.Broadcast<over = \"dp\", root = 1>(x)", "float[1] y", {2, 3}, "dp: 2, tp: 2", "float[1]"},
    {"y = weft.Reduce<root = 2>(x)", "float[1] y", {0, 1, 6, 3}, "dp: 2, tp: 2", "float[1]"},
    // The training ops: group 1 is data parallel; what lies in one rank's part is that rank's.
    {"y, z = com.microsoft.NcclAllReduce<group_type = 1>(x, x)", "float[1] y", {2, 4}, "dp: 2, tp: 2", "float[1]"},
    {"y = com.microsoft.NcclAllGather(x)", "float[4] y", {0, 1, 2, 3}},
    {"y = com.microsoft.NcclReduceScatter(x)", "float[4] y", {4, 6, 8, 10, 4, 5, 6, 7}},
    {"y = DistCollective<collective_operation = \"all_gather\", nb_rank = 2>(x)",
     "float[8] y",
     {0, 1, 2, 3, 4, 5, 6, 7}},
    {"y = DistCollective<collective_operation = \"reduce_scatter\", reduce_op = \"max\", group_size = 2>(x)",
     "float[2] y",
     {4, 5, 6, 7}},
    {"y = DistCollective<collective_operation = \"all_reduce\", groups = [0, 1], nb_rank = 2>(x)",
     "float[4] y",
     {4, 6, 8, 10}},
    {"y = DistCollective<collective_operation = \"broadcast\", root = 1>(x)", "float[4] y", {4, 5, 6, 7}},
    // One rank is no group.
    {"y = weft.AllGather(x)", "float[4] y", {0, 1, 2, 3}, "tp: 1"},
};

Tensor counted(const Module& module) {
  const TensorType& type = module.graph.type(module.graph.inputs()[0]);
  Tensor x(type.dtype, stacked_dims(type, module.places[0].mesh));
  for (int64_t i = 0; i < x.size(); ++i) x.real[i] = static_cast<double>(i);
  return x;
}

struct Refusal {
  const char* id;
  const char* nodes;
  const char* yaml = "mesh: {tp: 2}\nview: per-rank\n";
  const char* input = "float[4]";
};

const Refusal kRefusals[] = {
    {"collective-global-view", "y = weft.AllReduce(x)", "mesh: {tp: 2}\n"},
    {"collective-group-size", "y = weft.AllGather<group_size = 3>(x)"},
    {"collective-group-size", "y = com.microsoft.AllToAll(x)"},
    {"collective-group-size", "y = weft.AllGather<group_size = 2>(x)", ""},
    {"collective-group", "y = weft.AllGather<group_size = 0>(x)"},
    {"collective-axis", "y = weft.AllReduce<over = \"tq\">(x)"},
    {"collective-axis", "y = com.microsoft.NcclAllReduce<group_type = 1>(x)"},
    {"collective-root", "y = weft.Broadcast<root = -1>(x)"},
    {"collective-root-range", "y = weft.Broadcast<root = 2>(x)"},
    {"collective-dim", "y = weft.ReduceScatter<group_size = 2>(x)", "mesh: {tp: 2}\nview: per-rank\n", "float[3]"},
    {"axis-range", "y = weft.AllGather<axis = 1, group_size = 2>(x)"},
    {"attribute-choice", "y = weft.AllReduce<reduce = \"mean\">(x)"},
    {"average-of-integers", "y = weft.AllReduce<reduce = \"avg\">(x)", "mesh: {tp: 2}\nview: per-rank\n", "int64[4]"},
    {"collective-positions", "y = weft.AllReduce<axes = [0]>(x)"},
    {"collective-results", "y, z = weft.AllReduce(x)"},
    {"group-type-unsupported", "y = com.microsoft.NcclAllReduce<group_type = 2>(x)"},
    {"collective-part", "y, z = com.microsoft.NcclAllGather(x, x)", "mesh: {tp: 2}\nview: per-rank\n", "float[40]"},
    {"collective-operation-unsupported", "y = DistCollective<collective_operation = \"scatter\">(x)"},
    {"collective-groups-unsupported",
     "y = DistCollective<collective_operation = \"all_reduce\", groups = [0, 2], nb_rank = 2>(x)"},
    {"collective-ranks", "y = DistCollective<collective_operation = \"all_gather\">(x)"},
    {"collective-of-slices", "y = weft.AllReduce(x)", "mesh: {tp: 2}\nview: per-rank\nshard: {x: {tp: 0}}\n"},
    {"shard-of-varying", "y = Relu(x)", "mesh: {tp: 2}\nview: per-rank\nshard: {y: {tp: 0}}\n"},
    {"shard-of-varying", "y = Relu(x)", "mesh: {tp: 2}\nview: per-rank\nshard: {x.use: {tp: R}}\n"},
    {"reorder-varying", "[sum] s = weft.AllReduce(x) [act] y = Mul(s, s)",
     "mesh: {tp: 2}\nview: per-rank\ntransform: [{reorder: {reduce: [sum], past: [act]}}]\n"},
    {"fuse-kernel", "[join] s = weft.AllGather<group_size = 2>(x) [act] y = Mul(s, s)",
     "mesh: {tp: 2}\nview: per-rank\ntransform: [{fuse: {ops: [join, act], into: one}}]\n"},
    {"overlap-reshard", "[act] s = Relu(x) [swap] y = weft.AllToAll<group_size = 2>(s)",
     "mesh: {tp: 2}\nview: per-rank\ntransform: [{overlap: {ops: [act, swap], chunks: 2, dim: 0}}]\n"},
};

}  // namespace

TEST_CASE("a model's collectives do what they say, in the reference and in the Plan") {
  for (const Meaning& row : kMeanings) {
    CAPTURE(row.nodes);
    const Planned planned = plan_of(model(row.input, row.nodes, row.result), per_rank(row.mesh));
    const Module& module = *planned.scheduled->module;
    const Tensor x = counted(module);
    const EvalResult got = evaluate(module, {x});
    INFO(got.error);
    REQUIRE(got.error.empty());
    CHECK(got.outputs[0].real == row.y);
    const std::vector<std::string> wrong = prove_plan(planned.plan);
    INFO(join(wrong, "\n"));
    CHECK(wrong.empty());
    const PlanRun run = evaluate_plan(planned.plan, {x}, 1);
    INFO(run.error);
    REQUIRE(run.error.empty());
    CHECK(run.outputs[0].real == row.y);
  }
}

TEST_CASE("a model's collectives that cannot be are refused by name") {
  for (const Refusal& row : kRefusals) {
    CAPTURE(row.nodes);
    const bool two = std::string(row.nodes).starts_with("y, z");
    const std::string dtype = std::string(row.input).substr(0, std::string(row.input).find('['));
    const auto made = prepare(model(row.input, row.nodes, dtype + "[] y" + (two ? ", " + dtype + "[] z" : "")),
                              "weft: 1\n" + std::string(row.yaml), "");
    INFO(made->diags.text());
    REQUIRE(!made->diags.all().empty());
    CHECK(made->diags.all()[0].id == row.id);
  }
}
