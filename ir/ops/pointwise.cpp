// The pointwise ops: one row each. A row gives the expression twice, as text for the backends and as a function for the
// reference; `x` are the operands, `op` the op. Type inference, factor rule, evaluation and lowering follow from the
// category. A new op is one row here, one line in ops.def and one row of tests (README.md).
//
//   kNeg = unary({OpKind::Neg, "Neg", "-($0)", REAL(-x[0]), nullptr, WHOLE(int_subtract(0, x[0]))})
//          arity    kind       name    kernel   reference    integers: text (null: as before), reference
#include "ir/ops/pointwise.h"

#include <cmath>
#include <limits>

#include "ir/ops/gradient.h"
#include "ir/ops/strings/casts.h"

namespace weftc {

#define REAL(expression) [](const double* x, const Op& op) -> double { return (void)op, (expression); }
#define WHOLE(expression) \
  [](const int64_t* x, const Op& op, DType dtype) -> int64_t { return (void)op, (void)dtype, (expression); }

namespace {

/// The fields of one row; ir/ops/README.md explains them.
struct Row {
  OpKind kind;
  const char* name;
  const char* scalar;
  ScalarFn value = nullptr;
  const char* scalar_int = nullptr;
  IntFn int_value = nullptr;
  std::vector<AttrSpec> attrs = {};
};

OpDef pointwise(Row row, int inputs, InferFn infer) {
  OpDef def;
  def.kind = row.kind;
  def.name = row.name;
  def.onnx = {row.name};
  def.attrs = std::move(row.attrs);
  def.inputs = {inputs, inputs};
  def.category = Category::Pointwise;
  def.infer = infer;
  def.scalar = row.scalar;
  def.scalar_int = row.scalar_int;
  def.value = row.value;
  def.int_value = row.int_value;
  def.eval = eval_pointwise;
  return def;
}

/// The arities and rules of types: `compare` and `test` give bool, `logical` takes bool, `bits` takes integers.
OpDef unary(Row row) { return pointwise(std::move(row), 1, infer_arithmetic); }
OpDef binary(Row row) { return pointwise(std::move(row), 2, infer_arithmetic); }
OpDef without_gradient(OpDef def) {
  def.gradient = no_gradient;
  return def;
}
OpDef compare(Row row) { return without_gradient(pointwise(std::move(row), 2, infer_compare)); }
OpDef test(Row row) { return without_gradient(pointwise(std::move(row), 1, infer_compare)); }
OpDef logical(Row row, int inputs) { return without_gradient(pointwise(std::move(row), inputs, infer_logical)); }
OpDef bits(Row row, int inputs) { return without_gradient(pointwise(std::move(row), inputs, infer_bits)); }

/// The next four functions set fields that a row leaves at their defaults: the cost of an element (ScalarCost), the
/// operands in which the op is linear (L6), and its gradient.
OpDef moderate(OpDef def) {
  def.cost = ScalarCost::Moderate;
  return def;
}

OpDef function(OpDef def) {
  def.cost = ScalarCost::Function;
  return def;
}

OpDef linear(OpDef def, std::vector<std::vector<int>> groups) {
  def.linear = std::move(groups);
  return def;
}

OpDef derived(OpDef def, GradientFn gradient) {
  def.gradient = gradient;
  return def;
}

/// For ops that move or compare elements, which may be strings.
OpDef strings(OpDef def) {
  def.takes_strings = true;
  return def;
}

/// Replaced by a chain of two-operand ops of the same kind, or by a single operand itself.
std::vector<ValueId> chain(Builder& build, const OpView& op) {
  ValueId result = op.op().inputs[0];
  for (int i = 1; i < op.inputs(); ++i) result = build.op(op.op().kind, {result, op.op().inputs[i]});
  return {result};
}

/// Max and Min take any number of operands (ONNX Max-13); kernels compute pairs.
OpDef variadic(OpDef def) {
  def.inputs = {1, -1};
  def.decompose = chain;
  def.is_primitive = [](const OpView& op) { return op.inputs() == 2; };
  return def;
}

/// Elu, which Selu scales.
double elu(double x, double alpha) { return x > 0 ? x : alpha * (std::exp(x) - 1); }

/// The exponent if it is one constant number for which there is a cheaper op than a power.
std::optional<double> simple_exponent(const OpView& op) {
  const TensorType& type = op.type(1);
  if (type.count() != 1 || type.ndim() > op.type(0).ndim() || !is_float(op.type(0).dtype)) return {};
  const std::optional<Tensor> known = op.known(1);
  if (!known) return {};
  const double exponent = known->at(0);
  const bool simple = exponent == 1 || exponent == 2 || exponent == 3 || exponent == 0.5 || exponent == -1;
  return simple ? std::optional(exponent) : std::nullopt;
}

/// By the base: 0 if the exponent is 0. By the exponent: 0 if the base is 0 and the exponent is not negative. Otherwise
/// 0 * inf would be NaN.
Derivatives gradient_of_power(const BackwardStep& s) {
  const Term x = s.in(0), exponent = s.in(1).cast(s.g.dtype()), zero = s.zero();
  const Term by_base = (exponent == 0).choose(zero, s.g * exponent * x.apply(OpKind::Pow, exponent - 1));
  if (!is_float(s.in(1).dtype())) return {by_base};
  const Term by_exponent = (x == 0 && exponent >= 0).choose(zero, s.g * s.out() * x.apply(OpKind::Log));
  return {by_base, by_exponent.cast(s.in(1).dtype())};
}

/// x * tanh(softplus(x))
Derivatives gradient_of_mish(const BackwardStep& s) {
  const Term x = s.in(0), t = x.apply(OpKind::Softplus).apply(OpKind::Tanh);
  return {s.g * (t + x * x.apply(OpKind::Sigmoid) * (1 - t * t))};
}

/// x * sigmoid(alpha * x)
Derivatives gradient_of_swish(const BackwardStep& s) {
  const Term scaled = s.in(0) * s.real("alpha"), gate = scaled.apply(OpKind::Sigmoid);
  return {s.g * (gate + scaled * gate * (1 - gate))};
}

/// The part of g that the larger of two operands gets: equal ones share, and with NaN both get all.
Term share(const Term& g, const Term& larger, const Term& smaller) {
  return (larger == smaller).choose(g * 0.5, (larger < smaller).choose(g.scalar(0), g));
}

/// x to the power of 0.5: as the root, but +0 for -0 and +inf for -inf.
Term root_as_power(const Term& x) {
  const double infinity = std::numeric_limits<double>::infinity();
  return (x == -infinity).choose(x.scalar(infinity), x.apply(OpKind::Sqrt).apply(OpKind::Abs));
}

/// A power by a simple exponent as products, a root or a reciprocal: std::pow is a library function.
std::vector<ValueId> decompose_power(Builder& build, const OpView& op) {
  const double exponent = *simple_exponent(op);
  const ValueId x = op.op().inputs[0];
  if (exponent == 1) return {x};
  if (exponent == 0.5) return {root_as_power(Term(build, x)).value()};
  if (exponent == -1) return {build.op(OpKind::Reciprocal, {x})};
  const ValueId square = build.op(OpKind::Mul, {x, x});
  return {exponent == 2 ? square : build.op(OpKind::Mul, {square, x})};
}

std::vector<ValueId> first_operand(Builder&, const OpView& op) { return {op.op().inputs[0]}; }

/// Identity disappears: its readers read the operand.
OpDef identity() {
  OpDef def = pointwise({OpKind::Identity, "Identity", "$0", REAL(x[0]), nullptr, WHOLE(x[0])}, 1, infer_same);
  def.linear = {{0}};
  def.decompose = first_operand;
  return strings(std::move(def));
}

/// A number of elements that the data decides, as the run-time length `name` of shapes. Values of these shapes depend
/// on reading it.
OpDef name_length() {
  OpDef def = pointwise({OpKind::NameLength, "NameLength", "$0", REAL(x[0]), nullptr, WHOLE(x[0])}, 1, infer_same);
  def.onnx = {};
  def.attrs = {{"name", AttrType::Text, {}, true}};
  return def;
}

/// Pow-13: base and exponent may differ in dtype, the result has the base's.
OpDef power() {
  OpDef def = pointwise({OpKind::Pow, "Pow", "std::pow($0, $T($1))", REAL(std::pow(x[0], x[1])), "weft::power($0, $1)",
                         WHOLE(int_power(x[0], x[1]))},
                        2, infer_power);
  def.cost = ScalarCost::Function;
  def.gradient = gradient_of_power;
  def.decompose = decompose_power;
  def.is_primitive = [](const OpView& op) { return !simple_exponent(op); };
  return def;
}

bool import_cast(Graph& graph, OpId id, int, const OpView& view) { return import_dtype(graph, id, "to", view); }

/// A cast to or from strings.
bool casts_strings(const OpView& op) {
  return op.type(0).dtype == DType::String || dtype_of_attr(int_of(op.op(), "to")) == DType::String;
}

bool infer_any_cast(const OpView& op, std::vector<TensorType>& results) {
  const DType from = op.type(0).dtype, to = dtype_of_attr(int_of(op.op(), "to"));
  if (from != to && casts_strings(op) && !has_text_form(op, to == DType::String ? from : to)) return false;
  return infer_cast(op, results);
}

/// Whether a cast to a small float has other attributes than weft::cast implements: saturating, and up to a power of
/// two.
bool is_plain_cast(const OpView& op) {
  const Op& cast = op.op();
  const SmallFloatRounding rounding = small_float_rounding(cast);
  if (casts_strings(op)) return false;
  return !is_small_float(dtype_of_attr(int_of(cast, "to"))) ||
         (rounding.saturates && rounding.power == PowerRounding::Up);
}

std::vector<ValueId> decompose_cast(Builder& build, const OpView& op) {
  const Op& cast = op.op();
  const DType to = dtype_of_attr(int_of(cast, "to"));
  if (to == op.type(0).dtype) return {cast.inputs[0]};
  if (to == DType::String) return {build.op(OpKind::NumberToString, {cast.inputs[0]})};
  if (casts_strings(op)) return {build.op(OpKind::StringToNumber, {cast.inputs[0]}, {{"to", dtype_attr(to)}})};
  const SmallFloatRounding rounding = small_float_rounding(cast);
  return {build.op(OpKind::RoundedCast, {cast.inputs[0]},
                   {{"direction", static_cast<int64_t>(rounding.power)},
                    {"saturate", int64_t{rounding.saturates}},
                    {"to", int_of(cast, "to")}})};
}

/// A cast to a small float whose attributes are not Cast's defaults.
OpDef rounded_cast() {
  OpDef def = pointwise({OpKind::RoundedCast, "RoundedCast", "weft::rounded_cast<$R, $saturate, $direction>($0)"}, 1,
                        infer_cast);
  def.onnx = {};
  def.attrs = {{"direction", AttrType::Int, 0}, flag("saturate", 1), {"to", AttrType::Int, {}, true}};
  def.cost = ScalarCost::Function;
  def.eval = eval_cast;
  return def;
}

/// Converts to an integer after rounding and adding a zero point, in quantization.
OpDef saturate() {
  OpDef def = pointwise({OpKind::Saturate, "Saturate", "weft::saturate<$R>($0)"}, 1, infer_cast);
  def.onnx = {};
  def.attrs = {{"to", AttrType::Int, {}, true}};
  def.eval = eval_saturate;
  return def;
}

void eval_of_integers_too(EvalContext& context) {
  const Tensor& x = context.in(0);
  if (x.is_real()) return eval_pointwise(context);
  Tensor whole(DType::F64, x.dims);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double element = x.at(i);
    whole.real[static_cast<size_t>(i)] = std::trunc(op_def(context.op).value(&element, context.op));
  }
  context.inputs[0] = &whole;
  eval_saturate(context);
  context.inputs[0] = &x;
}

/// A row whose attributes are real numbers, also for integers: computed in f64 and truncated.
OpDef of_integers_too(OpDef def) {
  def.infer = [](const OpView& op, std::vector<TensorType>& results) {
    return is_integer(op.type(0).dtype) ? infer_same(op, results) : infer_arithmetic(op, results);
  };
  def.is_primitive = [](const OpView& op) { return !is_integer(op.type(0).dtype); };
  def.eval = eval_of_integers_too;
  def.decompose = [](Builder& build, const OpView& op) {
    const Op own = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
    const DType dtype = op.type(0).dtype;
    const Term y(build, build.op(own.kind, {build.cast(own.inputs[0], DType::F64)}, own.attrs));
    const Term whole = (y < 0).choose(y.apply(OpKind::Ceil), y.floor());
    return std::vector<ValueId>{whole.saturate(dtype).value()};
  };
  return def;
}

/// A cast between floating types is linear up to rounding. A cast to or from integers is not, so it stops partial sums.
OpDef cast() {
  OpDef def = pointwise({OpKind::Cast, "Cast", "weft::cast<$R>($0)"}, 1, infer_any_cast);
  def.attrs = {{"to", AttrType::Int, {}, true}, flag("saturate", 1), choice("round_mode", "up", "up down nearest")};
  def.cost = ScalarCost::Moderate;
  def.import = import_cast;
  def.decompose = decompose_cast;
  def.is_primitive = is_plain_cast;
  def.eval = eval_cast;
  def.gradient = WEFT_GRADIENT({g.cast(x.dtype())});
  def.linear = {{0}};
  def.is_linear = [](const OpView& op) {
    return is_float(op.type(0).dtype) && is_float(dtype_of_attr(int_of(op.op(), "to")));
  };
  return strings(std::move(def));
}

/// By the divisor: minus the quotient, rounded down, or with fmod = 1 towards zero.
Derivatives gradient_of_modulo(const BackwardStep& s) {
  const Term quotient = s.in(0) / s.in(1);
  const Term towards_zero = quotient.apply(OpKind::Sign) * quotient.apply(OpKind::Abs).floor();
  return {s.g, -(s.g * (int_of(s.op, "fmod") ? towards_zero : quotient.floor()))};
}

/// Mod-28: the result has the sign of the divisor by default (defined for integers only in older opsets); with fmod = 1
/// that of the dividend. The texts choose by the attribute, which is a literal there, so that the compiler drops the
/// other branch.
OpDef modulo() {
  OpDef def = pointwise({OpKind::Mod,
                         "Mod",
                         "$fmod ? std::fmod($0, $1) : weft::floor_mod<$T>($0, $1)",
                         REAL(int_of(op, "fmod") ? std::fmod(x[0], x[1]) : real_modulo(x[0], x[1])),
                         "$fmod ? weft::int_rem<$T>($0, $1) : weft::int_mod<$T>($0, $1)",
                         WHOLE(int_modulo(x[0], x[1], int_of(op, "fmod"), dtype)),
                         {flag("fmod", 0)}},
                        2, infer_broadcast);
  def.cost = ScalarCost::Moderate;
  def.gradient = gradient_of_modulo;
  return def;
}

bool infer_celu(const OpView& op, std::vector<TensorType>& results) {
  if (real_of(op.op(), "alpha") == 0) return op.fail("celu-alpha", "'alpha' divides, but is 0");
  return infer_arithmetic(op, results);
}

bool is_float_division(const OpView& op) { return is_float(op.type(0).dtype); }

/// Floating division is linear in the dividend. Integers truncate towards zero, so a sum of quotients differs.
OpDef division() {
  OpDef def = binary({OpKind::Div, "Div", "$0 / $1", REAL(x[0] / x[1]), "weft::int_div<$T>($0, $1)",
                      WHOLE(int_divide(x[0], x[1], dtype))});
  def.cost = ScalarCost::Moderate;
  def.linear = {{0}};
  def.gradient = WEFT_GRADIENT({g / x1, -(g * y / x1)});
  def.is_linear = is_float_division;
  return def;
}

}  // namespace

// Arithmetic.
const OpDef kAdd = derived(
    linear(binary({OpKind::Add, "Add", "$0 + $1", REAL(x[0] + x[1]), nullptr, WHOLE(int_add(x[0], x[1]))}), {{0, 1}}),
    WEFT_GRADIENT({g, g}));
const OpDef kSub =
    derived(linear(binary({OpKind::Sub, "Sub", "$0 - $1", REAL(x[0] - x[1]), nullptr, WHOLE(int_subtract(x[0], x[1]))}),
                   {{0, 1}}),
            WEFT_GRADIENT({g, -g}));
const OpDef kMul =
    derived(linear(binary({OpKind::Mul, "Mul", "$0 * $1", REAL(x[0] * x[1]), nullptr, WHOLE(int_multiply(x[0], x[1]))}),
                   {{0}, {1}}),
            WEFT_GRADIENT({(g * x1), (g * x)}));
const OpDef kNeg =
    derived(linear(unary({OpKind::Neg, "Neg", "-($0)", REAL(-x[0]), nullptr, WHOLE(int_subtract(0, x[0]))}), {{0}}),
            WEFT_GRADIENT({-g}));
const OpDef kDiv = division();
const OpDef kMod = modulo();
const OpDef kPow = power();
const OpDef kMax =
    derived(moderate(variadic(binary({OpKind::Max, "Max", "weft::maximum<$T>($0, $1)", REAL(real_max(x[0], x[1])),
                                      nullptr, WHOLE(int_less(x[0], x[1], dtype) ? x[1] : x[0])}))),
            WEFT_GRADIENT({share(g, x, x1), share(g, x1, x)}));
const OpDef kMin =
    derived(moderate(variadic(binary({OpKind::Min, "Min", "weft::minimum<$T>($0, $1)", REAL(real_min(x[0], x[1])),
                                      nullptr, WHOLE(int_less(x[1], x[0], dtype) ? x[1] : x[0])}))),
            WEFT_GRADIENT({share(g, x1, x), share(g, x, x1)}));
const OpDef kAbs =
    derived(unary({OpKind::Abs, "Abs", "std::fabs($0)", REAL(std::fabs(x[0])), "$0 < $T(0) ? $T(0) - $0 : $0",
                   WHOLE(x[0] < 0 && dtype != DType::U64 ? int_subtract(0, x[0]) : x[0])}),
            WEFT_GRADIENT({g * x.apply(OpKind::Sign)}));
const OpDef kSign =
    without_gradient(unary({OpKind::Sign, "Sign", "$T(($0 > $T(0)) - ($0 < $T(0)))", REAL((x[0] > 0) - (x[0] < 0)),
                            nullptr, WHOLE(int_less(0, x[0], dtype) - int_less(x[0], 0, dtype))}));
const OpDef kReciprocal = derived(moderate(unary({OpKind::Reciprocal, "Reciprocal", "$T(1) / $0", REAL(1 / x[0])})),
                                  WEFT_GRADIENT({-(g * y * y)}));
const OpDef kSqrt = derived(moderate(unary({OpKind::Sqrt, "Sqrt", "std::sqrt($0)", REAL(std::sqrt(x[0]))})),
                            WEFT_GRADIENT({g / (y * 2)}));
const OpDef kIdentity = identity();
const OpDef kNameLength = name_length();
const OpDef kCast = cast();
const OpDef kRoundedCast = rounded_cast();
const OpDef kSaturate = saturate();

// Rounding. Round goes to the nearest even integer.
const OpDef kCeil = without_gradient(unary({OpKind::Ceil, "Ceil", "std::ceil($0)", REAL(std::ceil(x[0]))}));
const OpDef kFloor = without_gradient(unary({OpKind::Floor, "Floor", "std::floor($0)", REAL(std::floor(x[0]))}));
const OpDef kRound =
    without_gradient(unary({OpKind::Round, "Round", "std::nearbyint($0)", REAL(std::nearbyint(x[0]))}));

// Exponential and trigonometric functions.
const OpDef kExp =
    derived(function(unary({OpKind::Exp, "Exp", "weft::exp($0)", REAL(std::exp(x[0]))})), WEFT_GRADIENT({g * y}));
const OpDef kLog =
    derived(function(unary({OpKind::Log, "Log", "weft::log($0)", REAL(std::log(x[0]))})), WEFT_GRADIENT({g / x}));
const OpDef kErf = derived(function(unary({OpKind::Erf, "Erf", "weft::erf($0)", REAL(std::erf(x[0]))})),
                           WEFT_GRADIENT({g * 1.1283791670955126 * (-(x * x)).apply(OpKind::Exp)}));
const OpDef kSin = derived(function(unary({OpKind::Sin, "Sin", "weft::sin($0)", REAL(std::sin(x[0]))})),
                           WEFT_GRADIENT({g * x.apply(OpKind::Cos)}));
const OpDef kCos = derived(function(unary({OpKind::Cos, "Cos", "weft::cos($0)", REAL(std::cos(x[0]))})),
                           WEFT_GRADIENT({-(g * x.apply(OpKind::Sin))}));
const OpDef kTan = derived(function(unary({OpKind::Tan, "Tan", "weft::tan($0)", REAL(std::tan(x[0]))})),
                           WEFT_GRADIENT({g * (y * y + 1)}));
const OpDef kAsin = derived(function(unary({OpKind::Asin, "Asin", "weft::asin($0)", REAL(std::asin(x[0]))})),
                            WEFT_GRADIENT({g / (1 - x * x).apply(OpKind::Sqrt)}));
const OpDef kAcos = derived(function(unary({OpKind::Acos, "Acos", "weft::acos($0)", REAL(std::acos(x[0]))})),
                            WEFT_GRADIENT({-(g / (1 - x * x).apply(OpKind::Sqrt))}));
const OpDef kAtan = derived(function(unary({OpKind::Atan, "Atan", "weft::atan($0)", REAL(std::atan(x[0]))})),
                            WEFT_GRADIENT({g / (x * x + 1)}));
const OpDef kSinh = derived(function(unary({OpKind::Sinh, "Sinh", "weft::sinh($0)", REAL(std::sinh(x[0]))})),
                            WEFT_GRADIENT({g * x.apply(OpKind::Cosh)}));
const OpDef kCosh = derived(function(unary({OpKind::Cosh, "Cosh", "weft::cosh($0)", REAL(std::cosh(x[0]))})),
                            WEFT_GRADIENT({g * x.apply(OpKind::Sinh)}));
const OpDef kTanh = derived(function(unary({OpKind::Tanh, "Tanh", "weft::tanh($0)", REAL(std::tanh(x[0]))})),
                            WEFT_GRADIENT({g * (1 - y * y)}));
const OpDef kAsinh = derived(function(unary({OpKind::Asinh, "Asinh", "weft::asinh($0)", REAL(std::asinh(x[0]))})),
                             WEFT_GRADIENT({g / (x * x + 1).apply(OpKind::Sqrt)}));
const OpDef kAcosh = derived(function(unary({OpKind::Acosh, "Acosh", "weft::acosh($0)", REAL(std::acosh(x[0]))})),
                             WEFT_GRADIENT({g / (x * x - 1).apply(OpKind::Sqrt)}));
const OpDef kAtanh = derived(function(unary({OpKind::Atanh, "Atanh", "weft::atanh($0)", REAL(std::atanh(x[0]))})),
                             WEFT_GRADIENT({g / (1 - x * x)}));

// Activations.
const OpDef kRelu = derived(unary({OpKind::Relu, "Relu", "weft::maximum<$T>($0, $T(0))", REAL(x[0] < 0 ? 0 : x[0]),
                                   nullptr, WHOLE(x[0] < 0 && dtype != DType::U64 ? 0 : x[0])}),
                            WEFT_GRADIENT({(y <= 0).choose(s.zero(), g)}));
const OpDef kSigmoid =
    derived(function(unary({OpKind::Sigmoid, "Sigmoid", "weft::sigmoid($0)", REAL(1 / (1 + std::exp(-x[0])))})),
            WEFT_GRADIENT({g * y * (1 - y)}));
const OpDef kSoftplus =
    derived(function(unary({OpKind::Softplus, "Softplus", "weft::softplus($0)", REAL(softplus(x[0]))})),
            WEFT_GRADIENT({g * x.apply(OpKind::Sigmoid)}));
const OpDef kSoftsign = derived(
    moderate(unary({OpKind::Softsign, "Softsign", "$0 / ($T(1) + std::fabs($0))", REAL(x[0] / (1 + std::fabs(x[0])))})),
    WEFT_GRADIENT({g / ((x.apply(OpKind::Abs) + 1) * (x.apply(OpKind::Abs) + 1))}));
const OpDef kMish = derived(function(unary({OpKind::Mish, "Mish", "$0 * weft::tanh(weft::softplus($0))",
                                            REAL(x[0] * std::tanh(softplus(x[0])))})),
                            gradient_of_mish);
const OpDef kHardSwish =
    derived(moderate(unary({OpKind::HardSwish, "HardSwish",
                            "$0 * weft::maximum<$T>(weft::minimum<$T>($0 / $T(6) + $T(0.5), $T(1)), $T(0))",
                            REAL(x[0] * real_max(0, real_min(1, x[0] / 6 + 0.5)))})),
            WEFT_GRADIENT({(x > -3).choose((x < 3).choose(g * (x / 3 + 0.5), g), s.zero())}));
const OpDef kHardSigmoid =
    derived(moderate(unary({OpKind::HardSigmoid,
                            "HardSigmoid",
                            "weft::maximum<$T>(weft::minimum<$T>($T($alpha) * $0 + $T($beta), $T(1)), $T(0))",
                            REAL(real_max(0, real_min(1, real_of(op, "alpha") * x[0] + real_of(op, "beta")))),
                            nullptr,
                            nullptr,
                            {{"alpha", AttrType::Real, 0.2}, {"beta", AttrType::Real, 0.5}}})),
            WEFT_GRADIENT({(y > 0 && y < 1).choose(g * s.real("alpha"), s.zero())}));
const OpDef kSwish = derived(function(unary({OpKind::Swish,
                                             "Swish",
                                             "$0 * weft::sigmoid($T($alpha) * $0)",
                                             REAL(x[0] / (1 + std::exp(-real_of(op, "alpha") * x[0]))),
                                             nullptr,
                                             nullptr,
                                             {{"alpha", AttrType::Real, 1.0}}})),
                             gradient_of_swish);
const OpDef kElu = derived(function(unary({OpKind::Elu,
                                           "Elu",
                                           "$0 > $T(0) ? $0 : $T($alpha) * (weft::exp($0) - $T(1))",
                                           REAL(elu(x[0], real_of(op, "alpha"))),
                                           nullptr,
                                           nullptr,
                                           {{"alpha", AttrType::Real, 1.0}}})),
                           WEFT_GRADIENT({(x > 0).choose(g, (y + s.real("alpha")) * g)}));
const OpDef kCelu = derived(
    function(pointwise({OpKind::Celu,
                        "Celu",
                        "$0 > $T(0) ? $0 : $T($alpha) * (weft::exp($0 / $T($alpha)) - $T(1))",
                        REAL(x[0] > 0 ? x[0] : real_of(op, "alpha") * (std::exp(x[0] / real_of(op, "alpha")) - 1)),
                        nullptr,
                        nullptr,
                        {{"alpha", AttrType::Real, 1.0}}},
                       1, infer_celu)),
    WEFT_GRADIENT({(x > 0).choose(g, (x / s.real("alpha")).apply(OpKind::Exp) * g)}));
const OpDef kSelu =
    derived(function(unary({OpKind::Selu,
                            "Selu",
                            "$T($gamma) * ($0 > $T(0) ? $0 : $T($alpha) * (weft::exp($0) - $T(1)))",
                            REAL(real_of(op, "gamma") * elu(x[0], real_of(op, "alpha"))),
                            nullptr,
                            nullptr,
                            {{"alpha", AttrType::Real, 1.67326319217681884765625},
                             {"gamma", AttrType::Real, 1.05070102214813232421875}}})),
            WEFT_GRADIENT({(x > 0).choose(g * s.real("gamma"), (y + s.real("gamma") * s.real("alpha")) * g)}));
const OpDef kLeakyRelu = derived(unary({OpKind::LeakyRelu,
                                        "LeakyRelu",
                                        "$0 < $T(0) ? $T($alpha) * $0 : $0",
                                        REAL(x[0] < 0 ? real_of(op, "alpha") * x[0] : x[0]),
                                        nullptr,
                                        nullptr,
                                        {{"alpha", AttrType::Real, 0.01}}}),
                                 WEFT_GRADIENT({(x > 0).choose(g, (g * s.real("alpha")))}));
const OpDef kPRelu =
    derived(binary({OpKind::PRelu, "PRelu", "$0 < $T(0) ? $1 * $0 : $0", REAL(x[0] < 0 ? x[1] * x[0] : x[0]), nullptr,
                    WHOLE(int_less(x[0], 0, dtype) ? int_multiply(x[1], x[0]) : x[0])}),
            WEFT_GRADIENT({(x > 0).choose(g, (g * x1)), (x > 0).choose(s.zero(), (g * x))}));
const OpDef kThresholdedRelu = derived(unary({OpKind::ThresholdedRelu,
                                              "ThresholdedRelu",
                                              "$0 > $T($alpha) ? $0 : $T(0)",
                                              REAL(x[0] > real_of(op, "alpha") ? x[0] : 0),
                                              nullptr,
                                              nullptr,
                                              {{"alpha", AttrType::Real, 1.0}}}),
                                       WEFT_GRADIENT({(x > s.real("alpha")).choose(g, s.zero())}));
const OpDef kShrink = of_integers_too(
    derived(unary({OpKind::Shrink,
                   "Shrink",
                   "$0 < -$T($lambd) ? $0 + $T($bias) : $0 > $T($lambd) ? $0 - $T($bias) : $T(0)",
                   REAL(x[0]<-real_of(op, "lambd") ? x[0] + real_of(op, "bias") : x[0]> real_of(op, "lambd")
                            ? x[0] - real_of(op, "bias")
                            : 0),
                   nullptr,
                   nullptr,
                   {{"bias", AttrType::Real, 0.0}, {"lambd", AttrType::Real, 0.5}}}),
            WEFT_GRADIENT({(x.apply(OpKind::Abs) > s.real("lambd")).choose(g, s.zero())})));

// Comparisons and tests.
const OpDef kEqual =
    strings(compare({OpKind::Equal, "Equal", "$0 == $1", REAL(x[0] == x[1]), nullptr, WHOLE(x[0] == x[1])}));
const OpDef kGreater =
    compare({OpKind::Greater, "Greater", "$0 > $1", REAL(x[0] > x[1]), nullptr, WHOLE(int_less(x[1], x[0], dtype))});
const OpDef kGreaterOrEqual = compare({OpKind::GreaterOrEqual, "GreaterOrEqual", "$0 >= $1", REAL(x[0] >= x[1]),
                                       nullptr, WHOLE(!int_less(x[0], x[1], dtype))});
const OpDef kLess =
    compare({OpKind::Less, "Less", "$0 < $1", REAL(x[0] < x[1]), nullptr, WHOLE(int_less(x[0], x[1], dtype))});
const OpDef kLessOrEqual = compare(
    {OpKind::LessOrEqual, "LessOrEqual", "$0 <= $1", REAL(x[0] <= x[1]), nullptr, WHOLE(!int_less(x[1], x[0], dtype))});
const OpDef kIsNaN = test({OpKind::IsNaN, "IsNaN", "$0 != $0", REAL(std::isnan(x[0]))});
const OpDef kIsInf = test({OpKind::IsInf,
                           "IsInf",
                           "std::isinf($0) && ($0 > $T(0) ? $detect_positive : $detect_negative) != 0",
                           REAL(std::isinf(x[0]) && int_of(op, x[0] > 0 ? "detect_positive" : "detect_negative")),
                           nullptr,
                           nullptr,
                           {flag("detect_negative", 1), flag("detect_positive", 1)}});

// Logic and bits.
const OpDef kAnd = logical({OpKind::And, "And", "$0 && $1", nullptr, nullptr, WHOLE(x[0] && x[1])}, 2);
const OpDef kOr = logical({OpKind::Or, "Or", "$0 || $1", nullptr, nullptr, WHOLE(x[0] || x[1])}, 2);
const OpDef kXor = logical({OpKind::Xor, "Xor", "$0 != $1", nullptr, nullptr, WHOLE(x[0] != x[1])}, 2);
const OpDef kNot = logical({OpKind::Not, "Not", "!($0)", nullptr, nullptr, WHOLE(!x[0])}, 1);
const OpDef kBitwiseAnd = bits({OpKind::BitwiseAnd, "BitwiseAnd", "$0 & $1", nullptr, nullptr, WHOLE(x[0] & x[1])}, 2);
const OpDef kBitwiseOr = bits({OpKind::BitwiseOr, "BitwiseOr", "$0 | $1", nullptr, nullptr, WHOLE(x[0] | x[1])}, 2);
const OpDef kBitwiseXor = bits({OpKind::BitwiseXor, "BitwiseXor", "$0 ^ $1", nullptr, nullptr, WHOLE(x[0] ^ x[1])}, 2);
const OpDef kBitwiseNot = bits({OpKind::BitwiseNot, "BitwiseNot", "~($0)", nullptr, nullptr, WHOLE(~x[0])}, 1);
const OpDef kWhere =
    derived(strings(linear(pointwise({OpKind::Where, "Where", "$0 ? $1 : $2", REAL(x[0] != 0 ? x[1] : x[2]), nullptr,
                                      WHOLE(x[0] ? x[1] : x[2])},
                                     3, infer_select),
                           {{1, 2}})),
            WEFT_GRADIENT({std::nullopt, x.choose(g, s.zero()), x.choose(s.zero(), g)}));

}  // namespace weftc
