// Looks for one kind of fault after another, since the memory of a problem with a cycle has no meaning.
#include "passes/pipelining/faults.h"

#include <algorithm>
#include <optional>

#include "passes/pipelining/least_memory.h"

namespace weftc {

namespace {

/// A block that waits for itself, or -1. A block without a position in the order waits for such a block: going back as
/// many steps as there are blocks ends in the cycle.
int block_in_circle(const PipelineProblem& problem) {
  std::vector<bool> is_ordered(problem.blocks.size(), false);
  for (const int block : topological_order(problem)) is_ordered[static_cast<size_t>(block)] = true;
  const auto found = std::find(is_ordered.begin(), is_ordered.end(), false);
  if (found == is_ordered.end()) return -1;
  int block = static_cast<int>(found - is_ordered.begin());
  for (size_t step = 0; step < is_ordered.size(); ++step) {
    const std::vector<int>& after = problem.blocks[static_cast<size_t>(block)].after;
    block = *std::find_if(after.begin(), after.end(), [&](int i) { return !is_ordered[static_cast<size_t>(i)]; });
  }
  return block;
}

/// Faults of the memory that a device's blocks take and give back.
void check_returns(const PipelineProblem& problem, std::vector<PipelineFault>& faults) {
  const std::vector<std::vector<bool>> before = precedence_of(problem);
  for (int device = 0; device < static_cast<int>(problem.limits.size()); ++device) {
    const MemoryLeases leases = leases_of(problem, device, before);
    if (leases.unmatched >= 0)
      faults.push_back({PipelineFault::Kind::Freed, leases.unmatched, device, 0});
    else if (leases.unreturned >= 0)
      faults.push_back({PipelineFault::Kind::Kept, leases.unreturned, device, 0});
  }
}

/// The first device whose limit is below the least memory of any order, with that amount. If each device alone has an
/// order, but not all of them together, a fault without a device.
std::optional<PipelineFault> memory_fault(const PipelineProblem& problem) {
  const OrderResult all = order_within(problem);
  if (all.is_found) return {};
  for (size_t device = 0; all.is_certain && device < problem.limits.size(); ++device) {
    const int64_t least = least_limit(problem, device);
    if (least <= problem.limits[device]) continue;
    const auto takes_most = [&](const PipelineBlock& a, const PipelineBlock& b) {
      const auto on_it = [&](const PipelineBlock& block) {
        const bool is_on = std::count(block.devices.begin(), block.devices.end(), static_cast<int>(device)) > 0;
        return is_on ? block.memory : INT64_MIN;
      };
      return on_it(a) < on_it(b);
    };
    const auto largest = std::max_element(problem.blocks.begin(), problem.blocks.end(), takes_most);
    return PipelineFault{PipelineFault::Kind::Memory, static_cast<int>(largest - problem.blocks.begin()),
                         static_cast<int>(device), least};
  }
  return PipelineFault{all.is_certain ? PipelineFault::Kind::Memory : PipelineFault::Kind::Undecided, -1, -1, 0};
}

}  // namespace

std::vector<PipelineFault> faults_of(const PipelineProblem& problem) {
  std::vector<PipelineFault> faults;
  if (const int block = block_in_circle(problem); block >= 0)
    faults.push_back({PipelineFault::Kind::Cycle, block, -1, 0});
  if (faults.empty()) check_returns(problem, faults);
  if (faults.empty())
    if (const std::optional<PipelineFault> fault = memory_fault(problem)) faults.push_back(*fault);
  return faults;
}

}  // namespace weftc
