// $summary
#include "weft/$header"

namespace model::$name {

//@ for axis in axes
$axis.line
//@ end
//@ if axes
constexpr weft::Axis kMesh[] = {$mesh};
//@ end
enum : int { $stream_names };
constexpr weft::Stream kStreams[] = {$streams};

//@ if windows
// Windows: memory that peers reach, at one offset on all ranks; live from the step that writes to the last reader.
//@ for line in windows
$line.text
//@ end

//@ end
//@ if signals
// Signals: first flag, flags, the axes whose ranks wait for each other; without axes, between streams of one rank.
//@ for line in signals
$line.text
//@ end

//@ end
//@ if transfers
// Messages between places: from, to, source and target offset, box; all ranks walk the table in order.
//@ for line in transfers
$line.text
//@ end

//@ end
//@ if lengths
// Lengths that only a request knows, and what limits them.
//@ for line in lengths
$line.text
//@ end

//@ end
// Kernels, in kernels/.
//@ for line in kernels
$line.text
//@ end

//@ for program in programs
//@ if program.space
// $program.ranks_text
namespace $program.space {

//@ end
//@ if program.buffers
// Buffers of a rank: offset, elements; live from the step that writes to the last step that reads.
//@ for line in program.buffers
$line.text
//@ end

//@ end
//@ if program.weights
// Weights: offset in the rank's image, elements; then the segments: end, axes they are sliced over.
//@ for line in program.weights
$line.text
//@ end
constexpr weft::Segment kWeights[] = {$program.segments};

//@ end
//@ if program.layers
// What each layer has.
//@ for line in program.layers
$line.text
//@ end

//@ end
//@ for block in program.blocks
// Steps, in issue order.
void $block.head {
  $block.begin
  $block.body
}

//@ end
//@ if program.order
// Blocks and micro-batches, in order$program.order_says.
constexpr struct {
  void (*block)(weft::Rank&, int);
  int micro_batch;
//@ if program.trains
  bool is_evaluated = false;
//@ end
} kOrder[] = {
    $program.order
};
void run(weft::Rank& r) {
  for (const auto& turn : kOrder)$program.order_if turn.block(r, turn.micro_batch);
}

//@ end
//@ if program.phases
void run(weft::Rank& r) {
  $program.phases
}

//@ end
//@ for line in program.layouts
$line.text
//@ end
//@ if program.inputs
constexpr weft::Port kInputs[] = {
    $program.inputs
};
//@ end
//@ if program.outputs
constexpr weft::Port kOutputs[] = {
    $program.outputs
};
//@ end
//@ if program.space
}  // namespace $program.space

//@ end
//@ end
//@ if states
constexpr weft::State kStates[] = {$states};
//@ end
//@ if end_tokens
constexpr int64_t kEnd[] = {$end_tokens};
//@ end
//@ if figures
constexpr const char* kFigures[] = {$figures};
//@ end
//@ if updates
constexpr const char* kUpdates[] = {$updates};
//@ end
//@ if training
constexpr weft::Training kTraining = $training;
//@ end
//@ if generation
constexpr weft::Generation kGeneration = {
    $generation
};
//@ end
//@ for line in rank_lists
$line.text
//@ end
constexpr weft::Program kPrograms[] = {
    $program_rows
};
//@ if variant
extern const weft::Executable kExecutable;  // for ../program.cpp
//@ end
constexpr weft::Executable kExecutable = {
    $executable
};

}  // namespace model::$name

//@ if level
extern "C" const weft::Executable weft_program;  // for levels.cpp
constexpr weft::Executable weft_program = model::$name::kExecutable;
//@ end
//@ if main
int main(int argc, char** argv) { return weft::main(model::$name::kExecutable, argc, argv); }
//@ end
//@ if library
namespace library::$name {
const weft::Executable& executable() { return ::model::$name::kExecutable; }
}  // namespace library::$name
//@ end
