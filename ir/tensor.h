// A host tensor for folding and reference evaluation: elements in double or int64, plain loops, not optimised.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ir/type.h"

namespace weftc {

/// Row-major. Floating types are in `real` (double precision between ops), integers and bool in `integers`. A string is
/// its number in the table of strings (ir/string_table.h): equal strings have equal numbers, 0 is "".
struct Tensor {
  DType dtype = DType::F32;
  Dims dims;
  std::vector<double> real;
  std::vector<int64_t> integers;

  Tensor() = default;
  /// Zero-filled.
  Tensor(DType dtype, Dims dims);
  static Tensor scalar(DType dtype, double value);
  static Tensor ints(const std::vector<int64_t>& values);  // i64, one dimension

  int64_t size() const { return element_count(dims); }
  bool is_real() const { return is_float(dtype); }
  /// Any element as a double (int64 above 2^53 loses bits; int_at does not).
  double at(int64_t i) const { return is_real() ? real[i] : static_cast<double>(integers[i]); }
  int64_t int_at(int64_t i) const { return is_real() ? static_cast<int64_t>(real[i]) : integers[i]; }
  /// Stores a value; integers wrap to the width of dtype, bool becomes 0 or 1.
  void put(int64_t i, double value);
  void put_int(int64_t i, int64_t value);
  /// Element `from` of `source` (same dtype) to element `i`.
  void copy_element(int64_t i, const Tensor& source, int64_t from);
};

/// `value` wrapped to the range of an integer dtype (two's complement), 0 or 1 for bool.
int64_t wrap(DType dtype, int64_t value);
/// Rounded to the precision of a float dtype, to nearest even; overflow gives infinity.
double round_to(DType dtype, double value);
double half_to_double(uint16_t bits);
uint16_t double_to_half(double value);
double bfloat16_to_double(uint16_t bits);
uint16_t double_to_bfloat16(double value);

/// Conversion from and to little-endian element bytes in memory's form (bool and types of fewer bits: one byte).
Tensor tensor_from_bytes(DType dtype, Dims dims, std::span<const std::byte> bytes);
std::vector<std::byte> tensor_to_bytes(const Tensor& tensor);

/// Walks all index tuples of `dims` in row-major order; use as  for (Index i(dims); i.more(); i.next()).
class Index {
 public:
  explicit Index(const Dims& dims) : dims_(dims), at_(dims.size()), left_(element_count(dims)) {}
  bool more() const { return left_ > 0; }
  void next();
  int64_t operator[](int d) const { return at_[d]; }
  int64_t linear() const { return linear_; }
  /// Sum of index times stride.
  int64_t dot(const Dims& strides) const;

 private:
  Dims dims_, at_;
  int64_t left_, linear_ = 0;
};

/// The metric of all comparisons: max|a-b| / max|b|; infinity if dtype, shape, NaNs or infinities differ.
double relative_error(const Tensor& a, const Tensor& b);

}  // namespace weftc
