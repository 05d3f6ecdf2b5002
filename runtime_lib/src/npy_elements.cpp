// Converting elements of .npy files. Values go through the widest type of their kind, and are read back after
// the store: an element that would change its value is an error, never a silent rounding.
#include "npy_elements.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "failure.h"
#include "npy_strings.h"

namespace weft {

namespace {

/// Wide enough for every integer of 64 bits, with a sign or without.
using Integer = __int128;

struct TypeRow {
  DType dtype;
  const char* descr;
};
constexpr const char* kMlDtypes = "|V2";

// bfloat16 and the floats of at most 8 bits have no names of their own there and travel as their bit patterns, bfloat16
// also as ml_dtypes saves it. Integers of fewer than 8 bits have a byte each.
constexpr TypeRow kTypes[] = {
    {DType::F32, "<f4"},        {DType::F64, "<f8"},      {DType::F16, "<f2"},        {DType::BF16, "<u2"},
    {DType::I8, "|i1"},         {DType::I16, "<i2"},      {DType::I32, "<i4"},        {DType::I64, "<i8"},
    {DType::U8, "|u1"},         {DType::U16, "<u2"},      {DType::U32, "<u4"},        {DType::U64, "<u8"},
    {DType::Bool, "|b1"},       {DType::I4, "|i1"},       {DType::I2, "|i1"},         {DType::U4, "|u1"},
    {DType::U2, "|u1"},         {DType::F8E4M3FN, "|u1"}, {DType::F8E4M3FNUZ, "|u1"}, {DType::F8E5M2, "|u1"},
    {DType::F8E5M2FNUZ, "|u1"}, {DType::F8E8M0, "|u1"},   {DType::F4E2M1, "|u1"},     {DType::F6E2M3, "|u1"},
    {DType::F6E3M2, "|u1"}};

bool is_float(DType dtype) { return dtype <= DType::BF16; }
/// A type that travels as its bit pattern, or as a wider integer.
bool has_no_name(DType dtype) { return dtype == DType::BF16 || (dtype > DType::Bool && dtype <= DType::U2); }
/// A float of at most 8 bits: any pattern is one.
bool is_pattern(DType dtype) { return dtype >= DType::F8E4M3FN && dtype <= DType::F6E3M2; }

/// Byte order marks that mean the same on a little endian machine: "<f4" and "=f4", "|i1" and "<i1".
bool is_same_type(const std::string& a, const std::string& b) {
  return a == b || (a.size() == 3 && a.substr(1) == b.substr(1) && a[0] != '>' && b[0] != '>');
}

/// The type of a file's elements, which may differ from the port's. Bit patterns are integers here.
std::optional<DType> type_of(const std::string& descr) {
  if (is_same_type(descr, kMlDtypes)) return DType::BF16;
  for (const TypeRow& row : kTypes)
    if (!has_no_name(row.dtype) && is_same_type(descr, row.descr)) return row.dtype;
  return std::nullopt;
}

template <class T, class Wide>
struct Elements {
  static Wide load(const char* at) {
    T value;
    memcpy(static_cast<void*>(&value), at, sizeof value);
    return Wide(value);
  }
  /// False if converting back gives another value.
  static bool store(Wide wide, char* at) {
    if constexpr (std::numeric_limits<T>::is_integer)
      if (wide < Wide(std::numeric_limits<T>::min()) || wide > Wide(std::numeric_limits<T>::max())) return false;
    const T value = [&] {
      if constexpr (sizeof(T) == 2 && !std::numeric_limits<T>::is_integer)
        return T(float(wide));
      else
        return T(wide);
    }();
    memcpy(at, static_cast<const void*>(&value), sizeof value);
    return Wide(value) == wide || wide != wide;
  }
};

/// How elements of one type are read and written by way of the widest of their kind.
template <class Wide>
struct Access {
  Wide (*load)(const char* at);
  bool (*store)(Wide value, char* at);
};

template <class T, class Wide>
constexpr Access<Wide> access_as() {
  return {Elements<T, Wide>::load, Elements<T, Wide>::store};
}

Access<double> float_access(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return access_as<half, double>();
    case DType::BF16:
      return access_as<bfloat16, double>();
    case DType::F64:
      return access_as<double, double>();
    default:
      return access_as<float, double>();
  }
}

template <class T>
Access<Integer> small_integer_access() {
  return {[](const char* at) { return Integer(int8_t(*at)); },
          [](Integer value, char* at) {
            const T held{int(value)};
            *at = char(held.bits);
            return Integer(held.bits) == value;
          }};
}

Access<Integer> integer_access(DType dtype) {
  switch (dtype) {
    case DType::I8:
      return access_as<int8_t, Integer>();
    case DType::I16:
      return access_as<int16_t, Integer>();
    case DType::I32:
      return access_as<int32_t, Integer>();
    case DType::I64:
      return access_as<int64_t, Integer>();
    case DType::U8:
      return access_as<uint8_t, Integer>();
    case DType::U16:
      return access_as<uint16_t, Integer>();
    case DType::U32:
      return access_as<uint32_t, Integer>();
    case DType::U64:
      return access_as<uint64_t, Integer>();
    case DType::I4:
      return small_integer_access<signed4>();
    case DType::U4:
      return small_integer_access<unsigned4>();
    case DType::I2:
      return small_integer_access<signed2>();
    case DType::U2:
      return small_integer_access<unsigned2>();
    default:
      // As a byte: a file may hold others than 0 and 1.
      return {Elements<uint8_t, Integer>::load, Elements<bool, Integer>::store};
  }
}

/// The number in the fewest digits that distinguish it from all others.
template <class Number>
std::string shortest_text(Number value) {
  char out[40];
  return {out, std::to_chars(out, out + sizeof out, value).ptr};
}
std::string number_text(double value) { return shortest_text(value); }
std::string number_text(Integer value) {
  return value < 0 ? shortest_text(int64_t(value)) : shortest_text(uint64_t(value));
}

/// Walks a tensor in C order, with the place of each element in a file of either order.
class FileWalk {
 public:
  explicit FileWalk(const NpyHeader& header) : shape_(header.shape), at_(shape_.size()), strides_(shape_.size()) {
    int64_t stride = 1;
    for (size_t i = 0; i < shape_.size(); ++i) {
      const size_t d = header.is_fortran ? i : shape_.size() - 1 - i;
      strides_[d] = stride;
      // Beside an extent of 0 the others may have any product.
      stride = int64_t(uint64_t(stride) * uint64_t(shape_[d]));
    }
    count_ = stride;
  }
  int64_t count() const { return count_; }
  int64_t place() const { return place_; }
  void next() {
    for (size_t d = shape_.size(); d-- > 0;) {
      place_ += strides_[d];
      if (++at_[d] < shape_[d]) return;
      place_ -= strides_[d] * shape_[d];
      at_[d] = 0;
    }
  }
  /// "[1, 2]".
  std::string text() const {
    std::string out;
    for (const int64_t i : at_) out += (out.empty() ? "" : ", ") + std::to_string(i);
    return "[" + out + "]";
  }

 private:
  const std::vector<int64_t>& shape_;
  std::vector<int64_t> at_, strides_;
  int64_t count_ = 0, place_ = 0;
};

template <class Wide>
std::vector<char> convert(const NpyHeader& header, std::string_view elements, int64_t width, Access<Wide> from,
                          DType dtype, Access<Wide> to, const std::string& file) {
  FileWalk walk(header);
  const int64_t bytes = element_bytes(dtype);
  std::vector<char> out(size_t(walk.count() * bytes));
  for (int64_t i = 0; i < walk.count(); ++i, walk.next()) {
    const Wide value = from.load(elements.data() + walk.place() * width);
    if (!to.store(value, out.data() + i * bytes))
      fail(kWrongInput, "%s: element %s is %s, which %s does not hold; '%s' is expected", file.c_str(),
           walk.text().c_str(), number_text(value).c_str(), dtype_name(dtype), npy_type(dtype));
  }
  return out;
}

std::vector<char> converted_strings(const NpyHeader& header, std::string_view elements, const std::string& file) {
  FileWalk walk(header);
  const auto width = size_t(npy_string_bytes(header, file));
  std::vector<char> out(size_t(walk.count()) * sizeof(String));
  for (int64_t i = 0; i < walk.count(); ++i, walk.next()) {
    const std::string_view element = elements.substr(size_t(walk.place()) * width, width);
    const String string = string_of_points(element, file + ": element " + walk.text());
    memcpy(out.data() + size_t(i) * sizeof(String), &string, sizeof string);
  }
  return out;
}

/// The type of the file's elements. A file with the unsigned bit patterns of the port's type counts as of that
/// type; one of bools holds bytes, which may be neither 0 nor 1.
std::optional<DType> source_type(const NpyHeader& header, DType dtype) {
  const bool may_not_fit = dtype >= DType::I4 && dtype <= DType::U2;  // a byte holds more than these types
  if (dtype == DType::Bool && is_same_type(header.descr, npy_type(dtype))) return DType::U8;
  if (is_same_type(header.descr, npy_type(dtype)) && !may_not_fit) return dtype;
  if (is_pattern(dtype)) return std::nullopt;
  const std::optional<DType> from = type_of(header.descr);
  return from && is_float(*from) == is_float(dtype) ? from : std::nullopt;
}

}  // namespace

const char* npy_type(DType dtype, Bfloat16Form form) {
  if (dtype == DType::BF16 && form == Bfloat16Form::MlDtypes) return kMlDtypes;
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.descr;
  return "";
}

int64_t npy_element_bytes(const NpyHeader& header, DType dtype, const std::string& file) {
  if (dtype == DType::String) return npy_string_bytes(header, file);
  if (const std::optional<DType> from = source_type(header, dtype)) return element_bytes(*from);
  if (header.descr.starts_with('>'))
    fail(kWrongInput, "%s: big endian elements '%s'; '%s' is expected", file.c_str(), header.descr.c_str(),
         npy_type(dtype));
  fail(kWrongInput, "%s: elements are '%s'; '%s' (%s) is expected", file.c_str(), header.descr.c_str(), npy_type(dtype),
       dtype_name(dtype));
}

bool is_stored_as(const NpyHeader& header, DType dtype) {
  return dtype != DType::String && !header.is_fortran && source_type(header, dtype) == dtype;
}

std::vector<char> converted_elements(const NpyHeader& header, std::string_view elements, DType dtype,
                                     const std::string& file) {
  if (dtype == DType::String) return converted_strings(header, elements, file);
  const DType from = *source_type(header, dtype);
  const int64_t width = element_bytes(from);
  if (is_float(dtype)) return convert(header, elements, width, float_access(from), dtype, float_access(dtype), file);
  return convert(header, elements, width, integer_access(from), dtype, integer_access(dtype), file);
}

}  // namespace weft
