// The least time of a step on the Plan's target: its work, counted from factor rules and types, divided by the rate
// that the kernel's strategy reaches on the machine. It is a lower bound: caches and contention between streams are
// left out (README.md).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan.h"
#include "passes/cost/machine.h"

namespace weftc {

/// The row of the table for a target, as a machine without a network of levels. A GPU without a row takes the row of
/// the nearest older kind; its name says which.
Machine usual_machine(const Target& target);
/// The ceilings of that row.
Ceilings ceilings_of(const Target& target);
/// The ceiling of that name, to be changed; null for a name that there is not.
double* find_ceiling(Ceilings& ceilings, std::string_view name);
/// The names that find_ceiling knows.
const std::vector<std::string>& ceiling_names();

/// Seconds that a step is in the network: until ranks that meet go on, and while bytes move.
struct NetworkTime {
  double latency = 0, transfer = 0;
};

/// The work of one step on one rank, the fullest one where slices are ragged.
struct Work {
  double f32 = 0, f64 = 0, f16 = 0;         // operations; a multiplication with its addition is two
  double scalar = 0;                        // clock cycles of elements that are computed one by one
  int64_t bytes = 0;                        // from and to the rank's memory
  int64_t link_bytes = 0;                   // to other ranks, or from them
  int meetings = 0;                         // with other ranks
  std::optional<NetworkTime> network = {};  // for both, on a machine that has levels; else the ceilings give it
  double rate = 1;                          // the part of the machine's peak rate that its strategy reaches
};
/// The resource that a step waits for most.
enum class Bound : uint8_t { Step, Latency, Compute, Memory, Link };
const char* bound_name(Bound bound);
struct StepCost {
  Work work;
  double seconds = 0;
  Bound bound = Bound::Step;
};
StepCost cost_of(const Work& work, const Ceilings& ceilings);

/// The work of an op by itself on one of the ranks of `mesh`, over which its operands and results are sliced as their
/// types say. Its bytes are its operands and results.
Work work_alone(const Module& module, const Graph& graph, const Op& op, const Mesh& mesh, double function);
/// Operations of an op by itself on one rank; a multiplication with its addition is two. `function`: of exp and the
/// like.
double operations_alone(const Module& module, const Graph& graph, const Op& op, double function);
/// The time of an op by itself on one rank: the longer of its operations and of reading operands and writing results. 0
/// for a view, and for ops that hold others.
double seconds_alone(const Module& module, const Graph& graph, const Op& op, const Ceilings& ceilings);
/// Operations of the products and convolutions of one launch; a multiplication with its addition is two.
double contraction_operations(const Module& module, const Kernel& kernel);
/// Bytes that one launch brings from a table that it only looks up in, if the table had this storage; nothing where the
/// kernel reads the parameter in another way. In a table that is not row-major, every element is in a cache line of its
/// own.
std::optional<int64_t> looked_up_bytes(const Kernel& kernel, size_t parameter, const Storage& storage);
/// Bytes that one launch reads and writes. A table that is only looked up in counts as the elements that are looked up.
int64_t moved_bytes(const Kernel& kernel);
/// The same for weights alone.
int64_t moved_weight_bytes(const Kernel& kernel);
/// Bytes of a rank's part of a value.
int64_t local_bytes(const TensorType& type, const Mesh& mesh);

/// The costs of a Plan's steps.
class CostModel {
 public:
  /// `module` is the one from which the plan was made: kernels refer to its constants. Rank numbers of the plan are
  /// those of the machine.
  CostModel(const Plan& plan, const Module& module, Machine machine);
  /// On a machine without levels.
  CostModel(const Plan& plan, const Module& module, Ceilings ceilings);

  /// For a send, the bytes that leave the rank; for a recv, those that arrive. Nothing for a step that holds others,
  /// and for a transfer in which the rank has no part. `chunked`: inside the one kernel of a loop over chunks.
  StepCost of(const Step& step, int rank, bool chunked = false) const;
  const Ceilings& ceilings() const { return machine_.ceilings; }

 private:
  const Plan& plan_;
  const Machine machine_;
  const Ceilings chunked_;
  std::vector<Work> kernels_, in_chunks_;  // by KernelId
};

}  // namespace weftc
