// Creates the local tensors of a layout from a global tensor, assembles them, and converts one layout to another. The
// class Reshard below does all of it. The rest decides its arguments and checks its inputs (equal copies for R, dims).
#include "ir/evaluate/evaluate_layout.h"

#include <algorithm>
#include <cmath>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace weftc {

using Kind = AxisState::Kind;

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.dims != b.dims) return false;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (!a.is_real() && a.integers[i] != b.integers[i]) return false;
    if (a.is_real() && a.real[i] != b.real[i] && !(std::isnan(a.real[i]) && std::isnan(b.real[i]))) return false;
  }
  return true;
}

/// The smallest value of an integer type: the identity of a maximum.
static int64_t lowest_int(DType dtype) {
  switch (dtype) {
    case DType::I8:
      return INT8_MIN;
    case DType::I16:
      return INT16_MIN;
    case DType::I32:
      return INT32_MIN;
    case DType::I64:
      return INT64_MIN;
    default:
      return 0;
  }
}

/// The largest value of an integer type, as a signed integer with the same 64 bits.
static int64_t highest_int(DType dtype) {
  switch (dtype) {
    case DType::I8:
      return INT8_MAX;
    case DType::I16:
      return INT16_MAX;
    case DType::I32:
      return INT32_MAX;
    case DType::U8:
      return UINT8_MAX;
    case DType::U16:
      return UINT16_MAX;
    case DType::U32:
      return UINT32_MAX;
    case DType::U64:
      return -1;  // all bits
    case DType::Bool:
      return 1;
    default:
      return INT64_MAX;
  }
}

void fill_identity(Tensor& tensor, ReduceOp op) {
  if (tensor.is_real()) return std::fill(tensor.real.begin(), tensor.real.end(), reduce_identity(op)), void();
  const int64_t value = op == ReduceOp::Max   ? lowest_int(tensor.dtype)
                        : op == ReduceOp::Min ? highest_int(tensor.dtype)
                                              : static_cast<int64_t>(reduce_identity(op));
  std::fill(tensor.integers.begin(), tensor.integers.end(), value);
}

/// NaN wins in a maximum or minimum, as in the collectives of the runtime.
static double reduced(double a, double b, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return a + b;
    case ReduceOp::Prod:
      return a * b;
    case ReduceOp::Max:
      return std::isnan(a) || a > b ? a : b;
    case ReduceOp::Min:
      return std::isnan(a) || a < b ? a : b;
  }
  return a;
}

/// Integers wrap; u64 compares as unsigned.
static int64_t reduced_int(int64_t a, int64_t b, ReduceOp op, DType dtype) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool less = dtype == DType::U64 ? ua < ub : a < b;
  switch (op) {
    case ReduceOp::Sum:
      return static_cast<int64_t>(ua + ub);
    case ReduceOp::Prod:
      return static_cast<int64_t>(ua * ub);
    case ReduceOp::Max:
      return less ? b : a;
    case ReduceOp::Min:
      return less ? a : b;
  }
  return a;
}

void accumulate(Tensor& into, int64_t i, const Tensor& from, int64_t k, ReduceOp op) {
  if (into.is_real())
    into.real[i] = reduced(into.real[i], from.real[k], op);
  else
    into.integers[i] = wrap(into.dtype, reduced_int(into.integers[i], from.integers[k], op, into.dtype));
}

namespace {

/// Strides of a rank's index in the mesh, by axis (row-major, the last axis fastest).
std::vector<int> rank_strides(const Mesh& mesh) {
  std::vector<int> strides(mesh.size(), 1);
  for (int a = static_cast<int>(mesh.size()) - 2; a >= 0; --a) strides[a] = strides[a + 1] * mesh[a + 1].size;
  return strides;
}

/// Location of each global index of one dimension: the position in the local tensor of the rank that holds it, and the
/// part of that rank's index that this dimension's slices determine.
struct DimSource {
  std::vector<int64_t> position;
  std::vector<int> rank;
};

/// One reshard: gathers any rank's target tensor from the source tensors. For each target element the owner's index is
/// the sum of three parts. They are the slices of the source (DimSource), the target's own coordinate on axes that are
/// neither sliced nor reduced, and, for a reduction, each member of the group in turn.
class Reshard {
 public:
  Reshard(const std::vector<const Tensor*>& sources, const TensorType& from, const TensorType& to, const Mesh& mesh,
          ReduceOp varying);
  /// The tensor that a rank holds afterwards.
  Tensor target(int rank) const;

 private:
  /// Locates each index of a dimension by the source's digits. Positions count up in the order of global
  /// indices.
  DimSource locate(int dim) const;
  int64_t sliced_extent(int dim, const std::vector<Digit>& digits) const;
  /// The global indices of a dimension that the target's rank holds.
  std::vector<int64_t> wanted(int dim, const Coordinates& at) const;
  /// True if the axis goes from partial or varying to something else: its ranks are reduced.
  bool reduces(int axis) const;
  const Tensor& any_source() const {
    return **std::find_if(sources_.begin(), sources_.end(), [](const Tensor* t) { return t != nullptr; });
  }

  const std::vector<const Tensor*>& sources_;
  const TensorType &from_, &to_;
  const Mesh& mesh_;
  ReduceOp op_;
  std::vector<int> strides_;
  std::vector<int> group_;          // offsets of the ranks that are reduced, in rank order; {0}: no reduction
  std::vector<DimSource> located_;  // by dim
  std::vector<Dims> source_strides_;
};

bool Reshard::reduces(int axis) const {
  const AxisState from = from_.layout[axis];
  return (from.is(Kind::P) || from.is(Kind::V)) && !(from == to_.layout[axis]);
}

Reshard::Reshard(const std::vector<const Tensor*>& sources, const TensorType& from, const TensorType& to,
                 const Mesh& mesh, ReduceOp varying)
    : sources_(sources), from_(from), to_(to), mesh_(mesh), op_(varying), strides_(rank_strides(mesh)), group_{0} {
  for (int a = 0; a < static_cast<int>(mesh.size()); ++a) {
    if (!reduces(a)) continue;
    if (from.layout[a].is(Kind::P)) op_ = from.layout[a].op;
    std::vector<int> wider;
    for (int offset : group_)
      for (int c = 0; c < mesh[a].size; ++c) wider.push_back(offset + c * strides_[a]);
    group_ = std::move(wider);
  }
  for (int d = 0; d < from.ndim(); ++d) located_.push_back(locate(d));
  for (const Tensor* source : sources) source_strides_.push_back(source ? strides_of(source->dims) : Dims{});
}

/// The sum of the slices of a run-time length over the ranks of the axis. `at`: coordinates of one of these ranks.
int64_t length_of_slices(const std::vector<const Tensor*>& locals, const Mesh& mesh, int dim, int axis,
                         Coordinates at) {
  int64_t length = 0;
  for (at[axis] = 0; at[axis] < mesh[axis].size; ++at[axis])
    if (const Tensor* local = locals[index_of(mesh, at)]) length += local->dims[dim];
  return length;
}

int64_t Reshard::sliced_extent(int dim, const std::vector<Digit>& digits) const {
  if (!from_.shape[dim].is_run_time()) return from_.shape[dim].bound;
  const auto any = std::find_if(sources_.begin(), sources_.end(), [](const Tensor* t) { return t != nullptr; });
  const Coordinates at = coordinates_of(mesh_, static_cast<int>(any - sources_.begin()));
  return length_of_slices(sources_, mesh_, dim, digits[0].axis, at);
}

DimSource Reshard::locate(int dim) const {
  const std::vector<Digit> digits = digits_of(from_.layout, dim, mesh_);
  const int64_t extent = digits.empty() ? any_source().dims[dim] : sliced_extent(dim, digits);
  const bool ragged = is_ragged(from_.shape[dim], digits);
  std::vector<int64_t> filled(mesh_size(mesh_), 0);
  DimSource source;
  for (int64_t i = 0; i < extent; ++i) {
    int rank = 0;
    for (const Digit& d : digits)
      rank += static_cast<int>(ragged ? i / d.block : i / d.block % d.size) * strides_[d.axis];
    source.rank.push_back(rank);
    source.position.push_back(filled[rank]++);
  }
  return source;
}

std::vector<int64_t> Reshard::wanted(int dim, const Coordinates& at) const {
  const std::vector<Digit> digits = digits_of(to_.layout, dim, mesh_);
  return held_indices(static_cast<int64_t>(located_[dim].rank.size()), digits, at);
}

Tensor Reshard::target(int rank) const {
  const Coordinates at = coordinates_of(mesh_, rank);
  int base = 0;
  std::optional<ReduceOp> identity;
  for (int a = 0; a < static_cast<int>(mesh_.size()); ++a) {
    if (!from_.layout[a].is(Kind::S) && !reduces(a)) base += at[a] * strides_[a];
    if (to_.layout[a].is(Kind::P) && from_.layout[a].is(Kind::R) && at[a] > 0) identity = to_.layout[a].op;
  }
  std::vector<std::vector<int64_t>> held;
  Dims dims;
  for (int d = 0; d < from_.ndim(); ++d) {
    held.push_back(wanted(d, at));
    dims.push_back(static_cast<int64_t>(held.back().size()));
  }
  Tensor result(from_.dtype, dims);
  if (identity) return fill_identity(result, *identity), result;
  for (Index to(dims); to.more(); to.next()) {
    int owner = base;
    for (size_t d = 0; d < dims.size(); ++d) owner += located_[d].rank[held[d][to[d]]];
    for (size_t g = 0; g < group_.size(); ++g) {
      const int source = owner + group_[g];
      int64_t position = 0;
      for (size_t d = 0; d < dims.size(); ++d)
        position += located_[d].position[held[d][to[d]]] * source_strides_[source][d];
      if (g == 0)
        result.copy_element(to.linear(), *sources_[source], position);
      else
        accumulate(result, to.linear(), *sources_[source], position, op_);
    }
  }
  return result;
}

/// One step reduces with one operation. If the axes need a second one, returns it, and the type `between` the two
/// steps.
std::optional<ReduceOp> other_reduction(const TensorType& from, const TensorType& to, TensorType& between) {
  std::optional<ReduceOp> first, other;
  between = from;
  for (int a = 0; a < from.layout.size(); ++a) {
    if (!from.layout[a].is(Kind::P) || from.layout[a] == to.layout[a]) continue;
    if (!first) first = from.layout[a].op;
    if (from.layout[a].op == *first)
      between.layout.set(a, {});
    else
      other = from.layout[a].op;
  }
  return other;
}

std::vector<const Tensor*> pointers(const Locals& locals) {
  std::vector<const Tensor*> to;
  for (const Tensor& tensor : locals) to.push_back(&tensor);
  return to;
}

std::vector<int> all_ranks(const Mesh& mesh) {
  std::vector<int> ranks(mesh_size(mesh));
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
  return ranks;
}

/// Reshards to all ranks. No axis varies here, so the operation does not matter.
Locals reshard_all(const std::vector<const Tensor*>& sources, const TensorType& from, const TensorType& to,
                   const Mesh& mesh) {
  return reshard_some(sources, from, to, mesh, all_ranks(mesh), ReduceOp::Sum);
}

/// The axes whose state is V.
std::vector<int> varying_axes(const TensorType& type) {
  std::vector<int> axes;
  for (int a = 0; a < type.layout.size(); ++a)
    if (type.layout[a].is(Kind::V)) axes.push_back(a);
  return axes;
}

/// The type with R on every axis that is not V.
TensorType gathered(const TensorType& type) {
  TensorType all = type;
  for (int a = type.layout.size() - 1; a >= 0; --a)
    if (!type.layout[a].is(Kind::V)) all.layout.set(a, {});
  return all;
}

/// The number of unrelated copies.
int64_t copies_of(const std::vector<int>& axes, const Mesh& mesh) {
  int64_t copies = 1;
  for (int a : axes) copies *= mesh[static_cast<size_t>(a)].size;
  return copies;
}

/// Position of a rank's copy in a stack over the V axes.
int64_t copy_number(const std::vector<int>& axes, const Mesh& mesh, const Coordinates& at) {
  int64_t number = 0;
  for (int a : axes) number = number * mesh[a].size + at[a];
  return number;
}

/// One copy out of a stack.
Tensor unstack(const Tensor& stack, int64_t number) {
  Tensor copy(stack.dtype, Dims(stack.dims.begin() + 1, stack.dims.end()));
  for (int64_t i = 0; i < copy.size(); ++i) copy.copy_element(i, stack, number * copy.size() + i);
  return copy;
}

std::string coordinates_text(const Mesh& mesh, const Coordinates& at) {
  std::vector<std::string> parts;
  for (size_t a = 0; a < mesh.size(); ++a) parts.push_back(format("{} {}", mesh[a].name, at[a]));
  return join(parts, ", ");
}

/// Reports where two ranks that must hold equal copies (R) differ; "" if none do.
std::string check_replicas(const Locals& locals, const TensorType& type, const Mesh& mesh) {
  for (size_t rank = 0; rank < locals.size(); ++rank) {
    const Coordinates at = coordinates_of(mesh, static_cast<int>(rank));
    Coordinates first = at;
    for (int a = 0; a < static_cast<int>(mesh.size()); ++a)
      if (type.layout[a].is(Kind::R)) first[a] = 0;
    if (!same_elements(locals[rank], locals[index_of(mesh, first)]))
      return format("the copies at ({}) and ({}) differ", coordinates_text(mesh, first), coordinates_text(mesh, at));
  }
  return "";
}

/// A rank's part of a run-time length: for an unsliced one the length on rank 0, for a sliced one the rank's block of
/// the total.
int64_t run_time_part(const Locals& locals, const TensorType& type, const Mesh& mesh, int dim, const Coordinates& at) {
  const std::vector<Digit> digits = digits_of(type.layout, dim, mesh);
  if (digits.empty()) return locals[0].dims[dim];
  return local_extent(length_of_slices(pointers(locals), mesh, dim, digits[0].axis, at), digits, at);
}

/// Reports where a local tensor's dims differ from its layout; "" if none do. Run-time lengths are compared with rank
/// 0's.
std::string check_dims(const Locals& locals, const TensorType& type, const Mesh& mesh) {
  if (static_cast<int>(locals.size()) != mesh_size(mesh))
    return format("{} local tensors on {} ranks", locals.size(), mesh_size(mesh));
  for (size_t rank = 0; rank < locals.size(); ++rank) {
    if (locals[rank].dtype != type.dtype) return std::string("an element type is ") + dtype_name(locals[rank].dtype);
    const Coordinates at = coordinates_of(mesh, static_cast<int>(rank));
    Dims expected = local_dims(type, mesh, at);
    for (size_t d = 0; d < expected.size() && locals[rank].dims.size() == expected.size(); ++d)
      if (type.shape[d].is_run_time()) expected[d] = run_time_part(locals, type, mesh, static_cast<int>(d), at);
    if (locals[rank].dims != expected)
      return format("rank {} holds {} where its layout says {}", rank, dims_text(locals[rank].dims),
                    dims_text(expected));
  }
  return "";
}

}  // namespace

Locals reshard_some(const std::vector<const Tensor*>& sources, const TensorType& from, const TensorType& to,
                    const Mesh& mesh, const std::vector<int>& targets, ReduceOp varying) {
  TensorType between;
  if (other_reduction(from, to, between)) {
    const Locals reduced = reshard_some(sources, from, between, mesh, all_ranks(mesh), varying);
    return reshard_some(pointers(reduced), between, to, mesh, targets, varying);
  }
  const Reshard step(sources, from, to, mesh, varying);
  Locals made;
  for (int target : targets) made.push_back(step.target(target));
  return made;
}

Locals reshard(const Locals& locals, const TensorType& from, const TensorType& to, const Mesh& mesh, ReduceOp varying) {
  WEFT_CHECK(static_cast<int>(locals.size()) == mesh_size(mesh), "a local tensor for each rank");
  return reshard_some(pointers(locals), from, to, mesh, all_ranks(mesh), varying);
}

Locals exchange_rooted(const std::vector<const Tensor*>& sources, const TensorType& from, const Rooted& rooted,
                       const Mesh& mesh) {
  TensorType reduced = from;
  Mesh group;
  for (const int64_t axis : rooted.axes) {
    group.push_back(mesh[static_cast<size_t>(axis)]);
    reduced.layout.set(static_cast<int>(axis), {});
  }
  const Coordinates root_in_group = coordinates_of(group, rooted.root);
  Locals made;
  for (size_t rank = 0; rank < sources.size(); ++rank) {
    if (!sources[rank]) continue;
    Coordinates root = coordinates_of(mesh, static_cast<int>(rank));
    for (size_t i = 0; i < group.size(); ++i) root[static_cast<size_t>(rooted.axes[i])] = root_in_group[i];
    const int root_rank = index_of(mesh, root);
    if (rooted.kind == OpKind::Broadcast)
      made.push_back(*sources[static_cast<size_t>(root_rank)]);
    else if (root_rank == static_cast<int>(rank))
      made.push_back(reshard_some(sources, from, reduced, mesh, {root_rank}, rooted.reduce)[0]);
    else
      made.push_back(*sources[rank]);
  }
  return made;
}

Dims stacked_dims(const TensorType& type, const Mesh& mesh) {
  Dims dims = type.dims();
  if (const std::vector<int> axes = varying_axes(type); !axes.empty()) dims.insert(dims.begin(), copies_of(axes, mesh));
  return dims;
}

Locals scatter(const Tensor& global, const TensorType& type, const Mesh& mesh) {
  const std::vector<int> axes = varying_axes(type);
  const int ranks = mesh_size(mesh);
  if (axes.empty()) return reshard_all(std::vector<const Tensor*>(ranks, &global), gathered(type), type, mesh);
  Locals copies;
  for (int rank = 0; rank < ranks; ++rank)
    copies.push_back(unstack(global, copy_number(axes, mesh, coordinates_of(mesh, rank))));
  return reshard(copies, gathered(type), type, mesh);
}

std::optional<Tensor> assemble(const Locals& locals, const TensorType& type, const Mesh& mesh, std::string& why) {
  why = check_dims(locals, type, mesh);
  if (why.empty()) why = check_replicas(locals, type, mesh);
  if (!why.empty()) return {};
  const std::vector<int> axes = varying_axes(type);
  const Locals whole = reshard(locals, type, gathered(type), mesh);
  if (axes.empty()) return whole[0];
  Dims dims = whole[0].dims;
  dims.insert(dims.begin(), copies_of(axes, mesh));
  Tensor stack(type.dtype, dims);
  const int64_t each = whole[0].size();
  for (size_t rank = 0; rank < whole.size(); ++rank) {
    const int64_t number = copy_number(axes, mesh, coordinates_of(mesh, static_cast<int>(rank)));
    for (int64_t i = 0; i < each; ++i) stack.copy_element(number * each + i, whole[rank], i);
  }
  return stack;
}

}  // namespace weftc
