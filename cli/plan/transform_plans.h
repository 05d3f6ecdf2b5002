// Transforms for the collectives of a schedule by the cost model alone: nothing is run, unlike `weft tune`.
#pragma once
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The schedule with the split, reorder, fuse and overlap steps with the shortest predicted time, chosen for one
/// collective after another. Without a faster one it is `base` itself.
PredictedSchedule plan_transforms(const Options& options, const PredictedSchedule& base);

/// A training's schedule with the collectives of gradients and parameters in buckets, on a stream of their own if that
/// is faster. If buckets do not pay, it is `base` itself.
PredictedSchedule plan_buckets(const Options& options, const PredictedSchedule& base);

}  // namespace weftc
