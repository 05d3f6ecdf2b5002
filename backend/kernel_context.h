// State shared by the generators of one kernel: the kernel, its operands in memory, and the arguments that it needs.
// When a generator writes a coordinate, a run-time length or a peer, the function gets a parameter for it:
//
//   void add(weft::Team& team, weft::Peers peers, int chunk, const float* x, float* y)
//            arguments, as asked for ..................... operands of the kernel
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/dialects/target_dialect.h"
#include "backend/statement.h"
#include "ir/base/naming.h"
#include "ir/kernel/kernel_body.h"

namespace weftc {

/// The C++ type of an element in memory, and of a local variable that holds one (float for the 16-bit floats).
const char* memory_type(DType dtype);
const char* compute_type(DType dtype);
bool is_16_bit_float(DType dtype);
/// A number as a literal of the compute type.
std::string real_literal(double value, DType dtype);
std::string int_literal(int64_t value, DType dtype);

/// An argument of an emitted kernel that is not one of its operands.
struct Argument {
  enum class Kind : uint8_t { Team, Peers, Chunk, Coordinate, Extent, Invocation, Trip, Indices, Panels };
  Kind kind;
  int number = -1;  // Chunk, Coordinate: axis of the kernel's mesh; Extent: of Kernel::extents; Indices: the op
  auto operator<=>(const Argument&) const = default;
};

/// "int ", "weft::Peers ": the type of its parameter.
const char* argument_type(const TargetDialect& dialect, Argument::Kind kind);

class KernelContext;
/// Number of elements of dimensions `first` to `end` of a tensor together: "batch * seq * 12".
std::string count_text(KernelContext& context, const TensorType& type, int first, int end);

class KernelContext : public KernelBody {
 public:
  KernelContext(const Plan& plan, const Kernel& kernel, Diags& diags, KernelUse use = KernelUse::Launched);

  const Plan& plan;

  /// Reports `id` at the op's origin: the kernel cannot be written, and gives no text.
  void refuse(std::string id, const Op& op, const std::string& what);
  bool failed() const { return failed_; }

  const Place& place() const { return plan.places[kernel.place.index]; }

  /// The name of the kernel argument with the run-time length of a dimension; empty for a static one.
  std::string run_extent(const TensorType& type, int dim) const;
  /// Records that the kernel needs the coordinate as an argument.
  IndexExpr coordinate(int axis) const override;
  /// Also records the run-time lengths in it.
  IndexExpr offset(const Parameter& parameter, const IndexList& index) const override;
  /// Records that the kernel needs the run-time lengths in these expressions as arguments.
  void need_lengths(const IndexExpr& index) const;
  CoordinateFn coordinates() const {
    return [this](int axis) { return coordinate(axis); };
  }

  /// Names in the emitted function: the Plan's, as legal identifiers.
  const std::string& parameter_name(size_t number) const { return parameter_names_[number]; }
  /// The address of a window operand on the peer with this index in the rank group; -1: on this rank.
  std::string peer_copy(size_t number, int64_t peer);
  std::string peer_copy_name(size_t number, int64_t peer) const;
  /// The pairs of operand and peer for which peer_copy() was called; the function begins with their addresses.
  const std::set<std::pair<size_t, int64_t>>& used_peer_copies() const { return used_peer_copies_; }
  /// The address of an array that the threads of a block share, number `site` of the kernel, as an expression. In a
  /// loop over chunks, the steps share one piece of memory instead, and the array begins at its byte `first`.
  std::string shared_array(const std::string& type, const std::string& count, int site, int64_t first) const;
  void need(Argument argument) const { arguments_.insert(argument); }
  /// The arguments that the text needs.
  const std::set<Argument>& arguments() const { return arguments_; }
  /// The arguments that a launch passes, before the operands.
  std::vector<Argument> passed_arguments() const;
  /// The name of an argument inside the kernel, and of the parameter that is or holds it.
  std::string argument_name(const Argument& argument) const;
  std::string argument_parameter(const Argument& argument) const;
  /// "const int64_t* " for a length whose address is passed.
  std::string type_of(const Argument& argument) const;
  /// "weft::Team& team, const float* x, float* y"; a definition may give the memory space of its peer table.
  std::vector<std::string> parameters(bool definition = false) const;
  bool reads_peers() const { return arguments_.contains({Argument::Kind::Peers, -1}); }

  /// Names of parameters and of declarations around a nest; each nest starts with a copy.
  Names names;

  /// The name of the table of these parameters' addresses, which is declared before everything else.
  std::string table_of(const std::vector<size_t>& parameters);

  const TargetDialect& dialect() const { return dialect_of(plan.target); }
  const KernelFacts& facts() const { return dialect().facts; }
  /// True if the kernel of a loop over chunks calls this one; all its blocks are resident.
  bool is_in_chunks() const { return use_ == KernelUse::InChunks; }
  /// The strategy of the body in this use.
  const Strategy& strategy() const { return is_in_chunks() ? *kernel.in_chunks : kernel.strategy; }
  /// The number of the run-time extent whose length has this text.
  std::optional<size_t> number_of_length(const std::string& text) const;
  /// The kernel's variable for one of its run-time extents.
  std::string extent_argument(size_t number) const;
  /// Makes the launch have at least this many blocks and threads. It may have more: each loop is correct for any grid.
  void cover(int64_t blocks, int64_t threads);
  int64_t blocks() const { return blocks_; }
  int64_t threads() const { return threads_; }
  /// The first lines of the body, which read lengths and the invocation from memory.
  Statements prologue() const;
  /// Requests a header of the runtime that takes long to compile, so that not every file of kernels includes it.
  void need_header(const char* header) { headers_.insert(header); }
  const std::set<std::string>& headers() const { return headers_; }

 private:
  void need_extent(size_t number) const;
  /// The expression for a run-time extent that is computed from others.
  std::string computed_extent(const RunExtent& extent) const;

  Diags& diags_;
  const KernelUse use_;
  bool failed_ = false;
  std::set<std::string> headers_;
  std::set<std::pair<size_t, int64_t>> used_peer_copies_;
  std::vector<std::string> parameter_names_, extent_names_;
  std::map<int, std::string> check_names_;             // by the op whose indices are checked
  std::map<std::vector<size_t>, std::string> tables_;  // of addresses, by the parameters in them
  mutable std::set<Argument> arguments_;               // those that the text needs
  int64_t blocks_ = 1, threads_ = 32;
};

}  // namespace weftc
