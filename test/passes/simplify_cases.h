// Shared by tests of `simplify`: for each rule a case in which it fires, and the nearest one in which it must not, as
// text.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/passes.h"
#include "test/scheduled.h"

namespace weftc::test {

/// A pass by itself, and the cleaning that follows each.
inline void run_pass(Module& module, void (*pass)(Module&, const Env&)) {
  const Schedule schedule;
  const Target target;
  Diags diags;
  pass(module, {schedule, target, diags});
  INFO(diags.text());
  REQUIRE(diags.ok());
  clean_up(module);
}

/// Values that cases read, beside the ops of their own.
inline const char* const kOperands = R"(
  %x = Input() : f32[2, 3]
  %h = Input() : f16[2, 3]
  %q = Input() : i32[2, 3]
  %r = Input() : f32[n<=8, 4]
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
  %bytes = Input() : u8[2, 3]
  %photo = Input() : u8[1, 2, 4, 4]
  %dot1 = Constant() {value = #20} : f32[]
  %five = Constant() {value = #21} : u8[]
  %w8 = Constant() {value = #22} : i8[3, 2]
  %scales = Constant() {value = #23} : f32[2]
  %none = Constant() {value = #24} : i8[2]
  %filters = Constant() {value = #25} : i8[2, 2, 1, 2]
  %some = Constant() {value = #26} : i8[2]
  %table = Input() : f32[9, 2]
  %counted = Constant() {value = #27} : i64[1, 8]
  %uneven = Constant() {value = #28} : i64[1, 3]
)";
inline const char* const kConstants = R"(
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
constant #20 "dot1" f32[] = [0.5]
constant #21 "five" u8[] = [5]
constant #22 "w8" i8[3, 2] = [1, -2, 3, -4, 5, -128]
constant #23 "scales" f32[2] = [0.25, 2]
constant #24 "none" i8[2] = [0, 0]
constant #25 "filters" i8[2, 2, 1, 2] = [1, 2, 3, 4, -5, 6, 7, -8]
constant #26 "some" i8[2] = [0, 1]
constant #27 "counted" i64[1, 8] = [0, 1, 2, 3, 4, 5, 6, 7]
constant #28 "uneven" i64[1, 3] = [0, 2, 1]
)";

/// A rule, what it is given, and what it makes of it; nothing where it must not fire.
struct Case {
  const char* rule;
  std::string before, after;
};

inline const std::string kConv =
    "{auto_pad = \"NOTSET\", dilations = [1, 1], group = 1, kernel_shape = [1, 2], pads = [0, 0, 0, 0], "
    "strides = [1, 1]} : ";
inline const std::string kBordered =
    "{auto_pad = \"NOTSET\", dilations = [1, 1], group = 1, kernel_shape = [1, 2], pads = [1, 0, 0, 2], "
    "strides = [1, 1]} : ";
/// Two taps four columns apart, over an image of four columns with a border before and after it.
inline std::string apart(const std::string& pads) {
  return "{auto_pad = \"NOTSET\", dilations = [1, 4], group = 1, kernel_shape = [1, 2], pads = [" + pads +
         "], strides = [1, 1]} : ";
}
inline const std::string kNorm = "%scale, %bias, %mean, %variance) {epsilon = 0.001} : ";

inline std::string line(const std::string& text) { return "  " + text + "\n"; }
inline std::string returned(const std::string& text) { return "  return " + text + "\n"; }
inline std::string pads(const std::string& list, const std::string& value) {
  return "{mode = \"constant\", pads = [" + list + "], value = " + value + "} : ";
}
inline std::string pool(const std::string& count, const std::string& list, const std::string& ceil = "0") {
  return "{auto_pad = \"NOTSET\", ceil_mode = " + ceil + count +
         ", dilations = [1, 1], kernel_shape = [2, 2], pads = [" + list + "], " +
         (count.empty() ? "storage_order = 0, " : "") + "strides = [2, 2]} : ";
}

inline const Case kArithmetic[] = {
    {"identity", line("%a = Identity(%x) : f32[2, 3]") + line("%y = Exp(%a) : f32[2, 3]") + returned("%y"),
     line("%y = Exp(%x) : f32[2, 3]") + returned("%y")},
    {"identity", line("%a = Abs(%x) : f32[2, 3]") + returned("%a"), ""},
    {"add-zero", line("%y = Add(%x, %zero) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"add-zero", line("%y = Add(%minus_zero, %x) : f32[2, 3]") + returned("%y"), returned("%x \"y\"")},
    {"add-zero", line("%y = Add(%q, %nothing) : i32[2, 3]") + returned("%y"), returned("%q \"y\"")},
    {"add-zero", line("%y = Add(%r, %minus_zero) : f32[n<=8, 4]") + returned("%y"), returned("%r \"y\"")},
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

inline std::string cast(const char* to, const char* from, DType dtype) {
  return line(std::string("%") + to + " = Cast(%" + from + ") {round_mode = \"up\", saturate = 1, to = " +
              std::to_string(dtype_attr(dtype)) + "} : " + dtype_name(dtype) + "[2, 3]");
}
inline const Case kCasts[] = {
    {"cast-to-own-type", cast("y", "x", DType::F32) + returned("%y"), returned("%x \"y\"")},
    {"cast-to-own-type", cast("y", "x", DType::F64) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "h", DType::F32) + cast("y", "a", DType::I32) + returned("%y"),
     cast("y", "h", DType::I32) + returned("%y")},
    // A conversion and its inverse vanish, by two rules in sequence.
    {"cast-of-wider-cast", cast("a", "h", DType::F32) + cast("y", "a", DType::F16) + returned("%y"),
     returned("%h \"y\"")},
    {"cast-of-wider-cast", cast("a", "x", DType::F16) + cast("y", "a", DType::F32) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "q", DType::F32) + cast("y", "a", DType::F64) + returned("%y"), ""},
    // -1 as a float and then an unsigned integer is not 2^32 - 1.
    {"cast-of-wider-cast", cast("a", "q", DType::F64) + cast("y", "a", DType::U32) + returned("%y"), ""},
    {"cast-of-wider-cast", cast("a", "q", DType::U32) + cast("y", "a", DType::I64) + returned("%y"), ""},
};

inline const std::string kCounted = "{axis = 0, dtype = 7, shape = [8], start = 0.0, step = 1.0} : ";
inline const Case kViews[] = {
    {"identity-transpose", line("%y = Transpose(%r) {perm = [0, 1]} : f32[n<=8, 4]") + returned("%y"),
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
    {"identity-reshape", line("%y = Reshape(%r) {allowzero = 1, shape = [8, 4]} : f32[n<=8, 4]") + returned("%y"),
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
     line("%a = Reshape(%r) {allowzero = 1, shape = [8, 2, 2]} : f32[n<=8, 2, 2]") +
         line("%y = Reshape(%a) {allowzero = 1, shape = [8, 1, 4]} : f32[n<=8, 1, 4]") + returned("%y"),
     line("%y = Reshape(%r) {allowzero = 1, shape = [8, 1, 4]} : f32[n<=8, 1, 4]") + returned("%y")},
    {"reshape-of-reshape",
     line("%a = Reshape(%x) {allowzero = 1, shape = [3, 2]} : f32[3, 2]") + line("%b1 = Exp(%a) : f32[3, 2]") +
         line("%y = Reshape(%b1) {allowzero = 1, shape = [6]} : f32[6]") + returned("%y"),
     ""},
    {"gather-of-positions",
     line("%at = Iota() " + kCounted + "i64[n<=8]") + line("%up = Unsqueeze(%at) {axes = [0]} : i64[1, n<=8]") +
         line("%y = Gather(%table, %up) {axis = 0} : f32[1, n<=8, 2]") + returned("%y"),
     line("%y/Slice = Slice(%table) {ends = [8, 2], starts = [0, 0], steps = [1, 1]} : f32[n<=8, 2]") +
         line("%y = Reshape(%y/Slice) {allowzero = 1, shape = [1, 8, 2]} : f32[1, n<=8, 2]") + returned("%y")},
    {"gather-of-positions",
     line("%at = Slice(%counted) {ends = [1, 8], starts = [0, 0], steps = [1, 1]} : i64[1, n<=8]") +
         line("%y = Gather(%table, %at) {axis = 0} : f32[1, n<=8, 2]") + returned("%y"),
     line("%y/Slice = Slice(%table) {ends = [8, 2], starts = [0, 0], steps = [1, 1]} : f32[n<=8, 2]") +
         line("%y = Reshape(%y/Slice) {allowzero = 1, shape = [1, 8, 2]} : f32[1, n<=8, 2]") + returned("%y")},
    // There may be fewer rows than positions; other positions, and in another order.
    {"gather-of-positions",
     line("%at = Iota() " + kCounted + "i64[n<=8]") + line("%y = Gather(%m, %at) {axis = 0} : f32[n<=8, 2]") +
         returned("%y"),
     ""},
    {"gather-of-positions",
     line("%at = Iota() {axis = 0, dtype = 7, shape = [8], start = 1.0, step = 1.0} : i64[n<=8]") +
         line("%y = Gather(%table, %at) {axis = 0} : f32[n<=8, 2]") + returned("%y"),
     ""},
    {"gather-of-positions",
     line("%at = Slice(%uneven) {ends = [1, 3], starts = [0, 0], steps = [1, 1]} : i64[1, 3]") +
         line("%y = Gather(%table, %at) {axis = 0} : f32[1, 3, 2]") + returned("%y"),
     ""},
};

inline const std::string kPadded =
    line("%a = Pad(%image) " + pads("0, 0, 1, 0, 0, 0, 0, 2", "0.0") + "f32[1, 2, 5, 6]");
inline const std::string kAround = "%a = Pad(%image) " + pads("0, 0, 1, 1, 0, 0, 1, 1", "0.0") + "f32[1, 2, 6, 6]";
inline const std::string kLow = "%a = Pad(%image) " + pads("0, 0, 1, 1, 0, 0, 1, 1", "-inf") + "f32[1, 2, 6, 6]";
inline const Case kWindows[] = {
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
    {"conv-without-idle-taps",
     line("%y = Conv(%image, %w, %b) " + apart("0, 4, 0, 0") + "f32[1, 2, 4, 4]") + returned("%y"),
     line("%y/Slice = Slice(%w) {ends = [2, 2, 1, 2], starts = [0, 0, 0, 1], steps = [1, 1, 1, 1]} : f32[2, 2, 1, 1]") +
         line("%y = Conv(%image, %y/Slice, %b) {auto_pad = \"NOTSET\", dilations = [1, 4], group = 1, kernel_shape = "
              "[1, "
              "1], "
              "pads = [0, 0, 0, 0], strides = [1, 1]} : f32[1, 2, 4, 4]") +
         returned("%y")},
    {"conv-without-idle-taps",
     line("%y = Conv(%image, %w, %b) " + apart("0, 3, 0, 1") + "f32[1, 2, 4, 4]") + returned("%y"), ""},
    // Without its first tap, which begins three columns before the border, a window would begin inside of the image.
    {"conv-without-idle-taps",
     line("%y = Conv(%image, %w, %b) " + apart("0, 2, 0, 0") + "f32[1, 2, 4, 2]") + returned("%y"), ""},
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
    // A last window that starts in the border exists only while the border is not the pool's own.
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

inline const std::string kProduct = line("%a = Conv(%image, %w) " + kConv + "f32[1, 2, 4, 3]");
inline const std::string kHalfConv = line("%a = Conv(%half, %hw) " + kConv + "f16[1, 2, 4, 3]");
inline const std::string kTransposed = "{auto_pad = \"NOTSET\", group = 1, kernel_shape = [1, 2]} : ";
inline const std::string kGemm = "{alpha = 0.5, beta = 1.0, transA = 0, transB = 0} : ";
inline const Case kWeights[] = {
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
    // In training the statistics are not those of the operands.
    {"normalization-of-constants",
     line("%y = BatchNormalization(%image, %scale, %bias, %mean, %variance) {epsilon = 0.001, training_mode = 1} : "
          "f32[1, 2, 4, 4]") +
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

inline const std::string kScaled = "{axis = 1, block_size = 0, saturate = 1} : ";
inline const std::string kFirstScaled = "{axis = 0, block_size = 0, saturate = 1} : ";
inline const std::string kCast = " {round_mode = \"up\", saturate = 1, to = 0} : ";
inline const std::string kBytes = line("%a = DequantizeLinear(%bytes, %dot1, %five) " + kScaled + "f32[2, 3]");
inline const std::string kPhoto = line("%a = DequantizeLinear(%photo, %dot1, %five) " + kScaled + "f32[1, 2, 4, 4]");
/// A pool of windows of two columns.
inline std::string pooled(const std::string& pads) {
  return "{auto_pad = \"NOTSET\", ceil_mode = 0, dilations = [1, 1], kernel_shape = [1, 2], pads = " + pads +
         ", storage_order = 0, strides = [1, 1]} : ";
}
inline const std::string kIntegers =
    "{auto_pad = \"NOTSET\", dilations = [1, 1], group = 1, kernel_shape = [1, 2], pads = [0, 0, 0, 0], strides = [1, "
    "1], zero = 5} : ";
inline const Case kQuantized[] = {
    {"product-of-integers",
     kBytes + line("%v = DequantizeLinear(%w8, %scales, %none) " + kScaled + "f32[3, 2]") +
         line("%y = MatMul(%a, %v) : f32[2, 2]") + returned("%y"),
     line("%y/MatMulInteger = MatMulInteger(%bytes, %w8) {zero = 5} : i32[2, 2]") +
         line("%y/Cast = Cast(%y/MatMulInteger)" + kCast + "f32[2, 2]") +
         line("%y = Mul(%y/Cast, %y/Constant) : f32[2, 2]") + returned("%y")},
    // The second column has a zero point.
    {"product-of-integers",
     kBytes + line("%v = DequantizeLinear(%w8, %scales, %some) " + kScaled + "f32[3, 2]") +
         line("%y = MatMul(%a, %v) : f32[2, 2]") + returned("%y"),
     ""},
    {"convolution-of-integers",
     kPhoto + line("%v = DequantizeLinear(%filters, %scales, %none) " + kFirstScaled + "f32[2, 2, 1, 2]") +
         line("%y = Conv(%a, %v) " + kConv + "f32[1, 2, 4, 3]") + returned("%y"),
     line("%y/ConvInteger = ConvInteger(%photo, %filters) " + kIntegers + "i32[1, 2, 4, 3]") +
         line("%y/Cast = Cast(%y/ConvInteger)" + kCast + "f32[1, 2, 4, 3]") +
         line("%y = Mul(%y/Cast, %y/Constant) : f32[1, 2, 4, 3]") + returned("%y")},
    {"view-of-dequantized",
     kBytes + line("%t = Transpose(%a) {perm = [1, 0]} : f32[3, 2]") + line("%y = Exp(%t) : f32[3, 2]") +
         returned("%y"),
     line("%t/Transpose = Transpose(%bytes) {perm = [1, 0]} : u8[3, 2]") +
         line("%t = DequantizeLinear(%t/Transpose, %dot1, %five) " + kFirstScaled + "f32[3, 2]") +
         line("%y = Exp(%t) : f32[3, 2]") + returned("%y")},
    // Two scales, of which a transposition changes the axis.
    {"view-of-dequantized",
     line("%p = Cast(%x) {round_mode = \"up\", saturate = 1, to = 4} : i8[2, 3]") +
         line("%a = DequantizeLinear(%p, %scales, %none) " + kFirstScaled + "f32[2, 3]") +
         line("%y = Transpose(%a) {perm = [1, 0]} : f32[3, 2]") + returned("%y"),
     ""},
    {"pool-of-dequantized",
     kPhoto + line("%p = MaxPool(%a) " + pooled("[0, 1, 0, 0]") + "f32[1, 2, 4, 4]") +
         line("%y = Exp(%p) : f32[1, 2, 4, 4]") + returned("%y"),
     line("%p/MaxPool = MaxPool(%photo) " + pooled("[0, 1, 0, 0]") + "u8[1, 2, 4, 4]") +
         line("%p = DequantizeLinear(%p/MaxPool, %dot1, %five) " + kFirstScaled + "f32[1, 2, 4, 4]") +
         line("%y = Exp(%p) : f32[1, 2, 4, 4]") + returned("%y")},
    // The first window of a row lies in the border, where the maximum is -inf.
    {"pool-of-dequantized",
     kPhoto + line("%y = MaxPool(%a) " + pooled("[0, 2, 0, 0]") + "f32[1, 2, 4, 5]") + returned("%y"), ""},
    {"quantize-of-dequantized",
     kBytes + line("%q1 = QuantizeLinear(%a, %dot1, %five) " + kScaled + "u8[2, 3]") +
         line("%y = Cast(%q1)" + kCast + "f32[2, 3]") + returned("%y"),
     line("%y = Cast(%bytes)" + kCast + "f32[2, 3]") + returned("%y")},
    // Another scale.
    {"quantize-of-dequantized",
     kBytes + line("%y = QuantizeLinear(%a, %one, %five) " + kScaled + "u8[2, 3]") + returned("%y"), ""},
    // A scale for each channel of the image: its sums have none in common.
    {"convolution-of-integers",
     kPhoto + line("%v = DequantizeLinear(%filters, %scales, %none) " + kScaled + "f32[2, 2, 1, 2]") +
         line("%y = Conv(%a, %v) " + kConv + "f32[1, 2, 4, 3]") + returned("%y"),
     ""},
};

inline std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const std::span<const Case> cases :
       {std::span<const Case>(kArithmetic), std::span<const Case>(kCasts), std::span<const Case>(kViews),
        std::span<const Case>(kWindows), std::span<const Case>(kWeights), std::span<const Case>(kQuantized)})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace weftc::test
