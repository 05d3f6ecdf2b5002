#include "frontend/tied_copies.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "frontend/parameter_roles.h"
#include "frontend/tensor_bytes.h"
#include "frontend/trained_parameters.h"

namespace weftc {

namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kMostOrdered = 3;  // maximum number of dims for which every order is tried

/// Visits the elements of a tensor with its dims in another order; passes each position to `each` until it returns
/// false.
template <class Each>
bool walk(const Dims& dims, const std::vector<int64_t>& order, const Each& each) {
  const size_t ndim = dims.size();
  std::vector<int64_t> strides(ndim, 1), at(ndim, 0);
  for (size_t i = ndim; i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  int64_t from = 0;
  for (int64_t to = 0; to < count; ++to) {
    if (!each(static_cast<size_t>(to), static_cast<size_t>(from))) return false;
    for (size_t i = ndim; i-- > 0;) {
      const size_t dim = static_cast<size_t>(order[i]);
      from += strides[dim];
      if (++at[i] < dims[dim]) break;
      from -= strides[dim] * dims[dim], at[i] = 0;
    }
  }
  return true;
}

Dims ordered(const Dims& dims, const std::vector<int64_t>& order) {
  Dims made;
  for (const int64_t dim : order) made.push_back(dims[static_cast<size_t>(dim)]);
  return made;
}

/// False for tensors of few different numbers, such as initial zeros and ones of layers: equality of these shows
/// nothing.
bool says_something(Bytes bytes, size_t width) {
  constexpr size_t kFew = 4;
  std::set<std::string> seen;
  for (size_t i = 0; i + width <= bytes.size() && seen.size() <= kFew; i += width)
    seen.emplace(reinterpret_cast<const char*>(bytes.data() + i), width);
  return seen.size() > kFew;
}

class TieFinder {
 public:
  explicit TieFinder(OnnxModel& model) : model_(model), is_marked_(has_marks(model)), bytes_(model, unread_) {}
  std::vector<TiedCopy> find();

 private:
  std::vector<const OnnxTensor*> originals_of(const OnnxTensor& copy) const;
  bool may_be_original(const OnnxTensor& tensor) const;
  std::optional<TiedCopy> tie(const OnnxTensor& copy, const OnnxTensor& original);

  OnnxModel& model_;
  const bool is_marked_;
  Diags unread_;  // the importer reports tensors that cannot be read
  TensorBytes bytes_;
};

bool is_matrix(const OnnxTensor& tensor) {
  const std::optional<DType> dtype = dtype_of_element_type(tensor.element_type);
  return dtype && is_float(*dtype) && std::ranges::count_if(tensor.dims, [](int64_t dim) { return dim > 1; }) > 1;
}

bool TieFinder::may_be_original(const OnnxTensor& tensor) const {
  if (!is_marked_) return !is_exporters_name(tensor.name);
  const auto mark = model_.marks.find(tensor.name);
  return mark != model_.marks.end() && mark->second.kind == "PARAMETER";
}

/// Initialisers of which this one may be a copy, according to the file.
std::vector<const OnnxTensor*> TieFinder::originals_of(const OnnxTensor& copy) const {
  const auto mark = model_.marks.find(copy.name);
  if (mark != model_.marks.end() && !mark->second.kind.empty()) return {};
  const std::vector<std::string> sources = parameters_after(model_, copy.name);
  const bool is_noted = mark != model_.marks.end() && !mark->second.folded_from.empty();
  if (is_noted && sources.size() != 1) return {};
  std::vector<const OnnxTensor*> found;
  for (const OnnxTensor& tensor : model_.graph.initialisers) {
    if (&tensor == &copy || tensor.element_type != copy.element_type || !is_matrix(tensor)) continue;
    const bool is_before = &tensor < &copy;
    if (!is_noted && may_be_original(tensor) && (is_before || is_exporters_name(copy.name))) found.push_back(&tensor);
    if (is_noted && tensor.name == sources[0]) return {&tensor};
    // Two copies of a parameter that is not in the file itself: the first one replaces it.
    if (is_noted && is_before && parameters_after(model_, tensor.name) == sources) found.push_back(&tensor);
  }
  return found;
}

std::optional<TiedCopy> TieFinder::tie(const OnnxTensor& copy, const OnnxTensor& original) {
  const auto count = checked_count(copy.dims);
  if (!count || count != checked_count(original.dims)) return {};
  const auto to = bytes_.find(copy, "initializer", copy.loc), from = bytes_.find(original, "initializer", original.loc);
  const auto width = static_cast<size_t>(dtype_bytes(*dtype_of_element_type(copy.element_type)));
  if (!to || !from || to->size() != from->size()) return {};
  const auto same = [&](size_t a, size_t b) {
    return std::memcmp(to->data() + a * width, from->data() + b * width, width) == 0;
  };
  const bool is_invented = is_exporters_name(copy.name);
  std::vector<int64_t> order(original.dims.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    const bool is_as_it_is = std::ranges::is_sorted(order);
    if (is_as_it_is && !is_invented) continue;  // layers with equal initial values
    if (ordered(original.dims, order) != copy.dims || !walk(original.dims, order, same)) continue;
    return says_something(*from, width) ? std::optional(TiedCopy{copy.name, original.name, order}) : std::nullopt;
  } while (order.size() <= kMostOrdered && std::ranges::next_permutation(order).found);
  const bool is_reshape = is_invented && std::memcmp(to->data(), from->data(), to->size()) == 0;
  return is_reshape && says_something(*from, width) ? std::optional(TiedCopy{copy.name, original.name, {}})
                                                    : std::nullopt;
}

std::vector<TiedCopy> TieFinder::find() {
  std::vector<TiedCopy> ties;
  std::set<std::string> copies;
  for (const OnnxTensor& copy : model_.graph.initialisers) {
    if (!is_matrix(copy)) continue;
    std::vector<TiedCopy> found;
    for (const OnnxTensor* original : originals_of(copy))
      if (!copies.contains(original->name))
        if (auto made = tie(copy, *original)) found.push_back(std::move(*made));
    if (found.size() != 1) continue;  // with several candidates the original is ambiguous
    copies.insert(copy.name);
    ties.push_back(std::move(found[0]));
  }
  return ties;
}

}  // namespace

std::vector<TiedCopy> find_tied_copies(OnnxModel& model) { return TieFinder(model).find(); }

std::vector<std::byte> bytes_of_copy(const TiedCopy& tie, Bytes original, const Dims& dims, size_t width) {
  std::vector<std::byte> bytes(original.begin(), original.end());
  if (tie.order.empty()) return bytes;
  walk(dims, tie.order, [&](size_t to, size_t from) {
    std::memcpy(bytes.data() + to * width, original.data() + from * width, width);
    return true;
  });
  return bytes;
}

}  // namespace weftc
