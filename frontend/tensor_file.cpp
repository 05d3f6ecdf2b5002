// Reads .npy files and serialized TensorProtos into tensors, for --bind and for comparisons.
#include "frontend/tensor_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "frontend/mapped_file.h"
#include "frontend/onnx_proto.h"
#include "frontend/tensor_bytes.h"
#include "ir/base/utf8.h"
#include "ir/string_table.h"

namespace weftc {

namespace {

/// NumPy's name of an element type, little endian. bfloat16 and the types after bool have no such name. Their bits are
/// read if the caller expects them (`read_as`); numpy.save writes arrays of ml_dtypes as two bytes without a type.
struct NpyType {
  const char* descr;
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {
    {"<f4", DType::F32},        {"<f8", DType::F64},    {"<f2", DType::F16},        {"|i1", DType::I8},
    {"<i2", DType::I16},        {"<i4", DType::I32},    {"<i8", DType::I64},        {"|u1", DType::U8},
    {"<u2", DType::U16},        {"<u4", DType::U32},    {"<u8", DType::U64},        {"|b1", DType::Bool},
    {"<u2", DType::BF16},       {"<V2", DType::BF16},   {"|V2", DType::BF16},       {"|i1", DType::I4},
    {"|i1", DType::I2},         {"|u1", DType::U4},     {"|u1", DType::U2},         {"|u1", DType::F8E4M3FN},
    {"|u1", DType::F8E4M3FNUZ}, {"|u1", DType::F8E5M2}, {"|u1", DType::F8E5M2FNUZ}, {"|u1", DType::F8E8M0},
    {"|u1", DType::F4E2M1},     {"|u1", DType::F6E2M3}, {"|u1", DType::F6E3M2}};
/// Strings of at most N code points, of 4 bytes each, padded with zeros: "<U12".
constexpr std::string_view kNpyStrings = "<U";

/// The contents of a .npy file's header.
struct NpyHeader {
  DType dtype = DType::F32;
  int64_t element_bytes = 0;
  Dims dims;
  size_t data = 0;  // offset of the first element
};

/// False for an unsupported type.
bool read_type(std::string_view descr, NpyHeader& header) {
  if (descr.starts_with(kNpyStrings)) {
    descr.remove_prefix(kNpyStrings.size());
    int64_t points = 0;
    const auto [end, error] = std::from_chars(descr.data(), descr.data() + descr.size(), points);
    header.dtype = DType::String, header.element_bytes = points * int64_t{sizeof(char32_t)};
    return error == std::errc() && end == descr.data() + descr.size() && points > 0 && points <= INT32_MAX;
  }
  for (const NpyType& type : kNpyTypes)
    if (descr == type.descr) {
      header.dtype = type.dtype, header.element_bytes = dtype_bytes(type.dtype);
      return true;
    }
  return false;
}

/// The header is a Python dict literal of three known keys; anything else is refused.
class NpyHeaderReader {
 public:
  explicit NpyHeaderReader(std::string_view text) : text_(text) {}

  /// Returns "" or the error.
  std::string read(NpyHeader& header);

 private:
  bool eat(char c);
  bool string(std::string& to);
  bool word(std::string& to);
  bool dims(Dims& to);
  void skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }

  std::string_view text_;
};

bool NpyHeaderReader::eat(char c) {
  skip();
  if (text_.empty() || text_[0] != c) return false;
  text_.remove_prefix(1);
  return true;
}

bool NpyHeaderReader::string(std::string& to) {
  skip();
  if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
  const size_t end = text_.find(text_[0], 1);
  if (end == std::string_view::npos) return false;
  to = text_.substr(1, end - 1);
  text_.remove_prefix(end + 1);
  return true;
}

bool NpyHeaderReader::word(std::string& to) {
  skip();
  size_t end = 0;
  while (end < text_.size() && ((text_[end] | 32) >= 'a' && (text_[end] | 32) <= 'z')) ++end;
  to = text_.substr(0, end);
  text_.remove_prefix(end);
  return end > 0;
}

bool NpyHeaderReader::dims(Dims& to) {
  if (!eat('(')) return false;
  while (!eat(')')) {
    skip();
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), dim);
    if (error != std::errc() || to.size() >= 64) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    to.push_back(dim);
    if (!eat(',') && (text_.empty() || text_[0] != ')')) return false;
  }
  return true;
}

std::string NpyHeaderReader::read(NpyHeader& header) {
  const std::string broken = "its header is no dictionary of descr, fortran_order and shape";
  std::string key, descr, order;
  bool shape = false;
  if (!eat('{')) return broken;
  while (!eat('}')) {
    if (!string(key) || !eat(':')) return broken;
    bool read = false;
    if (key == "descr")
      read = string(descr);
    else if (key == "fortran_order")
      read = word(order);
    else if (key == "shape")
      read = shape = dims(header.dims);
    if (!read) return broken;
    skip();
    if (!eat(',') && (text_.empty() || text_[0] != '}')) return broken;
  }
  if (!shape || order.empty()) return broken;
  if (order != "False") return "it is in Fortran order; save it with numpy.ascontiguousarray";
  if (!read_type(descr, header)) return "its element type '" + printable(descr) + "' is not read";
  return "";
}

std::string read_header(std::span<const std::byte> bytes, NpyHeader& header) {
  static constexpr char kMagic[] = "\x93NUMPY";
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, 6) != 0) return "it is no .npy file";
  const auto byte_at = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  const size_t version = byte_at(6);
  if (version < 1 || version > 3) return "its format version " + std::to_string(version) + " is not known";
  const size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) return "it is cut off";
  size_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (length > bytes.size() - start) return "it is cut off";
  header.data = start + length;
  return NpyHeaderReader({reinterpret_cast<const char*>(bytes.data()) + start, length}).read(header);
}

/// Strings from their code points, without the trailing zeros.
std::optional<Tensor> strings_of(const NpyHeader& header, std::span<const std::byte> bytes, const std::string& path,
                                 Diags& diags) {
  Tensor tensor(DType::String, header.dims);
  const auto width = static_cast<size_t>(header.element_bytes);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    std::u32string points(width / sizeof(char32_t), U'\0');
    std::memcpy(points.data(), bytes.data() + static_cast<size_t>(i) * width, width);
    points.resize(points.find_last_not_of(U'\0') + 1);
    const std::optional<std::string> string = utf8_of(points);
    const std::string why = string ? why_no_element(*string) : "has a number that is no code point";
    if (!why.empty()) {
      diags.error("npy-string", Loc::in_file(path), "the string number {} {}", i, why);
      return {};
    }
    tensor.integers[static_cast<size_t>(i)] = string_id(*string);
  }
  return tensor;
}

/// The code points of all strings, each padded to the length of the longest one, and at least one.
std::u32string padded_points(const Tensor& tensor, size_t& width) {
  std::vector<std::u32string> strings;
  width = 1;
  for (const int64_t id : tensor.integers) {
    strings.push_back(utf32_of(string_of(id)).value_or(U"\ufffd"));
    width = std::max(width, strings.back().size());
  }
  std::u32string all;
  for (std::u32string& string : strings) string.resize(width), all += string;
  return all;
}

/// A tensor's elements in the form of a .npy file, and the name of their type.
struct NpyElements {
  std::string descr;
  std::vector<std::byte> bytes;
};
NpyElements npy_elements(const Tensor& tensor) {
  if (tensor.dtype == DType::String) {
    size_t width = 0;
    const std::u32string points = padded_points(tensor, width);
    const auto bytes = std::as_bytes(std::span(points));
    return {std::string(kNpyStrings) + std::to_string(width), {bytes.begin(), bytes.end()}};
  }
  const auto* type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const NpyType& t) { return t.dtype == tensor.dtype; });
  return {type->descr, tensor_to_bytes(tensor)};
}

std::optional<Tensor> read_npy(const std::string& path, Diags& diags) {
  const Loc loc = Loc::in_file(path);
  const MappedFile file = map_file(path);
  if (!file.error.empty()) {
    diags.error("npy-file", loc, "the tensor cannot be read: {}", file.error);
    return {};
  }
  NpyHeader header;
  if (const std::string wrong = read_header(file.bytes, header); !wrong.empty()) {
    diags.error("npy-header", loc, "the tensor cannot be read: {}", wrong);
    return {};
  }
  const std::optional<int64_t> count = checked_count(header.dims);
  const int64_t held = static_cast<int64_t>(file.bytes.size() - header.data);
  if (!count || held % header.element_bytes != 0 || held / header.element_bytes != *count) {
    diags.error("npy-size", loc, "the file holds {} bytes of elements, which does not fit {} of shape {}", held,
                dtype_name(header.dtype), dims_text(header.dims));
    return {};
  }
  if (header.dtype == DType::String) return strings_of(header, file.bytes.subspan(header.data), path, diags);
  return tensor_from_bytes(header.dtype, header.dims, file.bytes.subspan(header.data));
}

std::optional<Tensor> tensor_of(const OnnxTensor& tensor, OnnxModel& memory, const std::string& path, Diags& diags) {
  const auto bytes = TensorBytes(memory, diags).find(tensor, "the tensor", Loc::in_file(path));
  if (!bytes) return {};
  return tensor_from_bytes(*dtype_of_element_type(tensor.element_type), tensor.dims, *bytes);
}

std::optional<Tensor> read_pb(const std::string& path, Diags& diags) {
  OnnxModel memory;
  const std::optional<OnnxTensor> tensor = read_tensor_proto(path, memory, diags);
  if (!tensor) return {};
  return tensor_of(*tensor, memory, path, diags);
}

std::string npy_header(const Tensor& tensor, const std::string& descr) {
  std::string shape;
  for (int64_t dim : tensor.dims) shape += std::to_string(dim) + ",";
  if (tensor.dims.size() > 1) shape.pop_back();
  std::string dict = format("{'descr': '{}', 'fortran_order': False, 'shape': ({}), }", descr, shape);
  // Data starts at a multiple of 64, as the format requires.
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 255);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

std::optional<Tensor> read_tensor_file(const std::string& path, Diags& diags) {
  if (path.ends_with(".pb")) return read_pb(path, diags);
  return read_npy(path, diags);
}

std::optional<std::vector<Tensor>> read_tensors_file(const std::string& path, const OnnxForm& form, Diags& diags) {
  OnnxModel memory;
  const std::optional<std::vector<OnnxTensor>> read = read_tensors_proto(path, form, memory, diags);
  if (!read) return {};
  std::vector<Tensor> tensors;
  for (const OnnxTensor& one : *read) {
    std::optional<Tensor> tensor = tensor_of(one, memory, path, diags);
    if (!tensor) return {};
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

bool write_npy(const std::string& path, const Tensor& tensor, Diags& diags) {
  const auto [descr, bytes] = npy_elements(tensor);
  const std::string header = npy_header(tensor, descr);
  FILE* file = std::fopen(path.c_str(), "wb");
  bool ok = file && std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
            (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  const int code = errno;
  if (file) ok &= std::fclose(file) == 0;
  if (!ok) diags.error("npy-write", Loc::in_file(path), "the tensor cannot be written: {}", std::strerror(code));
  return ok;
}

bool read_as(Tensor& tensor, DType wanted) {
  if (tensor.dtype == wanted) return true;
  const auto is_small = [](DType dtype) { return is_small_float(dtype) || is_small_int(dtype); };
  const bool is_pattern = wanted == DType::BF16
                              ? tensor.dtype == DType::U16
                              : is_small(wanted) && (tensor.dtype == DType::U8 || tensor.dtype == DType::I8);
  if (!is_pattern) return false;
  tensor = tensor_from_bytes(wanted, tensor.dims, tensor_to_bytes(tensor));
  return true;
}

}  // namespace weftc
