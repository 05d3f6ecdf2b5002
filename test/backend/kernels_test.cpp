// Emitted kernels compute what the reference evaluation computes: one program of many small kernels.
#include "test/backend/one_plan.h"

using namespace weftc;
using namespace weftc::test;

namespace {

Attrs axes(std::vector<int64_t> list, int64_t keepdims) {
  return {{"axes", std::move(list)}, {"keepdims", keepdims}, {"noop_with_empty_axes", int64_t{0}}};
}
Attrs perm(std::vector<int64_t> list) { return {{"perm", std::move(list)}}; }
Attrs shape(std::vector<int64_t> list) { return {{"allowzero", int64_t{0}}, {"shape", std::move(list)}}; }

KernelCase pointwise() {
  KernelCase c("pointwise");
  const ValueId x = c.reals("x", {3, 50, 77}), b = c.reals("b", {77}), s = c.reals("s", {50, 1});
  const ValueId sum = c.op(OpKind::Add, {x, b});
  c.output(c.op(OpKind::Mul, {c.op(OpKind::Tanh, {sum}), s}), "y");
  c.output(c.op(OpKind::Sub, {sum, c.constant(0.25)}), "z");
  return c;
}
/// x/2 * (1 + f(u)), or its halves multiplied in another order.
ValueId gelu_of(KernelCase& c, ValueId x, OpKind f, ValueId u, bool other_order = false) {
  const ValueId t = c.op(OpKind::Add, {c.op(f, {u}), c.constant(1)}), half = c.constant(0.5);
  return other_order ? c.op(OpKind::Mul, {half, c.op(OpKind::Mul, {t, x})})
                     : c.op(OpKind::Mul, {c.op(OpKind::Mul, {x, half}), t});
}
KernelCase gelu_by_tanh(double factor = 0.044715) {
  KernelCase c("gelu_by_tanh");
  const ValueId x = c.reals("x", {3, 677}, DType::F32, -9, 9);
  const ValueId cube = c.op(OpKind::Mul, {c.op(OpKind::Mul, {x, x}), c.op(OpKind::Mul, {x, c.constant(factor)})});
  const ValueId u = c.op(OpKind::Mul, {c.op(OpKind::Add, {cube, x}), c.constant(std::sqrt(2 / M_PI))});
  c.output(gelu_of(c, x, OpKind::Tanh, u));
  c.tolerance = 1e-5;
  return c;
}
KernelCase gelu_by_erf(double factor = std::sqrt(0.5)) {
  KernelCase c("gelu_by_erf");
  const ValueId x = c.reals("x", {3, 677}, DType::F32, -9, 9);
  c.output(gelu_of(c, x, OpKind::Erf, c.op(OpKind::Mul, {x, c.constant(factor)}), true));
  c.tolerance = 1e-5;
  return c;
}

/// The text of a case's kernel.
std::string text_of(KernelCase c) {
  std::vector<KernelCase> cases;
  cases.push_back(std::move(c));
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Diags diags;
  for (const SourceFile& file : emit(made->plan, diags))
    if (file.path.find("kernels/") == 0) return file.text;
  return "";
}

KernelCase half_and_whole() {
  KernelCase c("half_and_whole");
  const ValueId x = c.reals("x", {40}, DType::F16), i = c.ints("i", {40}, -9, 9, DType::I32);
  c.output(c.op(OpKind::Add, {x, x}), "y");
  c.output(c.op(OpKind::Mul, {i, i}), "z");
  c.tolerance = 1e-3;
  return c;
}
KernelCase heads() {
  KernelCase c("heads");
  const ValueId x = c.reals("x", {2, 16, 96});
  const ValueId parts = c.op(OpKind::Reshape, {x}, shape({2, 16, 4, 24}));
  c.output(c.op(OpKind::Neg, {c.op(OpKind::Transpose, {parts}, perm({0, 2, 1, 3}))}));
  return c;
}
KernelCase joined() {
  KernelCase c("joined");
  const ValueId a = c.reals("a", {4, 6}), b = c.reals("b", {4, 5});
  const ValueId both = c.op(OpKind::Concat, {a, b}, {{"axis", int64_t{1}}});
  c.output(c.op(OpKind::Slice, {both},
                {{"axes", std::vector<int64_t>{1}},
                 {"ends", std::vector<int64_t>{9}},
                 {"starts", std::vector<int64_t>{2}},
                 {"steps", std::vector<int64_t>{2}}}),
           "y");
  c.output(c.op(OpKind::Pad, {both},
                {{"mode", std::string("constant")}, {"pads", std::vector<int64_t>{1, 2, 0, 1}}, {"value", 3.5}}),
           "z");
  c.output(c.op(OpKind::Tile, {a}, {{"repeats", std::vector<int64_t>{2, 3}}}), "t");
  return c;
}
KernelCase looked_up() {
  KernelCase c("looked_up");
  const ValueId table = c.reals("table", {30, 20}), ids = c.ints("ids", {2, 7}, -30, 29);
  const ValueId rows = c.op(OpKind::Gather, {table, ids}, {{"axis", int64_t{0}}});
  c.output(c.op(OpKind::Mul, {rows, c.constant(2)}));
  return c;
}
KernelCase softmax() {
  KernelCase c("softmax");
  const ValueId x = c.reals("x", {6, 33, 65}), scaled = c.op(OpKind::Mul, {x, c.constant(8)});
  const ValueId exp = c.op(OpKind::Exp, {c.op(OpKind::Sub, {scaled, c.op(OpKind::ReduceMax, {scaled}, axes({2}, 1))})});
  c.output(c.op(OpKind::Div, {exp, c.op(OpKind::ReduceSum, {exp}, axes({2}, 1))}));
  return c;
}
KernelCase norm() {
  KernelCase c("norm");
  const ValueId x = c.reals("x", {40, 96}), r = c.reals("r", {40, 96}), scale = c.weight("scale", {96});
  const ValueId sum = c.op(OpKind::Add, {x, r}), n = c.constant(1.0 / 96);
  const ValueId mean = c.op(OpKind::Mul, {c.op(OpKind::ReduceSum, {sum}, axes({1}, 1)), n});
  const ValueId off = c.op(OpKind::Sub, {sum, mean});
  const ValueId var = c.op(OpKind::Mul, {c.op(OpKind::ReduceSum, {c.op(OpKind::Mul, {off, off})}, axes({1}, 1)), n});
  const ValueId deviation = c.op(OpKind::Sqrt, {c.op(OpKind::Add, {var, c.constant(1e-5)})});
  c.output(c.op(OpKind::Mul, {c.op(OpKind::Div, {off, deviation}), scale}), "y");
  c.output(sum, "sum");
  c.output(mean, "mean");
  return c;
}
/// Two loops over a row, of which the second goes further: what the first has computed is too short for it.
KernelCase front_and_all() {
  KernelCase c("front_and_all");
  const ValueId x = c.reals("x", {6, 64}), exp = c.op(OpKind::Exp, {x});
  const ValueId front = c.op(OpKind::Slice, {exp},
                             {{"axes", std::vector<int64_t>{1}},
                              {"ends", std::vector<int64_t>{24}},
                              {"starts", std::vector<int64_t>{0}},
                              {"steps", std::vector<int64_t>{1}}});
  const ValueId part = c.op(OpKind::ReduceSum, {front}, axes({1}, 1));
  c.output(c.op(OpKind::Div, {part, c.op(OpKind::ReduceSum, {exp}, axes({1}, 1))}));
  return c;
}
KernelCase middle() {
  KernelCase c("middle");
  const ValueId x = c.reals("x", {5, 12, 7});
  c.output(c.op(OpKind::ReduceMin, {x}, axes({1}, 0)), "y");
  c.output(
      c.op(OpKind::ArgMax, {x}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{0}}}),
      "at");
  return c;
}
KernelCase dense(const char* name, const Dims& x_dims, int64_t k, int64_t n) {
  KernelCase c(name);
  const ValueId x = c.reals("x", x_dims), w = c.weight("w", {k, n}), b = c.weight("b", {n});
  c.output(c.op(OpKind::Relu, {c.op(OpKind::Add, {c.op(OpKind::MatMul, {x, w}), b})}));
  return c;
}
KernelCase tied() {
  KernelCase c("tied");
  const ValueId x = c.reals("x", {9, 24}), w = c.weight("w", {37, 24});
  c.output(c.op(OpKind::MatMul, {x, c.op(OpKind::Transpose, {w}, perm({1, 0}))}));
  return c;
}
/// A matrix for each expert, some of them for each of the outer batch as well.
KernelCase experts(const char* name, const Dims& x_dims, const Dims& w_dims) {
  KernelCase c(name);
  const ValueId x = c.reals("x", x_dims), w = c.weight("w", w_dims), b = c.weight("b", {w_dims.back()});
  c.output(c.op(OpKind::Relu, {c.op(OpKind::Add, {c.op(OpKind::MatMul, {x, w}), b})}));
  return c;
}
KernelCase turned_experts() {
  KernelCase c("turned_experts");
  const ValueId x = c.reals("x", {7, 3, 20}), w = c.weight("w", {3, 35, 20});
  const ValueId by_expert = c.op(OpKind::Transpose, {x}, perm({1, 0, 2}));
  c.output(c.op(OpKind::MatMul, {by_expert, c.op(OpKind::Transpose, {w}, perm({0, 2, 1}))}));
  return c;
}
KernelCase scores() {
  KernelCase c("scores");
  const ValueId q = c.reals("q", {2, 10, 48}), k = c.reals("k", {2, 10, 48});
  const auto split = [&](ValueId v, std::vector<int64_t> order) {
    return c.op(OpKind::Transpose, {c.op(OpKind::Reshape, {v}, shape({2, 10, 3, 16}))}, perm(std::move(order)));
  };
  const ValueId product = c.op(OpKind::MatMul, {split(q, {0, 2, 1, 3}), split(k, {0, 2, 3, 1})});
  c.output(c.op(OpKind::Mul, {product, c.constant(0.25)}));
  return c;
}
KernelCase mixed() {
  KernelCase c("mixed");
  const ValueId p = c.reals("p", {3, 10, 10}), v = c.reals("v", {10, 3, 32});
  const ValueId product = c.op(OpKind::MatMul, {p, c.op(OpKind::Transpose, {v}, perm({1, 0, 2}))});
  c.output(c.op(OpKind::Reshape, {c.op(OpKind::Transpose, {product}, perm({1, 0, 2}))}, shape({10, 96})));
  return c;
}
KernelCase prologue() {
  KernelCase c("prologue");
  const ValueId x = c.reals("x", {12, 20}), w = c.weight("w", {20, 19});
  c.output(c.op(OpKind::MatMul, {c.op(OpKind::Exp, {x}), w}));
  return c;
}
KernelCase window() {
  KernelCase c("window");
  const ValueId x = c.reals("x", {2, 4, 9, 8}), w = c.weight("w", {6, 2, 3, 3});
  c.output(c.op(OpKind::Conv, {x, w},
                {{"auto_pad", std::string("NOTSET")},
                 {"dilations", std::vector<int64_t>{1, 1}},
                 {"group", int64_t{2}},
                 {"kernel_shape", std::vector<int64_t>{3, 3}},
                 {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                 {"strides", std::vector<int64_t>{2, 1}}}));
  return c;
}
Attrs window_attrs(std::vector<int64_t> kernel, std::vector<int64_t> pads, std::vector<int64_t> strides) {
  return {{"auto_pad", std::string("NOTSET")},
          {"dilations", std::vector<int64_t>(kernel.size(), 1)},
          {"group", int64_t{1}},
          {"kernel_shape", std::move(kernel)},
          {"pads", std::move(pads)},
          {"strides", std::move(strides)}};
}
/// Sums of nothing.
KernelCase no_channels() {
  KernelCase c("no_channels");
  const ValueId line = c.reals("x", {1, 0, 36}), w = c.weight("w", {4, 0, 3, 3});
  const ValueId x =
      c.op(OpKind::Reshape, {line}, {{"allowzero", int64_t{1}}, {"shape", std::vector<int64_t>{1, 0, 6, 6}}});
  c.output(c.op(OpKind::Conv, {x, w}, window_attrs({3, 3}, {1, 1, 1, 1}, {1, 1})));
  return c;
}
/// More columns than are unfolded at once, of filters that are no weight.
KernelCase deep() {
  KernelCase c("deep");
  const ValueId x = c.reals("x", {1, 256, 14, 14}), w = c.reals("w", {8, 256, 3, 3}), b = c.weight("b", {8, 1, 1});
  c.output(c.op(OpKind::Add, {c.op(OpKind::Conv, {x, w}, window_attrs({3, 3}, {1, 1, 1, 1}, {1, 1})), b}));
  return c;
}
/// By minimal filtering: tiles that hang over the image on each side, a panel of filters that is not full.
KernelCase winograd_tiles() {
  KernelCase c("winograd_tiles");
  const ValueId x = c.reals("x", {2, 48, 13, 18}), w = c.weight("w", {21, 48, 3, 3}), b = c.weight("b", {21, 1, 1});
  c.output(c.op(OpKind::Add, {c.op(OpKind::Conv, {x, w}, window_attrs({3, 3}, {1, 2, 1, 0}, {1, 1})), b}));
  c.tolerance = 2e-5;
  return c;
}
KernelCase single_channels() {
  KernelCase c("single_channels");
  const ValueId x = c.reals("x", {2, 6, 11, 9}), w = c.weight("w", {6, 1, 3, 3});
  Attrs attrs = window_attrs({3, 3}, {1, 0, 1, 2}, {2, 2});
  attrs[2].value = int64_t{6};
  c.output(c.op(OpKind::Relu, {c.op(OpKind::Conv, {x, w}, std::move(attrs))}));
  return c;
}
KernelCase pooled(OpKind kind, const char* name) {
  KernelCase c(name);
  const ValueId x = c.reals("x", {2, 3, 10, 13});
  Attrs attrs = window_attrs({3, 2}, {1, 0, 1, 1}, {2, 1});
  if (kind == OpKind::AveragePool)
    attrs.erase(attrs.begin() + 1, attrs.begin() + 3),
        attrs.insert(attrs.begin() + 1, {{"ceil_mode", int64_t{0}}, {"count_include_pad", int64_t{0}}});
  else
    attrs.erase(attrs.begin() + 2), attrs.insert(attrs.begin() + 1, {"ceil_mode", int64_t{0}});
  std::sort(attrs.begin(), attrs.end(), [](const Attr& a, const Attr& b) { return a.name < b.name; });
  c.output(c.op(OpKind::Neg, {c.op(kind, {x}, std::move(attrs))}));
  return c;
}
template <bool kExclusive, bool kReverse>
KernelCase running() {
  KernelCase c(std::string("running") + (kExclusive ? "_exclusive" : "") + (kReverse ? "_reverse" : ""));
  const ValueId x = c.reals("x", {2, 70, 67}), z = c.reals("outer", {2, 70, 67});
  const Attrs attrs = {{"axis", int64_t{1}}, {"exclusive", int64_t{kExclusive}}, {"reverse", int64_t{kReverse}}};
  const ValueId sums = c.op(OpKind::CumSum, {x}, attrs);
  c.output(c.op(OpKind::Mul, {sums, z}));
  c.output(c.op(OpKind::Transpose, {sums}, {{"perm", std::vector<int64_t>{2, 0, 1}}}), "turned");
  return c;
}
KernelCase running_product() {
  KernelCase c("running_product");
  const ValueId x = c.reals("x", {3, 40, 5});
  const Attrs attrs = {{"axis", int64_t{1}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{1}}};
  c.output(c.op(OpKind::CumProd, {c.op(OpKind::Exp, {x})}, attrs));
  return c;
}
KernelCase running_bytes() {
  KernelCase c("running_bytes");
  const ValueId x = c.ints("x", {4, 9}, -3, 3, DType::I8);
  c.output(c.op(OpKind::CumSum, {x}, {{"axis", int64_t{1}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{1}}}));
  return c;
}
KernelCase scattered() {
  KernelCase c("scattered");
  const ValueId x = c.reals("x", {8, 5}), at = c.ints("at", {3, 5}, 0, 7), u = c.reals("u", {3, 5});
  c.output(c.op(OpKind::ScatterElements, {x, at, u}, {{"axis", int64_t{0}}, {"reduction", std::string("add")}}));
  return c;
}
/// The one element is read to be copied and again as the update, both outside of loops.
KernelCase scattered_alone(OpKind kind, const std::string& name) {
  KernelCase c(name);
  const ValueId x = c.reals("x", {1});
  const bool nd = kind == OpKind::ScatterND;
  const ValueId at = c.ints("at", nd ? Dims{1, 1} : Dims{1}, 0, 0);
  Attrs attrs{{"reduction", std::string("max")}};
  if (!nd) attrs.insert(attrs.begin(), {"axis", int64_t{0}});
  c.output(c.op(kind, {x, at, x}, std::move(attrs)));
  return c;
}
KernelCase attack() {
  KernelCase c("attack");
  const ValueId x = c.reals("int", {4}), y = c.reals("*/ } //?\?/\\\n\"", {4});
  c.output(c.op(OpKind::Add, {x, y}), "team");
  return c;
}

}  // namespace

TEST_CASE("kernels: pointwise, views, look-ups") {
  std::vector<KernelCase> cases;
  for (KernelCase (*make)() : {pointwise, half_and_whole, heads, joined, looked_up, attack}) cases.push_back(make());
  check_cases(std::move(cases));
}

TEST_CASE("kernels: a Gelu is one function on the host, whatever its ops spell it") {
  CHECK(text_of(gelu_by_tanh()).find("weft::gelu_tanh(x[i])") != std::string::npos);
  CHECK(text_of(gelu_by_erf()).find("weft::gelu_erf(x[i])") != std::string::npos);
  std::vector<KernelCase> cases;
  cases.push_back(gelu_by_tanh());
  cases.push_back(gelu_by_erf());
  check_cases(std::move(cases));
}

TEST_CASE("kernels: a Gelu beside its derivative is a product of the erf that both need") {
  KernelCase c("gelu_and_derivative");
  const ValueId x = c.reals("x", {3, 677}, DType::F32, -9, 9);
  const ValueId scaled = c.op(OpKind::Mul, {x, c.constant(std::sqrt(0.5))});
  const ValueId share = c.op(OpKind::Add, {c.op(OpKind::Erf, {scaled}), c.constant(1)});
  c.output(c.op(OpKind::Mul, {c.op(OpKind::Mul, {x, c.constant(0.5)}), share}));
  c.output(c.op(OpKind::Mul, {share, c.constant(0.5)}), "half");
  c.tolerance = 1e-5;
  const std::string text = text_of(c);
  CHECK(text.find("weft::gelu") == std::string::npos);
  CHECK(text.find("weft::erf(") == text.rfind("weft::erf("));
  std::vector<KernelCase> cases;
  cases.push_back(std::move(c));
  check_cases(std::move(cases));
}

TEST_CASE("kernels: near miss: other constants") {
  CHECK(text_of(gelu_by_tanh(0.0447)).find("weft::gelu") == std::string::npos);
  CHECK(text_of(gelu_by_erf(0.7)).find("weft::gelu") == std::string::npos);
}

TEST_CASE("kernels: reductions, scans, scatter") {
  std::vector<KernelCase> cases;
  for (KernelCase (*make)() : {softmax, norm, front_and_all, middle, running_bytes, running_product, scattered,
                               running<false, false>, running<true, false>, running<false, true>, running<true, true>})
    cases.push_back(make());
  cases.push_back(scattered_alone(OpKind::ScatterElements, "scattered_alone"));
  cases.push_back(scattered_alone(OpKind::ScatterND, "scattered_row_alone"));
  check_cases(std::move(cases));
}

TEST_CASE("kernels: contractions") {
  std::vector<KernelCase> cases;
  cases.push_back(dense("dense", {2, 13, 40}, 40, 35));
  cases.push_back(dense("one_row", {1, 40}, 40, 64));
  cases.push_back(experts("experts", {3, 13, 24}, {3, 24, 35}));
  cases.push_back(experts("experts_of_one_row", {3, 1, 24}, {3, 24, 150}));
  cases.push_back(experts("experts_inside", {2, 3, 5, 24}, {3, 24, 35}));
  cases.push_back(experts("experts_outside", {3, 5, 24}, {2, 1, 24, 17}));
  cases.push_back(experts("experts_of_all", {5, 24}, {3, 24, 35}));
  for (KernelCase (*make)() :
       {tied, turned_experts, scores, mixed, prologue, window, deep, winograd_tiles, no_channels, single_channels})
    cases.push_back(make());
  cases.push_back(pooled(OpKind::MaxPool, "largest"));
  cases.push_back(pooled(OpKind::AveragePool, "average"));
  check_cases(std::move(cases));
}
