// From a model to a graph: dims, inputs, operands, attributes, subgraphs, and what is refused.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

TEST_CASE("open dims are listed together, with what pins them") {
  const ReadModel read = read_graph("(float[N, seq, 4] x, float[N, ?] y, float[] z) => (float[4] o) { o = Relu(x) }");
  CHECK(read.ids() == "open-dim");
  CHECK(read.diags.text() ==
        "m.onnxtxt: error: dimensions of the inputs have no length: dim 0 of 'x', dim 0 of 'y', dim 1 of 'x', dim 1 of "
        "'y', "
        "the whole shape of 'z' [open-dim]\n"
        "m.onnxtxt: note: pin dim 0 of 'x', dim 0 of 'y' with --dim N=NUMBER\n"
        "m.onnxtxt: note: pin dim 1 of 'x' with --dim seq=NUMBER\n"
        "m.onnxtxt: note: pin dim 1 of 'y' with --shape y=NxN, or with <=N for a bound\n"
        "m.onnxtxt: note: pin the whole shape of 'z' with --shape z=NxN...\n");
}

TEST_CASE("dims are pinned by name or by shape") {
  ReadOptions options = with_dims({"N=2"});
  options.shapes.push_back({"y", {2, 7}});
  const ReadModel read = read_graph("(float[N, 4] x, float[N, ?] y) => (float[2, 4] o) { o = Relu(x) }", options);
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  CHECK(graph.type(graph.inputs()[0]).dims() == Dims{2, 4});
  CHECK(graph.type(graph.inputs()[1]).dims() == Dims{2, 7});
}

TEST_CASE("a bounded dim has one length, shared by all inputs that have it") {
  const ReadModel read =
      read_graph("(float[seq, 4] x, float[4, seq] y) => (float o) { o = MatMul(x, y) }", with_dims({"seq<=64"}));
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  const Extent seq = run_time_extent(64, Length::named("seq", 64));
  CHECK(graph.type(graph.inputs()[0]).shape[0] == seq);
  CHECK(graph.type(graph.inputs()[1]).shape[1] == seq);
  CHECK(read.module->lengths == std::map<std::string, int64_t>{{"seq", 64}});
}

TEST_CASE("dims of one name that says nothing are dims without a name") {
  const ReadModel read =
      read_graph("(float[\"-1\", \"None\", unk__3] x, float[unk__3, unk__4] y) => (float[4] o) { o = Relu(x) }",
                 with_dims({"unk__4=2"}));
  CHECK(read.ids() == "open-dim");
  CHECK(read.diags.text().find("--dim") == std::string::npos);
  CHECK(read.diags.text().find("dim 0 of 'x', dim 1 of 'x', dim 2 of 'x' with --shape x=NxNxN") != std::string::npos);
}

TEST_CASE("--shape bounds dims: those without a name have lengths of their own") {
  ReadOptions options;
  options.shapes = {{"x", {8, 4}, {0}}, {"y", {6, 4}, {0}}};
  const ReadModel read =
      read_graph("(float[?, 4] x, float[n, 4] y, float[n, 4] z) => (float[?, 4] o) { o = Relu(x) }", options);
  REQUIRE_MESSAGE(read.module, read.diags.text());
  const Graph& graph = read.module->graph;
  CHECK(graph.type(graph.inputs()[0]).shape[0] == run_time_extent(8, Length::named("x_0", 8)));
  CHECK(graph.type(graph.inputs()[1]).shape[0] == run_time_extent(6, Length::named("n", 6)));
  CHECK(graph.type(graph.inputs()[2]).shape[0] == graph.type(graph.inputs()[1]).shape[0]);
  CHECK(read.module->lengths == std::map<std::string, int64_t>{{"n", 6}, {"x_0", 8}});
}

TEST_CASE("an initialiser that is an input too is a constant, bound, or the first value of a state") {
  const std::string graph = "(float[2] x, float[2] g = {2, 3}) => (float[2] o) { o = Mul(x, g) }";
  const ReadModel kept = read_graph(graph);
  REQUIRE_MESSAGE(kept.module, kept.diags.text());
  CHECK(kept.diags.text().find("[defaults-kept]") != std::string::npos);
  CHECK(kept.module->graph.inputs().size() == 1);
  ReadOptions options;
  options.overrides = {"g"};
  const ReadModel open = read_graph(graph, options);
  REQUIRE_MESSAGE(open.module, open.diags.text());
  CHECK(open.diags.text().empty());
  REQUIRE(open.module->states.size() == 1);
  CHECK(open.module->states[0].input == "g");
  CHECK(open.module->constants.tensor(open.module->states[0].initial).real == std::vector<double>{2, 3});
  options.overrides = {"x"};
  CHECK(read_graph(graph, options).ids() == "unknown-default defaults-kept");
}

TEST_CASE("graphs in graphs are read to some depth") {
  const auto ids = [](int depth) {
    std::string text = "{ y = Identity(c) }";
    for (int i = 0; i < depth; ++i)
      text =
          "{ y = If (c) <then_branch = a () => (bool y) " + text + ", else_branch = b () => (bool y) { y = Not(c) }> }";
    return read_graph("(bool c) => (bool y) " + text).ids();
  };
  CHECK(ids(63) == "");
  CHECK(ids(64) == "model-text-depth");
}

TEST_CASE("requests that do not fit the model") {
  const auto ids = [](const std::string& inputs, ReadOptions options) {
    return read_graph("(" + inputs + ") => (float y) { y = Relu(x) }", std::move(options)).ids();
  };
  CHECK(ids("float[N] x", with_dims({"M=2"})) == "unknown-dim");
  CHECK(ids("float[N] x", with_dims({"N=2,3"})) == "dim-values-unsupported");
  CHECK(ids("float[N] x", with_dims({"N=99999999999999"})) == "dim-range");
  CHECK(ids("float[N] x", with_dims({"N=2", "N=3"})) == "dim-conflict");
  CHECK(ids("float[N, 1048576] x", with_dims({"N=1048577"})) == "input-size");
  CHECK(ids("float[N] x", {.path = "", .dims = {}, .shapes = {{"z", {1}}}, .binds = {}}) == "unknown-input");
  CHECK(ids("float[3] x", {.path = "", .dims = {}, .shapes = {{"x", {4}}}, .binds = {}}) == "input-shape");
  CHECK(ids("float[N] x", {.path = "", .dims = {}, .shapes = {{"x", {4}}, {"x", {4}}}, .binds = {}}) ==
        "input-requested-twice");
  CHECK(ids("complex64[3] x", {}) == "input-type-unsupported");
  CHECK(ids("map(int64, float[3]) x", {}) == "input-type-unsupported");
  CHECK(ids("seq(float[3]) x", {}) == "open-sequence");
  CHECK(ids("float[3] x, float[3] x", {}) == "input-repeated");
}

TEST_CASE("inputs that are sequences and optionals are as many inputs as the command line says") {
  const std::string graph =
      "(seq(float[N]) s, optional(float[2]) o, optional(seq(float[3])) e, optional(float[2]) a) => (int64 y) "
      "{ y = SequenceLength(s) z = OptionalHasElement(o) v = OptionalHasElement(e) w = OptionalHasElement(a) }";
  ReadOptions options;
  options.elements = {{"s", 2}, {"o", {}}, {"e", 1}, {"a", {}, true}};
  CHECK(read_graph(graph, options).ids() == "open-dim");
  options.shapes = {{"s.0", {4}}, {"s.1", {5}}};
  const ReadModel read = read_graph(graph, options);
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph)
            .starts_with("s.0 = Input()\ns.1 = Input()\no = Input()\ne.0 = Input()\n"
                         "s = SequenceConstruct(s.0, s.1)\ne = SequenceConstruct(e.0)\n"
                         "a = Optional()\n"));
  CHECK(read.module->graph.type(read.module->graph.find_value("s.1")).dims() == Dims{5});
}

TEST_CASE("what the command line says of elements has to fit the inputs") {
  const auto ids = [](std::vector<ElementsRequest> elements) {
    ReadOptions options;
    options.elements = std::move(elements);
    return read_graph("(seq(float[3]) s, optional(float[2]) o, float[1] x) => (int64 y) { y = SequenceLength(s) }",
                      options)
        .ids();
  };
  CHECK(ids({{"s", 2}, {"o", {}}}) == "");
  CHECK(ids({{"s", 2}}) == "open-sequence");
  CHECK(ids({{"s", 2}, {"o", 1}}) == "open-sequence");          // no sequence
  CHECK(ids({{"s", {}, true}, {"o", {}}}) == "open-sequence");  // cannot be absent
  CHECK(ids({{"s", 2}, {"o", {}}, {"x", {}}}) == "unknown-elements");
  CHECK(read_graph("(seq(float[3]) s) => (int64 y) { y = SequenceLength(s) }").diags.text() ==
        "m.onnxtxt: error: input 's' is sequence(float[3]): say with --sequence s=NUMBER how many tensors that is "
        "[open-sequence]\n");
}

TEST_CASE("types that an attribute names are read over") {
  const ReadModel read = read_graph(
      "(float[2] x) => (bool y) { o = Optional <type: type_proto = seq(float[2])> () y = OptionalHasElement(o) }");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(read_graph("(float[2] x) => (bool y) { o = Optional <type: type_proto = 3> () y = OptionalHasElement(o) }")
            .ids() == "model-text-syntax");
}

TEST_CASE("options of the command line") {
  Diags diags;
  CHECK(parse_dim_option("seq<=8", diags)->bounded);
  CHECK(parse_dim_option("seq=1,128", diags)->values == std::vector<int64_t>{1, 128});
  CHECK(parse_dim_option("seq<=8,64", diags)->values == std::vector<int64_t>{8, 64});
  CHECK(parse_shape_option("x=1x3", diags)->dims == Dims{1, 3});
  CHECK(parse_shape_option("x=scalar", diags)->dims.empty());
  CHECK(parse_bind_option("x=f.npy", diags)->file == "f.npy");
  CHECK(parse_sequence_option("x=3", diags)->elements == 3);
  CHECK(parse_optional_option("x=absent", diags)->is_absent);
  CHECK_FALSE(parse_optional_option("x=present", diags)->is_absent);
  CHECK(diags.ok());
  for (const char* wrong : {"seq", "seq=", "=3", "seq=-1", "seq=1,1", "seq=1,", "seq=1,<=4", "seq<=8,8", "seq<=8,4"})
    CHECK(!parse_dim_option(wrong, diags));
  CHECK(!parse_shape_option("x=1xy", diags));
  CHECK(!parse_bind_option("x=", diags));
  CHECK(diags.all()[0].id == "dim-option");
  CHECK(diags.all()[9].id == "shape-option");
  CHECK(diags.all()[10].id == "bind-option");
  for (const char* wrong : {"x", "x=", "=3", "x=-1", "x=5000"}) CHECK(!parse_sequence_option(wrong, diags));
  for (const char* wrong : {"x", "x=", "=absent", "x=3"}) CHECK(!parse_optional_option(wrong, diags));
  CHECK(diags.all()[11].id == "sequence-option");
  CHECK(diags.all()[16].id == "optional-option");
}

TEST_CASE("all unsupported operators are named at once") {
  const ReadModel read = read_graph(R"((float[2] x) => (float y) {
    [a] p = ImageDecoder(x)
    [b] q = ImageDecoder(p)
    y = local.Missing(q)
  })");
  CHECK(read.ids() == "op-unsupported op-unsupported");
  CHECK(read.diags.exit_code() == 3);
  CHECK(read.diags.all()[0].message == "operator ImageDecoder is not supported; 2 nodes use it: 'a', 'b'");
}

TEST_CASE("versions") {
  const auto ids = [](const std::string& header) {
    return read_text(header + " m (float x) => (float y) { y = Relu(x) }").ids();
  };
  CHECK(ids("<ir_version: 99, opset_import: [\"\" : 20]>") == "ir-version-unsupported");
  CHECK(ids("<ir_version: 8, opset_import: [\"\" : 99]>") == "opset-unsupported");
  CHECK(ids("<ir_version: 8, opset_import: [\"local\" : 1]>") == "opset-missing");
  CHECK(
      read_text("<ir_version: 8, opset_import: [\"\" : 20]> m (float x) => (float y) { y = com.microsoft.FastGelu(x) }")
          .ids() == "domain-not-imported");
}

TEST_CASE("order and names of values") {
  const auto ids = [](const std::string& nodes) {
    return read_graph("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { " + nodes + " }").ids();
  };
  CHECK(ids("y = Relu(h)  h = Relu(x)") == "");
  CHECK(ids("y = Relu(h)  h = Relu(y)") == "node-cycle");
  CHECK(ids("y = Relu(h)  h = Relu(k)  k = Relu(h)") == "node-cycle node-cycle");
  CHECK(ids("y = Relu(h)") == "undefined-value");
  CHECK(ids("h = Relu(x)") == "undefined-output");
  CHECK(ids("y = Relu(x)  y = Relu(x)") == "value-redefined");
  CHECK(ids("w = Relu(x)  y = Relu(x)") == "value-redefined");
  CHECK(read_graph("(float x) => (float y, float y) { y = Relu(x) }").ids() == "output-repeated");
  CHECK(read_graph("(float x) => (float y) <float w = {1}, float w = {2}> { y = Relu(x) }").ids() ==
        "initializer-repeated");
}

TEST_CASE("of several Constants with one name the last counts") {
  const ReadModel read = read_graph(
      "(float x) => (float y) { k = Constant<value_float = 1.0>() y = Add(x, k) k = Constant<value_float = 2.0>() }");
  REQUIRE(read.module);
  CHECK(read.ids() == "constant-repeated");
  CHECK(read.module->constants.size() == 1);
}

TEST_CASE("arity and attributes are those of the record") {
  const auto ids = [](const std::string& node) {
    return read_graph("(float[2] x, float[2] z) => (float[2] y) { " + node + " }").ids();
  };
  CHECK(ids("y = Add(x)") == "input-count");
  CHECK(ids("y, q = Add(x, z)") == "output-count");
  CHECK(ids("y = Add(, z)") == "operand-missing");
  CHECK(ids("y = LeakyRelu<alpah = 0.5>(x)") == "unknown-attribute");
  CHECK(ids("y = LeakyRelu<alpha = 1>(x)") == "attribute-type");
  CHECK(ids("y = LeakyRelu<alpha = 1.0, alpha = 2.0>(x)") == "attribute-repeated");
  CHECK(ids("y = LeakyRelu<alpha = @beta>(x)") == "attribute-reference");
  CHECK(ids("y = Cast(x)") == "attribute-missing");
  CHECK(ids("y = Constant<value_float = 1.0, value_int = 2>()") == "constant-attributes");
  CHECK(ids("y, q = Constant<value_float = 1.0>()") == "constant-outputs");
  CHECK(ids("y = Constant<value_int = 1.0>()") == "constant-value-unsupported");
  CHECK(ids("y = Constant<value_string = \"" + std::string(256, 'a') + "\">()") == "constant-string");
  CHECK(ids("y = Constant<value_strings = [\"a\", \"" + std::string(256, 'a') + "\"]>()") == "constant-string");
  const std::string text = read_graph("(float x) => (float y) { y = LeakyRelu<alpah = 0.5>(x) }").diags.text();
  CHECK(text.find("LeakyRelu has no attribute 'alpah', did you mean 'alpha'? [unknown-attribute]") !=
        std::string::npos);
}

TEST_CASE("branches take what they use of outside as parameters, constants as their own") {
  const ReadModel read = read_graph(R"((float[2] x, bool c) => (float[2] y) <float k = {2}> {
    h = Neg(x)
    y = If(c) <then_branch = t () => (a) { a = Mul(h, k) }, else_branch = e () => (b) { g = Add(x, h)  b = Relu(g) }>
  })");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) ==
        "x = Input()\nc = Input()\nh = Neg(x)\ny = If(c, h, x)\n"
        "  h = Input()\n  x = Input()\n  k = Constant()\n  a = Mul(h, k)\n  --\n"
        "  h = Input()\n  x = Input()\n  g = Add(x, h)\n  b = Relu(g)\n  --\n");
}

TEST_CASE("a loop's region: iteration, condition, carried values, captures") {
  const ReadModel read = read_graph(R"((float[2] x, float[2] s) => (float[2] y) <int64 n = {3}> {
    y = Loop(n, , x) <body = b (i, c, v) => (d, w) { d = Identity(c)  w = Add(v, s) }>
  })");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) ==
        "x = Input()\ns = Input()\nn = Constant()\ny = Loop(n, -, x, s)\n"
        "  i = Input()\n  c = Input()\n  v = Input()\n  s = Input()\n  d = Identity(c)\n  w = Add(v, s)\n  --\n");
  CHECK(read.module->graph.op(read.module->graph.find_op("y")).integer("carried") == 1);
}

TEST_CASE("subgraphs that do not fit") {
  const auto ids = [](const std::string& node) {
    return read_graph("(float[2] x, bool c) => (float[2] y) { " + node + " }").ids();
  };
  CHECK(ids("y = If(c) <then_branch = t () => (a) { a = Neg(x) }>") == "subgraph-missing");
  CHECK(ids("y = If(c) <then_branch = t (q) => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Neg(x) }>") ==
        "subgraph-arity");
  CHECK(ids("y = Loop(, c, x) <body = b (i, i, v) => (v, v) { }>") == "subgraph-parameter");
  CHECK(ids("y = If(c) <then_branch = t () => (a) { a = Neg(z) }, else_branch = e () => (b) { b = Neg(x) }>") ==
        "undefined-value");
}

TEST_CASE("op names are unique in the module, nodes with names come first") {
  const ReadModel read = read_graph("(float x) => (float z) { y = Relu(x) [y] q = Neg(y) [y] z = Neg(q) }");
  REQUIRE(read.module);
  const Graph& graph = read.module->graph;
  CHECK(graph.producer_op(graph.find_value("q")).name == "y");
  CHECK(graph.producer_op(graph.find_value("z")).name == "y_2");
  CHECK(graph.producer_op(graph.find_value("y")).name == "y_3");
}

TEST_CASE("an input with an initializer is a constant; what nothing reads is not imported") {
  const ReadModel read =
      read_graph("(float[1] x, float[1] w = {2}) => (float[1] y) <float[1] unused = {1}> { y = Mul(x, w) }");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) == "x = Input()\nw = Constant()\ny = Mul(x, w)\n");
}
