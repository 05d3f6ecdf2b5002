// Digit algebra of slices: an index of a sliced dimension is written in mixed radix, and each slicing axis owns
// a digit.
//
//   12 elements, S(0,2) on tp of size 3:  index i  ->  coordinate i / 2 % 3, position i / 6 * 2 + i % 2 on that rank
#include "ir/layout.h"

#include <algorithm>

#include "ir/base/text.h"

namespace weftc {

int mesh_size(const Mesh& mesh) {
  int n = 1;
  for (const MeshAxis& axis : mesh) n *= axis.size;
  return n;
}

Coordinates coordinates_of(const Mesh& mesh, int index) {
  Coordinates coordinates(mesh.size());
  for (int a = static_cast<int>(mesh.size()) - 1; a >= 0; --a) {
    coordinates[a] = index % mesh[a].size;
    index /= mesh[a].size;
  }
  return coordinates;
}

int index_of(const Mesh& mesh, const Coordinates& coordinates) {
  int index = 0;
  for (size_t a = 0; a < mesh.size(); ++a) index = index * mesh[a].size + coordinates[a];
  return index;
}

std::vector<Digit> digits_of(const Layout& layout, int dim, const Mesh& mesh) {
  std::vector<Digit> digits;
  for (int a = 0; a < layout.size(); ++a)
    if (layout[a].is(AxisState::Kind::S) && layout[a].dim == dim) digits.push_back({a, mesh[a].size, layout[a].block});
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) { return x.block > y.block; });
  return digits;
}

bool is_ragged(int64_t extent, const std::vector<Digit>& digits) {
  return digits.size() == 1 && digits[0].block * digits[0].size != extent &&
         extent % (digits[0].block * digits[0].size);
}

bool is_ragged(const Extent& extent, const std::vector<Digit>& digits) {
  return extent.is_run_time() ? !digits.empty() : is_ragged(extent.bound, digits);
}

std::string check_slices(const Extent& extent, const std::vector<Digit>& digits) {
  if (!extent.is_run_time() || digits.empty()) return check_slices(extent.bound, digits);
  if (digits.size() > 1) return "a run-time length is sliced over one axis only";
  const Digit& d = digits[0];
  if (d.block > 0 && d.block * d.size >= extent.bound) return "";
  return format("{} ranks with blocks of {} do not hold a run-time length up to {}", d.size, d.block, extent.bound);
}

std::string check_slices(int64_t extent, const std::vector<Digit>& digits) {
  if (is_ragged(extent, digits)) {
    const Digit& d = digits[0];
    if (d.block == (extent + d.size - 1) / d.size) return "";
    return format("block {} times {} ranks does not divide the extent {}", d.block, d.size, extent);
  }
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i].block < 1 || extent % (digits[i].block * digits[i].size))
      return format("block {} times {} ranks does not divide the extent {}", digits[i].block, digits[i].size, extent);
    if (i && digits[i - 1].block % (digits[i].block * digits[i].size))
      return format("slices of blocks {} and {} do not nest", digits[i - 1].block, digits[i].block);
  }
  return "";
}

std::string check_layout(const TensorType& type, const Mesh& mesh) {
  if (type.layout.size() > static_cast<int>(mesh.size())) return "the layout has more axes than its place";
  for (int a = 0; a < type.layout.size(); ++a) {
    const AxisState s = type.layout[a];
    if (!s.is(AxisState::Kind::R) && mesh[a].size == 1)
      return format("axis '{}' of size 1 is in the layout", mesh[a].name);
    if (!s.is(AxisState::Kind::S)) continue;
    if (s.dim < 0 || s.dim >= type.ndim()) return format("there is no dimension {} to slice", s.dim);
  }
  for (int d = 0; d < type.ndim(); ++d) {
    const std::string wrong = check_slices(type.shape[d], digits_of(type.layout, d, mesh));
    if (!wrong.empty()) return format("dimension {}: {}", d, wrong);
  }
  return "";
}

int64_t buffer_extent(int64_t extent, const std::vector<Digit>& digits) {
  if (is_ragged(extent, digits)) return digits[0].block;
  for (const Digit& d : digits) extent /= d.size;
  return extent;
}

int64_t local_extent(int64_t extent, const std::vector<Digit>& digits, const Coordinates& coordinates) {
  if (!is_ragged(extent, digits)) return buffer_extent(extent, digits);
  return std::clamp<int64_t>(extent - coordinates[digits[0].axis] * digits[0].block, 0, digits[0].block);
}

Dims buffer_dims(const TensorType& type, const Mesh& mesh) {
  Dims dims;
  for (int d = 0; d < type.ndim(); ++d)
    dims.push_back(buffer_extent(type.shape[d].bound, digits_of(type.layout, d, mesh)));
  return dims;
}

Dims local_dims(const TensorType& type, const Mesh& mesh, const Coordinates& coordinates) {
  Dims dims;
  for (int d = 0; d < type.ndim(); ++d)
    dims.push_back(local_extent(type.shape[d].bound, digits_of(type.layout, d, mesh), coordinates));
  return dims;
}

std::vector<int64_t> held_indices(int64_t extent, const std::vector<Digit>& digits, const Coordinates& coordinates) {
  std::vector<int64_t> held;
  const bool ragged = is_ragged(extent, digits);
  for (int64_t i = 0; i < extent; ++i) {
    const bool mine = std::all_of(digits.begin(), digits.end(), [&](const Digit& d) {
      const int64_t coordinate = ragged ? i / d.block : i / d.block % d.size;
      return coordinate == coordinates[d.axis];
    });
    if (mine) held.push_back(i);
  }
  return held;
}

std::string state_text(const AxisState& state) {
  switch (state.kind) {
    case AxisState::Kind::R:
      return "R";
    case AxisState::Kind::S:
      return format("S({},{})", state.dim, state.block);
    case AxisState::Kind::P:
      return format("P({})", reduce_name(state.op));
    case AxisState::Kind::V:
      return "V";
  }
  return "";
}

std::string layout_text(const Layout& layout, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (int a = 0; a < layout.size(); ++a)
    if (!layout[a].is(AxisState::Kind::R)) parts.push_back(mesh[a].name + ": " + state_text(layout[a]));
  return "[" + join(parts, ", ") + "]";
}

std::string type_text(const TensorType& type, const Mesh& mesh) {
  std::vector<std::string> dims;
  for (const Extent& e : type.shape) dims.push_back((e.is_run_time() ? "<=" : "") + std::to_string(e.bound));
  const std::string text = std::string(dtype_name(type.dtype)) + "[" + join(dims, ", ") + "]";
  return type.layout.is_replicated() ? text : text + " " + layout_text(type.layout, mesh);
}

}  // namespace weftc
