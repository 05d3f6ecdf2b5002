// Positions and sizes of stored tensors. A part of a storage is a digit of a dimension's index, so an offset is
// a sum of digits times the extents of the parts inside of them.
#include "ir/storage.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace weftc {

/// The next coarser block of the dimension of a part; 0: the part is its coarsest.
static int64_t coarser_block(const std::vector<Storage::Part>& parts, size_t part) {
  int64_t coarser = 0;
  for (const Storage::Part& p : parts)
    if (p.dim == parts[part].dim && p.block > parts[part].block && (coarser == 0 || p.block < coarser))
      coarser = p.block;
  return coarser;
}

/// Strides in elements, for extents that are numbers or lengths.
template <class Number>
static std::vector<Number> strides_in(const Storage& storage, const std::vector<Number>& dims) {
  std::vector<std::optional<Number>> strides(dims.size());
  Number stride = 1;
  const auto put = [&](size_t dim) { strides[dim] = stride, stride = stride * dims[dim]; };
  for (size_t d = dims.size(); storage.is_row_major() && d-- > 0;) put(d);
  for (auto part = storage.parts.rbegin(); part != storage.parts.rend(); ++part) {
    const size_t dim = static_cast<size_t>(part->dim);
    if (part->block != 1 || strides[dim]) return std::vector<Number>(dims.size(), 0);
    put(dim);
  }
  std::vector<Number> found;
  for (const std::optional<Number>& each : strides) found.push_back(each.value_or(0));
  return found;
}

Storage Storage::permuted(const std::vector<int>& order) {
  Storage storage;
  for (int dim : order) storage.parts.push_back({dim, 1});
  return storage;
}

Storage Storage::channels_last(int ndim) {
  std::vector<int> order = {0};
  for (int d = 2; d < ndim; ++d) order.push_back(d);
  order.push_back(1);
  return permuted(order);
}

Storage Storage::groups_last(int ndim, int64_t channels) {
  Storage storage = channels_last(ndim);
  if (channels == 1) return storage;
  storage.parts.back().block = channels;
  storage.parts.insert(storage.parts.begin() + 1, {1, 1});
  return storage;
}

Storage Storage::panels(int ndim, int k_dim, int n_dim, int64_t width) {
  Storage storage;
  for (int d = 0; d < ndim; ++d)
    if (d != k_dim && d != n_dim) storage.parts.push_back({d, 1});
  storage.parts.push_back({n_dim, width});
  storage.parts.push_back({k_dim, 1});
  storage.parts.push_back({n_dim, 1});
  return storage;
}

Dims Storage::stored_dims(Dims dims) const {
  for (size_t d = dims.size() - 2; winograd_tile && d < dims.size(); ++d) dims[d] = winograd_tile + 2;
  return dims;
}

Scale Storage::extent(size_t part, const IndexDims& dims) const {
  const auto [dim, block, count] = parts[part];
  if (count) return count;
  const int64_t coarser = coarser_block(parts, part);
  const Scale& size = dims[static_cast<size_t>(dim)];
  if (coarser) return coarser / block;
  return block == 1 ? size : Scale((size.number + block - 1) / block);
}

int64_t Storage::elements(const Dims& dims) const {
  WEFT_CHECK(!stripe, "the room of a part of a tensor");
  if (is_row_major()) return element_count(dims);
  const IndexDims stored = stored_dims(dims);
  int64_t count = 1;
  for (size_t p = 0; p < parts.size(); ++p) count *= extent(p, stored).number;
  return count;
}

bool Storage::has_positions() const {
  return !winograd_tile && std::none_of(parts.begin(), parts.end(), [](const Part& part) { return part.count != 0; });
}

IndexExpr Storage::offset(const IndexDims& dims, const IndexList& index) const {
  WEFT_CHECK(has_positions(), "the position of an element of a weight that only packing knows");
  if (stripe) return offset_in_whole(dims, index);
  if (is_row_major()) return linear_index(index, dims);
  IndexExpr position;
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t coarser = coarser_block(parts, p);
    const IndexExpr& of = index[static_cast<size_t>(parts[p].dim)];
    const bool is_all = coarser == 0 && parts[p].block == 1;
    const IndexExpr value = is_all ? of : digit(of, parts[p].block, coarser ? coarser / parts[p].block : 0);
    position = position * extent(p, dims) + value;
  }
  return position;
}

IndexExpr Storage::offset_in_whole(IndexDims dims, IndexList index) const {
  const size_t dim = static_cast<size_t>(stripe->dim);
  dims[dim] = stripe->extent;
  index[dim] = index[dim] + stripe->start;
  Storage whole = *this;
  whole.stripe.reset();
  return whole.offset(dims, index);
}

Dims Storage::strides(Dims dims) const {
  if (stripe) dims[static_cast<size_t>(stripe->dim)] = stripe->extent;
  return strides_in(*this, dims);
}

std::vector<Length> Storage::strides(const Shape& shape) const {
  std::vector<Length> lengths;
  for (const Extent& extent : shape) lengths.push_back(by_bounds ? Length(extent.bound) : length_of(extent));
  if (stripe) lengths[static_cast<size_t>(stripe->dim)] = stripe->extent;
  return strides_in(*this, lengths);
}

std::string Storage::text() const {
  if (stripe) {
    Storage whole = *this;
    whole.stripe.reset();
    return format("{}, {} .. {} of {} along {}", whole.text(), stripe->start, stripe->end() - 1, stripe->extent,
                  stripe->dim);
  }
  if (is_row_major()) return by_bounds ? "row-major by bounds" : "row-major";
  std::vector<std::string> texts;
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t coarser = coarser_block(parts, p);
    std::string text = std::to_string(parts[p].dim);
    if (parts[p].block > 1) text += "/" + std::to_string(parts[p].block);
    if (parts[p].count)
      text += "%" + std::to_string(parts[p].count) + "+";  // the last block is padded
    else if (coarser)
      text += "%" + std::to_string(coarser / parts[p].block);
    texts.push_back(text);
  }
  const std::string of = winograd_tile ? format(" of F({}x{}, 3x3)", winograd_tile, winograd_tile) : "";
  return join(texts, " ") + of + (by_bounds ? " by bounds" : "");
}

}  // namespace weftc
