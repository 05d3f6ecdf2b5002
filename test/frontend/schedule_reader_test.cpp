// The schedule: the whole grammar, and every mistake at its position.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

TEST_CASE("the whole grammar") {
  const ReadSchedule read = read_yaml_schedule(R"(weft: 1
mesh: {dp: 2, tp: 4}
dims: {batch: 8, seq: [1, 128], past: "<=1024"}
shard:
  "h.{l}.attn.c_attn.weight": {tp: {dim: 1, parts: 3}}
  "h.{l}.mlp.c_fc.weight": {[dp, tp]: 1}
  ln.use: {tp: R, dp: 0}
transform:
  - split: {op: "h.{l}.sum", dim: 0, into: ["rs{l}", "ag{l}"]}
  - reorder: {gather: "ag{l}", past: [bias]}
  - reorder: {reduce: [a, {uses: w}], past: [b]}
  - fuse: {ops: [a, {uses: w}], into: "far{l}"}
  - overlap: {ops: [c_proj, far], chunks: 8, dim: 0, mechanism: signal}
state: {past_k: present_k}
generate: {tokens: ids, logits: logits, positions: at, mask: seen, max_new: 64, end: [2, 3], temperature: 0.8, top_k: 40, top_p: 0.9, seed: 5}
view: per-rank
annotations: four
seed: 7
memory: {limit: 70GiB}
kernels:
  "h.{l}.mlp.*": {strategy: strided-product}
  attn: {strategy: tiled-product, tile: [64, 32]}
)");
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  const Schedule& s = *read.schedule;
  CHECK(s.mesh == Mesh{{"dp", 2}, {"tp", 4}});
  CHECK(s.dims[1].values == std::vector<int64_t>{1, 128});
  CHECK(s.dims[2].bounded);
  CHECK(s.dims[2].values == std::vector<int64_t>{1024});
  REQUIRE(s.shard.size() == 3);
  CHECK(s.shard[0].axes[0].parts == 3);
  CHECK(s.shard[0].axes[0].dim == 1);
  CHECK(s.shard[1].axes[0].axes == std::vector<std::string>{"dp", "tp"});
  CHECK(s.shard[2].use);
  CHECK(s.shard[2].target.text == "ln");
  CHECK(s.shard[2].axes[0].replicated);
  CHECK(!s.shard[2].axes[1].replicated);
  REQUIRE(s.transforms.size() == 5);
  CHECK(std::get<SplitStep>(s.transforms[0].what).into == std::vector<std::string>{"rs{l}", "ag{l}"});
  CHECK(std::get<ReorderStep>(s.transforms[1].what).gather);
  CHECK(!std::get<ReorderStep>(s.transforms[2].what).gather);
  CHECK(std::get<FuseStep>(s.transforms[3].what).ops[1].kind == Selector::Kind::Uses);
  CHECK(std::get<OverlapStep>(s.transforms[4].what).mechanism == Mechanism::Signal);
  CHECK(s.transforms[4].loc.line == 13);
  CHECK(s.states[0].output == "present_k");
  REQUIRE(s.generate);
  CHECK(s.generate->tokens.text == "ids");
  CHECK(s.generate->logits.loc.line == 15);
  CHECK(s.generate->positions.text == "at");
  CHECK(s.generate->mask.text == "seen");
  CHECK(s.generate->end == std::vector<int64_t>{2, 3});
  CHECK(s.generate->sampling.max_new == 64);
  CHECK(s.generate->sampling.temperature == 0.8);
  CHECK(s.generate->sampling.top_k == 40);
  CHECK(s.generate->sampling.top_p == 0.9);
  CHECK(s.generate->sampling.seed == 5);
  CHECK(s.per_rank);
  CHECK(s.annotations == "four");
  CHECK(s.seed == 7);
  CHECK(s.memory_limit == int64_t{70} << 30);
  REQUIRE(s.kernels.size() == 2);
  CHECK(s.kernels[0].name == "h.{l}.mlp.*");
  CHECK(s.kernels[0].strategy == "strided-product");
  CHECK(s.kernels[0].tile.empty());
  CHECK(s.kernels[1].tile == std::vector<int64_t>{64, 32});
  CHECK(s.kernels[1].loc.line == 22);
  CHECK(s.kernels[1].strategy_loc.column == 20);
  CHECK(s.kernels[1].tile_loc.column == 41);
}

TEST_CASE("a product of axes may be quoted") {
  const ReadSchedule read = read_yaml_schedule("weft: 1\nmesh: {a: 2, b: 2}\nshard: {w: {\"[a, b]\": 1}}\n");
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  CHECK(read.schedule->shard[0].axes[0].axes == std::vector<std::string>{"a", "b"});
}

TEST_CASE("places and a pipeline") {
  const ReadSchedule read = read_yaml_schedule(R"(weft: 1
places:
  all: {ranks: [0, 1], mesh: {tp: 2}}
  a: {ranks: [1]}
pipeline:
  stages: {embed: {place: all, nodes: [x, "h.*"]}, last: {place: a, nodes: y}}
  micro_batches: 2
  order: [[embed, 0], [embed, 1], [last, 0], [last, 1]]
)");
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  CHECK(read.schedule->places[0].mesh == Mesh{{"tp", 2}});
  CHECK(read.schedule->places[1].ranks == std::vector<int>{1});
  const PipelineRequest& pipeline = *read.schedule->pipeline;
  CHECK(pipeline.stages[0].nodes[1].text == "h.*");
  CHECK(pipeline.order == PipelineRequest::Order::Table);
  CHECK(pipeline.table[3].stage == "last");
  CHECK(pipeline.table[3].micro_batch == 1);
}

TEST_CASE("mistakes are shown where they stand") {
  const ReadSchedule read = read_yaml_schedule("weft: 1\nmesh: {dp: 2, tp: 4}\nshard:\n  w: {tq: 1}\nmehs: 3\n");
  CHECK(!read.schedule);
  CHECK(read.diags.text() ==
        "s.yaml:4:7: error: unknown mesh axis 'tq', did you mean 'tp'? [unknown-mesh-axis]\n"
        "  4 |   w: {tq: 1}\n"
        "    |       ^~\n"
        "s.yaml:5:1: error: a schedule has no key 'mehs', did you mean 'mesh'? [unknown-key]\n"
        "  5 | mehs: 3\n"
        "    | ^~~~\n");
}

TEST_CASE("each mistake of the text") {
  const auto id = [](const std::string& text) { return read_yaml_schedule(text).ids(); };
  CHECK(id("") == "schedule-nothing");
  CHECK(id("weft: 1\nmesh: {tp: 2") == "yaml-syntax");
  CHECK(id("weft: 1\nmesh: &m {tp: 2}\n") == "yaml-anchor");
  CHECK(id("weft: 1\nmesh: *m\n").starts_with("yaml-"));
  CHECK(id("weft: !!int 1\n") == "yaml-tag");
  CHECK(id("weft: 1\nmesh:\n\ttp: 2\n") == "yaml-tab");
  CHECK(id("weft: 1\nweft: 1\n") == "yaml-repeated-key");
  CHECK(id("weft: 1\nmesh: {tp: 2, tp: 3}\n") == "yaml-repeated-key");
  CHECK(id("weft: 1\n---\nweft: 1\n") == "yaml-documents");
  CHECK(id("weft: 1\nview: \"\xff\"\n") == "yaml-encoding");
  CHECK(id(std::string("weft: 1\nview: a\x01\n")) == "yaml-encoding");
  CHECK(id("weft: " + std::string(100, '[')) == "yaml-depth");
  CHECK(id("weft: 1 #" + std::string(5 << 20, ' ')) == "yaml-size");
  CHECK(id("weft: 1\nmesh: {" + std::string(1 << 16, 'a') + ": 2}\n") == "yaml-line");
  CHECK(id("weft: 1\nmesh: {tp: 2}  #" + std::string(1 << 15, ' ') + "\n") == "");
  CHECK(id("\xEF\xBB\xBFweft: 1\r\nmesh: {tp: 2}\r\n") == "");
  Diags diags;
  CHECK(!read_schedule("no/such/file.yaml", diags));
  CHECK(diags.all()[0].id == "schedule-file");
}

TEST_CASE("--mesh gives axes of a schedule other sizes") {
  const auto resized = [](const char* yaml, const std::vector<std::string>& texts, Mesh& mesh) {
    ReadSchedule read = read_yaml_schedule(std::string("weft: 1\n") + yaml);
    std::vector<MeshAxis> sizes;
    for (const std::string& text : texts)
      if (const auto axis = parse_mesh_option(text, read.diags)) sizes.push_back(*axis);
    if (read.diags.ok()) resize_mesh(*read.schedule, sizes, read.diags);
    mesh = read.schedule->mesh;
    return read.ids();
  };
  Mesh mesh;
  CHECK(resized("mesh: {dp: 2, tp: 4}", {"tp=8"}, mesh) == "");
  CHECK(mesh == Mesh{{"dp", 2}, {"tp", 8}});
  CHECK(resized("mesh: {dp: 2, tp: 4}", {"tp=8", "dp=1"}, mesh) == "");
  CHECK(mesh == Mesh{{"dp", 1}, {"tp", 8}});
  CHECK(resized("mesh: {tp: 4}", {"tq=8"}, mesh) == "unknown-mesh-axis");
  CHECK(resized("places: {a: {ranks: [0]}}", {"tp=8"}, mesh) == "mesh-option-no-mesh");
  CHECK(resized("mesh: {dp: 2, tp: 4}", {"dp=60000"}, mesh) == "mesh-size");
  for (const char* wrong : {"tp", "tp=", "=2", "tp=0", "tp=-1", "tp=2x", "tp=65537", "tp=99999999999"})
    CHECK(resized("mesh: {tp: 4}", {wrong}, mesh) == "mesh-option");
}

TEST_CASE("weight_of(NODE), as a text and as a mapping") {
  const ReadSchedule read = read_yaml_schedule(R"yaml(
weft: 1
mesh: {tp: 2}
shard:
  {weight_of: "/layers.{l}/q/MatMul"}: {tp: 1}
  "weight_of(/layers.{l}/k/MatMul)": {tp: 1}
  weight_of(/layers.0/v/MatMul).use: {tp: R}
pipeline:
  stages: {a: {place: all, nodes: [{weight_of: "n"}, {uses: "w"}, weight]}}
  micro_batches: 2
)yaml");
  INFO(read.diags.text());
  REQUIRE(read.schedule);
  const auto shown = [&](const Selector& s) { return (s.kind == Selector::Kind::Weight ? "of " : "") + s.text; };
  const std::vector<ShardEntry>& shard = read.schedule->shard;
  REQUIRE(shard.size() == 3);
  CHECK(shown(shard[0].target) == "of /layers.{l}/q/MatMul");
  CHECK(shown(shard[1].target) == "of /layers.{l}/k/MatMul");
  CHECK(shown(shard[2].target) == "of /layers.0/v/MatMul");
  CHECK(shard[2].use);
  CHECK(!shard[0].use);
  const std::vector<Selector>& nodes = read.schedule->pipeline->stages[0].nodes;
  CHECK(shown(nodes[0]) == "of n");
  CHECK(nodes[1].kind == Selector::Kind::Uses);
  CHECK(shown(nodes[2]) == "weight");
}

TEST_CASE("an alias of a refused anchor is never expanded") {
  CHECK(read_yaml_schedule("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n").ids() == "yaml-anchor");
}

TEST_CASE("each mistake of a value") {
  const auto id = [](const std::string& rest) { return read_yaml_schedule("weft: 1\n" + rest).ids(); };
  CHECK(read_yaml_schedule("mesh: {tp: 2}").ids() == "missing-key");
  CHECK(read_yaml_schedule("weft: 2").ids() == "schedule-range");
  CHECK(read_yaml_schedule("[1]").ids() == "schedule-kind");
  CHECK(id("mesh: [tp]") == "schedule-kind");
  CHECK(id("mesh: {tp: two}") == "schedule-integer");
  CHECK(id("mesh: {tp: \"2\"}") == "schedule-integer");
  CHECK(id("mesh: {tp: 0}") == "schedule-range");
  CHECK(id("mesh: {tp: 60000, dp: 60000}") == "mesh-size");
  CHECK(id("mesh: {tp: 2}\nplaces: {a: {ranks: [0]}}") == "mesh-and-places");
  CHECK(id("places: {a: {ranks: [0, 0]}}") == "place-ranks");
  CHECK(id("places: {a: {ranks: [0, 1]}}") == "place-mesh");
  CHECK(id("places: {a: {ranks: [0]}, b: {ranks: [2]}}") == "place-rank-missing");
  CHECK(id("places: {a: {mesh: {tp: 1}}}") == "missing-key");
  CHECK(id("dims: {n: []}") == "schedule-empty-list");
  CHECK(id("dims: {n: [1, 1]}") == "dim-values");
  CHECK(id("dims: {n: \"<=8,4\"}") == "dim-values");
  CHECK(id("dims: {n: \"1,<=4\"}") == "schedule-integer");
  CHECK(id("dims: {n: \"<=x\"}") == "schedule-integer");
  CHECK(id("shard: {w: {tp: 1}}") == "unknown-mesh-axis");
  CHECK(id("mesh: {tp: 2}\nshard: {w: {tp: rows}}") == "shard-layout");
  CHECK(id("mesh: {tp: 2}\nshard: {{weight: a}: {tp: 1}}") == "schedule-kind");
  CHECK(id("mesh: {tp: 2}\nshard: {{weight_of: [a]}: {tp: 1}}") == "schedule-kind");
  CHECK(id("mesh: {tp: 2}\nshard: {w: {[]: 1}}") == "shard-axes");
  CHECK(id("mesh: {tp: 2}\nshard: {w: {tp: -1}}") == "schedule-range");
  CHECK(id("mesh: {tp: 2}\nshard: {w: {tp: {parts: 3}}}") == "missing-key");
  CHECK(id("mesh: {tp: 2, dp: 2}\nshard: {w: {tp: 1, [dp, tp]: 0}}") == "shard-axis-repeated");
  CHECK(id("state: {a: c, b: c}") == "state-output-repeated");
  CHECK(id("state: {a: \"\"}") == "schedule-empty");
  CHECK(id("view: local") == "schedule-word");
  CHECK(id("annotations: \"\"") == "schedule-empty");
  CHECK(id("memory: {limit: 70 bananas}") == "schedule-bytes");
  CHECK(id("memory: {limit: 1.5B}") == "schedule-bytes");
  CHECK(id("memory: {limit: 0}") == "schedule-bytes");
  CHECK(id("generate: {tokens: a, logits: b}") == "missing-key");
  CHECK(id("generate: {tokens: a, logits: b, max_new: 0}") == "schedule-range");
  CHECK(id("generate: {tokens: a, logits: b, max_new: 1, top_p: much}") == "schedule-number");
  CHECK(id("generate: {tokens: a, logits: b, max_new: 1, top_p: 1.5}") == "schedule-number-range");
  CHECK(id("generate: {tokens: a, logits: b, max_new: 1, end: []}") == "schedule-empty-list");
  CHECK(id("kernels: {mm: {tile: [64, 64]}}") == "missing-key");
  CHECK(id("kernels: {mm: {strategy: tiled}}") == "unknown-strategy");
  CHECK(id("kernels: {mm: {strategy: tiled-product, tile: [64, 64, 32]}}") == "kernel-tile-extents");
  CHECK(id("kernels: {mm: {strategy: tiled-product, tile: [0, 64]}}") == "schedule-range");
  CHECK(id("kernels: {mm: {strategy: rows, tile: [64, 64]}}") == "kernel-no-tile");
  CHECK(id("kernels: {mm: {strategy: tiled-product, tile: }}") == "schedule-kind");
  CHECK(id("kernels: {mm: {strategy: rows, panels: 8}}") == "kernel-no-panels");
  CHECK(id("kernels: {mm: {strategy: unfolded-convolution, panels: 0}}") == "schedule-range");
  CHECK(id("kernels: {mm: {strategy: rows, threads: 2}}") == "schedule-range");
  CHECK(id("kernels: {mm: rows}") == "schedule-kind");
  CHECK(id("mesh: {tp: 2}\nshard: {w: {tp: {dim: 0, parts: 4611686018427387904}}}") == "schedule-range");
}

TEST_CASE("each mistake of a transform") {
  const auto id = [](const std::string& step) {
    return read_yaml_schedule("weft: 1\ntransform:\n  - " + step + "\n").ids();
  };
  CHECK(id("split: {op: a, dim: 0, into: [b]}") == "split-into");
  CHECK(id("reorder: {past: [b]}") == "reorder-moved");
  CHECK(id("reorder: {gather: a, reduce: [c], past: [b]}") == "reorder-moved");
  CHECK(id("fuse: {ops: [], into: f}") == "selector-list");
  CHECK(id("fuse: {ops: [{use: w}], into: f}") == "unknown-key missing-key");
  CHECK(id("overlap: {ops: [a], chunks: 0, dim: 0}") == "schedule-range");
  CHECK(id("overlap: {ops: [a], chunks: 2, dim: 0, mechanism: stream}") == "schedule-word");
  CHECK(id("overlap: {ops: [a], chunks: 2, dim: 0}\n    fuse: {ops: [a], into: f}") == "transform-count");
  CHECK(id("fuze: {ops: [a], into: f}") == "unknown-key");
}

TEST_CASE("each mistake of a pipeline") {
  const auto id = [](const std::string& rest) {
    return read_yaml_schedule("weft: 1\nmesh: {tp: 2}\npipeline:\n" + rest).ids();
  };
  const std::string stages = "  stages: {a: {place: all, nodes: [x]}}\n  micro_batches: 2\n";
  CHECK(id(stages) == "");
  CHECK(id("  stages: {}\n  micro_batches: 2\n") == "pipeline-empty");
  CHECK(id("  stages: {a: {place: al, nodes: [x]}}\n  micro_batches: 2\n") == "unknown-place");
  CHECK(id(stages + "  order: 2f2b") == "schedule-word");
  CHECK(id(stages + "  order: [a, 0]") == "pipeline-entry pipeline-entry order-entry-missing");
  CHECK(id(stages + "  order: [[a, 0], [a, 1], [b, 0]]") == "unknown-stage");
  CHECK(id(stages + "  order: [[a, 0], [a, 1], [a, 2]]") == "order-micro-batch");
  CHECK(id(stages + "  order: [[a, 0], [a, 1], [a, 0]]") == "order-repeated");
  CHECK(id(stages + "  order: [[a, 0]]") == "order-entry-missing");
  CHECK(id(stages + "  order: {search: {period: 2}}") == "unknown-key");
  CHECK(id(stages + "  order: {search: {periods: 0}}") == "schedule-range");
  CHECK(id("  stages: 0\n  micro_batches: 2\n") == "schedule-range");
  CHECK(id("  stages: {a: rest, b: rest}\n  micro_batches: 2\n") == "stages-rest");
  CHECK(id("  stages: {a: {place: all, nodes: x}, b: rest}\n  micro_batches: 2\n") == "stage-place");
}

TEST_CASE("stages without places have places of their own") {
  const auto read = [](const std::string& rest) {
    const ReadSchedule made = read_yaml_schedule("weft: 1\nmesh: {tp: 2}\npipeline: " + rest);
    REQUIRE(made.schedule);
    return *made.schedule;
  };
  for (const Schedule& schedule : {read("{stages: {stage0: \"h.{0..5}.*\", stage1: rest}, micro_batches: 2}"),
                                   read("{stages: 2, micro_batches: 2}")}) {
    const std::vector<PlaceRequest> places = places_of(schedule);
    REQUIRE(places.size() == 2);
    CHECK(places[0].name == "stage0");
    CHECK(places[0].ranks == std::vector<int>{0, 1});
    CHECK(places[1].ranks == std::vector<int>{2, 3});
    CHECK(places[1].mesh == Mesh{{"tp", 2}});
  }
  const Schedule short_form =
      read("{stages: {a: [x, y], b: rest}, micro_batches: 2, order: {search: {periods: 3, memory: 1GiB}}}");
  CHECK(short_form.pipeline->stages[0].nodes.size() == 2);
  CHECK(short_form.pipeline->stages[1].has_rest);
  CHECK(short_form.pipeline->order == PipelineRequest::Order::Search);
  CHECK(short_form.pipeline->search.periods == 3);
  CHECK(*short_form.pipeline->search.memory == int64_t{1} << 30);
  CHECK(read("{stages: 2, micro_batches: 2, order: zb-h1}").pipeline->splits_backward);
}

TEST_CASE("each mistake of a pipeline of a training") {
  const auto id = [](const std::string& train, const std::string& order) {
    return read_yaml_schedule("weft: 1\npipeline: {stages: {a: x}, micro_batches: 1, order: " + order +
                              "}\ntrain: {loss: l, optimizer: {sgd: {rate: 1}}" + train + "}\n")
        .ids();
  };
  CHECK(id("", "[[a.forward, 0], [a.backward, 0]]") == "");
  CHECK(id("", "[[a, 0]]") == "unknown-stage");
  CHECK(id("", "[[a.forward, 0]]") == "");  // the model says which others exist
  CHECK(id("", "[[a.forward, 0], [a.weight, 0]]") == "unknown-stage");
  CHECK(id(", accumulate: 2", "gpipe") == "pipeline-accumulate");
}
