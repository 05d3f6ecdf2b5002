// Queries of a Plan: the steps inside a step, the ranks that meet in one, the holders of a place. Planning, proof,
// evaluation and backend share them.
#pragma once
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// The lists of steps inside a For, an If or a Loop; empty for every other step.
std::vector<const std::vector<Step>*> bodies_of(const Step& step);
std::vector<std::vector<Step>*> bodies_of(Step& step);

/// Calls `visit` with each step of a list and of the lists inside it, a step before the steps inside it. If `visit`
/// returns false, the steps inside are skipped.
template <class Steps, class Visit>
void for_each_step(Steps& steps, const Visit& visit) {
  for (auto& step : steps) {
    bool enters = true;
    if constexpr (std::is_same_v<decltype(visit(step)), bool>)
      enters = visit(step);
    else
      visit(step);
    if (!enters) continue;
    for (auto* body : bodies_of(step)) for_each_step(*body, visit);
  }
}

/// How a kernel is used: launched, called by the one kernel of a loop over chunks, or both.
struct KernelUses {
  bool launched = false, in_chunks = false;
};
/// The uses of each kernel, by KernelId.
std::vector<KernelUses> kernel_uses(const Plan& plan);

/// The number of steps of a list, and of the lists inside it, that touch a buffer.
int users_in(const std::vector<Step>& steps, BufferId buffer);
/// The number of steps of a Plan that touch each buffer, by BufferId; an input, an output and a length count as one
/// more.
std::vector<int> buffer_users(const Plan& plan);

/// Names for the rows of an axis. `length` tells kernels how many rows they are given. Emitted code also has the first
/// row, their number, the number of all rows and of blocks.
struct RowWords {
  const char *length, *first, *count, *all, *blocks;
};
/// Words for axis `axis` of `axes`, outer first.
const RowWords& row_words(size_t axis, size_t axes);
/// The axis whose number of rows a kernel's named length is; nothing for a length of the model.
std::optional<size_t> row_axis(const SharedRows& rows, const Length& length);
/// The dimension that holds `count` rows at a distance of `stride` elements: S(dim, block) if `block` of its indices
/// are one row, R without such a dimension.
AxisState rows_of_type(const TensorType& type, const Storage& storage, const Length& count, const Length& stride);
/// Upper bound on the elements of a buffer from the first to the last one of a block of rows.
int64_t block_elements(const Plan& plan, const SharedRows& rows, BufferId buffer);
/// Panels that the kernels of a chain keep from one block of rows to the next.
int64_t kept_bytes(const Plan& plan, const LoopStep& chain);

/// The value of a kernel's body that a parameter stands for: an input or an output.
ValueId parameter_value(const Graph& body, size_t parameter);
/// Whether a parameter takes the buffer in its present storage. Without run-time lengths memory is by bounds anyway.
bool is_stored_as(const Buffer& buffer, const Storage& wanted);

/// Axes of the place over which a launched kernel waits for its peers, because it accesses their windows; empty for
/// every other step.
std::vector<int> barrier_axes(const Plan& plan, const Step& step);

/// The ranks of a place that differ from `rank` on these axes only, itself among them, in the order of the place.
std::vector<int> rank_group(const Place& place, const std::vector<int>& axes, int rank);

/// The port of that name among a Plan's inputs or outputs; null if absent.
const Port* find_port(const std::vector<Port>& ports, std::string_view name);

/// True if the ranks of a program run in this place. All its ranks are in the same places, so the first one is checked.
bool holds(const Plan& plan, const Program& program, PlaceId place);

/// Time axes, those from `place_axes` on, over which a value of type `type` is a slice of its memory: the value's
/// layout slices them and the memory's does not.
std::vector<int> whole_over(const TensorType& type, const TensorType& memory, int place_axes, int mesh_axes);

/// The next multiple of `unit`.
int64_t round_up_to(int64_t number, int64_t unit);

}  // namespace weftc
