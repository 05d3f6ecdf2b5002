// Writes each segment slice by slice, in the order of the coordinates that it is sliced over. A weight is resolved
// through its views and cut into its slice. Its elements are written in the order of its storage; short slices are
// padded.
#include "backend/pack.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "backend/checksum.h"
#include "backend/elf_section.h"
#include "backend/winograd_filters.h"
#include "ir/base/check.h"
#include "ir/plan_walk.h"
#include "ir/segments.h"

namespace weftc {

namespace {

class Output {
 public:
  explicit Output(std::FILE* file) : file_(file) {}
  void write(const void* bytes, int64_t count) {
    if (count == 0) return;  // an empty array has no address
    if (error_ == 0 && std::fwrite(bytes, 1, static_cast<size_t>(count), file_) != static_cast<size_t>(count))
      error_ = errno;
    at_ += count;
    crc_ = crc32c(crc_, bytes, static_cast<size_t>(count));
  }
  void pad_to(int64_t position) {
    static constexpr char kZeros[kSegmentPage] = {};
    while (at_ < position) write(kZeros, std::min(kSegmentPage, position - at_));
  }
  int64_t at() const { return at_; }
  /// The checksum of the bytes written since the last call.
  uint32_t take_checksum() { return std::exchange(crc_, 0); }
  /// False if not all bytes could be written; errno says why.
  bool finish() {
    if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
    errno = error_;
    return error_ == 0;
  }

 private:
  std::FILE* file_;
  int64_t at_ = 0;
  uint32_t crc_ = 0;
  int error_ = 0;
};

/// Positions of a rank's slice in the constant: an offset for each local index of each dimension.
struct Slice {
  Dims dims;                                  // room, as in buffers
  std::vector<std::vector<int64_t>> offsets;  // elements; shorter than the room for a ragged slice

  /// True if the local indices of dimension d are contiguous in memory.
  bool is_run(size_t d, int64_t stride) const {
    for (size_t i = 1; i < offsets[d].size(); ++i)
      if (offsets[d][i] != offsets[d][i - 1] + stride) return false;
    return static_cast<int64_t>(offsets[d].size()) == dims[d];
  }
  /// The position of the element with these indices, leaving out one dimension; nothing in the room after a short
  /// slice.
  std::optional<int64_t> offset_but(const std::vector<int64_t>& index, size_t without) const {
    int64_t sum = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (d == without) continue;
      if (index[d] >= static_cast<int64_t>(offsets[d].size())) return {};
      sum += offsets[d][static_cast<size_t>(index[d])];
    }
    return sum;
  }
};

Slice slice_of(const Weight& weight, const Mesh& mesh, const Coordinates& coordinates) {
  Slice slice{buffer_dims(weight.type, mesh), {}};
  const Dims strides = strides_of(weight.type.dims());
  for (int d = 0; d < weight.type.ndim(); ++d) {
    std::vector<int64_t> held =
        held_indices(weight.type.shape[d].bound, digits_of(weight.type.layout, d, mesh), coordinates);
    for (int64_t& index : held) index *= strides[static_cast<size_t>(d)];
    slice.offsets.push_back(std::move(held));
  }
  return slice;
}

void write_row_major(const Slice& slice, const char* data, int64_t element, Output& out) {
  size_t run = slice.dims.size();
  int64_t length = 1;
  while (run > 0 && slice.is_run(run - 1, length)) length *= slice.dims[--run];
  const int64_t inner_first = [&] {
    int64_t first = 0;
    for (size_t d = run; d < slice.dims.size(); ++d) first += slice.offsets[d].empty() ? 0 : slice.offsets[d][0];
    return first;
  }();
  const std::vector<char> zeros(static_cast<size_t>(length * element));
  for (Index at(Dims(slice.dims.begin(), slice.dims.begin() + static_cast<long>(run))); at.more(); at.next()) {
    int64_t from = inner_first;
    bool held = true;
    for (size_t d = 0; d < run; ++d) {
      const int64_t i = at[static_cast<int>(d)];
      held = held && i < static_cast<int64_t>(slice.offsets[d].size());
      if (held) from += slice.offsets[d][static_cast<size_t>(i)];
    }
    out.write(held ? data + from * element : zeros.data(), length * element);
  }
}

/// Writes the elements of a slice in storage order, with zeros in the padding and after a short slice. If the blocks of
/// a group are padded, the padding has elements of the next group, which are never read.
template <class T>
void write_stored(const Slice& slice, const Storage& storage, const T* data, Output& out) {
  constexpr size_t kBuffered = 65536;
  const size_t last = storage.parts.size() - 1, run_dim = static_cast<size_t>(storage.parts[last].dim);
  const IndexDims dims = slice.dims;
  Dims outer;
  for (size_t p = 0; p < last; ++p) outer.push_back(storage.extent(p, dims).number);
  const int64_t run = storage.extent(last, dims).number, step = storage.parts[last].block;
  std::vector<T> stored;
  stored.reserve(kBuffered + static_cast<size_t>(run));
  std::vector<int64_t> index(slice.dims.size());
  for (Index at(outer); at.more(); at.next()) {
    std::fill(index.begin(), index.end(), 0);
    for (size_t p = 0; p < last; ++p)
      index[static_cast<size_t>(storage.parts[p].dim)] += at[static_cast<int>(p)] * storage.parts[p].block;
    const std::vector<int64_t>& offsets = slice.offsets[run_dim];
    const std::optional<int64_t> base = slice.offset_but(index, run_dim);
    const int64_t first = index[run_dim], held = base ? static_cast<int64_t>(offsets.size()) - first : 0;
    const int64_t count = std::clamp<int64_t>((held + step - 1) / step, 0, run);
    const size_t end = stored.size();
    stored.resize(end + static_cast<size_t>(run));  // zeros
    for (int64_t j = 0; j < count; ++j)
      stored[end + static_cast<size_t>(j)] = data[*base + offsets[static_cast<size_t>(first + j * step)]];
    if (stored.size() < kBuffered) continue;
    out.write(stored.data(), static_cast<int64_t>(stored.size() * sizeof(T)));
    stored.clear();
  }
  out.write(stored.data(), static_cast<int64_t>(stored.size() * sizeof(T)));
}

/// The same for filters [n, c, 3, 3], each as its points.
void write_points(const Slice& slice, const Storage& storage, const float* data, Output& out) {
  const int64_t filters = static_cast<int64_t>(slice.offsets[0].size()), side = storage.winograd_tile + 2;
  const int64_t channels = static_cast<int64_t>(slice.offsets[1].size());
  std::vector<float> points(static_cast<size_t>(filters * channels * side * side));
  float* to = points.data();
  for (Index at({filters, channels}); at.more(); at.next(), to += side * side) {
    float window[9];
    for (Index tap({3, 3}); tap.more(); tap.next())
      window[3 * tap[0] + tap[1]] = data[*slice.offset_but({at[0], at[1], tap[0], tap[1]}, 4)];
    filter_points(window, storage.winograd_tile, to);
  }
  Slice stored{storage.stored_dims(slice.dims), {}};
  const Dims held = {filters, channels, side, side}, strides = strides_of(held);
  for (size_t d = 0; d < held.size(); ++d) {
    stored.offsets.emplace_back(held[d]);
    for (size_t i = 0; i < stored.offsets[d].size(); ++i) stored.offsets[d][i] = static_cast<int64_t>(i) * strides[d];
  }
  write_stored(stored, storage, points.data(), out);
}

void write_weight(const Weight& weight, const Constant& constant, const Mesh& mesh, const Coordinates& at,
                  Output& out) {
  const Slice slice = slice_of(weight, mesh, at);
  const auto* data = reinterpret_cast<const char*>(constant.bytes.data());
  const int64_t element = dtype_bytes(weight.type.dtype);
  if (weight.storage.is_row_major()) return write_row_major(slice, data, element, out);
  if (weight.storage.winograd_tile)
    return write_points(slice, weight.storage, reinterpret_cast<const float*>(data), out);
  if (element == 8) return write_stored(slice, weight.storage, reinterpret_cast<const uint64_t*>(data), out);
  if (element == 4) return write_stored(slice, weight.storage, reinterpret_cast<const uint32_t*>(data), out);
  if (element == 2) return write_stored(slice, weight.storage, reinterpret_cast<const uint16_t*>(data), out);
  write_stored(slice, weight.storage, reinterpret_cast<const uint8_t*>(data), out);
}

/// Coordinates on all axes of a place for the slice with that number.
Coordinates slice_coordinates(const Mesh& mesh, const std::vector<int>& axes, int number) {
  Coordinates coordinates(mesh.size());
  for (size_t a = axes.size(); a-- > 0;) {
    const size_t axis = static_cast<size_t>(axes[a]);
    coordinates[axis] = number % mesh[axis].size;
    number /= mesh[axis].size;
  }
  return coordinates;
}

/// The checksum of one slice of a segment, and the last bytes of a file of weights (weft/image.h).
struct Checksum {
  uint64_t begin, bytes;
  uint32_t crc, zero;
};
static_assert(sizeof(Checksum) == 24);
struct Footer {
  char magic[8] = {'W', 'E', 'F', 'T', 'I', 'M', 'G', '3'};
  uint64_t weights_offset, weights_bytes, manifest_offset, manifest_bytes, checksums_offset, checksums;
  uint32_t crc = 0, zero = 0;
};
static_assert(sizeof(Footer) == 64);

/// A weight of a segment, and the plan that has its constant.
struct PackedWeight {
  const Weight* weight;
  const Plan* plan;
};

std::vector<PackedWeight> weights_of(const Plans& plans, size_t segment) {
  std::vector<PackedWeight> out;
  for (const Plan* plan : plans)
    for (const Weight& weight : plan->weights)
      if (weight.segment == static_cast<int>(segment)) out.push_back({&weight, plan});
  std::stable_sort(out.begin(), out.end(),
                   [](const PackedWeight& a, const PackedWeight& b) { return a.weight->offset < b.weight->offset; });
  return out;
}

void write_slice(const Plans& plans, size_t segment, const Coordinates& coordinates, int64_t start, Output& out) {
  const Plan& first = *plans.front();
  const Mesh& mesh = first.places[first.segments[segment].place.index].mesh;
  const int64_t begin = segment_begin(first, segment);
  for (const auto& [weight, plan] : weights_of(plans, segment)) {
    // Skips an equal packing that another weight has already written.
    if (start + weight->offset - begin < out.at()) continue;
    out.pad_to(start + weight->offset - begin);
    write_weight(*weight, (*plan->constants)[weight->constant], mesh, coordinates, out);
  }
}

/// Writes all slices of all segments. Returns the checksums, which must be written after them.
std::vector<Checksum> write_segments(const Plans& plans, Output& out) {
  const Plan& plan = *plans.front();
  const std::vector<int64_t> files = segment_files(plan);
  std::vector<Checksum> checksums;
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    const Mesh& mesh = plan.places[plan.segments[s].place.index].mesh;
    const int slices = segment_slices(plan, plan.segments[s]);
    const int64_t bytes = (files[s + 1] - files[s]) / slices;
    for (int i = 0; i < slices; ++i) {
      const int64_t start = files[s] + i * bytes;
      out.pad_to(start);
      out.take_checksum();
      write_slice(plans, s, slice_coordinates(mesh, plan.segments[s].axes, i), start, out);
      out.pad_to(start + bytes);
      checksums.push_back({static_cast<uint64_t>(start), static_cast<uint64_t>(bytes), out.take_checksum(), 0});
    }
  }
  return checksums;
}

/// Weights, manifest, checksums and footer.
bool write_image(const Plans& plans, const std::string& manifest, Output& out) {
  const std::vector<Checksum> checksums = write_segments(plans, out);
  Footer footer;
  footer.weights_offset = 0;
  footer.weights_bytes = static_cast<uint64_t>(out.at());
  footer.manifest_offset = static_cast<uint64_t>(out.at());
  footer.manifest_bytes = manifest.size();
  footer.checksums_offset = footer.manifest_offset + manifest.size();
  footer.checksums = checksums.size();
  out.take_checksum();
  out.write(manifest.data(), static_cast<int64_t>(manifest.size()));
  out.write(checksums.data(), static_cast<int64_t>(checksums.size() * sizeof(Checksum)));
  out.write(&footer, offsetof(Footer, crc));
  footer.crc = out.take_checksum();
  out.write(&footer.crc, sizeof footer - offsetof(Footer, crc));
  return out.finish();
}

}  // namespace

int64_t weights_bytes(const Plan& plan) { return segment_files(plan).back(); }

bool write_weights(const Plans& plans, std::FILE* file) {
  Output out(file);
  return write_image(plans, "", out);
}

bool append_image(const Plans& plans, const std::string& manifest, const std::string& executable) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(executable.c_str(), "r+b"), std::fclose);
  if (!file) return false;
  std::setvbuf(file.get(), nullptr, _IOFBF, size_t{1} << 20);
  AddedSection section(file.get(), ".weft", kSegmentPage);
  Output out(file.get());
  return section.ok() && write_image(plans, manifest, out) && section.finish(out.at());
}

}  // namespace weftc
