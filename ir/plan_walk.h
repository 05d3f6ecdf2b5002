// What everyone who reads a Plan asks of it: the steps inside a step, the ranks that meet in one, who holds a place.
// Planning, proof, evaluation and backend share these answers.
#pragma once
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/plan.h"

namespace weftc {

/// The lists of steps inside a step: of a For, an If or a Loop; none for every other step.
std::vector<const std::vector<Step>*> bodies_of(const Step& step);
std::vector<std::vector<Step>*> bodies_of(Step& step);

/// Calls `visit` with each step of a list and of the lists inside it; a step comes before the steps inside it. Where
/// `visit` answers false, the steps inside are left out.
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

/// How many steps of a list, and of the lists inside it, touch a buffer.
int users_in(const std::vector<Step>& steps, BufferId buffer);
/// How many steps of a Plan touch each buffer, by BufferId; an input, an output and a length count as one more.
std::vector<int> buffer_users(const Plan& plan);

/// What the rows of an axis are called: the length by which kernels know how many they are given, and in emitted code
/// the first of them and their number, how many there are, and how many blocks of them.
struct RowWords {
  const char *length, *first, *count, *all, *blocks;
};
/// Of axis `axis` of `axes`, outer first.
const RowWords& row_words(size_t axis, size_t axes);
/// The axis whose number of rows a kernel's named length is; nothing for a length of the model's.
std::optional<size_t> row_axis(const SharedRows& rows, const Length& length);
/// The dimension along which so many rows lie so far apart, in elements: S(dim, block) where `block` of its indices are
/// one row, R where there is none.
AxisState rows_of_type(const TensorType& type, const Storage& storage, const Length& count, const Length& stride);
/// Elements from the first to the last one that a block of rows has of a buffer, at most.
int64_t block_elements(const Plan& plan, const SharedRows& rows, BufferId buffer);
/// Panels that the kernels of a chain keep from one block of rows to the next.
int64_t kept_bytes(const Plan& plan, const LoopStep& chain);

/// The value of a kernel's body that a parameter is: an input, or an output.
ValueId parameter_value(const Graph& body, size_t parameter);
/// Whether a parameter takes the buffer as it lies. Without run-time lengths memory is by bounds anyway.
bool is_stored_as(const Buffer& buffer, const Storage& wanted);

/// Axes of the place over which a launched kernel waits for its peers, because it reaches into their windows; empty for
/// every other step.
std::vector<int> barrier_axes(const Plan& plan, const Step& step);

/// The ranks of a place that differ from `rank` on these axes only, itself among them, in the order of the place.
std::vector<int> rank_group(const Place& place, const std::vector<int>& axes, int rank);

/// The port of that name among a Plan's inputs or outputs; null if there is none.
const Port* find_port(const std::vector<Port>& ports, std::string_view name);

/// True if the ranks of a program run in this place. All ranks of a program are in the same places, so one is
/// asked.
bool holds(const Plan& plan, const Program& program, PlaceId place);

/// Time axes, those from `place_axes` on, over which a value of type `type` is a slice of its memory: its layout slices
/// them and that of the memory does not.
std::vector<int> whole_over(const TensorType& type, const TensorType& memory, int place_axes, int mesh_axes);

/// The next multiple of `unit`.
int64_t round_up_to(int64_t number, int64_t unit);

}  // namespace weftc
