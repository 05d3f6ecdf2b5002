// Functions that the files of make_plan share.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/plan_walk.h"
#include "ir/schedule.h"

namespace weftc {

/// Where a value lies: in a buffer or among the weights; neither: nothing reads it from memory.
struct ValueMemory {
  BufferId buffer;
  ConstantId constant;  // a weight is made for each packing that readers want
  TensorType type;      // of the memory: a Reshape outside kernels gives the value another one
};

/// A Plan under construction.
struct PlanDraft {
  const Module& module;
  Diags& diags;
  const std::vector<KernelPin>& pins;  // the schedule's `kernels:`
  Plan plan;

  // Interned kernels by their computation, weights by constant and layout.
  std::unordered_map<std::string, KernelId> kernels;
  std::unordered_map<std::string, WeightId> weights;
  std::unordered_map<std::string, ConstantId> equal_constants;
  std::map<std::string, int> kernel_names;
  std::map<std::string, std::set<size_t>> inner_names;  // of ops and values inside kernels, in each of their users

  Mesh mesh(const Graph& graph, PlaceId place) const { return module.mesh(graph, place); }
};

/// The kernel of a Fused op whose operands and results lie as `held` says (inputs, then outputs).
KernelId intern_kernel(PlanDraft& planning, const Graph& graph, const Op& fused, const std::vector<ValueMemory>& held);
/// `wanted`, or `wanted` with a number appended that no other kernel has.
std::string unique_kernel_name(PlanDraft& planning, const std::string& wanted);
/// The name for a copy of a kernel that writes only the changed elements of a state, unless a kernel has it already.
inline std::string in_place_name(const std::string& kernel) { return kernel + "_in_place"; }
/// A copy of a kernel, without users; a number may be appended to the name.
KernelId copy_kernel(PlanDraft& planning, KernelId kernel, const std::string& name);
/// The launch of step `user` takes another kernel.
void move_user(Plan& plan, LaunchStep& launch, KernelId to, const std::string& user);
/// Finds the run-time extents of a kernel's body, and names them.
void make_extents(const Module& module, Kernel& kernel);
/// The weight that parameter `number` of the kernel reads, not yet packed.
WeightId intern_weight(PlanDraft& planning, const ValueMemory& held, const Kernel& kernel, size_t parameter);
/// The weight that a state of this port begins as, which no kernel reads.
WeightId add_first_value(PlanDraft& planning, ConstantId constant, const Port& port);
/// Chooses which buffers of run-time length are dense, and which are stored by their bounds.
void lay_lengths(PlanDraft& planning);
/// Chooses how each kernel is computed, and with that how its weights are packed.
void choose_kernels(PlanDraft& planning);
/// Chooses the storage of buffers, by the wishes of the kernels that read and write them.
void choose_storage(PlanDraft& planning);
/// Lets operands of Concats lie in their results.
void join_operands(PlanDraft& planning);
/// Decides which states are updated in place, and writes the steps that copy the others.
void update_states(PlanDraft& planning);
/// Lets kernels look up in tables as products want them packed.
void share_weights(PlanDraft& planning);
/// Orders the steps of a training by phase.
void order_phases(PlanDraft& planning);
/// The earliest phase of a step or of those inside it.
Phase first_phase(const Step& step);
/// Makes blocks of its phases.
void cut_phases(PlanDraft& planning);
/// Warns of ranks that hold no element of a value.
void warn_of_idle_ranks(PlanDraft& planning);
/// Segments of weights begin at multiples of this: programs map them from a file.
inline constexpr int64_t kWeightPage = 4096;
/// A key for constants that may have the same content: dtype, dims and some of the bytes.
std::string sampled_content(const Constant& constant);
bool has_same_bytes(const Constant& a, const Constant& b);
/// Lets launches and states refer to weights by their new numbers.
void renumber_weights(Plan& plan, const std::vector<uint32_t>& now);
/// Packs weights as kernels want them; segments, offsets and order; renumbers them.
void place_weights(PlanDraft& planning);

/// Ports, buffers and the steps of all blocks.
void write_steps(PlanDraft& planning);

/// The messages of a transfer: each rank of the target place receives every element of its slice exactly once.
std::vector<Message> transfer_messages(const Module& module, const Graph& graph, PlaceId from_place,
                                       const TensorType& from, PlaceId to_place, const TensorType& to);

/// Ways to keep transfers from waiting for each other, the cheapest first. Shared: one stream for all sends
/// and one for all recvs. PairOfBlocks: a pair of streams for each pair of blocks. AllMicroBatches: also memory for all
/// micro-batches, so that no transfer waits for a reader.
enum class Independence { Shared, PairOfBlocks, AllMicroBatches };
/// Adds streams, waits and raises, with as few streams and as little memory as possible without a deadlock.
void order_steps(PlanDraft& draft);
/// Assigns streams to chunk bodies, and orders them and the kernels over the peer table.
void order_loops(Plan& plan);
/// Orders collectives that run beside other steps, and moves them to where they can start.
void order_beside(Plan& plan);
/// Assigns streams to transfers, orders them, and gives buffers the instances that micro-batches need.
void order_transfers(Plan& plan, Independence independence);
/// Loops that are one kernel wait and raise inside of it; reports steps that cannot be in one.
void enter_kernels(Plan& plan, Diags& diags);

/// Lets the threads of a rank take rows of loops through all trips.
void share_loops(PlanDraft& planning);
/// Runs kernels between which much memory lies in blocks of rows.
void cut_chains(PlanDraft& planning);

/// Live ranges, positions and programs.
void place_buffers(PlanDraft& planning);

}  // namespace weftc
