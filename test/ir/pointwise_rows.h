// Every pointwise op on a few elements: one table, a row or more for each record, expected values written from ONNX's
// definitions. The reference (test/ir/ops_pointwise_test.cpp) and the kernels (test/backend/pointwise_kernels_test.cpp)
// both have to give them. A record without a row fails by name.
#pragma once
#include <limits>
#include <vector>

#include "ir/string_table.h"
#include "test/ir/ops_test.h"

namespace weftc {

struct PointwiseRow {
  OpKind kind;
  Attrs attrs;  // sorted by name
  std::vector<Tensor> inputs;
  Tensor expected;
};

namespace pointwise {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Operands and results of one dimension: f32, i64 and bool.
inline Tensor real(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return reals({n}, std::move(values));
}
inline Tensor whole(std::vector<int64_t> values, DType dtype = DType::I64) {
  const auto n = static_cast<int64_t>(values.size());
  return ints({n}, std::move(values), dtype);
}
inline Tensor words(const std::vector<std::string>& strings) {
  std::vector<int64_t> ids;
  for (const std::string& string : strings) ids.push_back(string_id(string));
  return whole(std::move(ids), DType::String);
}
inline Tensor truth(std::vector<int64_t> values) { return whole(std::move(values), DType::Bool); }

// One line a row, so that a row is found and added by its name.
// clang-format off

/// Arithmetic.
inline std::vector<PointwiseRow> arithmetic_rows() {
  return {
    {OpKind::Add, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({9.0, -5.0, -3.5})},
    {OpKind::Sub, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({5.0, -9.0, 4.5})},
    {OpKind::Mul, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({14.0, -14.0, -2.0})},
    {OpKind::Div, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({3.5, -3.5, -0.125})},
    {OpKind::Max, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({7.0, 2.0, 0.5})},
    {OpKind::Min, {}, {real({7, -7, 0.5}), real({2, 2, -4})}, real({2.0, -7.0, -4.0})},
    {OpKind::Add, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({9, -5, 5})},
    {OpKind::NameLength, {{"name", "n"}}, {whole({5})}, whole({5})},
    {OpKind::Sub, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({5, -9, 13})},
    {OpKind::Mul, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({14, -14, -36})},
    {OpKind::Div, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({3, -3, -2})},
    {OpKind::Max, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({7, 2, 9})},
    {OpKind::Min, {}, {whole({7, -7, 9}), whole({2, 2, -4})}, whole({2, -7, -4})},
    // Mod has the sign of the divisor; with fmod, as in C, of the dividend.
    {OpKind::Mod, {}, {whole({7, -7, 7}), whole({3, 3, -3})}, whole({1, 2, -2})},
    {OpKind::Mod, {{"fmod", int64_t{1}}}, {whole({7, -7, 7}), whole({3, 3, -3})}, whole({1, -1, 1})},
    {OpKind::Mod, {{"fmod", int64_t{1}}}, {real({5.5, -5.5}), real({2, 2})}, real({1.5, -1.5})},
    {OpKind::Mod, {}, {real({5.5, -5.5, 5.5, -5.5, -3, kInfinity}), real({2, 2, -2, -2, kInfinity, 2})}, real({1.5, 0.5, -0.5, -1.5, kInfinity, kNaN})},
    {OpKind::Mod, {}, {real({2, 3, -kInfinity, 0, kNaN}), real({kInfinity, -kInfinity, 1, 0, 1})}, real({2, -kInfinity, kNaN, kNaN, kNaN})},
    {OpKind::Pow, {}, {real({2, 9, 4}), real({10, 0.5, -1})}, real({1024, 3, 0.25})},
    {OpKind::Pow, {}, {whole({2, -3}), whole({10, 3})}, whole({1024, -27})},
    {OpKind::Pow, {}, {whole({9, 10, -10}), real({0.5, 30, 31})}, whole({3, INT64_MAX, INT64_MIN})},
    {OpKind::Neg, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({2.0, 0.5, -0.0, -0.5, -3.0})},
    {OpKind::Abs, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({2.0, 0.5, 0.0, 0.5, 3.0})},
    {OpKind::Sign, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.0, -1.0, 0.0, 1.0, 1.0})},
    {OpKind::Reciprocal, {}, {real({-2, 0.5, 4})}, real({-0.5, 2.0, 0.25})},
    {OpKind::Sqrt, {}, {real({0.25, 1, 2, 9})}, real({0.5, 1.0, 1.4142135623730951, 3.0})},
    {OpKind::Identity, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-2.0, -0.5, 0.0, 0.5, 3.0})},
    {OpKind::Abs, {}, {whole({-3, 0, 4})}, whole({3, 0, 4})},
    {OpKind::Cast, {{"to", dtype_attr(DType::I64)}}, {real({-1.5, 0.5, 2.9})}, whole({-1, 0, 2})},
    {OpKind::Cast, {{"to", dtype_attr(DType::Bool)}}, {real({-1.5, 0, 2})}, truth({1, 0, 1})},
    {OpKind::Cast, {{"to", dtype_attr(DType::I4)}}, {real({9.7, -9, -8.6, 7})}, whole({-7, 7, -8, 7}, DType::I4)},
    {OpKind::Cast, {{"to", dtype_attr(DType::I8)}}, {whole({-2, 1}, DType::I2)}, whole({-2, 1}, DType::I8)},
    {OpKind::Cast, {{"to", dtype_attr(DType::F4E2M1)}}, {real({2.5, 3.5, -9, 0.25, 0.75})}, reals({5}, {2, 4, -6, 0, 1}, DType::F4E2M1)},
    {OpKind::Cast, {{"to", dtype_attr(DType::F6E2M3)}}, {real({1.0625, 1.1875, -9, 0.1, 7.4})}, reals({5}, {1, 1.25, -7.5, 0.125, 7.5}, DType::F6E2M3)},
    {OpKind::Cast, {{"to", dtype_attr(DType::F6E3M2)}}, {real({1.125, 1.375, -40, 0.04, kInfinity})}, reals({5}, {1, 1.5, -28, 0.0625, 28}, DType::F6E3M2)},
    {OpKind::Cast, {{"to", dtype_attr(DType::F8E4M3FN)}}, {real({kInfinity, 464, -1000, 0.0009765625})}, reals({4}, {448, 448, -448, 0}, DType::F8E4M3FN)},
    {OpKind::Cast, {{"to", dtype_attr(DType::F32)}}, {reals({2}, {0.001953125, kNaN}, DType::F8E4M3FNUZ)}, real({0.001953125, kNaN})},
    {OpKind::RoundedCast, {{"saturate", int64_t{0}}, {"to", dtype_attr(DType::F8E5M2)}}, {real({kInfinity, 57344, -70000, kNaN})}, reals({4}, {kInfinity, 57344, -kInfinity, kNaN}, DType::F8E5M2)},
    {OpKind::RoundedCast, {{"saturate", int64_t{0}}, {"to", dtype_attr(DType::F8E4M3FN)}}, {real({500, -448, 18, 17})}, reals({4}, {kNaN, -448, 18, 16}, DType::F8E4M3FN)},
    {OpKind::RoundedCast, {{"direction", int64_t{1}}, {"to", dtype_attr(DType::F8E8M0)}}, {real({1, 3, 1e-45})}, reals({3}, {1, 2, 0x1p-127}, DType::F8E8M0)},
    {OpKind::RoundedCast, {{"direction", int64_t{2}}, {"saturate", int64_t{0}}, {"to", dtype_attr(DType::F8E8M0)}}, {real({2.9, 3, 0})}, reals({3}, {2, 4, kNaN}, DType::F8E8M0)},
    {OpKind::Saturate, {{"to", dtype_attr(DType::U8)}}, {real({-3, 254, 300, kNaN})}, whole({0, 254, 255, 0}, DType::U8)},
    {OpKind::Saturate, {{"to", dtype_attr(DType::I32)}}, {real({-3e9, -1.5, 3e9, kNaN})}, whole({INT32_MIN, -1, INT32_MAX, INT32_MIN}, DType::I32)},
    {OpKind::Saturate, {{"to", dtype_attr(DType::U32)}}, {real({-1, 1.5, 3e9, 5e9})}, whole({0, 1, 3000000000, 4294967295}, DType::U32)},
    {OpKind::Saturate, {{"to", dtype_attr(DType::I64)}}, {real({-1e19, -1.5, 1e19})}, whole({INT64_MIN, -1, INT64_MAX})},
    {OpKind::Saturate, {{"to", dtype_attr(DType::I4)}}, {real({-9, -8, 7, 8})}, whole({-8, -8, 7, 7}, DType::I4)},
  };
}

/// Rounding; Round takes halves to the even neighbour.
inline std::vector<PointwiseRow> rounding_rows() {
  return {
    {OpKind::Ceil, {}, {real({-1.5, -0.5, 0.4, 0.5, 2.5})}, real({-1.0, 0.0, 1.0, 1.0, 3.0})},
    {OpKind::Floor, {}, {real({-1.5, -0.5, 0.4, 0.5, 2.5})}, real({-2.0, -1.0, 0.0, 0.0, 2.0})},
    {OpKind::Round, {}, {real({-1.5, -0.5, 0.4, 0.5, 2.5})}, real({-2.0, 0.0, 0.0, 0.0, 2.0})},
  };
}

/// Exponential and trigonometric functions.
inline std::vector<PointwiseRow> function_rows() {
  return {
    {OpKind::Exp, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.1353352832366127, 0.6065306597126334, 1.0, 1.6487212707001282, 20.085536923187668})},
    {OpKind::Log, {}, {real({0.25, 1, 2, 9})}, real({-1.3862943611198906, 0.0, 0.6931471805599453, 2.1972245773362196})},
    {OpKind::Erf, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.9953222650189527, -0.5204998778130465, 0.0, 0.5204998778130465, 0.9999779095030014})},
    {OpKind::Sin, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.9092974268256817, -0.479425538604203, 0.0, 0.479425538604203, 0.1411200080598672})},
    {OpKind::Cos, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.4161468365471424, 0.8775825618903728, 1.0, 0.8775825618903728, -0.9899924966004454})},
    {OpKind::Tan, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({2.185039863261519, -0.5463024898437905, 0.0, 0.5463024898437905, -0.1425465430742778})},
    {OpKind::Sinh, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-3.626860407847019, -0.5210953054937474, 0.0, 0.5210953054937474, 10.017874927409903})},
    {OpKind::Cosh, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({3.7621956910836314, 1.1276259652063807, 1.0, 1.1276259652063807, 10.067661995777765})},
    {OpKind::Tanh, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.9640275800758169, -0.46211715726000974, 0.0, 0.46211715726000974, 0.9950547536867305})},
    {OpKind::Atan, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.1071487177940904, -0.4636476090008061, 0.0, 0.4636476090008061, 1.2490457723982544})},
    {OpKind::Asinh, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.4436354751788103, -0.48121182505960347, 0.0, 0.48121182505960347, 1.8184464592320668})},
    {OpKind::Asin, {}, {real({-0.9, -0.5, 0, 0.5, 0.9})}, real({-1.1197695149986342, -0.5235987755982989, 0.0, 0.5235987755982989, 1.1197695149986342})},
    {OpKind::Acos, {}, {real({-0.9, -0.5, 0, 0.5, 0.9})}, real({2.6905658417935308, 2.0943951023931957, 1.5707963267948966, 1.0471975511965979, 0.45102681179626236})},
    {OpKind::Atanh, {}, {real({-0.9, -0.5, 0, 0.5, 0.9})}, real({-1.4722194895832204, -0.5493061443340548, 0.0, 0.5493061443340548, 1.4722194895832204})},
    {OpKind::Acosh, {}, {real({1, 1.5, 4})}, real({0.0, 0.9624236501192069, 2.0634370688955608})},
  };
}

/// Activations, with their default attributes and, where they have any, with others.
inline std::vector<PointwiseRow> activation_rows() {
  return {
    {OpKind::Relu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.0, 0.0, 0.0, 0.5, 3.0})},
    {OpKind::Sigmoid, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.11920292202211755, 0.3775406687981454, 0.5, 0.6224593312018546, 0.9525741268224334})},
    {OpKind::Softplus, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.1269280110429726, 0.4740769841801067, 0.6931471805599453, 0.9740769841801067, 3.048587351573742})},
    {OpKind::Softsign, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.6666666666666666, -0.3333333333333333, 0.0, 0.3333333333333333, 0.75})},
    {OpKind::Mish, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.2525014826957091, -0.22074377465173, 0.0, 0.3752452113048951, 2.9865350049679575})},
    {OpKind::HardSwish, {}, {real({-4, -1, 0, 1, 4})}, real({-0.0, -0.33333333333333337, 0.0, 0.6666666666666666, 4.0})},
    {OpKind::HardSigmoid, {}, {real({-4, -1, 0, 1, 4})}, real({0.0, 0.3, 0.5, 0.7, 1.0})},
    {OpKind::HardSigmoid, {{"alpha", 0.5}, {"beta", 0.25}}, {real({-4, -1, 0, 1, 4})}, real({0.0, 0.0, 0.25, 0.75, 1.0})},
    {OpKind::Swish, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.2384058440442351, -0.1887703343990727, 0.0, 0.3112296656009273, 2.8577223804673})},
    {OpKind::Swish, {{"alpha", 2.0}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.03597241992418312, -0.13447071068499755, 0.0, 0.36552928931500245, 2.992582130530096})},
    {OpKind::Elu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.8646647167633873, -0.3934693402873666, 0.0, 0.5, 3.0})},
    {OpKind::Elu, {{"alpha", 2.0}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.7293294335267746, -0.7869386805747332, 0.0, 0.5, 3.0})},
    {OpKind::Celu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.8646647167633873, -0.3934693402873666, 0.0, 0.5, 3.0})},
    {OpKind::Celu, {{"alpha", 2.0}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.2642411176571153, -0.44239843385719024, 0.0, 0.5, 3.0})},
    {OpKind::Selu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.5201664733475926, -0.6917581899652426, 0.0, 0.5253505110740662, 3.152103066444397})},
    {OpKind::Selu, {{"alpha", 2.0}, {"gamma", 3.0}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-5.187988300580324, -2.3608160417241995, 0.0, 1.5, 9.0})},
    {OpKind::LeakyRelu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-0.02, -0.005, 0.0, 0.5, 3.0})},
    {OpKind::LeakyRelu, {{"alpha", 0.5}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.0, -0.25, 0.0, 0.5, 3.0})},
    {OpKind::PRelu, {}, {real({-2, -1, 3}), real({0.5, 2, 5})}, real({-1, -2, 3})},
    {OpKind::ThresholdedRelu, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.0, 0.0, 0.0, 0.0, 3.0})},
    {OpKind::ThresholdedRelu, {{"alpha", 0.25}}, {real({-2, -0.5, 0, 0.5, 3})}, real({0.0, 0.0, 0.0, 0.5, 3.0})},
    {OpKind::Shrink, {}, {real({-2, -0.5, 0, 0.5, 3})}, real({-2.0, 0.0, 0.0, 0.0, 3.0})},
    {OpKind::Shrink, {{"bias", 0.25}, {"lambd", 1.0}}, {real({-2, -0.5, 0, 0.5, 3})}, real({-1.75, 0.0, 0.0, 0.0, 2.75})},
  };
}

/// Comparisons and tests: NaN equals nothing.
inline std::vector<PointwiseRow> comparison_rows() {
  return {
    {OpKind::Equal, {}, {real({1, 2, 3, kNaN}), real({2, 2, 2, kNaN})}, truth({0, 1, 0, 0})},
    {OpKind::Equal, {}, {whole({1, 2, 3}), whole({2, 2, 2})}, truth({0, 1, 0})},
    {OpKind::Greater, {}, {real({1, 2, 3, kNaN}), real({2, 2, 2, kNaN})}, truth({0, 0, 1, 0})},
    {OpKind::Greater, {}, {whole({1, 2, 3}), whole({2, 2, 2})}, truth({0, 0, 1})},
    {OpKind::GreaterOrEqual, {}, {real({1, 2, 3, kNaN}), real({2, 2, 2, kNaN})}, truth({0, 1, 1, 0})},
    {OpKind::GreaterOrEqual, {}, {whole({1, 2, 3}), whole({2, 2, 2})}, truth({0, 1, 1})},
    {OpKind::Less, {}, {real({1, 2, 3, kNaN}), real({2, 2, 2, kNaN})}, truth({1, 0, 0, 0})},
    {OpKind::Less, {}, {whole({1, 2, 3}), whole({2, 2, 2})}, truth({1, 0, 0})},
    {OpKind::LessOrEqual, {}, {real({1, 2, 3, kNaN}), real({2, 2, 2, kNaN})}, truth({1, 1, 0, 0})},
    {OpKind::LessOrEqual, {}, {whole({1, 2, 3}), whole({2, 2, 2})}, truth({1, 1, 0})},
    {OpKind::IsNaN, {}, {real({1, kNaN, kInfinity})}, truth({0, 1, 0})},
    {OpKind::IsInf, {}, {real({1, kInfinity, -kInfinity, kNaN})}, truth({0, 1, 1, 0})},
    {OpKind::IsInf, {{"detect_negative", int64_t{0}}}, {real({kInfinity, -kInfinity})}, truth({1, 0})},
  };
}

/// Logic, bits, selection.
inline std::vector<PointwiseRow> selection_rows() {
  return {
    {OpKind::And, {}, {truth({0, 0, 1, 1}), truth({0, 1, 0, 1})}, truth({0, 0, 0, 1})},
    {OpKind::Or, {}, {truth({0, 0, 1, 1}), truth({0, 1, 0, 1})}, truth({0, 1, 1, 1})},
    {OpKind::Xor, {}, {truth({0, 0, 1, 1}), truth({0, 1, 0, 1})}, truth({0, 1, 1, 0})},
    {OpKind::Not, {}, {truth({0, 1})}, truth({1, 0})},
    {OpKind::BitwiseAnd, {}, {whole({12, -1}), whole({10, 0})}, whole({8, 0})},
    {OpKind::BitwiseOr, {}, {whole({12, -1}), whole({10, 0})}, whole({14, -1})},
    {OpKind::BitwiseXor, {}, {whole({12, -1}), whole({10, 0})}, whole({6, -1})},
    {OpKind::BitShift, {{"direction", std::string("RIGHT")}}, {whole({192, 3}, DType::U8), whole({6, 9}, DType::U8)}, whole({3, 0}, DType::U8)},
    {OpKind::BitShift, {{"direction", std::string("LEFT")}, {"left", int64_t{1}}}, {whole({255, 3}, DType::U8), whole({4, 8}, DType::U8)}, whole({240, 0}, DType::U8)},
    // To the right copies of the sign follow; a negative number, or one of all bits or more, shifts all of them.
    {OpKind::BitShift, {{"direction", std::string("RIGHT")}}, {whole({-128, 127, -3, -3, 3}, DType::I8), whole({2, 2, 8, -1, -1}, DType::I8)}, whole({-32, 31, -1, -1, 0}, DType::I8)},
    {OpKind::BitShift, {{"direction", std::string("RIGHT")}}, {whole({-64, 64, -3, 3}), whole({3, 3, -2, 64})}, whole({-8, 8, -1, 0})},
    {OpKind::BitShift, {{"direction", std::string("RIGHT")}}, {whole({-64, 64, -3, 3}, DType::I32), whole({3, 3, 32, -2}, DType::I32)}, whole({-8, 8, -1, 0}, DType::I32)},
    {OpKind::BitShift, {{"direction", std::string("LEFT")}, {"left", int64_t{1}}}, {whole({64, -3, 1, 5}, DType::I8), whole({1, 2, 8, -1}, DType::I8)}, whole({-128, -12, 0, 0}, DType::I8)},
    {OpKind::BitShift, {{"direction", std::string("LEFT")}, {"left", int64_t{1}}}, {whole({3, -3, 7}, DType::I32), whole({31, 2, 32}, DType::I32)}, whole({-2147483648LL, -12, 0}, DType::I32)},
    {OpKind::BitCast, {{"to", dtype_attr(DType::I32)}}, {real({1, -2})}, whole({0x3f800000, -0x40000000}, DType::I32)},
    {OpKind::BitCast, {{"to", dtype_attr(DType::F32)}}, {whole({0x40490fdb}, DType::I32)}, real({3.14159274})},
    {OpKind::BitCast, {{"to", dtype_attr(DType::U16)}}, {reals({2}, {1, -0.5}, DType::F16)}, whole({0x3c00, 0xb800}, DType::U16)},
    {OpKind::BitCast, {{"to", dtype_attr(DType::BF16)}}, {whole({0x3fc0}, DType::U16)}, reals({1}, {1.5}, DType::BF16)},
    {OpKind::BitwiseNot, {}, {whole({0, 5, -1})}, whole({-1, -6, 0})},
    {OpKind::Where, {}, {truth({1, 0, 1}), real({1, 2, 3}), real({-1, -2, -3})}, real({1, -2, 3})},
  };
}

/// Strings. Pieces between white space leave out empty ones; a number's text is NumPy's.
inline std::vector<PointwiseRow> string_rows() {
  return {
    {OpKind::Equal, {}, {words({"a", "", "b", "\xc3\xa9"}), words({"a", "", "B", "e"})}, truth({1, 1, 0, 0})},
    {OpKind::Where, {}, {truth({1, 0}), words({"a", "b"}), words({"c", "d"})}, words({"a", "d"})},
    {OpKind::StringConcat, {}, {words({"a", "", "\xe4\xbd\xa0"}), words({"b", "c", "\xe5\xa5\xbd"})}, words({"ab", "c", "\xe4\xbd\xa0\xe5\xa5\xbd"})},
    {OpKind::PieceCount, {}, {words({"a.b", ".", "", "a"}), words({"."}), whole({-1})}, whole({2, 2, 1, 1})},
    {OpKind::PieceCount, {}, {words({" a  b ", "", "  ", "a"}), words({""}), whole({-1})}, whole({2, 0, 0, 1})},
    {OpKind::PieceCount, {}, {words({"a-b-c", "a b c"}), words({"-", ""}), whole({1})}, whole({2, 2})},
    {OpKind::Piece, {}, {words({"a.b", "a..b", "a", "."}), whole({1}), words({"."}), whole({-1})}, words({"b", "", "", ""})},
    {OpKind::Piece, {}, {words({"  a  b c ", "a"}), whole({1}), words({""}), whole({1})}, words({"b c", ""})},
    {OpKind::NumberToString, {}, {real({0.1, 1, 1e-5, 123456789, 1e16, -0.0, kInfinity, kNaN})}, words({"0.1", "1.0", "1e-05", "123456790.0", "1e+16", "-0.0", "inf", "nan"})},
    {OpKind::NumberToString, {}, {reals({3}, {0.1, 123456789, 1.5e-7}, DType::F64)}, words({"0.1", "123456789.0", "1.5e-07"})},
    {OpKind::NumberToString, {}, {whole({-7, INT64_MIN})}, words({"-7", "-9223372036854775808"})},
    {OpKind::NumberToString, {}, {whole({-1}, DType::U64)}, words({"18446744073709551615"})},
    {OpKind::NumberToString, {}, {whole({255, 0}, DType::U8)}, words({"255", "0"})},
    {OpKind::StringToNumber, {{"to", dtype_attr(DType::F32)}}, {words({"3.14", "1000", "1e-5", "1E8", "+INF", "-inf", "nAn", "-.5"})}, real({3.14, 1000, 1e-5, 1e8, kInfinity, -kInfinity, kNaN, -0.5})},
    {OpKind::StringToNumber, {{"to", dtype_attr(DType::I64)}}, {words({"-9223372036854775808", "100.5", "+7"})}, whole({INT64_MIN, 100, 7})},
    {OpKind::StringToNumber, {{"to", dtype_attr(DType::U64)}}, {words({"18446744073709551615"})}, whole({-1}, DType::U64)},
  };
}

// clang-format on

}  // namespace pointwise

/// All of them.
inline const std::vector<PointwiseRow>& pointwise_rows() {
  using namespace pointwise;
  static const std::vector<PointwiseRow> kRows = [] {
    std::vector<PointwiseRow> all;
    for (const auto rows :
         {arithmetic_rows, rounding_rows, function_rows, activation_rows, comparison_rows, selection_rows, string_rows})
      for (PointwiseRow& row : rows()) all.push_back(std::move(row));
    return all;
  }();
  return kRows;
}

}  // namespace weftc
