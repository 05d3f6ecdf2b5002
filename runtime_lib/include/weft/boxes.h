// Boxes of images as ONNX's NonMaxSuppression has them, and whether two of them overlap too much.
#pragma once
#include <cstdint>

#include "weft/device_macros.h"

namespace weft {

/// Two corners (y, x, y, x), whichever they are; or the middle, the width and the height (x, y, w, h).
enum class BoxForm : uint8_t { Corners, Middle };

template <class T>
struct Box {
  T top, left, bottom, right, area;
};

/// How many boxes of a line stay at most, by what part of what they cover together two may overlap, and above which
/// score a box is looked at, if there is such a score.
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

/// Whether what both cover is more than that part of what they cover together.
template <class T>
WEFT_HD bool overlap(const Box<T>& a, const Box<T>& b, T most) {
  const T width = (a.right < b.right ? a.right : b.right) - (a.left > b.left ? a.left : b.left);
  const T height = (a.bottom < b.bottom ? a.bottom : b.bottom) - (a.top > b.top ? a.top : b.top);
  const T both = width * height, either = a.area + b.area - both;
  return (width > 0) & (height > 0) & (both > 0) & (a.area > 0) & (b.area > 0) & (either > 0) & (both / either > most);
}

}  // namespace weft
