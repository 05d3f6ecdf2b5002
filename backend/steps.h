// The steps of a block as statements of its function.
#pragma once
#include <functional>
#include <set>

#include "backend/exchange.h"
#include "backend/program_names.h"

namespace weftc {

class ChunkKernel;

class StepText {
 public:
  StepText(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels, Diags& diags)
      : plan_(plan), names_(names), kernels_(kernels), diags_(diags), free_names_(names.taken) {
    for (const Block& block : plan.blocks) find_bounds(block.steps);
  }

  /// Lines without indentation of their own.
  std::vector<std::string> block(const Block& block);
  /// The functions of loops over chunks that are one kernel, and what they call: declarations, or a device's functions.
  const std::vector<KernelText>& chunk_kernels() const { return chunk_kernels_; }
  const std::set<std::string>& called_by_chunks() const { return called_by_chunks_; }
  /// Whether a step launches the kernel: on a device, one that only loops over chunks call is none.
  bool is_launched(KernelId kernel) const { return launched_.contains(kernel.index); }

 private:
  friend class ChunkKernel;
  using Lines = std::vector<std::string>;
  /// A loop over chunks or micro-batches.
  struct Time {
    std::string variable;
    int trips;
  };
  Lines steps(const std::vector<Step>& steps);
  Lines step(const Step& step);
  Lines leaf(const Step& step);
  Lines for_loop(const Step& step, const ForStep& loop);
  Lines one_kernel(const Step& step, const ForStep& loop, const std::string& variable);
  Lines preparations(const std::vector<Step>& steps) const;
  std::string chunk_kernel_call(const Step& step, const ChunkKernel& kernel);
  /// What the kernel of a loop over chunks calls for a kernel of its body.
  const KernelText& called(KernelId kernel) const;
  void write_called(const Step& step);
  std::string group_of(const Step& step) const;
  std::string group_of_table(const ForStep& loop, const std::vector<const Step*>& inside) const;
  Lines branch(const Step& step, const IfStep& branch);
  Lines loop(const Step& step, const LoopStep& loop);
  /// `r.step({...}, [&] { body });` around statements.
  Lines wrapped(const Step& step, const Lines& body) const;
  std::string head(const Step& step) const;

  Lines launch(const LaunchStep& launch);
  std::optional<std::string> library_step(const LaunchStep& launch, const KernelText& text) const;
  void find_bounds(const std::vector<Step>& steps);
  std::string argument(const LaunchStep& launch, const KernelText& kernel, const Argument& argument) const;
  Lines copy(const Step& step, const CopyStep& copy);
  Lines collective(const Step& step, const CollectiveStep& collective);
  Lines rooted(const CollectiveStep& collective, const std::string& source, const std::string& count);
  std::string exchange(const ExchangeBox& box) const;

  /// The handle of a buffer: the instance of this chunk or micro-batch, `first` elements further.
  std::string handle(BufferId buffer, const std::string& first = "") const;
  /// "chunk % 2 * 128": where the instance of this chunk or micro-batch begins; "" where there is one.
  std::string instance_offset(const Buffer& buffer) const;
  std::string pointer(BufferId buffer, const std::string& first = "") const {
    return "r[" + handle(buffer, first) + "]";
  }
  std::string pointer(const Operand& operand) const;
  std::string chunk_offset(const std::vector<std::pair<int, int64_t>>& by_chunk, const CollectiveStep& step) const;
  /// The iteration of the loop over a time axis of a mesh.
  IndexExpr time_index(PlaceId place, const Mesh& mesh, int axis) const;
  /// The variable of the innermost Loop.
  std::string trip_variable() const { return loops_ > 1 ? "trip" + std::to_string(loops_) : "trip"; }
  /// The element of a signal that a wait or raise means; nothing where it has only one.
  std::optional<IndexExpr> index(SignalId signal, Per per, int lag) const;
  /// The iteration of an enclosing loop.
  static IndexExpr time_index(const Time& time) { return index_variable(time.variable, 0, time.trips - 1); }
  /// The statement that waits for or raises element `at` of a signal, where the condition holds ("": always).
  using SignalCall =
      std::function<std::string(SignalId, const std::optional<IndexExpr>& at, const std::string& condition)>;
  SignalCall of_rank(const std::string& call) const;
  Lines waits(const Step& step) const { return waits(step, of_rank("wait")); }
  Lines waits(const Step& step, const SignalCall& wait) const;
  Lines raises(const Step& step) const { return raises(step, of_rank("signal")); }
  Lines raises(const Step& step, const SignalCall& raise) const;

  const Plan& plan_;
  const ProgramNames& names_;
  const std::vector<KernelText>& kernels_;
  Diags& diags_;
  std::vector<Time> times_;             // enclosing loops over chunks and micro-batches, outer first
  std::map<uint32_t, int64_t> bounds_;  // of buffers that hold a run-time length: what it must not exceed
  int loops_ = 0;
  Names free_names_;
  std::vector<KernelText> chunk_kernels_;
  std::map<std::string, std::string> chunk_kernel_names_;  // by parameters and statements
  std::set<std::string> called_by_chunks_;
  std::map<uint32_t, KernelText> functions_;  // device: what loops over chunks call, by kernel
  std::set<uint32_t> launched_;
};

}  // namespace weftc
