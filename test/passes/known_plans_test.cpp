// Well-known plans are found from the graph and the machine alone, in inference and in training. Their collectives are
// counted, and they send no more than handwritten schedules for these models.
#include "test/effort.h"
#include "test/fixtures.h"
#include "test/passes/known_models.h"
#include "test/passes/sharding_plans.h"

using namespace weftc;
using namespace weftc::test;

namespace {

const char* const kSquares =
    "train:\n  loss: {mean_squared_error: {predictions: y, targets: target}}\n  optimizer: {adamw: {rate: 1e-3}}\n";

/// The best plan for a model and what it takes, beside what schedules of samples/ take.
struct Found {
  std::unique_ptr<Scheduled> made;
  ShardingPlan plan;
  LaidOut laid;
};

Found find(std::unique_ptr<Scheduled> made, const Machine& machine, std::optional<Mesh> mesh) {
  Found found{std::move(made), {}, {}};
  found.plan = best_plan(*found.made, machine, std::move(mesh));
  found.laid = laid_out_by(*found.made, found.plan, machine);
  return found;
}

/// On one axis.
Found find(const std::string& model, const std::string& yaml, const Machine& machine) {
  return find(model_until_layouts(model, yaml, machine.ranks), machine, meshes_of(machine.ranks).front());
}

Found find_in_file(const std::string& path, const std::string& yaml, const Machine& machine) {
  return find(file_until_layouts(path, yaml, machine.ranks), machine, meshes_of(machine.ranks).front());
}

/// The plan takes and sends no more than a schedule that people wrote.
void check_beside(Found& found, const std::string& yaml, const Machine& machine) {
  const LaidOut hand = laid_out_by(*found.made, yaml, machine);
  CAPTURE(hand.text());
  CAPTURE(found.laid.text());
  CHECK(found.laid.seconds <= hand.seconds * 1.001);
  CHECK(found.laid.bytes <= hand.bytes);
}

void check_beside_sample(Found& found, const std::string& sample, const Machine& machine) {
  CAPTURE(sample);
  check_beside(found, read_file("samples/" + sample), machine);
}

using Counts = std::map<OpKind, int>;

const Filled kBertSizes = {{"BATCH", "8"}, {"SEQ", "8"},     {"WIDTH", "128"}, {"HEADS", "8"},
                           {"EACH", "16"}, {"FUSED", "384"}, {"INNER", "512"}};

Filled llama_sizes(int groups, int rows) {
  return {{"BATCH", "1"},
          {"SEQ", std::to_string(rows)},
          {"WIDTH", "256"},
          {"HEADS", "8"},
          {"GROUPS", std::to_string(groups)},
          {"REPEATS", std::to_string(8 / groups)},
          {"SHARED", std::to_string(groups * 32)},
          {"EACH", "32"},
          {"HALF", "16"},
          {"INNER", "640"},
          {"VOCAB", "512"}};
}

}  // namespace

TEST_CASE("known plans: layers of BERT in training have four all-reduces each but for one, as Megatron has") {
  const Found found = find(kBertLayers.of(2, kBertSizes), kSquares, machine_of_products(4, 1e9, 2e-5));
  CHECK(found.laid.exchanges == Counts{{OpKind::AllReduce, 7}});
  CHECK(found.laid.bytes == 7 * 2 * 3 * (8 * 8 * 128 * 4) / 4);
}

TEST_CASE("known plans: products of few rows in training, by columns and rows in turn") {
  const Found found =
      find(kProducts.of(6, {{"ROWS", "32"}, {"WIDTH", "256"}}), kSquares, machine_of_products(4, 1e9, 2e-5));
  CHECK(found.laid.exchanges == Counts{{OpKind::AllReduce, 5}});
}

TEST_CASE("known plans: products of many rows in training are data parallel") {
  const Found found = find(kProducts.of(3, {{"ROWS", "256"}, {"WIDTH", "32"}}), kSquares, flat_machine(4, 1e9, 1e-6));
  CHECK(entries_of(found.plan).at("x.0") == "0");
}

TEST_CASE("known plans: Llama with shared keys and values in inference") {
  for (const auto& [groups, sample] : {std::pair{4, "llama/tp2.yaml"}, std::pair{2, "llama/tp4.yaml"}}) {
    const Machine machine = flat_machine(4, 1e9, 5e-6);
    Found found = find(kLlama.of(2, llama_sizes(groups, 4)), "", machine);
    check_beside_sample(found, sample, machine);
    CHECK(found.laid.exchanges == Counts{{OpKind::AllReduce, 4}});
  }
}

TEST_CASE("known plans: Llama with shared keys and values in training: heads and columns, and less sent backwards") {
  const Machine machine = machine_of_products(2, 1e9, 2e-5);
  Found found = find(kLlama.of(1, llama_sizes(4, 32)), kNextWord, machine);
  check_beside_sample(found, "llama/tp2.yaml", machine);
  const std::map<std::string, std::string> entries = entries_of(found.plan);
  for (const char* columns :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"})
    CHECK(entries.at("model.layers.0." + std::string(columns) + ".weight") == "1");
  for (const char* rows : {"self_attn.o_proj", "mlp.down_proj"})
    CHECK(entries.at("model.layers.0." + std::string(rows) + ".weight") == "0");
  CHECK(entries.at("lm_head.weight") == "1");
}

TEST_CASE("known plans: GPT-2 in inference, of a sliced vocabulary where memory is short") {
  const Machine machine = flat_machine(4, 1e9, 5e-6);
  Found found = find(kGpt2.of(2, gpt2_sizes(1, 4, 512)), "", machine);
  check_beside_sample(found, "gpt2/tp4.yaml", machine);
  Machine small = machine;
  small.memory = laid_out_by(*found.made, read_file("samples/gpt2/tp4.yaml"), machine).peak * 103 / 100;
  Found tight = find(kGpt2.of(2, gpt2_sizes(1, 4, 512)), "", small);
  check_beside_sample(tight, "gpt2/tp4.yaml", machine);
  CHECK(found.laid.exchanges == Counts{{OpKind::AllReduce, 4}});
  CHECK(tight.laid.exchanges == Counts{{OpKind::AllReduce, 5}});
  CHECK(entries_of(tight.plan).at("wte.weight") == "0");
}

TEST_CASE("known plans: GPT-2 in training of few rows: Megatron, and a loss of slices of a large vocabulary") {
  const Machine machine = machine_of_products(2, 1e9, 2e-5);
  Found found = find(kGpt2.of(2, gpt2_sizes(2, 16, 4096)), kNextWord, machine);
  // Four all-reduces for each layer, one for the embedding, and one for the gradient of the words' scores. The loss has
  // three, with one number per row: the largest score, the sum, and the next word's score. No rank gets the scores of
  // all words.
  CHECK(found.laid.exchanges == Counts{{OpKind::AllReduce, 13}});
  CHECK(found.laid.largest <= 2 * 16 * 128 * 4);
  CHECK(entries_of(found.plan).at("wte.weight") == "0");
  for (const char* sample : {"gpt2_tp2", "gpt2_tp2_sp", "gpt2_dp2", "gpt2_zero1", "gpt2_zero3"})
    check_beside_sample(found, "training/" + std::string(sample) + ".yaml", machine);
}

TEST_CASE("known plans: GPT-2 in training of many rows: data parallel, with what the optimizer keeps in slices") {
  const Machine machine = flat_machine(2, 1e9, 2e-6);
  Found found = find(kGpt2.of(1, gpt2_sizes(64, 16, 256)), kNextWord, machine);
  for (const char* sample : {"gpt2_tp2", "gpt2_tp2_sp", "gpt2_dp2", "gpt2_zero1", "gpt2_zero3"})
    check_beside_sample(found, "training/" + std::string(sample) + ".yaml", machine);
  CHECK(found.laid.exchanges.contains(OpKind::ReduceScatter));
  CHECK(entries_of(found.plan).contains("h.0.mlp.c_fc.weight.m"));
}

TEST_CASE("known plans: experts on ranks of their own, with two all-to-alls") {
  const Machine machine = flat_machine(4, 1e9, 2e-6);
  const Filled sizes = {{"GROUPS", "4"},  {"TOKENS", "32"}, {"WIDTH", "128"},
                        {"INNER", "512"}, {"EXPERTS", "8"}, {"CAPACITY", "6"}};
  Found found = find(kMixture.of(0, sizes), "", machine);
  for (const char* sample : {"exchanged", "experts", "replicated"})
    check_beside_sample(found, "moe/" + std::string(sample) + ".yaml", machine);
  CHECK(found.laid.exchanges == Counts{{OpKind::AllToAll, 2}});
}

TEST_CASE("known plans: nets of convolutions are cut by samples") {
  for (const std::string name : {"resnet", "unet"}) {
    CAPTURE(name);
    Found found = find_in_file("test/training/stored/" + name + ".onnx", "", flat_machine(2, 1e9, 1e-6));
    CHECK(found.laid.exchanges.empty());
    CHECK(entries_of(found.plan) == std::map<std::string, std::string>{{"image", "0"}});
  }
}

TEST_CASE("known plans: trainings of nets of convolutions take no more than with their samples cut") {
  if (!is_full()) return;
  const std::string optimizer = "  optimizer: {adamw: {rate: 1e-3}}\n";
  const std::string classes =
      "train:\n  loss: {cross_entropy: {scores: scores, labels: labels}}\n  inputs: {labels: "
      "\"int64[2]\"}\n  mode: eval\n" +
      optimizer;
  const std::string squares =
      "train:\n  loss: {mean_squared_error: {predictions: scores, targets: target}}\n  inputs: {target: \"float[2, 3, "
      "16, 16]\"}\n" +
      optimizer;
  for (const auto& [name, training, other] : {std::tuple{"resnet", classes, "labels"}, {"unet", squares, "target"}}) {
    const Machine machine = flat_machine(2, 1e9, 1e-6);
    Found found = find_in_file("test/training/stored/" + std::string(name) + ".onnx", training, machine);
    check_beside(found, "weft: 1\nmesh: {dp: 2}\nshard:\n  image: {dp: 0}\n  " + std::string(other) + ": {dp: 0}\n",
                 machine);
  }
}

TEST_CASE("known plans: convolutions of one sample are cut by channels, with one exchange for two") {
  const std::string model = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[1, 64, 8, 8] x) => (float[1, 64, 8, 8] y)
<float[64, 64, 3, 3] w1 = random(1, 0.05), float[64, 64, 3, 3] w2 = random(2, 0.05)> {
  [c1] a = Conv<pads = [1, 1, 1, 1]>(x, w1) [r1] b = Relu(a) [c2] c = Conv<pads = [1, 1, 1, 1]>(b, w2)
  [add] d = Add(x, c) [r2] y = Relu(d)
})";
  Found found = find(model, "", flat_machine(4, 1e9, 1e-5));
  CHECK(found.laid.count() == 1);
  check_beside(found, "weft: 1\nmesh: {tp: 4}\nshard: {w1: {tp: 0}, w2: {tp: 1}}\n", flat_machine(4, 1e9, 1e-5));
}

TEST_CASE("known plans: where memory is short, parameters are sliced and gathered when they are read, as FSDP does") {
  Machine machine = machine_of_products(4, 1e9, 2e-6);
  const std::string model = kProducts.of(8, {{"ROWS", "512"}, {"WIDTH", "256"}});
  Found free = find(model, kSquares, machine);
  const std::string by_hand = R"(weft: 1
mesh: {dp: 4}
shard:
  "x.0":         {dp: 0}
  target:        {dp: 0}
  "l.{l}.w":     {dp: 0}
  "l.{l}.w.use": {dp: R}
)";
  const LaidOut sliced = laid_out_by(*free.made, by_hand, machine);
  machine.memory = sliced.peak + sliced.peak / 50;
  Found found = find(model, kSquares, machine);
  CHECK(free.laid.peak > machine.memory);
  CHECK(found.laid.peak <= machine.memory);
  check_beside(found, by_hand, machine);
  CHECK(found.laid.exchanges == Counts{{OpKind::AllGather, 8}, {OpKind::AllReduce, 1}, {OpKind::ReduceScatter, 8}});
  CHECK(entries_of(found.plan).at("l.{l}.w.use") == "R");
}

TEST_CASE("known plans: two axes where samples and columns both pay") {
  const Machine machine = machine_of_products(4, 1e9, 1e-6);
  const std::string model = kProducts.of(4, {{"ROWS", "256"}, {"WIDTH", "256"}});
  Found found = find(model_until_layouts(model, kSquares, 4), machine, {});
  check_beside(found, R"(weft: 1
mesh: {dp: 2, tp: 2}
shard:
  "x.0":   {dp: 0}
  target:  {dp: 0}
  "l.0.w": {tp: 1}
  "l.1.w": {tp: 0}
  "l.2.w": {tp: 1}
  "l.3.w": {tp: 0}
)",
               machine);
  CHECK(found.plan.mesh.size() == 2);
}

TEST_CASE("known plans: a training on a mesh of two axes takes no longer than on one axis of as many ranks") {
  const Machine machine = machine_of_products(4, 1e9, 1e-6);
  const auto seconds_on = [&](const Mesh& mesh) {
    return find(model_until_layouts(kGpt2.of(2, gpt2_sizes(8, 16, 1024)), kNextWord, 4), machine, mesh).laid.seconds;
  };
  const double one = seconds_on({{"x", 4}});
  CHECK(seconds_on({{"x", 2}, {"y", 2}}) <= one * 1.001);
}
