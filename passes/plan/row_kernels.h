// Kernels that are given some rows of their operands: the dimensions of rows are lengths in their bodies.
//
//   softmax(scores[12, 1500, 1500])   ->   softmax(own matrices, own rows, scores[own matrices, own rows, 1500])
#pragma once
#include <string>
#include <vector>

#include "passes/plan/loop_rows.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

/// A launch whose kernel is to take rows.
struct RowLaunch {
  LaunchStep* launch;
  std::string user;            // the step's name
  std::vector<BodyRows> rows;  // by axis, outer first
  std::vector<Length> counts;  // rows of each axis
  StridedProduct kept = {};    // the memory that a product keeps between blocks of rows, if it does

  bool is_alike(const RowLaunch& other) const {
    return rows == other.rows && counts == other.counts && kept == other.kept;
  }
};

/// The launches of a loop that have rows, along the axes that they have.
std::vector<RowLaunch> row_launches(const Plan& plan, const Module& module, LoopStep& loop);

/// The launch's kernel as it would be with rows.
Kernel with_rows(const PlanDraft& draft, const RowLaunch& launch);

/// The kernels of the launches take rows; where others launch them too, copies of them do.
void give_rows(PlanDraft& draft, std::vector<RowLaunch> launches);

}  // namespace weftc
