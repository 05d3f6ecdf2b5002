// Digit algebra of slices (L2, L8 of ir/README.md): the elements of a dimension that a rank holds, and their positions.
#pragma once
#include <string>
#include <vector>

#include "ir/type.h"

namespace weftc {

/// An axis of a place, or the time axis of a Chunk.
struct MeshAxis {
  std::string name;
  int size = 1;

  bool operator==(const MeshAxis&) const = default;
};
/// The axes of a layout, in mesh order: first the place's axes, then the time axes of enclosing Chunks.
using Mesh = std::vector<MeshAxis>;
/// One coordinate for each axis of a Mesh.
using Coordinates = std::vector<int>;

int mesh_size(const Mesh& mesh);
/// Row-major: the last axis varies fastest (a rank's position in its place).
Coordinates coordinates_of(const Mesh& mesh, int index);
int index_of(const Mesh& mesh, const Coordinates& coordinates);

/// One slicing of one dimension: index i is at coordinate (i div block) mod size. Ragged (L8): block * size > extent,
/// alone on its dimension, coordinate (i div block).
struct Digit {
  int axis;
  int size;
  int64_t block;

  bool operator==(const Digit&) const = default;
};
/// The slicings of `dim`, coarse (large block) to fine.
std::vector<Digit> digits_of(const Layout& layout, int dim, const Mesh& mesh);
bool is_ragged(int64_t extent, const std::vector<Digit>& digits);
/// The same for a run-time length, whose slices are always ragged: ranks have blocks of the bound, and the last ones of
/// a short length have less, or nothing.
bool is_ragged(const Extent& extent, const std::vector<Digit>& digits);

/// L2 and L8: block*size divides the extent and slices nest, or one ragged slice is alone with block = ceil(E/n).
/// Returns the error, or "".
std::string check_slices(int64_t extent, const std::vector<Digit>& digits);
std::string check_slices(const Extent& extent, const std::vector<Digit>& digits);
/// All axes of a type: dims in range, slices legal.
std::string check_layout(const TensorType& type, const Mesh& mesh);

/// Number of elements of a dimension in buffers and messages: the extent over all sizes; for a ragged slice its block.
int64_t buffer_extent(int64_t extent, const std::vector<Digit>& digits);
/// Number of elements that the rank at `coordinates` actually holds. `extent` is the whole extent; it may be a run-time
/// length, whose digits are blocks of the bound.
int64_t local_extent(int64_t extent, const std::vector<Digit>& digits, const Coordinates& coordinates);
/// buffer_extent of every dimension.
Dims buffer_dims(const TensorType& type, const Mesh& mesh);
/// local_extent of every dimension (bounds for run-time extents).
Dims local_dims(const TensorType& type, const Mesh& mesh, const Coordinates& coordinates);
/// The global indices held, ascending: local order is global order.
std::vector<int64_t> held_indices(int64_t extent, const std::vector<Digit>& digits, const Coordinates& coordinates);

/// "R", "S(0,64)", "P(sum)", "V"; a layout is "[tp: S(1,64), dp: P(sum)]", "[]" when replicated.
std::string state_text(const AxisState& state);
std::string layout_text(const Layout& layout, const Mesh& mesh);
/// "f32[2, 64, 256]", followed by the layout unless it is replicated.
std::string type_text(const TensorType& type, const Mesh& mesh);

}  // namespace weftc
