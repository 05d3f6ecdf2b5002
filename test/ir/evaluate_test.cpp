// Evaluation on virtual ranks, on graphs in text form: each is run on its ranks and compared with what it must give.
#include "ir/evaluate/evaluate.h"

#include <doctest/doctest.h>

#include <chrono>

#include "ir/text/text_form.h"
#include "test/ir/random_layout.h"

namespace weftc {

static Module parsed(const std::string& text) {
  Diags diags;
  std::optional<Module> module = parse_module("test.weft", "module \"m\" file \"m.onnx\" seed 7\n" + text, diags);
  INFO(diags.text());
  REQUIRE(module);
  return std::move(*module);
}

static Tensor reals(Dims dims, std::vector<double> values) {
  Tensor t(DType::F32, std::move(dims));
  t.real = std::move(values);
  return t;
}

static std::vector<Tensor> run(const Module& module, const std::vector<Tensor>& inputs) {
  const EvalResult result = evaluate(module, inputs);
  CHECK(result.error == "");
  REQUIRE(result.outputs.size() == module.graph.outputs().size());
  return result.outputs;
}

static Tensor product(const Tensor& a, const Tensor& b) {
  Tensor c(DType::F32, {a.dims[0], b.dims[1]});
  for (int64_t i = 0; i < a.dims[0]; ++i)
    for (int64_t j = 0; j < b.dims[1]; ++j)
      for (int64_t k = 0; k < a.dims[1]; ++k)
        c.real[i * b.dims[1] + j] += a.real[i * a.dims[1] + k] * b.real[k * b.dims[1] + j];
  return c;
}

TEST_CASE("evaluate: one rank without places") {
  const Module m = parsed(R"(constant #0 "c" f32[2] = [10, 20]
    graph {
      %x = Input() : f32[2, 2]
      %c = Constant() {value = #0} : f32[2]
      %y = Add(%x, %c) : f32[2, 2]
      %z = Transpose(%y) {perm = [1, 0]} : f32[2, 2]
      return %z "out", %x
    })");
  const std::vector<Tensor> out = run(m, {reals({2, 2}, {1, 2, 3, 4})});
  CHECK(out[0].real == std::vector<double>{11, 13, 22, 24});
  CHECK(out[1].real == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("evaluate: column-parallel then row-parallel product") {
  const Module m = parsed(R"(place @all [0, 1, 2, 3] {dp: 2, tp: 2}
    graph {
      %x = Input() : f32[4, 6] [dp: S(0,2)] @all
      %v = Input() : f32[6, 8] [tp: S(1,4)] @all
      %w = Input() : f32[8, 3] [tp: S(0,4)] @all
      %h = MatMul(%x, %v) : f32[4, 8] [dp: S(0,2), tp: S(1,4)] @all
      %p = MatMul(%h, %w) : f32[4, 3] [dp: S(0,2), tp: P(sum)] @all
      %y = AllReduce(%p) {axes = [1], reduce = "sum"} : f32[4, 3] [dp: S(0,2)] @all
      return %y, %p
    })");
  Random random(5);
  const Tensor x = random_tensor(random, DType::F32, {4, 6}), v = random_tensor(random, DType::F32, {6, 8}),
               w = random_tensor(random, DType::F32, {8, 3});
  const std::vector<Tensor> out = run(m, {x, v, w});
  const Tensor expected = product(product(x, v), w);
  CHECK(same_elements(out[0], expected));
  CHECK(same_elements(out[1], expected));
}

TEST_CASE("evaluate: views, patterns and draws on slices are those of the whole") {
  const std::string body = R"(
      %s = Slice(%x) {ends = [8, 8], starts = [0, 4], steps = [1, 2]} : f32[8, 2]$C @all
      %r = Reshape(%x) {allowzero = 1, shape = [2, 4, 12]} : f32[2, 4, 12]$R @all
      %t = Tile(%x) {repeats = [2, 1]} : f32[16, 12]$X @all
      %p = Pad(%x) {mode = "constant", pads = [8, 0, 0, 1], value = 3.0} : f32[16, 13]$X @all
      %i = Iota() {axis = 0, dtype = 0, shape = [8, 12], start = 1.0, step = 2.0} : f32[8, 12]$X @all
      %u = RandomUniform() {dtype = 0, high = 1.0, low = -1.0, node = 5, shape = [8, 12]} : f32[8, 12]$X @all
      return %s, %r, %t, %p, %i, %u
    })";
  const auto with = [&](const std::string& place, const std::string& x, const std::string& columns,
                        const std::string& reshaped) {
    std::string text = "place @all " + place + "\ngraph {\n%x = Input() : f32[8, 12]" + x + " @all" + body;
    for (const auto& [sign, layout] : {std::pair{"$X", x}, {"$C", columns}, {"$R", reshaped}})
      for (size_t at; (at = text.find(sign)) != std::string::npos;) text.replace(at, 2, layout);
    return parsed(text);
  };
  Random random(6);
  const Tensor x = random_tensor(random, DType::F32, {8, 12});
  const std::vector<Tensor> one = run(with("[0] {}", "", "", ""), {x});
  const std::vector<Tensor> four = run(with("[0, 1, 2, 3] {a: 2, b: 2}", " [a: S(0,4), b: S(0,1)]",
                                            " [a: S(0,4), b: S(0,1)]", " [a: S(0,1), b: S(1,1)]"),
                                       {x});
  for (size_t i = 0; i < one.size(); ++i) CHECK(same_elements(one[i], four[i]));
}

TEST_CASE("evaluate: a slice along a sliced dimension") {
  const std::string text = R"(graph {
      %x = Input() : f32[16] [a: S(0,2)] @all
      %y = Slice(%x) {ends = [12], starts = [4], steps = [2]} : f32[4] [a: S(0,1)] @all
      return %y
    })";
  Tensor x(DType::F32, {16});
  for (int i = 0; i < 16; ++i) x.real[i] = i;
  CHECK(run(parsed("place @all [0, 1] {a: 2}\n" + text), {x})[0].real == std::vector<double>{4, 6, 8, 10});
}

TEST_CASE("evaluate: lookup in a sliced table is a partial sum") {
  const Module m = parsed(R"(place @all [0, 1, 2, 3] {tp: 4}
    graph {
      %w = Input() : f32[5, 2] [tp: S(0,2)] @all
      %i = Input() : i64[3] @all
      %p = Gather(%w, %i) {axis = 0} : f32[3, 2] [tp: P(sum)] @all
      %y = AllReduce(%p) {axes = [0], reduce = "sum"} : f32[3, 2] @all
      return %y
    })");
  Tensor ids(DType::I64, {3});
  ids.integers = {4, 0, 3};
  CHECK(run(m, {reals({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), ids})[0].real == std::vector<double>{8, 9, 0, 1, 6, 7});
}

TEST_CASE("evaluate: per-rank models stack their inputs and outputs") {
  const Module m = parsed(R"(place @all [0, 1, 2] {r: 3}
    graph {
      %x = Input() : f32[2] [r: V] @all
      %h = Mul(%x, %x) : f32[2] [r: V] @all
      %y = AllReduce(%h) {axes = [0], reduce = "sum"} : f32[2] @all
      return %h, %y
    })");
  const std::vector<Tensor> out = run(m, {reals({3, 2}, {1, 2, 3, 4, 5, 6})});
  CHECK(out[0].dims == Dims{3, 2});
  CHECK(out[0].real == std::vector<double>{1, 4, 9, 16, 25, 36});
  CHECK(out[1].real == std::vector<double>{35, 56});
}

TEST_CASE("evaluate: Transfer between overlapping places of different layout") {
  const Module m = parsed(R"(place @a [0, 1, 2] {tp: 3}
    place @b [2, 3] {x: 2}
    graph {
      %x = Input() : f32[6, 4] [tp: S(0,2)] @a
      %h = Add(%x, %x) : f32[6, 4] [tp: S(0,2)] @a
      %t = Transfer(%h) : f32[6, 4] [x: S(1,1)] @b
      %y = Neg(%t) : f32[6, 4] [x: S(1,1)] @b
      return %y
    })");
  Random random(7);
  const Tensor x = random_tensor(random, DType::F32, {6, 4});
  Tensor expected = x;
  for (double& v : expected.real) v *= -2;
  CHECK(same_elements(run(m, {x})[0], expected));
}

TEST_CASE("evaluate: inputs loaded in two places are one port") {
  const Module m = parsed(R"(place @a [0] {}
    place @b [1] {}
    graph {
      %x = Input() : f32[2] @a port 0
      %x.to.b = Input() : f32[2] @b port 0
      %y = Neg(%x) : f32[2] @a
      %z = Exp(%x.to.b) : f32[2] @b
      return %y, %z
    })");
  const std::vector<Tensor> out = run(m, {reals({2}, {0, 0})});
  CHECK(out[1].real == std::vector<double>{1, 1});
  CHECK_FALSE(evaluate(m, {reals({2}, {0, 0}), reals({2}, {0, 0})}).error.empty());
}

// C3: the mesh slices rows in blocks of 4, time cuts each of these in two: a chunk is two blocks of 2 rows.
TEST_CASE("evaluate: Chunk over a dimension that the mesh slices too, with an accumulated result") {
  const Module m = parsed(R"(place @all [0, 1] {tp: 2}
    graph {
      %x = Input() : f32[8, 3] [tp: S(0,4)] @all
      %w = Input() : f32[3, 2] @all
      %y, %g = Chunk(%x, %w) {chunks = 2} : f32[8, 2] [tp: S(0,4)], f32[3, 2] [tp: P(sum)] @all {
        time {chunk: 2}
        %xc = Input() : f32[8, 3] [tp: S(0,4), chunk: S(0,2)] @all
        %wc = Input() : f32[3, 2] @all
        %yc = MatMul(%xc, %wc) : f32[8, 2] [tp: S(0,4), chunk: S(0,2)] @all
        %t = Transpose(%xc) {perm = [1, 0]} : f32[3, 8] [tp: S(1,4), chunk: S(1,2)] @all
        %gc = MatMul(%t, %yc) : f32[3, 2] [tp: P(sum), chunk: P(sum)] @all
        return %yc, %gc
      }
      return %y, %g
    })");
  Random random(8);
  const Tensor x = random_tensor(random, DType::F32, {8, 3}), w = random_tensor(random, DType::F32, {3, 2});
  const std::vector<Tensor> out = run(m, {x, w});
  const Tensor y = product(x, w);
  CHECK(same_elements(out[0], y));
  Tensor turned(DType::F32, {3, 8});
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 3; ++j) turned.real[j * 8 + i] = x.real[i * 3 + j];
  CHECK(same_elements(out[1], product(turned, y)));
}

TEST_CASE("evaluate: a collective inside a Chunk moves only the chunk") {
  const Module m = parsed(R"(place @all [0, 1] {tp: 2}
    graph {
      %x = Input() : f32[4, 8] [tp: S(1,4)] @all
      %w = Input() : f32[8, 2] [tp: S(0,4)] @all
      %y, %z = Chunk(%x, %w) {chunks = 2} : f32[4, 2], f32[4, 2] [tp: S(0,2)] @all {
        time {chunk: 2}
        %xc = Input() : f32[4, 8] [tp: S(1,4), chunk: S(0,1)] @all
        %wc = Input() : f32[8, 2] [tp: S(0,4)] @all
        %p = MatMul(%xc, %wc) : f32[4, 2] [tp: P(sum), chunk: S(0,1)] @all
        %s = ReduceScatter(%p) {axes = [0], reduce = "sum"} : f32[4, 2] [tp: S(0,2), chunk: S(0,1)] @all
        %g = AllGather(%s) {axes = [0]} : f32[4, 2] [chunk: S(0,1)] @all
        return %g, %s
      }
      return %y, %z
    })");
  Random random(9);
  const Tensor x = random_tensor(random, DType::F32, {4, 8}), w = random_tensor(random, DType::F32, {8, 2});
  const std::vector<Tensor> out = run(m, {x, w});
  CHECK(same_elements(out[0], product(x, w)));
  CHECK(same_elements(out[1], product(x, w)));
}

TEST_CASE("evaluate: micro-batches over two places, a Chunk inside a Chunk") {
  const Module m = parsed(R"(place @a [0, 1] {tp: 2}
    place @b [2] {}
    graph {
      %x = Input() : f32[8, 4] [tp: S(1,2)] @a
      %y, %s = Chunk(%x) {chunks = 2} : f32[8, 4], f32[1, 4] mechanism pipeline "chunk" {
        time {mb: 2}
        %xc = Input() : f32[8, 4] [tp: S(1,2), mb: S(0,4)] @a
        %h = Chunk(%xc) {chunks = 2} : f32[8, 4] [tp: S(1,2), mb: S(0,4)] @a {
          time {mb: 2, chunk: 2}
          %xcc = Input() : f32[8, 4] [tp: S(1,2), mb: S(0,4), chunk: S(0,2)] @a
          %n = Neg(%xcc) : f32[8, 4] [tp: S(1,2), mb: S(0,4), chunk: S(0,2)] @a
          return %n
        }
        %t = Transfer(%h) : f32[8, 4] [mb: S(0,4)] @b
        %r = Mul(%t, %t) : f32[8, 4] [mb: S(0,4)] @b
        %u = ReduceSum(%r) {axes = [0], keepdims = 1} : f32[1, 4] [mb: P(sum)] @b
        return %r, %u
      }
      return %y, %s
    })");
  Random random(10);
  const Tensor x = random_tensor(random, DType::F32, {8, 4});
  Tensor squares = x, sums(DType::F32, {1, 4});
  for (int64_t i = 0; i < x.size(); ++i) squares.real[i] *= x.real[i], sums.real[i % 4] += squares.real[i];
  const std::vector<Tensor> out = run(m, {x});
  CHECK(same_elements(out[0], squares));
  CHECK(same_elements(out[1], sums));
}

TEST_CASE("evaluate: Fused runs its body") {
  const Module m = parsed(R"(place @all [0, 1] {tp: 2}
    graph {
      %x = Input() : f32[4] [tp: S(0,2)] @all
      %y, %z = Fused(%x) : f32[4] [tp: S(0,2)], f32[4] [tp: S(0,2)] @all {
        %a = Input() : f32[4] [tp: S(0,2)] @all
        %b = Neg(%a) : f32[4] [tp: S(0,2)] @all
        return %b, %b "again"
      }
      return %y, %z
    })");
  CHECK(run(m, {reals({4}, {1, 2, 3, 4})})[1].real == std::vector<double>{-1, -2, -3, -4});
}

TEST_CASE("evaluate: If takes one branch; ranks that disagree are an error") {
  const std::string text = R"(graph {
      %c = Input() : bool[]$L @all
      %x = Input() : f32[2] @all
      %y = If(%c, %x) : f32[2] @all {
        %a = Input() : f32[2] @all
        return %a
      } {
        %a = Input() : f32[2] @all
        %n = Neg(%a) : f32[2] @all
        return %n
      }
      return %y
    })";
  const auto with = [&](const std::string& layout) {
    std::string filled = "place @all [0, 1] {tp: 2}\n" + text;
    return parsed(filled.replace(filled.find("$L"), 2, layout));
  };
  const Tensor x = reals({2}, {1, 2});
  CHECK(run(with(""), {Tensor::scalar(DType::Bool, 1), x})[0].real == std::vector<double>{1, 2});
  CHECK(run(with(""), {Tensor::scalar(DType::Bool, 0), x})[0].real == std::vector<double>{-1, -2});
  Tensor both(DType::Bool, {2});
  both.integers = {0, 1};
  CHECK(evaluate(with(" [tp: V]"), {both, x}).error == "'y' (If): the condition differs between ranks");
}

static const char* const kLoop = R"(constant #0 "trips" i64[] = [4]
    constant #1 "limit" f32[] = [$LIMIT]
    place @all [0, 1] {tp: 2}
    graph {
      %x = Input() : f32[2] [tp: S(0,1)] @all
      %w = Input() : f32[2] [tp: S(0,1)] @all
      %n = Constant() {value = #0} : i64[] @all
      %last, %all = Loop(%n, _, %x, %w) {carried = 1} : f32[2] [tp: S(0,1)], f32[4, 2] [tp: S(1,1)] @all {
        %i = Input() : i64[] @all
        %go = Input() : bool[] @all
        %v = Input() : f32[2] [tp: S(0,1)] @all
        %k = Input() : f32[2] [tp: S(0,1)] @all
        %fi = Cast(%i) {to = 0} : f32[] @all
        %limit = Constant() {value = #1} : f32[] @all
        %again = Less(%fi, %limit) : bool[] @all
        %s = Add(%v, %k) : f32[2] [tp: S(0,1)] @all
        %t = Add(%s, %fi) : f32[2] [tp: S(0,1)] @all
        return %again, %t, %s
      }
      return %last, %all
    })";

TEST_CASE("evaluate: Loop carries values, stacks scans, reads captures") {
  std::string text = kLoop;
  const Module m = parsed(text.replace(text.find("$LIMIT"), 6, "99"));
  const std::vector<Tensor> out = run(m, {reals({2}, {0, 100}), reals({2}, {1, 2})});
  CHECK(out[0].real == std::vector<double>{10, 114});
  CHECK(out[1].real == std::vector<double>{1, 102, 2, 104, 4, 107, 7, 111});
}

TEST_CASE("evaluate: a Loop that ends before its scans are full is an error, not a wrong shape") {
  std::string text = kLoop;
  const Module m = parsed(text.replace(text.find("$LIMIT"), 6, "1"));
  CHECK(evaluate(m, {reals({2}, {0, 0}), reals({2}, {1, 1})}).error == "'last' (Loop): 2 trips where result 1 has 4");
}

TEST_CASE("evaluate: draws differ by trip and by invocation, and not by layout") {
  const std::string text = R"(constant #0 "trips" i64[] = [2]
    graph {
      %x = Input() : f32[4]$L @all
      %n = Constant() {value = #0} : i64[] @all
      %last, %all = Loop(%n, _, %x) {carried = 1} : f32[4]$L, f32[2, 4]$S @all {
        %i = Input() : i64[] @all
        %go = Input() : bool[] @all
        %v = Input() : f32[4]$L @all
        %u = RandomUniform() {dtype = 0, high = 1.0, low = 0.0, node = 3, shape = [4]} : f32[4]$L @all
        return %go, %v, %u
      }
      return %all
    })";
  const auto with = [&](const std::string& place, const std::string& layout, const std::string& scan) {
    std::string filled = "place @all " + place + "\n" + text;
    for (size_t at; (at = filled.find("$L")) != std::string::npos;) filled.replace(at, 2, layout);
    for (size_t at; (at = filled.find("$S")) != std::string::npos;) filled.replace(at, 2, scan);
    return parsed(filled);
  };
  const Tensor x(DType::F32, {4});
  const Module sliced = with("[0, 1] {tp: 2}", " [tp: S(0,1)]", " [tp: S(1,1)]");
  const Tensor one = run(with("[0] {}", "", ""), {x})[0], two = run(sliced, {x})[0];
  CHECK(same_elements(one, two));
  CHECK(one.real[0] != one.real[4]);
  EvalOptions later;
  later.invocation = 1;
  CHECK_FALSE(same_elements(evaluate(sliced, {x}, later).outputs[0], two));
}

static const char* const kCache = R"(place @all [0, 1] {tp: 2}
    length n <= 4
    state "past" -> "present"
    graph {
      %past = Input() : f32[n<=4, 2] [tp: S(1,1)] @all
      %x = Input() : f32[1, 2] [tp: S(1,1)] @all
      %y = Concat(%past, %x) {axis = 0} : f32[n + 1<=4, 2] [tp: S(1,1)] @all
      %s = ReduceSum(%y) {axes = [0], keepdims = 0} : f32[2] [tp: S(0,1)] @all
      return %y "present", %s
    })";

TEST_CASE("evaluate: a growing state is fed back; reductions see the valid elements") {
  const Module m = parsed(kCache);
  std::vector<std::vector<Tensor>> inputs;
  for (int i = 1; i <= 4; ++i)
    inputs.push_back({Tensor(DType::F32, {0, 2}), reals({1, 2}, {double(i), double(10 * i)})});
  const std::vector<EvalResult> results = evaluate_invocations(m, inputs);
  REQUIRE(results.size() == 4);
  CHECK(results[3].error == "");
  CHECK(results[1].outputs[0].dims == Dims{2, 2});
  CHECK(results[3].outputs[0].real == std::vector<double>{1, 10, 2, 20, 3, 30, 4, 40});
  CHECK(results[3].outputs[1].real == std::vector<double>{10, 100});
}

TEST_CASE("evaluate: a length is a number of the graph, and data may decide one") {
  const Module m = parsed(R"(place @all [0, 1] {tp: 2}
    length found <= 4
    length n <= 4
    graph {
      %x = Input() : f32[n<=4, 2] @all
      %c = Input() : i64[] @all
      %s = ShardSlice(%x) {axes = [0]} : f32[n<=4, 2] [tp: S(1,1)] @all
      %y = Neg(%s) : f32[n<=4, 2] [tp: S(1,1)] @all
      %twice = LengthOf() {length = "n * 2 + 1"} : i64[] @all
      %m = NameLength(%c) {name = "found"} : i64[] @all
      %z = Expand(%twice) {shape = [4]} : i64[found<=4] @all
      return %y, %z
    })");
  const std::vector<Tensor> results = run(m, {reals({1, 2}, {3, 4}), Tensor::scalar(DType::I64, 3)});
  CHECK(results[0].real == std::vector<double>{-3, -4});
  CHECK(results[1].integers == std::vector<int64_t>{3, 3, 3});
}

TEST_CASE("evaluate: a state longer than its bound is an error") {
  const std::vector<EvalResult> results =
      evaluate_invocations(parsed(kCache), {{Tensor(DType::F32, {4, 2}), Tensor(DType::F32, {1, 2})}});
  CHECK(results[0].error == "'y' (Concat): dimension 0 has length 5, its bound is 4");
}

TEST_CASE("evaluate: wrong inputs are named") {
  const Module m = parsed(kCache);
  CHECK(evaluate(m, {Tensor(DType::F32, {5, 2}), Tensor(DType::F32, {1, 2})}).error ==
        "input 'past' has shape 5x2, expected f32[<=4, 2] [tp: S(1,1)]");
  CHECK(evaluate(m, {Tensor(DType::F32, {0, 2}), Tensor(DType::F64, {1, 2})}).error ==
        "input 'x' has element type f64, expected f32");
}

TEST_CASE("evaluate: a wrong layout is found, not hidden") {
  // The sum over a sliced dimension is partial; typed as replicated, the copies differ.
  const Module m = parsed(R"(place @all [0, 1] {tp: 2}
    graph {
      %x = Input() : f32[4] [tp: S(0,2)] @all
      %y = ReduceSum(%x) {axes = [0], keepdims = 0} : f32[] @all
      return %y
    })");
  CHECK(evaluate(m, {reals({4}, {1, 2, 3, 4})}).error == "output 'y': the copies at (tp 0) and (tp 1) differ");
}

TEST_CASE("evaluate: observe sees every value of the graph") {
  const Module m = parsed(kCache);
  std::vector<std::string> seen;
  EvalOptions options;
  options.observe = [&](const Graph& graph, ValueId v, const Locals& locals) {
    seen.push_back(graph.value(v).name);
    CHECK(locals.size() == 2);
  };
  evaluate(m, {Tensor(DType::F32, {0, 2}), Tensor(DType::F32, {1, 2})}, options);
  CHECK(seen == std::vector<std::string>{"past", "x", "y", "s"});
}

TEST_CASE("evaluate: small graphs evaluate fast enough for thousands in a test") {
  std::string text =
      "place @all [0, 1, 2, 3] {dp: 2, tp: 2}\ngraph {\n%v0 = Input() : f32[4, 8] [dp: S(0,2), tp: S(1,4)] @all\n";
  for (int i = 1; i <= 12; ++i) {
    const std::string before = "%v" + std::to_string(i - 1), now = "%v" + std::to_string(i);
    text += now + " = " + (i % 2 ? "Add(" + before + ", %v0)" : "Tanh(" + before + ")") +
            " : f32[4, 8] [dp: S(0,2), tp: S(1,4)] @all\n";
  }
  const Module m = parsed(text + "%r = AllGather(%v12) {axes = [0]} : f32[4, 8] [tp: S(1,4)] @all\nreturn %r }\n");
  Random random(11);
  const Tensor x = random_tensor(random, DType::F32, {4, 8});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 400; ++i) evaluate(m, {x});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE("400 evaluations of 14 ops on 4 ranks: " << seconds << " s");
  CHECK(seconds < 4);
}

}  // namespace weftc
