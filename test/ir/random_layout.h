// Random meshes, types with legal layouts, and tensors for property tests. Seeds are fixed: failures repeat.
#pragma once
#include <random>

#include "ir/evaluate/evaluate.h"

namespace weftc {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  /// In [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(between(0, static_cast<int64_t>(from.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

inline Mesh random_mesh(Random& random, int most_axes = 3) {
  static const std::vector<std::string> names{"a", "b", "c", "d"};
  Mesh mesh;
  for (int64_t a = random.between(1, most_axes); a > 0; --a)
    mesh.push_back({names[mesh.size()], static_cast<int>(random.between(1, 3))});
  return mesh;
}

inline Dims random_dims(Random& random) {
  Dims dims;
  for (int64_t d = random.between(0, 3); d > 0; --d) dims.push_back(random.pick(Dims{1, 3, 4, 5, 8, 12, 18, 24}));
  return dims;
}

/// Sets `axis` to a random slice if that stays legal.
inline void try_slice(Random& random, TensorType& type, const Mesh& mesh, int axis) {
  if (type.shape.empty()) return;
  const int dim = static_cast<int>(random.between(0, type.ndim() - 1));
  const int64_t extent = type.shape[dim].bound, size = mesh[axis].size;
  int64_t block = random.chance(50) ? (extent + size - 1) / size : random.between(1, extent);
  const std::vector<Digit> before = digits_of(type.layout, dim, mesh);
  if (!before.empty() && random.chance(70))  // inside or around the slices already there
    block = random.chance(70) ? before.back().block / size : before.front().block * before.front().size;
  if (block < 1) return;
  TensorType sliced = type;
  sliced.layout.set(axis, AxisState::sliced(dim, block));
  if (check_layout(sliced, mesh).empty()) type = sliced;
}

struct LayoutKinds {
  bool partial = true;
  bool varying = true;
};

/// Any legal layout; partial states are all of one operation.
inline void random_layout(Random& random, TensorType& type, const Mesh& mesh, LayoutKinds kinds = {}) {
  const ReduceOp reduce =
      random.pick(std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod});
  type.layout = {};
  for (int a = 0; a < static_cast<int>(mesh.size()); ++a) {
    if (mesh[a].size == 1) continue;
    const int64_t kind = random.between(0, 9);
    if (kind < 6)
      try_slice(random, type, mesh, a);
    else if (kind == 6 && kinds.partial)
      type.layout.set(a, AxisState::partial(reduce));
    else if (kind == 7 && kinds.varying)
      type.layout.set(a, AxisState::varying());
  }
}

/// Small whole numbers, so that every reduction is exact.
inline Tensor random_tensor(Random& random, DType dtype, const Dims& dims) {
  Tensor tensor(dtype, dims);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.put_int(i, random.between(dtype == DType::Bool ? 0 : -4, dtype == DType::Bool ? 1 : 5));
  return tensor;
}

inline std::string describe(const TensorType& type, const Mesh& mesh) {
  std::string text = "mesh";
  for (const MeshAxis& axis : mesh) text += " " + axis.name + "=" + std::to_string(axis.size);
  return text + ", " + type_text(type, mesh);
}

}  // namespace weftc
