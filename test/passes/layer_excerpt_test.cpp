// Some layers of a model and what their copies count take just what all layers take, under any entries.
#include "passes/sharding/layer_excerpt.h"

#include "test/passes/known_models.h"
#include "test/passes/sharding_plans.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr int kLayers = 11;

struct Taken {
  int64_t picoseconds = 0, bytes = 0;
  bool operator==(const Taken&) const = default;
};

Taken taken_by(Scheduled& made, const std::string& shard, const Machine& machine, const LayerExcerpt* excerpt) {
  Module& module = *made.module;
  Diags diags;
  Schedule schedule = made.schedule;
  schedule.shard = read_schedule_text("s.yaml", "weft: 1\nmesh: {x: 4}\nshard:\n" + shard, diags)->shard;
  const LayoutTrial trial = try_layouts(module, {schedule, made.target, diags});
  REQUIRE_MESSAGE(diags.ok(), diags.text());
  const LayerCopies copies = excerpt ? excerpt->copies(trial.graph) : LayerCopies();
  const ExchangeSeconds exchange = exchange_seconds_on(machine, schedule.mesh);
  return {laid_out_cost(module, trial.graph, machine.ceilings, exchange, copies),
          value_peak(module, trial.graph, copies).bytes};
}

const char* const kSchedules[] = {
    R"(  "h.{l}.mlp.c_fc.weight": {x: 1}
)",
    R"(  input_ids: {x: 0}
  "h.{l}.mlp.c_fc.weight": {x: 0}
  "h.{l}.mlp.c_fc.weight.use": {x: R}
)",
    R"(  "wte.weight": {x: 0}
  "h.{l}.attn.c_attn.weight": {x: {dim: 1, parts: 3}}
  "h.{l}.attn.c_proj.weight": {x: 0}
  "h.{l}.mlp.c_fc.weight": {x: 1}
  "h.{l}.mlp.c_proj.weight": {x: 0}
  "h.{l}.attn.c_proj": {x: 1}
  "h.{l}.mlp.c_proj": {x: 1}
)"};

void check_like_whole(const std::string& yaml) {
  const auto made = model_until_layouts(kGpt2.of(kLayers, gpt2_sizes(4, 8, 512)), yaml, 4);
  Module& module = *made->module;
  const LayerClasses classes(module.graph);
  std::optional<LayerExcerpt> excerpt = LayerExcerpt::of(module, classes);
  REQUIRE(excerpt);
  CHECK(excerpt->graph.op_count() < module.graph.op_count() * 2 / 3);
  const Machine machine = flat_machine(4);
  for (const char* shard : kSchedules) {
    CAPTURE(shard);
    const Taken whole = taken_by(*made, shard, machine, nullptr);
    const ModuleOfExcerpt is_part(module, *excerpt);
    const Taken part = taken_by(*made, shard, machine, &*excerpt);
    CHECK(part.picoseconds == whole.picoseconds);
    CHECK(part.bytes == whole.bytes);
  }
}

}  // namespace

TEST_CASE("an excerpt of the layers takes what all layers take, in inference") { check_like_whole(""); }

TEST_CASE("an excerpt of the layers takes what all layers take, in training") { check_like_whole(kNextWord); }

TEST_CASE("an entry for the layer that stands for others is one for each of them in the whole graph") {
  const auto made = model_until_layouts(kGpt2.of(kLayers, gpt2_sizes(4, 8, 512)), "", 4);
  const LayerClasses classes(made->module->graph);
  const std::optional<LayerExcerpt> excerpt = LayerExcerpt::of(*made->module, classes);
  REQUIRE(excerpt);
  const auto entry = [](const std::string& name) {
    return PlannedEntry{{{Selector::Kind::Name, name, {}}, false, {{{"x"}, false, 0, 1, {}}}}};
  };
  const std::vector<PlannedEntry> entries = {entry("h.{l}.ln_1"), entry("h.1.ln_2"), entry("h.2.ln_2")};
  CHECK(excerpt->has(entries));
  std::vector<std::string> names;
  const std::vector<PlannedEntry> all = excerpt->for_whole(entries);
  for (const PlannedEntry& planned : all) names.push_back(planned.entry.target.text);
  CHECK(join(names, " ") == "h.{l}.ln_1 h.1.ln_2 h.2.ln_2 h.3.ln_2 h.4.ln_2 h.5.ln_2 h.6.ln_2 h.7.ln_2 h.8.ln_2");
  CHECK_FALSE(excerpt->has(all));
}

TEST_CASE("there is no excerpt of few layers, nor where one op reads a layer that would be left out") {
  const auto has_excerpt = [](int layers, const std::string& outputs, const std::string& nodes) {
    ModelText model = kGpt2;
    model.header.insert(model.header.size() - 1, outputs), model.last += nodes;
    const auto made = model_until_layouts(model.of(layers, gpt2_sizes(4, 8, 512)), "", 4);
    return LayerExcerpt::of(*made->module, LayerClasses(made->module->graph)).has_value();
  };
  CHECK_FALSE(has_excerpt(7, "", ""));
  CHECK(has_excerpt(8, "", ""));
  const std::string other = ", float[BATCH, SEQ, WIDTH] other";
  CHECK(has_excerpt(11, other, "[out] other = Add(\"h.0.mid\", \"h.10.mid\")"));
  CHECK_FALSE(has_excerpt(11, other, "[out] other = Add(\"h.4.mid\", \"h.10.mid\")"));
}

TEST_CASE("plans that were tried on an excerpt are those of the whole graph") {
  // Eleven layers have an excerpt, seven do not: the entries for `{l}` are the same.
  std::vector<std::map<std::string, std::string>> entries;
  for (const int layers : {7, kLayers}) {
    const auto made = model_until_layouts(kGpt2.of(layers, gpt2_sizes(1, 8, 512)), "", 4);
    entries.push_back(entries_of(best_plan(*made, machine_of_products(4, 1e9, 2e-5), meshes_of(4).front())));
  }
  CHECK(entries[0] == entries[1]);
  CHECK(entries[0].size() > 2);
}
