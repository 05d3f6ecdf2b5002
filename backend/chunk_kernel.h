// A loop over chunks as one kernel. Instead of one step for each kernel and chunk, the program calls one
// function, which calls the kernels of the loop's steps chunk by chunk, and signals and waits for the flags of
// chunks in between:
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
// On a grid all blocks of the kernel take part in each step, and a barrier over the whole grid follows the step: the
// next step may read data that any block wrote, and may overwrite data that any block read. Behind the barrier one
// block signals for all; every block waits for flags itself.
#pragma once
#include <map>
#include <set>

#include "backend/statement.h"
#include "backend/step_terms.h"
#include "ir/base/naming.h"

namespace weftc {

class ChunkKernel {
 public:
  /// `terms` are those of a place inside the loop, whose innermost time loop is the one that becomes a kernel.
  /// `steps` are the launches and accumulating copies of the loop, in order. `group` names the axes of the rank
  /// group whose peer table the function takes ("tp").
  ChunkKernel(const StepTerms& terms, const std::vector<const Step*>& steps, const std::string& group);

  /// The parameters of the function; a device's definition also says in which memory space a peer table lies.
  std::vector<std::string> parameters(bool definition = false) const;
  /// The expressions that the step passes, one for each parameter.
  const std::vector<std::string>& arguments() const { return order_; }
  /// The statements of one chunk.
  const Statements& body() const { return body_; }
  /// A proposal for the function's name, from its first and its last kernel. Loops with equal text share one
  /// function.
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
  /// The name of the parameter for the expression `argument`. The first request makes the parameter, and calls
  /// it `wanted` if that name is free; later requests for the same argument find it.
  std::string parameter(const std::string& type, const std::string& wanted, const std::string& argument,
                        Role role = Role::Value);
  /// What the call of a kernel passes for an argument that is no operand: its team, peers, chunk, lengths ...
  std::string passed(const Step& step, const LaunchStep& launch, const Argument& argument);
  /// What the call of a kernel passes for its parameter with this number: the address of a weight or of a
  /// buffer, or a window whose peers' parts the kernel reads.
  std::string passed(const LaunchStep& launch, size_t number);
  /// The address of the chunk's instance of a buffer, as an expression over a parameter of the function.
  Expr pointer(BufferId buffer, const std::string& wanted, bool written);
  /// The handle that the step passes: all instances of a buffer that has one for each chunk, else the current
  /// instance.
  std::string whole(BufferId buffer) const;
  /// The offset of the chunk's instance from that handle, empty where there is none.
  std::string instance(const Buffer& buffer) const;
  void add(const Step& step);
  void launch(const Step& step, const LaunchStep& launch);
  /// The loop that adds the part of a chunk to the total; the first chunk's part initialises it.
  void accumulate(const CopyStep& copy);
  /// Lines that wait for element `at` of a signal where `condition` holds, and that signal it. A wait on a
  /// device gives up when it has waited too long or another block has failed; then the function returns.
  std::string wait(SignalId id, const std::optional<IndexExpr>& at, const std::string& condition);
  std::string raise(SignalId id, const std::optional<IndexExpr>& at);
  /// "peers.wait(ready, chunk)"
  std::string of_peers(const std::string& call, SignalId id, const std::optional<IndexExpr>& at);
  /// The same index, after each variable in it that belongs to a loop around this one has become a parameter.
  IndexExpr with_outer(const IndexExpr& index);

  const StepTerms& terms_;
  const Plan& plan_;
  const TargetDialect& dialect_;
  int64_t blocks_ = 1;
  std::map<std::string, ChunkParameter> parameters_;  // by what is passed
  std::vector<std::string> order_;                    // what is passed, in order
  std::set<std::string> written_;                     // of what is passed
  Names taken_;
  std::string peers_;  // the name of the parameter that is the peer table
  std::vector<KernelId> called_;
  Statements body_;
};

}  // namespace weftc
