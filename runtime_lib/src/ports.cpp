// Finds the elements of a global tensor that a rank holds, and copies them in runs of neighbours. The layout of a port
// describes them as slices: rank r holds the indices i of a dimension with i / block % size == r's coordinate.
#include "ports.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "weft/random.h"

namespace weft {

/// The extent of a dimension in the rank's buffer. Slices that divide the extent leave the extent over their
/// sizes; a ragged slice, which is alone on its dimension, has room for a block.
static int64_t local_extent(const Port& port, int dim) {
  int64_t extent = port.shape.dims[dim], ragged = -1;
  for (const Slice& s : port.layout.slices) {
    if (s.dim != dim) continue;
    if (port.shape.dims[dim] % (s.block * s.group.size()) != 0) ragged = s.block;
    extent /= s.group.size();
  }
  return ragged >= 0 ? ragged : extent;
}

// The global indices of a dimension that the rank holds, in the order of its buffer.
static std::vector<int64_t> held_indices(const Port& port, int dim, int rank) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < port.shape.dims[dim]; ++i) {
    bool held = true;
    for (const Slice& s : port.layout.slices)
      held &= s.dim != dim || i / s.block % s.group.size() == s.group.index(rank);
    if (held) out.push_back(i);
  }
  return out;
}

PortView::PortView(const Port& p, int rank) : port(p), copy(p.layout.per_rank.index(rank)) {
  for (int d = 0; d < p.shape.ndim; ++d) {
    extents.push_back(local_extent(p, d));
    index.push_back(held_indices(p, d, rank));
  }
}

int64_t PortView::bytes() const {
  int64_t n = element_bytes(port.dtype);
  for (const int64_t d : extents) n *= d;
  return n;
}

std::vector<int64_t> file_shape(const Port& port) {
  std::vector<int64_t> out;
  if (port.layout.per_rank.naxes > 0) out.push_back(port.layout.per_rank.size());
  for (int d = 0; d < port.shape.ndim; ++d) out.push_back(port.shape.dims[d]);
  return out;
}

namespace {

/// Calls run(global element, local element, n) for the runs of elements that are neighbours on both sides.
template <class Run>
struct PartWalk {
  const PortView& view;
  const int64_t* global_shape;  // without the leading dimension
  Run& run;

  /// How many contiguous elements of the dimension the buffer has room for, if the rank holds `held`.
  int64_t room_of(size_t dim, int64_t held) const {
    const Layout& layout = view.port.layout;
    const bool is_length = !layout.by_bounds && std::any_of(layout.bounds.begin(), layout.bounds.end(),
                                                            [&](const Bound& b) { return size_t(b.dim) == dim; });
    return is_length ? held : view.extents[dim];
  }

  void walk(size_t dim, int64_t global, int64_t local) {
    const size_t ndim = view.extents.size();
    if (dim == ndim) return run(global, local, 1);
    const std::vector<int64_t>& index = view.index[dim];
    const int64_t held = std::lower_bound(index.begin(), index.end(), global_shape[dim]) - index.begin();
    for (int64_t i = 0; i < held;) {
      int64_t n = 1;
      const int64_t here = global * global_shape[dim] + index[size_t(i)], there = local * room_of(dim, held) + i;
      if (dim + 1 == ndim) {
        while (i + n < held && index[size_t(i + n)] == index[size_t(i)] + n) ++n;
        run(here, there, n);
      } else {
        walk(dim + 1, here, there);
      }
      i += n;
    }
  }
};

template <class Run>
void for_each_part(const PortView& view, const std::vector<int64_t>& shape, Run&& run) {
  const size_t leading = shape.size() - view.extents.size();
  PartWalk<Run>{view, shape.data() + leading, run}.walk(0, leading > 0 ? view.copy : 0, 0);
}

uint32_t name_hash(const char* name) {  // FNV-1a
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ uint8_t(*name)) * 16777619u;
  return hash;
}

/// Element `i` of a random input: 24 bits of Philox with key (low word of the seed, FNV-1a of the name) and counter
/// (i low, i high, 0, high word of the seed). Floats are uniform in [-1, 1), integers and booleans the lowest bit,
/// strings its digit.
template <class T>
T random_value(const Random& random, int64_t i) {
  if constexpr (std::is_same_v<T, String>)
    return {1, {random.bits(i) >> 8 & 1 ? '1' : '0'}};
  else if constexpr (std::is_integral_v<T>)
    return T(random.bits(i) >> 8 & 1);
  else
    return T(2 * random.uniform(i) - 1);
}

template <class T>
void fill_random(const PortView& view, const std::vector<int64_t>& shape, const Random& random, char* buffer) {
  T* out = reinterpret_cast<T*>(buffer);
  for_each_part(view, shape, [&](int64_t global, int64_t local, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[local + i] = random_value<T>(random, global + i);
  });
}

}  // namespace

void take_part(const PortView& view, const std::vector<int64_t>& shape, const char* whole, char* buffer) {
  const int64_t element = element_bytes(view.port.dtype);
  for_each_part(view, shape, [&](int64_t global, int64_t local, int64_t n) {
    memcpy(buffer + local * element, whole + global * element, size_t(n * element));
  });
}

void put_part(const PortView& view, const std::vector<int64_t>& shape, const char* buffer, char* whole) {
  const int64_t element = element_bytes(view.port.dtype);
  for_each_part(view, shape, [&](int64_t global, int64_t local, int64_t n) {
    memcpy(whole + global * element, buffer + local * element, size_t(n * element));
  });
}

void take_random(const PortView& view, const std::vector<int64_t>& shape, uint64_t seed, char* buffer) {
  const Random random{uint32_t(seed), name_hash(view.port.name), 0, uint32_t(seed >> 32)};
  switch (view.port.dtype) {
    case DType::F32:
      return fill_random<float>(view, shape, random, buffer);
    case DType::F64:
      return fill_random<double>(view, shape, random, buffer);
    case DType::F16:
      return fill_random<half>(view, shape, random, buffer);
    case DType::BF16:
      return fill_random<bfloat16>(view, shape, random, buffer);
    case DType::I8:
      return fill_random<int8_t>(view, shape, random, buffer);
    case DType::I16:
      return fill_random<int16_t>(view, shape, random, buffer);
    case DType::I32:
      return fill_random<int32_t>(view, shape, random, buffer);
    case DType::I64:
      return fill_random<int64_t>(view, shape, random, buffer);
    case DType::U8:
      return fill_random<uint8_t>(view, shape, random, buffer);
    case DType::U16:
      return fill_random<uint16_t>(view, shape, random, buffer);
    case DType::U32:
      return fill_random<uint32_t>(view, shape, random, buffer);
    case DType::U64:
      return fill_random<uint64_t>(view, shape, random, buffer);
    case DType::Bool:
      return fill_random<bool>(view, shape, random, buffer);
    case DType::F8E4M3FN:
      return fill_random<float8e4m3fn>(view, shape, random, buffer);
    case DType::F8E4M3FNUZ:
      return fill_random<float8e4m3fnuz>(view, shape, random, buffer);
    case DType::F8E5M2:
      return fill_random<float8e5m2>(view, shape, random, buffer);
    case DType::F8E5M2FNUZ:
      return fill_random<float8e5m2fnuz>(view, shape, random, buffer);
    case DType::F8E8M0:
      return fill_random<float8e8m0>(view, shape, random, buffer);
    case DType::F4E2M1:
      return fill_random<float4e2m1>(view, shape, random, buffer);
    case DType::F6E2M3:
      return fill_random<float6e2m3>(view, shape, random, buffer);
    case DType::F6E3M2:
      return fill_random<float6e3m2>(view, shape, random, buffer);
    case DType::I4:
      return fill_random<signed4>(view, shape, random, buffer);
    case DType::U4:
      return fill_random<unsigned4>(view, shape, random, buffer);
    case DType::I2:
      return fill_random<signed2>(view, shape, random, buffer);
    case DType::U2:
      return fill_random<unsigned2>(view, shape, random, buffer);
    case DType::String:
      return fill_random<String>(view, shape, random, buffer);
  }
}

static bool contains(std::span<const int> ranks, int rank) {
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

const Program& program_of(const Executable& executable, int rank) {
  for (const Program& program : executable.programs)
    if (contains(program.ranks, rank)) return program;
  fail(kBug, "no program for rank %d", rank);
}

bool holds(const Program& program, const Port& port, int rank) {
  return contains(program.ranks, rank) && contains(port.layout.ranks, rank);
}

const Port* find_port(std::span<const Port> ports, const char* name) {
  for (const Port& port : ports)
    if (std::string_view(port.name) == name) return &port;
  return nullptr;
}

std::vector<const Port*> distinct_ports(const Executable& executable, std::span<const Port> Program::*ports) {
  std::vector<const Port*> out;
  std::unordered_set<std::string_view> names;  // a training has thousands
  for (const Program& program : executable.programs)
    for (const Port& port : program.*ports)
      if (names.insert(port.name).second) out.push_back(&port);
  return out;
}

bool is_state_input(const Executable& executable, const char* name) {
  for (const State& state : executable.states)
    if (std::string_view(state.input) == name) return true;
  return false;
}

/// True if a lower rank holds the same tensor and `holds_it` is true for it.
template <class Predicate>
static bool any_lower_holder(const Executable& executable, const Port& port, std::span<const Port> Program::*ports,
                             int rank, Predicate&& holds_it) {
  for (int other = 0; other < rank; ++other) {
    const Program& program = program_of(executable, other);
    for (const Port& theirs : program.*ports)
      if (std::string_view(theirs.name) == port.name && holds(program, theirs, other) && holds_it(theirs, other))
        return true;
  }
  return false;
}

// If several ranks hold the same part, the lowest writes it.
bool writes_part(const Executable& executable, const Port& port, std::span<const Port> Program::*ports, int rank) {
  const PortView mine(port, rank);
  return !any_lower_holder(executable, port, ports, rank, [&](const Port& theirs, int other) {
    const PortView view(theirs, other);
    return view.index == mine.index && view.copy == mine.copy;
  });
}

bool is_first_holder(const Executable& executable, const Port& port, std::span<const Port> Program::*ports, int rank) {
  return !any_lower_holder(executable, port, ports, rank, [](const Port&, int) { return true; });
}

}  // namespace weft
