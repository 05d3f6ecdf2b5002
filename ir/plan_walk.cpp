// Queries of a Plan that planning, proof, evaluation and backend must answer in the same way.
#include "ir/plan_walk.h"

#include <algorithm>
#include <set>

#include "ir/base/contains.h"

namespace weftc {

std::vector<std::vector<Step>*> bodies_of(Step& step) {
  if (auto* loop = std::get_if<ForStep>(&step.what)) return {&loop->body};
  if (auto* branch = std::get_if<IfStep>(&step.what)) return {&branch->then_body, &branch->else_body};
  if (auto* loop = std::get_if<LoopStep>(&step.what)) return {&loop->body};
  return {};
}

std::vector<const std::vector<Step>*> bodies_of(const Step& step) {
  std::vector<const std::vector<Step>*> bodies;
  for (const std::vector<Step>* body : bodies_of(const_cast<Step&>(step))) bodies.push_back(body);
  return bodies;
}

static void note_launch(const Step& step, bool KernelUses::*use, std::vector<KernelUses>& uses) {
  if (const auto* launch = std::get_if<LaunchStep>(&step.what)) uses[launch->kernel.index].*use = true;
}

std::vector<KernelUses> kernel_uses(const Plan& plan) {
  std::vector<KernelUses> uses(plan.kernels.size());
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      note_launch(step, &KernelUses::launched, uses);
      const auto* loop = std::get_if<ForStep>(&step.what);
      if (!loop || loop->mechanism == Mechanism::Streams) return true;
      for_each_step(loop->body, [&](const Step& inner) { note_launch(inner, &KernelUses::in_chunks, uses); });
      return false;
    });
  return uses;
}

int users_in(const std::vector<Step>& steps, BufferId buffer) {
  int count = 0;
  for_each_step(steps, [&](const Step& step) {
    count += std::any_of(step.accesses.begin(), step.accesses.end(),
                         [&](const Access& access) { return access.buffer == buffer; });
  });
  return count;
}

std::vector<int> buffer_users(const Plan& plan) {
  std::vector<int> users(plan.buffers.size());
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      std::set<BufferId> touched;
      for (const Access& access : step.accesses) touched.insert(access.buffer);
      for (const BufferId buffer : touched) ++users[buffer.index];
    });
  for (const Port& port : plan.inputs) ++users[port.buffer.index];
  for (const Port& port : plan.outputs) ++users[port.buffer.index];
  for (const auto& length : plan.lengths) ++users[length.buffer.index];
  return users;
}

const RowWords& row_words(size_t axis, size_t axes) {
  static constexpr RowWords kWords[SharedRows::kMostAxes] = {
      {"own rows", "row", "rows", "all_rows", "row_blocks"},
      {"own matrices", "matrix", "matrices", "all_matrices", "matrix_blocks"},
      {"own batches", "batch", "batches", "all_batches", "batch_blocks"}};
  return kWords[axes - 1 - axis];
}

std::optional<size_t> row_axis(const SharedRows& rows, const Length& length) {
  const size_t axes = rows.axes.size();
  for (size_t a = 0; a < axes; ++a)
    if (length == Length::named(row_words(a, axes).length, rows.axes[a].count.high())) return a;
  return {};
}

AxisState rows_of_type(const TensorType& type, const Storage& storage, const Length& count, const Length& stride) {
  const std::vector<Length> strides = storage.strides(type.shape);
  for (int d = 0; d < type.ndim(); ++d) {
    const std::optional<Length> block = exact_quotient(stride, strides[static_cast<size_t>(d)]);
    const bool is_number = block && block->is_constant() && block->constant() > 0;
    if (is_number && length_of(type.shape[d]) == count * *block) return AxisState::sliced(d, block->constant());
  }
  return {};
}

/// Uses the bounds of the dimensions: a length's own bound may be larger than the model's bound.
int64_t block_elements(const Plan& plan, const SharedRows& rows, BufferId id) {
  const Buffer& buffer = plan.buffer(id);
  const Dims strides = buffer.storage.strides(buffer.dims());
  int64_t elements = element_count(buffer.dims());
  for (const RowAxis& axis : rows.axes) {
    const auto at = axis.strides.find(id);
    if (at == axis.strides.end() || !axis.block) continue;
    const AxisState own = rows_of_type(buffer.type, buffer.storage, axis.count, at->second);
    if (!own.is(AxisState::Kind::S)) continue;
    const size_t dim = static_cast<size_t>(own.dim);
    elements -= std::max<int64_t>(0, buffer.dims()[dim] - axis.block * own.block) * strides[dim];
  }
  return elements;
}

int64_t kept_bytes(const Plan& plan, const LoopStep& chain) {
  int64_t bytes = 0;
  for (const Step& step : chain.body)
    if (const auto* launch = std::get_if<LaunchStep>(&step.what))
      bytes += kept_bytes_of(plan.kernel(launch->kernel).strategy);
  return bytes;
}

ValueId parameter_value(const Graph& body, size_t parameter) {
  const size_t inputs = body.inputs().size();
  return parameter < inputs ? body.inputs()[parameter] : body.outputs()[parameter - inputs].value;
}

bool is_stored_as(const Buffer& buffer, const Storage& wanted) {
  return buffer.storage.parts == wanted.parts &&
         (buffer.storage.by_bounds == wanted.by_bounds || is_static(buffer.type.shape));
}

std::vector<int> barrier_axes(const Plan& plan, const Step& step) {
  const auto* launch = std::get_if<LaunchStep>(&step.what);
  if (!launch || plan.kernel(launch->kernel).category != Category::Collective) return {};
  for (const Access& access : step.accesses)
    if (!access.peers.empty()) return access.peers;
  return {};
}

std::vector<int> rank_group(const Place& place, const std::vector<int>& axes, int rank) {
  const int own = place.index_of(rank);
  std::vector<int> group;
  for (int other = 0; other < place.size(); ++other) {
    bool differs = false;  // on an axis that is not listed
    int stride = 1;
    for (int a = static_cast<int>(place.mesh.size()) - 1; a >= 0; --a) {
      const int size = place.mesh[static_cast<size_t>(a)].size;
      differs |= own / stride % size != other / stride % size && !contains(axes, a);
      stride *= size;
    }
    if (!differs) group.push_back(place.ranks[static_cast<size_t>(other)]);
  }
  return group;
}

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  const auto at = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return at == ports.end() ? nullptr : &*at;
}

bool holds(const Plan& plan, const Program& program, PlaceId place) {
  return plan.places[place.index].holds(program.ranks.front());
}

std::vector<int> whole_over(const TensorType& type, const TensorType& memory, int place_axes, int mesh_axes) {
  std::vector<int> axes;
  for (int axis = place_axes; axis < mesh_axes; ++axis)
    if (type.layout[axis].is(AxisState::Kind::S) && !memory.layout[axis].is(AxisState::Kind::S)) axes.push_back(axis);
  return axes;
}

int64_t round_up_to(int64_t number, int64_t unit) { return (number + unit - 1) / unit * unit; }

}  // namespace weftc
