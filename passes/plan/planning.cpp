// The steps of planning. make_plan runs them, checks, times and prints the Plan after every row.
#include "passes/plan/planning.h"

#include <iterator>

#include "passes/plan/plan_checks.h"

namespace weftc {

namespace {
constexpr PlanningStep kPlanning[] = {
    {"write-steps", "every op that does something is a step of a block; values in memory have buffers", write_steps,
     check_steps},
    {"order-phases", "of a training, what the loss needs comes first, then what derivatives need, then the rest",
     order_phases, check_steps},
    {"warn-of-idle-ranks", "ranks that hold no element of a value are named in a warning", warn_of_idle_ranks,
     check_steps},
    {"lay-lengths", "tensors of run-time length are dense, or take the room of their bounds where a step needs that",
     lay_lengths, check_steps},
    {"choose-kernels", "every kernel has a strategy, and its weights the storage that the strategy wants",
     choose_kernels, check_kernels},
    {"choose-storage", "buffers lie in memory as the kernels want that read and write them", choose_storage,
     check_kernels},
    {"join-operands", "operands of a Concat that nothing else reads lie in its result, on the host", join_operands,
     check_kernels},
    {"update-states", "every state is updated in place, or copied by the last steps of an iteration", update_states,
     check_states},
    {"share-weights", "a table that a kernel looks up in lies as a product wants it, where both read the same slices",
     share_weights, check_kernels},
    {"place-weights", "every weight has an offset in a segment", place_weights, check_weights},
    {"order-steps", "steps have streams, signals and waits; buffers have as many instances as are in use at once",
     order_steps, check_order},
    {"share-loops", "loops of which each row is computed by itself are cut along the rows, one part for each thread",
     share_loops, check_order},
    {"cut-chains",
     "kernels between which much memory lies run in blocks of rows, and no such memory holds more than a block",
     cut_chains, check_order},
    {"place-buffers", "every buffer of a program has a position in its memory", place_buffers, check_positions},
    {"cut-phases", "forward, backward and update of a training are blocks of their own", cut_phases, check_positions},
};
}  // namespace

std::span<const PlanningStep> planning() { return {kPlanning, std::size(kPlanning)}; }

}  // namespace weftc
