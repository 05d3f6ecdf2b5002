// Boxes of images as in ONNX's NonMaxSuppression, and the test whether two of them overlap too much.
#pragma once
#include <cstdint>

#include "weft/device_macros.h"

namespace weft {

/// Any two opposite corners (y, x, y, x); or the middle, the width and the height (x, y, w, h).
enum class BoxForm : uint8_t { Corners, Middle };

template <class T>
struct Box {
  T top, left, bottom, right, area;
};

/// The most boxes of a line that are kept, the largest allowed intersection over union of two boxes, and the score that
/// a box must exceed, if there is one.
template <class T>
struct BoxLimits {
  int64_t most;
  T overlap, lowest;
  bool has_lowest;
};

template <BoxForm kForm, class T>
WEFT_HD Box<T> box_of(T a, T b, T c, T d) {
  Box<T> box{};
  if constexpr (kForm == BoxForm::Corners)
    box = {a < c ? a : c, b < d ? b : d, a < c ? c : a, b < d ? d : b, T(0)};
  else
    box = {b - d / 2, a - c / 2, b + d / 2, a + c / 2, T(0)};
  box.area = (box.right - box.left) * (box.bottom - box.top);
  return box;
}

/// Whether the intersection over union is more than `overlap`.
template <class T>
WEFT_HD bool overlap(const Box<T>& a, const Box<T>& b, T most) {
  const T width = (a.right < b.right ? a.right : b.right) - (a.left > b.left ? a.left : b.left);
  const T height = (a.bottom < b.bottom ? a.bottom : b.bottom) - (a.top > b.top ? a.top : b.top);
  const T both = width * height, either = a.area + b.area - both;
  return (width > 0) & (height > 0) & (both > 0) & (a.area > 0) & (b.area > 0) & (either > 0) & (both / either > most);
}

}  // namespace weft
