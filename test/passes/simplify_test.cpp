// Each rule of `simplify` fires where it should, not at the nearest case where it must not, and changes no result.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/text/text_form.h"
#include "passes/simplify/rules.h"
#include "test/passes/simplify_cases.h"

using namespace weftc;
using namespace weftc::test;

namespace {

Module parsed(const std::string& body) {
  Diags diags;
  std::optional<Module> module =
      parse_module("case.weft",
                   std::string("module \"m\" file \"m\" seed 0\nplace @all [0] {}\nlength n <= 8\n") + kConstants +
                       "graph {" + kOperands + body + "}\n",
                   diags);
  INFO(diags.text());
  REQUIRE(module);
  REQUIRE(verify(*module, Form::Typed).empty());
  return std::move(*module);
}

/// The graph's ops without Inputs and Constants, and what it returns.
std::string ops_of(const Module& module) {
  const std::string text = print_module(module);
  std::string ops;
  for (size_t at = text.find("graph {\n") + 8, end; at < text.find("\n}\n"); at = end + 1) {
    end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const bool is_source =
        line.find("= Input()") != std::string::npos || line.find("= Constant()") != std::string::npos;
    if (!is_source) ops += line + "\n";
  }
  return ops;
}

/// How far apart the outputs of two typed modules are.
double difference(Module a, Module b) {
  run_pass(a, decompose);
  run_pass(b, decompose);
  std::vector<Tensor> inputs = seeded_inputs(a);
  for (Tensor& input : inputs)
    for (double& element : input.real) element = round_to(input.dtype, element);
  const EvalResult left = evaluate(a, inputs), right = evaluate(b, inputs);
  INFO(left.error);
  INFO(right.error);
  REQUIRE(left.error.empty());
  REQUIRE(right.error.empty());
  REQUIRE(left.outputs.size() == right.outputs.size());
  double worst = 0;
  for (size_t i = 0; i < left.outputs.size(); ++i)
    worst = std::max(worst, relative_error(left.outputs[i], right.outputs[i]));
  return worst;
}

bool fired(const Module& module, const std::string& rule) {
  return std::any_of(module.remarks.begin(), module.remarks.end(),
                     [&](const std::string& remark) { return remark.starts_with("simplify: " + rule + " ("); });
}

}  // namespace

TEST_CASE("simplify: each rule fires, and not at a near miss") {
  for (const Case& c : all_cases()) {
    CAPTURE(std::string(c.rule));
    CAPTURE(c.before);
    const Module before = parsed(c.before);
    Module after = parsed(c.before);
    run_pass(after, simplify);
    CHECK(ops_of(after) == (c.after.empty() ? c.before : c.after));
    CHECK(fired(after, c.rule) == !c.after.empty());
    CHECK(verify(after, Form::Typed).empty());
    CHECK(difference(parsed(c.before), std::move(after)) < 1e-6);
  }
}

TEST_CASE("simplify: each rule has a case in which it fires and a near miss") {
  std::set<std::string> firing, missing;
  for (const Case& c : all_cases()) (c.after.empty() ? missing : firing).insert(c.rule);
  std::set<std::string> rules;
  for (const std::span<const Rule> some :
       {arithmetic_rules(), view_rules(), window_rules(), weight_rules(), quantized_rules()})
    for (const Rule& rule : some) CHECK_MESSAGE(rules.insert(rule.name).second, rule.name);
  CHECK(firing == rules);
  CHECK(missing == rules);
}

TEST_CASE("simplify: bytes are multiplied as integers only where no sum can leave an i32") {
  const auto is_product_of_integers = [](int64_t rows) {
    std::string weights = "127";
    for (int64_t row = 1; row < rows; ++row) weights += ", -127";
    const std::string count = std::to_string(rows), with = " {axis = 1, block_size = 0, output_dtype = 0} : ";
    Diags diags;
    std::optional<Module> module = parse_module("case.weft",
                                                R"(module "m" file "m" seed 0
place @all [0] {}
constant #0 "w" i8[)" + count + ", 1] = [" + weights +
                                                    R"(]
constant #1 "s" f32[] = [0.5]
graph {
  %x = Input() : u8[1, )" + count + R"(]
  %w = Constant() {value = #0} : i8[)" + count + R"(, 1]
  %s = Constant() {value = #1} : f32[]
  %a = DequantizeLinear(%x, %s))" + with + "f32[1, " +
                                                    count + R"(]
  %b = DequantizeLinear(%w, %s))" + with + "f32[" + count +
                                                    R"(, 1]
  %y = MatMul(%a, %b) : f32[1, 1]
  return %y
}
)",
                                                diags);
    INFO(diags.text());
    REQUIRE(module);
    run_pass(*module, simplify);
    return fired(*module, "product-of-integers");
  };
  CHECK(is_product_of_integers(66311));  // 127 * 255 * 66311 < 2^31
  CHECK(!is_product_of_integers(66312));
}

TEST_CASE("simplify: what becomes weights is right to a rounding") {
  Module module = parsed(kProduct + line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 3]") + returned("%y"));
  run_pass(module, simplify);
  const Op& w = module.graph.producer_op(module.graph.find_value("w"));
  const Tensor weights = module.constants.tensor(w.constant("value"));
  const double first = 2 / std::sqrt(4.001), second = -0.1f / std::sqrt(0.7f + 0.001);
  CHECK(weights.at(0) == round_to(DType::F32, first));
  CHECK(weights.at(7) == round_to(DType::F32, 4 * second));
}

TEST_CASE("simplify: rules reach into regions") {
  const std::string region = R"( {
    %p = Input() : f32[2, 3]
    %a = Neg(%p) : f32[2, 3]
    %b1 = Neg(%a) : f32[2, 3]
    %c = Exp(%b1) : f32[2, 3]
    return %c
  })";
  Module module =
      parsed("  %true = Input() : bool[]\n  %y = If(%true, %x) : f32[2, 3]" + region + region + "\n  return %y\n");
  run_pass(module, simplify);
  CHECK(count_ops(module.graph, OpKind::Neg) == 0);
  CHECK(count_ops(module.graph, OpKind::Exp) == 2);
}

TEST_CASE("simplify: rules that never come to an end are a bug of ours") {
  const Rule again{"again", op(OpKind::Neg, {any("x")}), nullptr,
                   [](Rewriter& write, const Match& match) { return write.op(OpKind::Neg, {match["x"]}); }};
  Module module = parsed(line("%y = Neg(%x) : f32[2, 3]") + returned("%y"));
  CHECK_THROWS_AS(rewrite(module, {&again, 1}), InternalError);
}

TEST_CASE("simplify: a rule that changes a type is a bug of ours") {
  const Rule wrong{"wrong", op(OpKind::Neg, {any("x")}), nullptr, [](Rewriter& write, const Match& match) {
                     return write.op(OpKind::Cast, {match["x"]}, {{"to", dtype_attr(DType::F64)}});
                   }};
  Module module = parsed(line("%y = Neg(%x) : f32[2, 3]") + returned("%y"));
  CHECK_THROWS_AS(rewrite(module, {&wrong, 1}), InternalError);
}

namespace {

const char* const kNet = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[1, 2, 4, 4] x) => (float[1, 4, 4, 4] y)
<float[4, 2, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[4] s = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4},
 float[4] m0 = {0, 0, 1, 1}, float[4] v = {1, 2, 3, 4}, float zero = {0}>
{
  [conv] c = Conv(x, w)
  [norm] n = BatchNormalization(c, s, b, m0, v)
  [plus] p = Add(n, zero)
  [last] y = Relu(p)
})";

std::string complaint(const std::string& name) {
  const auto made = prepare(kNet, "weft: 1\nmesh: {t: 2}\nshard:\n  \"" + name + "\": {t: 1}\n", "apply-layouts");
  return made->diags.ok() ? "" : made->diags.all()[0].message;
}

}  // namespace

TEST_CASE("simplify: names of what was folded are told, the others select what stands for them") {
  CHECK(complaint("c").find("'c' was folded into 'n'") == 0);
  CHECK(complaint("p").find("'p' was folded into 'n'") == 0);
  CHECK(complaint("plus").find("'plus' was folded into 'n'") == 0);
  CHECK(complaint("s").find("'s' was folded into 'n'") == 0);
  CHECK(complaint("zero").find("'zero' was folded into 'n'") == 0);
  CHECK(complaint("n") == "");
  CHECK(complaint("conv") == "");
  CHECK(complaint("norm") == "");
  CHECK(complaint("w") == "");
}

TEST_CASE("simplify: weights that were changed are sliced under their name") {
  CHECK(error_against_one_rank(kNet, "weft: 1\nmesh: {t: 2}\nshard:\n  w: {t: 0}\n", "") < 1e-6);
}

TEST_CASE("simplify: a run can leave it out") {
  const auto made = prepare(kNet, "", "infer-types");
  REQUIRE(made->ok());
  RunOptions options;
  options.stop_after = "decompose";
  options.skip = {"simplify"};
  RunReport report;
  REQUIRE(run_pipeline(*made->module, {made->schedule, made->target, made->diags}, options, report));
  CHECK(made->module->remarks.empty());
  CHECK(made->module->graph.find_value("c"));
}

TEST_CASE("simplify: nodes of two stages stay apart") {
  const std::string yaml = R"(weft: 1
places:
  left: {ranks: [0], mesh: {a: 1}}
  right: {ranks: [1], mesh: {b: 1}}
pipeline:
  stages:
    first: {place: left, nodes: [conv]}
    second: {place: right, nodes: [norm, last]}
  micro_batches: 1
  order: gpipe
)";
  const auto made = prepare(kNet, yaml, "assign-places");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  CHECK(made->module->graph.find_value("c"));
  CHECK(fired(*made->module, "add-zero"));
  CHECK(fired(*made->module, "normalization-of-constants"));
  CHECK_FALSE(fired(*made->module, "normalization-into-weights"));
}
