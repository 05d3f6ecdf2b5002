// Transforms for the collectives of a schedule by the cost model alone: nothing is run, unlike `weft tune`.
#pragma once
#include "cli/plan/predicted_schedule.h"

namespace weftc {

/// The schedule with those split, reorder, fuse and overlap steps that are predicted to take least, one collective
/// after another; itself where none is faster.
PredictedSchedule plan_transforms(const Options& options, const PredictedSchedule& base);

/// A training's schedule with the collectives of gradients and parameters in buckets, on a stream of their own where
/// that is faster; itself where none pays.
PredictedSchedule plan_buckets(const Options& options, const PredictedSchedule& base);

}  // namespace weftc
