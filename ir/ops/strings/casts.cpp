// Numbers as strings and back: the parts of a Cast to or from strings. The text of a number is NumPy's, the fewest
// digits that read back as the same number of its type.
#include "ir/ops/strings/casts.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

/// A finite number: its digits, the first one not 0, and the power of ten of the first digit.
struct Digits {
  std::string digits;
  int exponent;
};
Digits digits_of(double magnitude, DType dtype) {
  char text[40];
  for (int after = 0; after <= 17; ++after) {
    std::snprintf(text, sizeof text, "%.*e", after, magnitude);
    const bool is_same = dtype == DType::F32 ? std::strtof(text, nullptr) == static_cast<float>(magnitude)
                                             : std::strtod(text, nullptr) == magnitude;
    if (is_same) break;
  }
  const std::string_view written = text;
  const size_t mark = written.find('e');
  std::string digits(written.substr(0, 1));
  if (mark > 2) digits += written.substr(2, mark - 2);
  return {digits, std::atoi(text + mark + 1)};
}

std::string real_text(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  if (value == 0) return sign + "0.0";
  const auto [digits, exponent] = digits_of(std::fabs(value), dtype);
  if (exponent < -4 || exponent >= 16) {
    char power[8];
    std::snprintf(power, sizeof power, "e%+03d", exponent);
    return sign + digits[0] + (digits.size() > 1 ? "." + digits.substr(1) : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  std::string all = digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (all.size() <= whole) all.resize(whole + 1, '0');
  return sign + all.substr(0, whole) + "." + all.substr(whole);
}

std::string text_of_element(const Tensor& x, int64_t i) {
  if (x.is_real()) return real_text(x.real[i], x.dtype);
  return x.dtype == DType::U64 ? std::to_string(static_cast<uint64_t>(x.integers[i])) : std::to_string(x.integers[i]);
}

void eval_to_string(EvalContext& context) {
  Tensor result(DType::String, context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i) result.integers[i] = string_id(text_of_element(context.in(0), i));
  context.results[0] = std::move(result);
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

/// Nothing if the whole text is not a number.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

std::optional<double> real_in(const std::string& text) {
  const std::string word = lower(text);
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf" || word == "+inf") return HUGE_VAL;
  if (word == "-inf") return -HUGE_VAL;
  if (text.find_first_not_of("+-.0123456789eE") != std::string::npos) return {};
  return number_in<double>(text);
}

/// An integer, or a real number truncated.
std::optional<int64_t> integer_in(const std::string& text, DType dtype) {
  if (dtype == DType::U64)
    if (const auto whole = number_in<uint64_t>(text)) return static_cast<int64_t>(*whole);
  if (dtype != DType::U64)
    if (const auto whole = number_in<int64_t>(text)) return whole;
  const std::optional<double> real = real_in(text);
  if (!real) return {};
  const double value = std::trunc(*real);
  if (dtype == DType::U64 && value >= 0 && value < 0x1p64) return static_cast<int64_t>(static_cast<uint64_t>(value));
  if (dtype != DType::U64 && value >= -0x1p63 && value < 0x1p63) return static_cast<int64_t>(value);
  return {};
}

void eval_to_number(EvalContext& context) {
  Tensor result(context.result_dtypes[0], context.result_dims[0]);
  for (int64_t i = 0; i < result.size(); ++i) {
    const std::string& text = string_of(context.in(0).integers[i]);
    const std::optional<double> real = result.is_real() ? real_in(text) : std::nullopt;
    const std::optional<int64_t> whole = result.is_real() ? std::nullopt : integer_in(text, result.dtype);
    context.is_refused |= !real && !whole;
    if (real) result.real[i] = round_to(result.dtype, *real);
    if (whole) result.put_int(i, *whole);
  }
  context.results[0] = std::move(result);
}

OpDef number_to_string() {
  OpDef def = string_function(OpKind::NumberToString, "NumberToString", 1, "weft::number_to_string($0)", nullptr,
                              [](const OpView& op, std::vector<TensorType>& results) {
                                results = {{DType::String, op.type(0).shape, {}}};
                                return has_text_form(op, op.type(0).dtype);
                              });
  def.eval = eval_string_cast;
  return def;
}

OpDef string_to_number() {
  OpDef def = string_function(OpKind::StringToNumber, "StringToNumber", 1, "weft::string_to_number<$R>($0)", nullptr,
                              [](const OpView& op, std::vector<TensorType>& results) {
                                const DType to = dtype_of_attr(int_of(op.op(), "to"));
                                results = {{to, op.type(0).shape, {}}};
                                return is_string_operand(op, 0) && has_text_form(op, to);
                              });
  def.attrs = {{"to", AttrType::Int, {}, true}};
  def.eval = eval_string_cast;
  return def;
}

}  // namespace

bool has_text_form(const OpView& op, DType dtype) {
  const bool is_wide =
      is_float(dtype) ? dtype == DType::F32 || dtype == DType::F64 : is_integer(dtype) && !is_small_int(dtype);
  return is_wide ||
         op.fail("cast-string-unsupported", "a cast between strings and {} is not supported", dtype_name(dtype));
}

void eval_string_cast(EvalContext& context) {
  return context.in(0).dtype == DType::String ? eval_to_number(context) : eval_to_string(context);
}

const OpDef kNumberToString = number_to_string();
const OpDef kStringToNumber = string_to_number();

}  // namespace weftc
