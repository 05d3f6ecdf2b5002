// The known elements of small integer tensors, as lengths, while types are inferred. Exporters compute shapes with
// Shape, Gather, Mul, Where, Concat. With an open input dimension, those numbers exist at run time only. As polynomials
// they are known at compile time, and give later shapes their run-time extents:
//
//   s = Shape(x f32[seq, 768])      [seq, 768]
//   m = Mul(Gather(s, 0), 2)        seq * 2
//   y = Expand(z, Concat(m, 64))    y is f32[seq * 2, 64]
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/ids.h"
#include "ir/length.h"
#include "ir/type.h"

namespace weftc {

/// Shapes have few dimensions: a tensor of more elements is data.
inline constexpr int64_t kMostLengths = 64;

class ShapeValues {
 public:
  /// The elements of a value, row-major; null if they are not known.
  const std::vector<Length>* find(ValueId value) const;
  void set(ValueId value, std::vector<Length> elements);
  /// Records that this length is at most `most`, although its terms could be larger: rows of a state are bounded by the
  /// state. False if that was known.
  bool limit(const Length& length, int64_t most);
  /// Only the bounds that `limit` recorded. They hold for every graph in which the lengths have these names.
  ShapeValues limits() const;
  bool operator==(const ShapeValues&) const = default;
  /// A dimension of this length.
  Extent extent(const Length& length) const;

 private:
  std::unordered_map<uint32_t, std::vector<Length>> elements_;
  std::unordered_map<std::string, int64_t> limits_;
};

}  // namespace weftc
