// A loop over chunks as one kernel: a function that calls those of its steps chunk by chunk, and raises and awaits the
// flags of chunks in between.
//
//   void proj_to_far_chunks(weft::Team& team, weft::Peers peers, ..., weft::Signal proj_ready) {
//     for (int chunk = 0; chunk < 4; ++chunk) {
//       proj(team, chunk, a, w2, p + chunk % 2 * 128);
//       peers.signal(proj_ready, chunk);
//       peers.wait(proj_ready, chunk);
//       far(peers, chunk, ...);
//     }
//   }
//
// On a grid all blocks of the kernel take a step together, and meet behind it: what comes next may read what any of
// them wrote, and write what any of them read. Then one block raises the step's flags; each block awaits flags itself.
#pragma once
#include <map>
#include <set>

#include "backend/statement.h"
#include "backend/step_terms.h"
#include "ir/base/naming.h"

namespace weftc {

class ChunkKernel {
 public:
  /// `terms` stand inside the loop whose trips the kernel makes, `steps` are its launches in order, and what they
  /// accumulate; flags are those of a peer table of `group`.
  ChunkKernel(const StepTerms& terms, const std::vector<const Step*>& steps, const std::string& group);

  /// The parameters of the function, and what the loop's step passes for them.
  std::vector<std::string> parameters(bool definition = false) const;
  const std::vector<std::string>& arguments() const { return order_; }
  /// What is done in a chunk.
  const Statements& body() const { return body_; }
  /// What the function is called where nothing else is; equal loops share one.
  std::string name() const;
  /// Blocks of a grid: as many as the largest of the steps has work for, of those that can wait for each other.
  int64_t blocks() const { return blocks_; }
  /// The kernels whose functions it calls.
  const std::vector<KernelId>& called() const { return called_; }

 private:
  /// A buffer that the kernel only reads is const; the definition may say where a table of
  /// peers lies.
  enum class Role : uint8_t { Value, Buffer, Peers };
  struct ChunkParameter {
    std::string type, name;
    Role role = Role::Value;
  };
  /// The name of the parameter that is passed `argument`, made the first time.
  std::string parameter(const std::string& type, const std::string& wanted, const std::string& argument,
                        Role role = Role::Value);
  std::string passed(const LaunchStep& launch, const Argument& argument);
  std::string passed(const LaunchStep& launch, size_t formal);
  Expr pointer(BufferId buffer, const std::string& wanted, bool written);
  std::string whole(BufferId buffer) const;
  std::string instance(const Buffer& buffer) const;
  void add(const Step& step);
  void launch(const LaunchStep& launch);
  void accumulate(const CopyStep& copy);
  std::string wait(SignalId id, const std::optional<IndexExpr>& at, const std::string& condition);
  std::string raise(SignalId id, const std::optional<IndexExpr>& at);
  /// "peers.wait(ready, chunk)"
  std::string of_peers(const std::string& call, SignalId id, const std::optional<IndexExpr>& at);
  /// The index, whose variables of loops around this one are parameters now.
  IndexExpr with_outer(const IndexExpr& index);

  const StepTerms& terms_;
  const Plan& plan_;
  const TargetDialect& dialect_;
  int64_t blocks_ = 1;
  std::map<std::string, ChunkParameter> parameters_;  // by what is passed
  std::vector<std::string> order_;                    // what is passed, in order
  std::set<std::string> written_;                     // of what is passed
  Names taken_;
  std::string peers_;  // the parameter
  std::vector<KernelId> called_;
  Statements body_;
};

}  // namespace weftc
