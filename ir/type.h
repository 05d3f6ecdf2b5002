// Element types, extents, layouts over the ranks: the types of values (ir/README.md). A TensorType is compared by
// content:
//
//   f32[2, 64] [tp: S(1,16)] on a mesh {tp: 4}: each rank holds f32[2, 16], rank r columns 16 * r to 16 * r + 15
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/length.h"

namespace weftc {

/// The types between Bool and String have at most 8 bits; each element of them has a byte in memory (`onnx_bits` are
/// fewer). A String has a byte for its length, then its UTF-8 (ir/string_table.h).
enum class DType : uint8_t {
  F32,
  F64,
  F16,
  BF16,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  Bool,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0,
  F4E2M1,
  F6E2M3,
  F6E3M2,
  I4,
  U4,
  I2,
  U2,
  String
};

const char* dtype_name(DType dtype);  // "f32", "i64", "bool"
std::optional<DType> parse_dtype(std::string_view name);
int64_t dtype_bytes(DType dtype);
/// The number of the last type: types are counted from 0.
inline constexpr int kLastDType = static_cast<int>(DType::String);
/// Bits of an element in ONNX files, where elements of fewer than 8 bits are packed, the first in the low bits.
int onnx_bits(DType dtype);
/// The bytes of that many elements in ONNX files.
int64_t onnx_bytes(DType dtype, int64_t count);
bool is_float(DType dtype);
/// A floating type of at most 8 bits.
inline bool is_small_float(DType dtype) { return dtype >= DType::F8E4M3FN && dtype <= DType::F6E3M2; }
/// An integer type of fewer than 8 bits.
inline bool is_small_int(DType dtype) { return dtype >= DType::I4 && dtype <= DType::U2; }
bool is_signed_int(DType dtype);
inline bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::Bool && dtype != DType::String; }

using Dims = std::vector<int64_t>;
int64_t element_count(const Dims& dims);
/// Row-major strides in elements.
Dims strides_of(const Dims& dims);

/// A dimension: its bound, and its length if that is a run-time length (none: the bound is the length).
struct Extent {
  int64_t bound = 0;
  std::shared_ptr<const Length> length = nullptr;

  bool is_run_time() const { return length != nullptr; }
  bool operator==(const Extent& other) const;
};
using Shape = std::vector<Extent>;
/// A dimension of a run-time length.
Extent run_time_extent(int64_t bound, const Length& length);
/// The length of a dimension; for a fixed one a constant.
Length length_of(const Extent& extent);
Shape shape_of(const Dims& dims);
/// "2x(seq<=64)x768", for messages.
std::string shape_text(const Shape& shape);
/// The bounds.
Dims bounds(const Shape& shape);
/// True if no extent has a run-time length.
bool is_static(const Shape& shape);

enum class ReduceOp : uint8_t { Sum, Max, Min, Prod };
const char* reduce_name(ReduceOp op);  // "sum"
std::optional<ReduceOp> parse_reduce(std::string_view name);
/// The neutral element of `op` (infinities for max and min).
double reduce_identity(ReduceOp op);

/// The state of one axis of a value's place (L1): R replicated, S(dim, block) sliced, P(op) partial, V varying.
struct AxisState {
  enum class Kind : uint8_t { R, S, P, V };
  Kind kind = Kind::R;
  int dim = 0;        // S
  int64_t block = 0;  // S: index i of dim lives at coordinate (i div block) mod size
  ReduceOp op{};      // P

  static AxisState replicated() { return {}; }
  static AxisState sliced(int dim, int64_t block) { return {Kind::S, dim, block, {}}; }
  static AxisState partial(ReduceOp op) { return {Kind::P, 0, 0, op}; }
  static AxisState varying() { return {Kind::V, 0, 0, {}}; }
  bool is(Kind k) const { return kind == k; }
  bool operator==(const AxisState&) const = default;
};

/// One state for each axis of the place, then one for each enclosing Chunk (time axes, outer first). Trailing R's are
/// not stored, so a default Layout is fully replicated on any mesh.
class Layout {
 public:
  AxisState operator[](int axis) const { return axis < static_cast<int>(axes_.size()) ? axes_[axis] : AxisState{}; }
  void set(int axis, AxisState state);
  /// Axes up to the last one that is not R.
  int size() const { return static_cast<int>(axes_.size()); }
  bool is_replicated() const { return axes_.empty(); }
  bool has(AxisState::Kind kind) const;
  bool operator==(const Layout&) const = default;

 private:
  std::vector<AxisState> axes_;
};

/// The type of a value: its global shape, and its distribution over the ranks.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;  // global
  Layout layout;

  int ndim() const { return static_cast<int>(shape.size()); }
  Dims dims() const { return bounds(shape); }
  int64_t count() const { return element_count(dims()); }
  bool operator==(const TensorType&) const = default;
};

}  // namespace weftc
