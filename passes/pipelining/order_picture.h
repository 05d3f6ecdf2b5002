// An order of a pipeline in time, as it is drawn: what each rank runs and when, and the memory that it holds. Predicted
// from the times of blocks here; measured from a trace by the command line (cli/measured_order.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pipelining/staged_pipeline.h"

namespace weftc {

/// The pass of a block. Once: before all micro-batches or after them.
enum class PicturePass { Forward, Backward, Weight, Once };
constexpr PicturePass kPicturePasses[] = {PicturePass::Forward, PicturePass::Backward, PicturePass::Weight,
                                          PicturePass::Once};
/// The name in traces: "forward".
std::string_view name_of(PicturePass pass);

struct PictureBlock {
  std::string name;
  PicturePass pass = PicturePass::Forward;
  /// The block's stage: "a" of "a_forward". "" where it runs once.
  std::string stage() const;
};

/// One run of a block on a rank, in nanoseconds. Boxes of blocks that run once may lie before 0 and after the length.
struct PictureBox {
  int block = 0, micro_batch = 0;
  int64_t begin = 0, end = 0;
  int64_t busy = 0;  // of that: a block may wait inside
};

/// From `at` on, a rank holds that many bytes of values that blocks pass to each other.
struct MemoryLevel {
  int64_t at, bytes;
};

struct PictureLane {
  std::vector<PictureBox> boxes;    // by time
  std::vector<MemoryLevel> memory;  // by time; empty: unknown
  int64_t peak = 0;                 // of `memory`
  int64_t others = 0;               // bytes of everything else: weights, states, gradients
  int64_t busy = 0;                 // with blocks of micro-batches, each moment once
};

/// One period: each block starts for as many micro-batches in [begin, begin + period), and does the same again until
/// begin + times * period.
struct Repetend {
  int64_t begin = 0, period = 0;
  int micro_batches = 1, times = 2;
  int64_t end() const { return begin + times * period; }
};

struct OrderPicture {
  std::vector<PictureBlock> blocks;
  std::vector<PictureLane> lanes;  // by rank
  int micro_batches = 1;
  int64_t length = 0;                // from the first begin of any micro-batch, which is 0, to the last end
  std::optional<int64_t> least;      // no order of these blocks is shorter, as far as is known
  std::optional<Repetend> repetend;  // nothing where the order does not repeat itself
  /// The warm-up ends when the order begins to repeat, else when every rank has begun. The drain begins when it stops
  /// repeating, else when the first rank has finished.
  int64_t warm_up_end = 0, drain_begin = 0;

  /// The part of the length in which a rank runs no block of a micro-batch, averaged over ranks that run any.
  double bubble() const;
  double bubble_of(const PictureLane& lane) const;
  /// The stages that a rank runs, by their first boxes.
  std::vector<std::string> stages_of(const PictureLane& lane) const;
  /// The idle part of an order as short as the bound.
  double least_bubble() const;
  int64_t first_begin() const, last_end() const;  // of all boxes
};

/// A block that runs once, on all of its devices at the same time.
struct OnceBlock {
  struct Wait {
    int earlier;   // of these blocks; it is listed before the one that waits
    int64_t time;  // from its end on: of a transfer
  };
  std::vector<int> devices;
  int64_t time = 1;
  bool is_after = true;  // it runs after all micro-batches; else before them
  std::vector<Wait> waits;
};

/// The picture of an order: each device runs its turns as listed, as early as possible; transfers take their time and
/// wait for their links. Blocks that run once are drawn too; those before the micro-batches come right before the first
/// one. `names` has the pipeline's blocks, then the blocks that run once; devices are ranks.
OrderPicture picture_of(const StagedPipeline& pipeline, const std::vector<PipelineTurn>& turns, int micro_batches,
                        const std::vector<OnceBlock>& once, const std::vector<std::string>& names);

/// Fills in where warm-up and drain are in a picture without a period.
void mark_ends(OrderPicture& picture);

/// The part where the starts of the blocks repeat with one to three micro-batches a period: the fewest micro-batches
/// for which they do, then the most repetitions.
std::optional<Repetend> repetend_of(const PipelineProblem& problem, const PipelineStarts& starts);

}  // namespace weftc
