// Initializers and tensor attributes of the ONNX text syntax.
#include <cstring>

#include "frontend/onnx_text.h"
#include "frontend/onnx_text_parser.h"
#include "frontend/tensor_bytes.h"
#include "ir/string_table.h"
#include "ir/tensor.h"

namespace weftc {

static constexpr int64_t kMostRandom = int64_t{1} << 30;

double random_weight(uint32_t seed, uint64_t index, double scale) {
  uint32_t counter[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0};
  uint32_t key[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    std::memcpy(counter, next, sizeof counter);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return (counter[0] >> 8) * 0x1p-24 * 2 * scale - scale;
}

/// ONNX stores a float; rounding here makes both forms of a model equal. Functions of the compiler have one form.
double OnnxTextParser::attr_real() {
  const double given = real("a number");
  return is_own_ ? given : static_cast<double>(static_cast<float>(given));
}

/// One element; integers must fit the element type.
void OnnxTextParser::element(std::vector<double>& reals, std::vector<int64_t>& ints, DType dtype) {
  if (is_float(dtype)) {
    reals.push_back(real("a number"));
    return;
  }
  if (dtype == DType::Bool && (is_name("true") || is_name("false"))) {
    ints.push_back(take().text == "true");
    return;
  }
  const TextToken at = token();
  if (dtype == DType::String) {
    const std::string string = text("a string");
    if (const std::string why = why_no_element(string); !why.empty())
      fail("model-text-string", at, "the string " + why);
    ints.push_back(string_id(string));
    return;
  }
  const int64_t value = whole("an integer");
  // A 64-bit unsigned value above 2^63 cannot be written.
  const bool fits = dtype == DType::U64 ? value >= 0 : wrap(dtype, value) == value;
  if (!fits) fail("model-text-range", at, format("'{}' does not fit {}", value, dtype_name(dtype)));
  ints.push_back(value);
}

/// { values } in row-major order, as many as the shape has.
void OnnxTextParser::elements(OnnxTensor& tensor, DType dtype, const TextToken& at) {
  Tensor values;
  values.dtype = dtype;
  if (!token().is("}")) {
    do element(values.real, values.integers, dtype);
    while (eat(","));
  }
  expect("}", "after the values");
  const size_t given = is_float(dtype) ? values.real.size() : values.integers.size();
  const std::optional<int64_t> needed = checked_count(tensor.dims);
  if (!needed || static_cast<int64_t>(given) != *needed)
    fail("model-text-count", at, format("{} values are given for shape {}", given, dims_text(tensor.dims)));
  values.dims = tensor.dims;
  for (double& value : values.real) value = round_to(dtype, value);
  tensor.bytes = model_.keep(packed_as_in_files(dtype, tensor_to_bytes(values)));
}

/// random(seed, scale): weights without a file, the same on every machine (README.md gives the formula).
void OnnxTextParser::random(OnnxTensor& tensor, DType dtype) {
  const TextToken at = take();
  expect("(", "after random");
  const int64_t seed = whole("a seed");
  expect(",", "after the seed");
  const double scale = real("a scale");
  expect(")", "after the scale");
  const std::optional<int64_t> count = checked_count(tensor.dims);
  if (!count || *count > kMostRandom || !is_float(dtype) || seed < 0 || seed > UINT32_MAX ||
      !(scale >= 0 && scale <= 1e30))
    fail("model-text-random", at,
         "random(seed, scale) makes at most 2^30 elements of a floating type; a seed is 0 to 2^32-1, "
         "a scale 0 or more");
  const size_t width = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(*count) * width);
  Tensor one(dtype, {});
  for (int64_t i = 0; i < *count; ++i) {
    const double value = random_weight(static_cast<uint32_t>(seed), static_cast<uint64_t>(i), scale);
    std::byte* to = bytes.data() + static_cast<size_t>(i) * width;
    if (dtype == DType::F32) {
      const float single = static_cast<float>(value);
      std::memcpy(to, &single, width);
    } else {
      one.put(0, value);
      std::memcpy(to, tensor_to_bytes(one).data(), width);
    }
  }
  tensor.bytes = model_.keep(packed_as_in_files(dtype, std::move(bytes)));
}

/// = ["location": "weights.bin", "offset": "0", "length": "4096"]
void OnnxTextParser::external(OnnxTensor& tensor) {
  tensor.external.emplace();
  do {
    const TextToken at = token();
    const std::string key = text("a key such as \"location\"");
    expect(":", "after the key");
    const std::string value = text("a value");
    if (key == "location")
      tensor.external->location = value;
    else if (key == "offset")
      tensor.external->offset = value;
    else if (key == "length")
      tensor.external->length = value;
    else if (key != "checksum")
      fail("model-text-external", at,
           "external data has location, offset, length and checksum, not '" + printable(key) + "'");
  } while (eat(","));
  expect("]", "after the external data");
}

/// The value of an initialiser after `=`: values, external data or random.
OnnxTensor OnnxTextParser::initialiser(const OnnxValue& type, const TextToken& at) {
  OnnxTensor tensor;
  tensor.name = type.name;
  tensor.element_type = type.element_type;
  tensor.loc = loc(at);
  const std::optional<DType> dtype = dtype_of_element_type(type.element_type);
  if (!type.other_type.empty() || !type.form.is_tensor() || !type.dims || !dtype)
    fail("model-text-initializer", at, "an initializer is a tensor of a supported element type and of fixed shape");
  for (const OnnxDim& dim : *type.dims) {
    if (dim.kind != OnnxDim::Kind::Fixed)
      fail("model-text-initializer-dims", at, "the extents of an initializer are numbers");
    tensor.dims.push_back(dim.extent);
  }
  if (eat("{"))
    elements(tensor, *dtype, at);
  else if (eat("["))
    external(tensor);
  else if (is_name("random") && token(1).is("("))
    random(tensor, *dtype);
  else
    unexpected("values in '{ }', external data in '[ ]' or random(seed, scale)");
  return tensor;
}

OnnxTensor OnnxTextParser::attr_tensor() {
  const TextToken at = token();
  OnnxValue type = value_type();
  if (at_id() && !(is_name("random") && token(1).is("("))) type.name = take().text;
  eat("=");
  return initialiser(type, at);
}

}  // namespace weftc
