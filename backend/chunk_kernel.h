// A loop over chunks as one kernel. Instead of one step for each kernel and chunk, the program calls one function. It
// calls the kernels of the loop's steps chunk by chunk, and between them signals and waits for the flags of chunks:
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
// On a grid all blocks of the kernel take part in each step, and a barrier over the whole grid follows the step. The
// next step may read data that any block wrote, and overwrite data that any block read. After the barrier one block
// signals for all; every block waits for flags itself.
#pragma once
#include <map>
#include <set>

#include "backend/statement.h"
#include "backend/step_terms.h"
#include "ir/base/naming.h"

namespace weftc {

class ChunkKernel {
 public:
  /// `terms` belong to a place inside the loop, whose innermost time loop becomes a kernel. `steps` are the launches
  /// and accumulating copies of the loop, in order. `group` names the axes of the rank group whose peer table the
  /// function takes ("tp").
  ChunkKernel(const StepTerms& terms, const std::vector<const Step*>& steps, const std::string& group);

  /// The parameters of the function; a device's definition also gives the memory space of a peer table.
  std::vector<std::string> parameters(bool definition = false) const;
  /// The expressions that the step passes, one for each parameter.
  const std::vector<std::string>& arguments() const { return order_; }
  /// The statements of one chunk.
  const Statements& body() const { return body_; }
  /// A proposed name for the function, from its first and its last kernel. Loops with equal text share one function.
  std::string name() const;
  /// Number of blocks of a grid: enough for the largest step, but no more than can wait for each other.
  int64_t blocks() const { return blocks_; }
  /// The kernels whose functions it calls.
  const std::vector<KernelId>& called() const { return called_; }

 private:
  /// A buffer that the kernel only reads is const; the definition may give the memory space of a table of peers.
  enum class Role : uint8_t { Value, Buffer, Peers };
  struct ChunkParameter {
    std::string type, name;
    Role role = Role::Value;
  };
  /// The name of the parameter for the expression `argument`. The first request creates the parameter, named `wanted`
  /// if that name is free; later requests for the same argument find it.
  std::string parameter(const std::string& type, const std::string& wanted, const std::string& argument,
                        Role role = Role::Value);
  /// The expression passed to a kernel for an argument that is not an operand: its team, peers, chunk, lengths ...
  std::string passed(const Step& step, const LaunchStep& launch, const Argument& argument);
  /// The expression passed for the kernel's parameter with this number: the address of a weight or of a buffer, or a
  /// window from which the kernel reads its peers' parts.
  std::string passed(const LaunchStep& launch, size_t number);
  /// The address of the chunk's instance of a buffer, as an expression over a parameter of the function.
  Expr pointer(BufferId buffer, const std::string& wanted, bool written);
  /// The handle that the step passes: all instances of a buffer that has one for each chunk, else the current instance.
  std::string whole(BufferId buffer) const;
  /// The offset of the chunk's instance from that handle; empty if it is always 0.
  std::string instance(const Buffer& buffer) const;
  void add(const Step& step);
  void launch(const Step& step, const LaunchStep& launch);
  /// The loop that adds the part of a chunk to the total; the first chunk's part initialises it.
  void accumulate(const CopyStep& copy);
  /// Lines that wait for element `at` of a signal if `condition` holds, and that raise it. On a device, a wait gives up
  /// after a timeout or if another block has failed; then the function returns.
  std::string wait(SignalId id, const std::optional<IndexExpr>& at, const std::string& condition);
  std::string raise(SignalId id, const std::optional<IndexExpr>& at);
  /// "peers.wait(ready, chunk)"
  std::string of_peers(const std::string& call, SignalId id, const std::optional<IndexExpr>& at);
  /// The same index, with each variable of an outer loop replaced by a parameter.
  IndexExpr with_outer(const IndexExpr& index);

  const StepTerms& terms_;
  const Plan& plan_;
  const TargetDialect& dialect_;
  int64_t blocks_ = 1;
  std::map<std::string, ChunkParameter> parameters_;  // by the passed expression
  std::vector<std::string> order_;                    // passed expressions, in order
  std::set<std::string> written_;                     // those of buffers that are written
  Names taken_;
  std::string peers_;  // the name of the parameter for the peer table
  std::vector<KernelId> called_;
  Statements body_;
};

}  // namespace weftc
