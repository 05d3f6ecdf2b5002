// Each rule of `simplify` fires where it should, not at the nearest case where it must not, and changes no result.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "ir/text/text_form.h"
#include "passes/passes.h"
#include "passes/simplify/rules.h"
#include "test/passes/random_model.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Values that cases read, beside the ops of their own.
const char* const kOperands = R"(
  %x = Input() : f32[2, 3]
  %h = Input() : f16[2, 3]
  %q = Input() : i32[2, 3]
  %r = Input() : f32[<=8 %n, 4]
  %n = ExtentOf(%r) {axis = 0} : i64[]
  %image = Input() : f32[1, 2, 4, 4]
  %half = Input() : f16[1, 2, 4, 4]
  %zero = Constant() {value = #0} : f32[1, 3]
  %minus_zero = Constant() {value = #1} : f32[]
  %zeros = Constant() {value = #2} : f32[4, 2, 3]
  %one = Constant() {value = #3} : f32[]
  %ones = Constant() {value = #4} : f32[4, 2, 3]
  %almost = Constant() {value = #5} : f32[3]
  %whole = Constant() {value = #6} : i32[]
  %nothing = Constant() {value = #7} : i32[]
  %w = Constant() {value = #8} : f32[2, 2, 1, 2]
  %b = Constant() {value = #9} : f32[2]
  %scale = Constant() {value = #10} : f32[2]
  %bias = Constant() {value = #11} : f32[2]
  %mean = Constant() {value = #12} : f32[2]
  %variance = Constant() {value = #13} : f32[2]
  %hw = Constant() {value = #14} : f16[2, 2, 1, 2]
  %tiny = Constant() {value = #15} : f16[]
  %m = Constant() {value = #16} : f32[3, 2]
  %columns = Constant() {value = #17} : f32[2]
  %rows = Constant() {value = #18} : f32[2, 1]
  %channels = Constant() {value = #19} : f32[2, 1, 1]
)";
const char* const kConstants = R"(
constant #0 "zero" f32[1, 3] = [0, 0, 0]
constant #1 "minus_zero" f32[] = [-0]
constant #2 "zeros" f32[4, 2, 3] = ...
constant #3 "one" f32[] = [1]
constant #4 "ones" f32[4, 2, 3] = ...
constant #5 "almost" f32[3] = [1, 1, 1.5]
constant #6 "whole" i32[] = [1]
constant #7 "nothing" i32[] = [0]
constant #8 "w" f32[2, 2, 1, 2] = [1, -2, 3, 0.5, -1, 2, 0.25, 4]
constant #9 "b" f32[2] = [0.5, -3]
constant #10 "scale" f32[2] = [2, -0.1]
constant #11 "bias" f32[2] = [1, 7]
constant #12 "mean" f32[2] = [0.3, -2]
constant #13 "variance" f32[2] = [4, 0.7]
constant #14 "hw" f16[2, 2, 1, 2] = [1, -2, 3, 0.5, -1, 2, 0.25, 4]
constant #15 "tiny" f16[] = [1e-06]
constant #16 "m" f32[3, 2] = [1, -2, 3, 0.5, -1, 2]
constant #17 "columns" f32[2] = [2, 5]
constant #18 "rows" f32[2, 1] = [2, 5]
constant #19 "channels" f32[2, 1, 1] = [2, 5]
)";

Module parsed(const std::string& body) {
  std::string operands = kOperands;
  const size_t input = operands.find("  %n =");
  CHECK(input != std::string::npos);
  Diags diags;
  std::optional<Module> module = parse_module("case",
                                              std::string("module \"m\" file \"m\" seed 0\nplace @all [0] {}") +
                                                  kConstants + "graph {" + operands + body + "}\n",
                                              diags);
  INFO(diags.text());
  REQUIRE(module);
  REQUIRE(verify(*module, Form::Typed).empty());
  return std::move(*module);
}

void run(Module& module, void (*pass)(Module&, const Env&)) {
  const Schedule schedule;
  const Target target;
  Diags diags;
  pass(module, {schedule, target, diags});
  REQUIRE(diags.ok());
  clean_up(module);
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
    if (!is_source && line.find("ExtentOf") == std::string::npos) ops += line + "\n";
  }
  return ops;
}

/// How far apart the outputs of two typed modules are.
double difference(Module a, Module b) {
  run(a, decompose);
  run(b, decompose);
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

/// A rule, what it is given, and what it makes of it; nothing where it must not fire.
struct Case {
  const char* rule;
  std::string before, after;
};

const std::string kConv =
    "{auto_pad = \"NOTSET\", dilations = [1, 1], group = 1, kernel_shape = [1, 2], pads = [0, 0, 0, 0], "
    "strides = [1, 1]} : ";
const std::string kBordered =
    "{auto_pad = \"NOTSET\", dilations = [1, 1], group = 1, kernel_shape = [1, 2], pads = [1, 0, 0, 2], "
    "strides = [1, 1]} : ";
const std::string kNorm = "%scale, %bias, %mean, %variance) {epsilon = 0.001} : ";

std::string line(const std::string& text) { return "  " + text + "\n"; }
std::string returned(const std::string& text) { return "  return " + text + "\n"; }
std::string pads(const std::string& list, const std::string& value) {
  return "{mode = \"constant\", pads = [" + list + "], value = " + value + "} : ";
}
std::string pool(const std::string& count, const std::string& list, const std::string& ceil = "0") {
  return "{auto_pad = \"NOTSET\", ceil_mode = " + ceil + count +
         ", dilations = [1, 1], kernel_shape = [2, 2], pads = [" + list + "], " +
         (count.empty() ? "storage_order = 0, " : "") + "strides = [2, 2]} : ";
}

const Case kArithmetic[] = {
    {"identity", line("%a = Identity(%x) : f32[2, 3]") + line("%y = Exp(%a) : f32[2, 3]") + returned("%y"),
     line("%y = Exp(%x) : f32[2, 3]") + returned("%y")},
    {"identity", line("%a = Abs(%x) : f32[2, 3]") + returned("%a"), ""},
    {"add-zero", line("%y = Add(%x, %zero) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"add-zero", line("%y = Add(%minus_zero, %x) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"add-zero", line("%y = Add(%q, %nothing) : i32[2, 3]") + returned("%y"), returned("%q \"y\"")},
    {"add-zero", line("%y = Add(%r, %minus_zero) : f32[<=8 %n, 4]") + returned("%y"), returned("%r \"y\"")},
    {"add-zero", line("%y = Add(%x, %zeros) : f32[4, 2, 3]") + returned("%y"), ""},
    {"add-zero", line("%y = Add(%x, %almost) : f32[2, 3]") + returned("%y"), ""},
    {"subtract-zero", line("%y = Sub(%x, %zero) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"subtract-zero", line("%y = Sub(%zero, %x) : f32[2, 3]") + returned("%y"), ""},
    {"multiply-by-one", line("%y = Mul(%one, %x) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"multiply-by-one", line("%y = Mul(%almost, %x) : f32[2, 3]") + returned("%y"), ""},
    {"multiply-by-one", line("%y = Mul(%zero, %x) : f32[2, 3]") + returned("%y"), ""},
    {"divide-by-one", line("%y = Div(%q, %whole) : i32[2, 3]") + returned("%y"), returned("%q \"y\"")},
    {"divide-by-one", line("%y = Div(%one, %x) : f32[2, 3]") + returned("%y"), ""},
    {"double-negation", line("%a = Neg(%x) : f32[2, 3]") + line("%y = Neg(%a) : f32[2, 3]") + returned("%y, %a"),
     line("%a = Neg(%x) : f32[2, 3]") + returned("%x \"y\", %a")},
    {"double-negation",
     line("%a = Neg(%x) : f32[2, 3]") + line("%b1 = Exp(%a) : f32[2, 3]") + line("%y = Neg(%b1) : f32[2, 3]") +
         returned("%y"),
     ""},
    {"double-relu", line("%a = Relu(%x) : f32[2, 3]") + line("%y = Relu(%a) : f32[2, 3]") + returned("%y"),
     line("%a = Relu(%x) : f32[2, 3]") + returned("%a \"y\"")},
    {"double-relu", line("%a = Abs(%x) : f32[2, 3]") + line("%y = Relu(%a) : f32[2, 3]") + returned("%y"), ""},
};

std::string cast(const char* to, const char* from, DType dtype) {
  return line(std::string("%") + to + " = Cast(%" + from + ") {round_mode = \"up\", saturate = 1, to = " +
              std::to_string(dtype_attr(dtype)) + "} : " + dtype_name(dtype) + "[2, 3]");
}
const Case kCasts[] = {
    {"cast-to-own-type", cast("y", "x", DType::F32) + returned("%y"), returned("%x \"y\"")},
    {"cast-to-own-type", cast("y", "x", DType::F64) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "h", DType::F32) + cast("y", "a", DType::I32) + returned("%y"),
     cast("y", "h", DType::I32) + returned("%y")},
    // There and back is nothing: two rules, one behind the other.
    {"cast-of-wider-cast", cast("a", "h", DType::F32) + cast("y", "a", DType::F16) + returned("%y"),
     returned("%h \"y\"")},
    {"cast-of-wider-cast", cast("a", "x", DType::F16) + cast("y", "a", DType::F32) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "q", DType::F32) + cast("y", "a", DType::F64) + returned("%y"), ""},
    // -1 as a float and then an unsigned integer is not 2^32 - 1.
    {"cast-of-wider-cast", cast("a", "q", DType::F64) + cast("y", "a", DType::U32) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "q", DType::U32) + cast("y", "a", DType::I64) + returned("%y"), ""},
};

const Case kViews[] = {
    {"identity-transpose", line("%y = Transpose(%r) {perm = [0, 1]} : f32[<=8 %n, 4]") + returned("%y"),
     returned("%r \"y\"")},
    {"identity-transpose", line("%y = Transpose(%x) {perm = [1, 0]} : f32[3, 2]") + returned("%y"), ""},
    {"transpose-of-transpose",
     line("%a = Transpose(%image) {perm = [0, 2, 3, 1]} : f32[1, 4, 4, 2]") +
         line("%y = Transpose(%a) {perm = [0, 1, 3, 2]} : f32[1, 4, 2, 4]") + returned("%y"),
     line("%y = Transpose(%image) {perm = [0, 2, 1, 3]} : f32[1, 4, 2, 4]") + returned("%y")},
    {"transpose-of-transpose",
     line("%a = Transpose(%image) {perm = [0, 2, 3, 1]} : f32[1, 4, 4, 2]") +
         line("%y = Transpose(%a) {perm = [0, 3, 1, 2]} : f32[1, 2, 4, 4]") + returned("%y"),
     returned("%image \"y\"")},
    {"transpose-of-transpose",
     line("%a = Transpose(%x) {perm = [1, 0]} : f32[3, 2]") + line("%b1 = Exp(%a) : f32[3, 2]") +
         line("%y = Transpose(%b1) {perm = [1, 0]} : f32[2, 3]") + returned("%y"),
     ""},
    {"identity-reshape", line("%y = Reshape(%r) {allowzero = 1, shape = [8, 4]} : f32[<=8 %n, 4]") + returned("%y"),
     returned("%r \"y\"")},
    {"identity-reshape", line("%y = Flatten(%x) {axis = 1} : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"identity-reshape", line("%y = Reshape(%x) {allowzero = 1, shape = [3, 2]} : f32[3, 2]") + returned("%y"), ""},
    {"identity-expand", line("%y = Expand(%x) {shape = [2, 3]} : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"identity-expand", line("%y = Expand(%x) {shape = [4, 2, 3]} : f32[4, 2, 3]") + returned("%y"), ""},
    {"reshape-of-reshape",
     line("%a = Reshape(%x) {allowzero = 1, shape = [6]} : f32[6]") +
         line("%y = Unsqueeze(%a) {axes = [0]} : f32[1, 6]") + returned("%y"),
     line("%y = Reshape(%x) {allowzero = 1, shape = [1, 6]} : f32[1, 6]") + returned("%y")},
    {"reshape-of-reshape",
     line("%a = Reshape(%r) {allowzero = 1, shape = [8, 2, 2]} : f32[<=8 %n, 2, 2]") +
         line("%y = Reshape(%a) {allowzero = 1, shape = [8, 1, 4]} : f32[<=8 %n, 1, 4]") + returned("%y"),
     line("%y = Reshape(%r) {allowzero = 1, shape = [8, 1, 4]} : f32[<=8 %n, 1, 4]") + returned("%y")},
    {"reshape-of-reshape",
     line("%a = Reshape(%x) {allowzero = 1, shape = [3, 2]} : f32[3, 2]") + line("%b1 = Exp(%a) : f32[3, 2]") +
         line("%y = Reshape(%b1) {allowzero = 1, shape = [6]} : f32[6]") + returned("%y"),
     ""},
};

const std::string kPadded = line("%a = Pad(%image) " + pads("0, 0, 1, 0, 0, 0, 0, 2", "0.0") + "f32[1, 2, 5, 6]");
const std::string kAround = "%a = Pad(%image) " + pads("0, 0, 1, 1, 0, 0, 1, 1", "0.0") + "f32[1, 2, 6, 6]";
const std::string kLow = "%a = Pad(%image) " + pads("0, 0, 1, 1, 0, 0, 1, 1", "-inf") + "f32[1, 2, 6, 6]";
const Case kWindows[] = {
    {"pad-into-convolution", kPadded + line("%y = Conv(%a, %w, %b) " + kConv + "f32[1, 2, 5, 5]") + returned("%y"),
     line("%y = Conv(%image, %w, %b) " + kBordered + "f32[1, 2, 5, 5]") + returned("%y")},
    {"pad-into-convolution", kPadded + line("%y = Conv(%a, %w) " + kConv + "f32[1, 2, 5, 5]") + returned("%y, %a"), ""},
    {"pad-into-convolution",
     line("%a = Pad(%image) " + pads("0, 0, 1, 0, 0, 0, 0, 2", "1.0") + "f32[1, 2, 5, 6]") +
         line("%y = Conv(%a, %w) " + kConv + "f32[1, 2, 5, 5]") + returned("%y"),
     ""},
    {"pad-into-convolution",
     line("%a = Pad(%image) " + pads("1, 0, 0, 0, 0, 0, 0, 0", "0.0") + "f32[2, 2, 4, 4]") +
         line("%y = Conv(%a, %w) " + kConv + "f32[2, 2, 4, 3]") + returned("%y"),
     ""},
    {"pad-into-convolution",
     line("%a = Pad(%image) " + pads("0, 0, 1, 0, 0, 0, 0, -1", "0.0") + "f32[1, 2, 5, 3]") +
         line("%y = Conv(%a, %w) " + kConv + "f32[1, 2, 5, 2]") + returned("%y"),
     ""},
    {"pad-into-average-pool",
     line(kAround) + line("%y = AveragePool(%a) " + pool(", count_include_pad = 0", "0, 0, 0, 0") + "f32[1, 2, 3, 3]") +
         returned("%y"),
     line("%y = AveragePool(%image) " + pool(", count_include_pad = 1", "1, 1, 1, 1") + "f32[1, 2, 3, 3]") +
         returned("%y")},
    // The border counts in the mean, the pool's own pads do not.
    {"pad-into-average-pool",
     line(kAround) + line("%y = AveragePool(%a) " + pool(", count_include_pad = 0", "1, 1, 1, 1") + "f32[1, 2, 4, 4]") +
         returned("%y"),
     ""},
    // A last window that starts in the border is there only while the border is none of the pool's own.
    {"pad-into-average-pool",
     line("%a = Pad(%image) " + pads("0, 0, 0, 0, 0, 0, 1, 1", "0.0") + "f32[1, 2, 5, 5]") +
         line("%y = AveragePool(%a) " + pool(", count_include_pad = 0", "0, 0, 0, 0", "1") + "f32[1, 2, 3, 3]") +
         returned("%y"),
     ""},
    {"pad-into-max-pool",
     line(kLow) + line("%y = MaxPool(%a) " + pool("", "0, 0, 0, 0") + "f32[1, 2, 3, 3]") + returned("%y"),
     line("%y = MaxPool(%image) " + pool("", "1, 1, 1, 1") + "f32[1, 2, 3, 3]") + returned("%y")},
    {"pad-into-max-pool",
     line(kAround) + line("%y = MaxPool(%a) " + pool("", "0, 0, 0, 0") + "f32[1, 2, 3, 3]") + returned("%y"), ""},
};

const std::string kProduct = line("%a = Conv(%image, %w) " + kConv + "f32[1, 2, 4, 3]");
const std::string kHalfConv = line("%a = Conv(%half, %hw) " + kConv + "f16[1, 2, 4, 3]");
const std::string kTransposed = "{auto_pad = \"NOTSET\", group = 1, kernel_shape = [1, 2]} : ";
const std::string kGemm = "{alpha = 0.5, beta = 1.0, transA = 0, transB = 0} : ";
const Case kWeights[] = {
    {"normalization-into-weights",
     kProduct + line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 3]") + returned("%y"),
     line("%y = Conv(%image, %w, %y/Constant) " + kConv + "f32[1, 2, 4, 3]") + returned("%y")},
    {"normalization-into-weights",
     line("%a = Conv(%image, %w, %b) " + kConv + "f32[1, 2, 4, 3]") +
         line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 3]") + returned("%y"),
     line("%y = Conv(%image, %w, %y/Constant) " + kConv + "f32[1, 2, 4, 3]") + returned("%y")},
    {"normalization-into-weights",
     line("%a = ConvTranspose(%image, %w, %b) " + kTransposed + "f32[1, 2, 4, 5]") +
         line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 5]") + returned("%y"),
     line("%y = ConvTranspose(%image, %w, %y/Constant) " + kTransposed + "f32[1, 2, 4, 5]") + returned("%y")},
    {"normalization-into-weights",
     line("%a = Gemm(%x, %m) " + kGemm + "f32[2, 2]") + line("%y = BatchNormalization(%a, " + kNorm + "f32[2, 2]") +
         returned("%y"),
     line("%y = Gemm(%x, %m, %y/Constant) " + kGemm + "f32[2, 2]") + returned("%y")},
    {"normalization-into-weights", kProduct + line("%y = Exp(%a) : f32[1, 2, 4, 3]") + returned("%y"), ""},
    {"normalization-of-constants",
     line("%y = BatchNormalization(%image, " + kNorm + "f32[1, 2, 4, 4]") + returned("%y"),
     line("%y/Mul = Mul(%image, %y/Constant) : f32[1, 2, 4, 4]") +
         line("%y = Add(%y/Mul, %y/Constant_2) : f32[1, 2, 4, 4]") + returned("%y")},
    // The convolution's own result is read too: its weights stay.
    {"normalization-of-constants",
     kProduct + line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 3]") + returned("%y, %a"),
     kProduct + line("%y/Mul = Mul(%a, %y/Constant) : f32[1, 2, 4, 3]") +
         line("%y = Add(%y/Mul, %y/Constant_2) : f32[1, 2, 4, 3]") + returned("%y, %a")},
    {"normalization-of-constants",
     line("%s = Exp(%scale) : f32[2]") +
         line("%y = BatchNormalization(%image, %s, %bias, %mean, %variance) {epsilon = 0.001} : f32[1, 2, 4, 4]") +
         returned("%y"),
     ""},
    {"factor-into-weights",
     line("%a = Conv(%image, %w, %b) " + kConv + "f32[1, 2, 4, 3]") +
         line("%y = Mul(%channels, %a) : f32[1, 2, 4, 3]") + returned("%y"),
     line("%y = Conv(%image, %w, %y/Constant) " + kConv + "f32[1, 2, 4, 3]") + returned("%y")},
    {"factor-into-weights",
     line("%a = MatMul(%x, %m) : f32[2, 2]") + line("%y = Mul(%a, %columns) : f32[2, 2]") + returned("%y"),
     line("%y = MatMul(%x, %m) : f32[2, 2]") + returned("%y")},
    // A factor for each row.
    {"factor-into-weights",
     line("%a = MatMul(%x, %m) : f32[2, 2]") + line("%y = Mul(%a, %rows) : f32[2, 2]") + returned("%y"), ""},
    // A second reader of the weights.
    {"factor-into-weights",
     line("%a = MatMul(%x, %m) : f32[2, 2]") + line("%y = Mul(%a, %columns) : f32[2, 2]") +
         line("%z = Exp(%m) : f32[3, 2]") + returned("%y, %z"),
     ""},
    // Weights of 1e-06 have two digits in 16 bits.
    {"factor-into-weights", kHalfConv + line("%y = Mul(%a, %tiny) : f16[1, 2, 4, 3]") + returned("%y"), ""},
};

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const std::span<const Case> cases :
       {std::span<const Case>(kArithmetic), std::span<const Case>(kCasts), std::span<const Case>(kViews),
        std::span<const Case>(kWindows), std::span<const Case>(kWeights)})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace

TEST_CASE("simplify: each rule fires, and not at a near miss") {
  for (const Case& c : all_cases()) {
    CAPTURE(std::string(c.rule));
    CAPTURE(c.before);
    const Module before = parsed(c.before);
    Module after = parsed(c.before);
    run(after, simplify);
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
  for (const std::span<const Rule> some : {arithmetic_rules(), view_rules(), window_rules(), weight_rules()})
    for (const Rule& rule : some) rules.insert(rule.name);
  CHECK(firing == rules);
  CHECK(missing == rules);
}

TEST_CASE("simplify: what becomes weights is right to a rounding") {
  Module module = parsed(kProduct + line("%y = BatchNormalization(%a, " + kNorm + "f32[1, 2, 4, 3]") + returned("%y"));
  run(module, simplify);
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
  run(module, simplify);
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
