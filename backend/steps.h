// The steps of a block as statements of its function.
#pragma once
#include <set>

#include "backend/exchange.h"
#include "backend/step_terms.h"

namespace weftc {

class ChunkKernel;
struct LayerLoop;
struct ProgramLayers;

inline void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

/// Writes the functions of all blocks of a Plan. Functions of loops over chunks are collected on the way.
class StepText : private StepTerms {
 public:
  StepText(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels, Diags& diags)
      : StepTerms(plan, names, kernels, diags), free_names_(names.taken) {}

  /// The statements of a block, with loops in place of its layers. Lines have no indentation of their own.
  std::vector<std::string> block(const Block& block, const ProgramLayers& layers);
  /// The statements of one of its steps.
  std::vector<std::string> lines(const Step& step);
  /// The functions of loops over chunks that are one kernel, in the order of their first use.
  const std::vector<KernelText>& chunk_kernels() const { return chunk_kernels_; }
  const std::set<std::string>& called_by_chunks() const { return called_by_chunks_; }
  /// True if a step launches the kernel. On a device, a kernel that only loops over chunks call is not
  /// launched: it is a device function.
  bool is_launched(KernelId kernel) const { return launched_.contains(kernel.index); }

 private:
  void begin_block();
  Lines layer_loop(const LayerLoop& loop);
  Lines steps(const std::vector<Step>& steps);
  Lines step(const Step& step);
  Lines leaf(const Step& step);
  Lines for_loop(const Step& step, const ForStep& loop);
  Lines one_kernel(const Step& step, const ForStep& loop, const std::string& variable);
  Lines preparations(const std::vector<Step>& steps) const;
  std::string chunk_kernel_call(const Step& step, const ChunkKernel& kernel);
  void write_called(const Step& step);
  std::string group_of(const Step& step) const;
  std::string group_of_table(const ForStep& loop, const std::vector<const Step*>& inside) const;
  Lines branch(const Step& step, const IfStep& branch);
  Lines loop(const Step& step, const LoopStep& loop);
  // Loops whose rows threads share: step_rows.cpp.
  Lines shared_loop(const Step& step, const LoopStep& loop);
  Lines chain(const Step& step, const LoopStep& kernels);
  Lines memory_of_thread(const LoopStep& kernels);
  Lines rows_of_run(const SharedRows& rows) const;
  Lines block_of_rows(const SharedRows& rows) const;
  bool takes_team(const LoopStep& loop) const;
  std::string trip_head(const LoopStep& loop) const;
  /// `r.step({...}, [&] { body });` around statements.
  Lines wrapped(const Step& step, const Lines& body) const;
  static Lines broken(const std::string& line, size_t limit);
  std::string head(const Step& step) const;

  Lines launch(const Step& step, const LaunchStep& launch);
  std::optional<std::string> library_step(const Step& step, const LaunchStep& launch, const KernelText& text) const;
  Lines copy(const Step& step, const CopyStep& copy);
  Lines collective(const Step& step, const CollectiveStep& collective);
  Lines rooted(const CollectiveStep& collective, const std::string& source, const std::string& count);
  std::string exchange(const ExchangeBox& box, const CollectiveStep& step) const;
  std::string extent(const ExchangeBox::Dim& dim, const CollectiveStep& step) const;
  std::optional<std::string> held(int dim, const CollectiveStep& step) const;
  std::string count(const ExchangeBox& box, const CollectiveStep& step) const;

  std::string chunk_offset(const std::vector<std::pair<int, int64_t>>& by_chunk, const CollectiveStep& step) const;

  Names free_names_;
  std::vector<KernelText> chunk_kernels_;
  std::map<std::string, std::string> chunk_kernel_names_;  // by parameters and statements
  std::set<std::string> called_by_chunks_;
  std::set<uint32_t> launched_;
};

}  // namespace weftc
