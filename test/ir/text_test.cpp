// Printed text is read back as the same module. Errors are reported with line and column.
#include <doctest/doctest.h>

#include <limits>

#include "ir/string_table.h"
#include "ir/text/text_form.h"
#include "test/ir/random_layout.h"

namespace weftc {

static const char* const kEverything = R"(module "m\x01" file "dir/m.onnx" seed -3 per-rank
place @all [0, 1, 2, 3] {dp: 2, "a b": 2}
place @"x y" [3] {}
length "past - rows" <= 4
length past <= 8
relation "past" = "\"past - rows\" * 2" by "a"
relation "past" <= "4" where "-past + 1" by "b"
state "past" -> "present" at "s.yaml":4:5
state "a" -> "b"
pipeline ["embed", "far" stage 0 backward after] micro-batches 2 order [0 0, 0 1, 1 0, 1 1]
constant #0 "w" f32[2, 2] = [1, 0.1, -0, 1e+30]
constant #1 "h" f16[3] = [inf, -inf, nan]
constant #2 "u" u64[2] = [18446744073709551615, 5]
constant #3 "b" bool[] = [1]
constant #4 "empty" i8[0] = []
constant #5 "big" bf16[100] = ...
graph {
  %past = Input() : f32[past<=8, 4] [dp: S(1,2)] @all port 0 "past op"
  %"odd name, \"quoted\"" = Input() : f32[4] [dp: S(0,1), "a b": S(0,2)] @all
  %n = LengthOf() {length = "past * 2"} : i64[] @all from 0, 1 by 0
  %c = Constant() {value = #0} : f32[2, 2]
  %c1 = Constant() {value = #1} : f16[3]
  %c2 = Constant() {value = #2} : u64[2]
  %c3 = Constant() {value = #3} : bool[]
  %c4 = Constant() {value = #4} : i8[0]
  %big = Constant() {value = #5} : bf16[100]
  %y = Clip(%past, _, %c) {empty = [], list = [1, -2], none = real [], real = 1.0, reals = [0.5, inf, 1e-07], text = "a\nb"} : f32["past - rows" * past * 2 - min("past - rows", past) + past / 3<=64, 4] [dp: P(max), "a b": V] @all block 1 "node" from 2
  %o, %p = Chunk(%past) {chunks = 2} : f32[4], f32[] mechanism fused "chunk op" by 1 {
    time {chunk: 2, t: 3}
    %a = Input() : f32[4] [dp: S(0,2), chunk: S(0,1)] @all
    %i = If(%a) : f32[4] @all {
      time {chunk: 2, t: 3}
      return
    } {
      time {chunk: 2, t: 3}
      %a = Input() : f32[4] [t: P(sum)] @all
      return %a, %a "again"
    }
    return %a, %i
  }
  return %y "present", %past, %y
}
origin 0 "h/MatMul" "MatMul" 17
origin 1 "" "Add" 0
origin 2 "z" "Clip" 3
transform 0 "fuse into far0" at "s.yaml":12:3
transform 1 "plain"
)";

static std::string reprinted(const std::string& text) {
  Diags diags;
  const std::optional<Module> module = parse_module("t.weft", text, diags);
  INFO(diags.text());
  REQUIRE(module);
  return print_module(*module);
}

TEST_CASE("text: a module with one of everything is printed as it was read") {
  CHECK(reprinted(kEverything) == kEverything);
}

TEST_CASE("text: what was read is in the module") {
  Diags diags;
  const std::optional<Module> m = parse_module("t.weft", kEverything, diags);
  REQUIRE(m);
  CHECK(m->name == "m\x01");
  CHECK(m->seed == -3);
  CHECK(m->per_rank);
  CHECK(m->states[0].loc.line == 4);
  CHECK(m->constants.tensor(ConstantId{2}).integers[0] == -1);
  CHECK(m->constants.tensor(ConstantId{5}).size() == 100);
  CHECK(m->pipeline->order[2].block == 1);
  CHECK(m->graph.op(m->graph.find_op("node")).block == 1);
  CHECK(m->graph.op(m->graph.find_op("past op")).port == 0);
  CHECK(m->graph.op(m->graph.find_op("chunk op")).mechanism == Mechanism::Fused);
  const Graph& g = m->graph;
  const Value& past = g.value(g.find_value("past"));
  CHECK(g.op(past.producer).name == "past op");
  CHECK(past.type.shape[0] == run_time_extent(8, Length::named("past", 8)));
  const Op& clip = g.op(g.find_op("node"));
  CHECK_FALSE(bool(clip.inputs[1]));
  CHECK(clip.reals("reals")[1] == std::numeric_limits<double>::infinity());
  CHECK(clip.origins == std::vector<OriginId>{{2}});
  CHECK(m->origins[0].loc.node_index == 17);
  CHECK(g.outputs()[2].name == "y");
  CHECK(g.op(g.find_op("chunk op")).regions[0].time_axes.size() == 2);
}

TEST_CASE("text: values of constants can be left out") {
  Diags diags;
  const std::optional<Module> m = parse_module("t.weft", kEverything, diags);
  REQUIRE(m);
  CHECK(print_module(*m, {.constants = false}).find("constant #0 \"w\" f32[2, 2] = ...\n") != std::string::npos);
}

TEST_CASE("text: one op on one line") {
  Diags diags;
  const std::optional<Module> m = parse_module("t.weft", kEverything, diags);
  REQUIRE(m);
  CHECK(print_op(*m, m->graph, m->graph.op(m->graph.find_op("n"))) ==
        "%n = LengthOf() {length = \"past * 2\"} : i64[] @all from 0, 1 by 0");
}

/// A graph of random ops; its meaning does not matter, its text does.
static Module random_module(uint32_t seed) {
  Random random(seed);
  Module m;
  m.name = "m" + std::to_string(seed);
  m.places.push_back({"all", {}, random_mesh(random)});
  for (int r = 0; r < mesh_size(m.places[0].mesh); ++r) m.places[0].ranks.push_back(r);
  m.origins = {{"n0", "Add", 0, {}}, {"n1", "Mul", 1, {}}};
  m.transforms = {{"t", {}}};
  const std::vector<OpKind> kinds{OpKind::Input, OpKind::Constant, OpKind::Add, OpKind::Concat, OpKind::AllReduce};
  std::vector<ValueId> values;
  for (int64_t i = random.between(1, 12); i > 0; --i) {
    NewOp made;
    made.kind = values.empty() ? OpKind::Input : random.pick(kinds);
    made.name = random.chance(50) ? "n" : std::string("odd\t\"\x80/") + std::to_string(i);
    made.place = PlaceId{0};
    TensorType type{random.pick(std::vector<DType>{DType::F32, DType::F16, DType::U64, DType::Bool, DType::I8}),
                    shape_of(random_dims(random)),
                    {}};
    random_layout(random, type, m.places[0].mesh);
    if (made.kind == OpKind::Constant) {
      Tensor tensor = random_tensor(random, type.dtype, random.chance(50) ? Dims{3} : Dims{40});
      if (tensor.is_real()) tensor.real[0] = round_to(type.dtype, 1.0 / static_cast<double>(random.between(1, 99)));
      made.attrs = {{"value", m.constants.add("c", tensor)}};
    } else if (made.kind != OpKind::Input) {
      for (int64_t k = random.between(0, 3); k > 0; --k)
        made.inputs.push_back(random.chance(10) ? ValueId{} : random.pick(values));
      made.attrs = {{"r", 1.0 / static_cast<double>(random.between(1, 9))},
                    {"s", std::string("\"\\\n")},
                    {"t", std::vector<std::string>(static_cast<size_t>(random.between(0, 2)), "a \"b\"")}};
    }
    if (random.chance(30)) made.origins = {{1}, {0}};
    if (random.chance(30)) made.transform = {0};
    made.results.assign(static_cast<size_t>(made.kind == OpKind::Input ? 1 : random.between(1, 2)), type);
    const OpId before = random.chance(20) && m.graph.first() && made.inputs.empty() ? m.graph.first() : OpId{};
    const OpId id = m.graph.add(std::move(made), before);
    for (ValueId v : m.graph.op(id).outputs) values.push_back(v);
  }
  m.graph.add_output(random.pick(values), "out");
  return m;
}

TEST_CASE("text: random modules print again as they were printed") {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const std::string text = print_module(random_module(seed));
    CAPTURE(text);
    CHECK(reprinted(text) == text);
  }
}

TEST_CASE("text: elements of constants survive exactly") {
  Random random(4);
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    Module m;
    Tensor tensor(dtype, {16});
    for (double& v : tensor.real) v = round_to(dtype, static_cast<double>(random.between(-1000000, 1000000)) / 7919.0);
    m.graph.add({OpKind::Constant,
                 {},
                 {{dtype, shape_of({16}), {}}},
                 {{"value", m.constants.add("c", tensor)}},
                 {},
                 {},
                 "c",
                 {},
                 {},
                 {}});
    Diags diags;
    const std::optional<Module> back = parse_module("t.weft", print_module(m), diags);
    REQUIRE(back);
    CHECK(same_elements(back->constants.tensor(ConstantId{0}), tensor));
  }
}

TEST_CASE("text: constants of strings survive, and strings that fit no element are refused") {
  const auto parsed = [](const std::string& list, Diags& diags) {
    return parse_module("t.weft",
                        "module \"m\" file \"f\" seed 0\nconstant #0 \"c\" string[2] = " + list +
                            "\ngraph {\n  %x = Constant() {value = #0} : string[2]\nreturn %x }\n",
                        diags);
  };
  Diags diags;
  const std::optional<Module> read = parsed("[\"\", \"a \\xc3\\xa9 \\\"b\\\"\"]", diags);
  REQUIRE_MESSAGE(read, diags.text());
  CHECK(string_of(read->constants.tensor(ConstantId{0}).integers[1]) == "a \xc3\xa9 \"b\"");
  const std::optional<Module> back = parse_module("t.weft", print_module(*read), diags);
  REQUIRE(back);
  CHECK(same_elements(back->constants.tensor(ConstantId{0}), read->constants.tensor(ConstantId{0})));
  CHECK_FALSE(parsed("[\"\", \"\\xff\"]", diags));
}

static std::string message(const std::string& graph) {
  Diags diags;
  CHECK_FALSE(
      parse_module("t.weft", "module \"m\" file \"f\" seed 0\nplace @all [0, 1] {tp: 2}\ngraph {\n" + graph, diags));
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& d = diags.all()[0];
  CHECK(d.id == "ir-text");
  return std::to_string(d.loc.line) + ":" + std::to_string(d.loc.column) + " " + d.message;
}

TEST_CASE("text: errors have a place and one line") {
  CHECK(message("  %x = Input() : f32[2]\n  %y = Neg(%z) : f32[2]\n") == "5:12 there is no value 'z' here");
  CHECK(message("  %x = Inputt() : f32[2]\n") == "4:8 there is no op 'Inputt'");
  CHECK(message("  %x = Input() : g32[2]\n") == "4:18 there is no element type 'g32'");
  CHECK(message("  %x = Input() : f32[2] [tq: S(0,1)] @all\n") == "4:26 there is no axis 'tq' here");
  CHECK(message("  %x = Input() : f32[2] [tp: Q] @all\n") == "4:30 expected R, S(dim,block), P(op) or V");
  CHECK(message("  %x = Input() : f32[2] @nowhere\n") == "4:25 there is no place 'nowhere'");
  CHECK(message("  %x = Input() : f32[2]\n  %x = Input() : f32[2] \"b\"\n") == "5:3 there is already a value 'x'");
  CHECK(message("  %x = Input() : f32[rows<=2]\nreturn %x }\n") == "4:22 'rows' is no length of the module");
  CHECK(message("  %x = Input() : f32[<=2]\nreturn %x }\n") == "4:22 '<=' is no length of the module");
  CHECK(message("  %x = Constant() {value = #3} : f32[2]\nreturn %x }\n") == "4:28 there is no constant #3");
  CHECK(message("  %x = Input() : f32[2] from 0\nreturn %x }\n") == "4:30 there is no origin 0");
  CHECK(message("  %x = Input() {a = \"open} : f32[2]\n") == "4:21 a string has no end or a wrong escape");
  CHECK(message("  %x = Input() {a = 99999999999999999999} : f32[2]\n") ==
        "4:21 '99999999999999999999' is no integer of 64 bits");
  CHECK(message("  return %x\n") == "4:10 there is no value 'x' here");
  CHECK(message("  %x = Input() : f32[2]\n") == "5:1 expected the name of an op, but there is ''");
}

TEST_CASE("text: any prefix and any changed byte is refused or read, never a crash") {
  const std::string text = kEverything;
  for (size_t cut = 0; cut < text.size(); cut += 3) {
    Diags diags;
    parse_module("t.weft", text.substr(0, cut), diags);
  }
  Random random(12);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    for (int64_t n = random.between(1, 3); n > 0; --n)
      changed[static_cast<size_t>(random.between(0, static_cast<int64_t>(text.size()) - 1))] =
          static_cast<char>(random.between(32, 126));
    Diags diags;
    const std::optional<Module> m = parse_module("t.weft", changed, diags);
    CHECK(bool(m) == diags.ok());
  }
}

}  // namespace weftc
