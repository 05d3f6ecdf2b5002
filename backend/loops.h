// The loops of a nest under construction, and the scopes that are open. A loop is cut in two where an index
// expression would otherwise divide its variable, since a division in an inner loop costs more than the work on
// the element:
//
//   for c < 768:    x[row, c / 64, c % 64]       Cuts::add(c, 64)
//   for c_0 < 12:
//     for c_1 < 64: x[row, c_0, c_1]             c = c_0 * 64 + c_1
//
// Cuts are found when a nest is complete (cut_digits), and the nest is then built again.
#pragma once
#include <deque>
#include <map>
#include <set>

#include "backend/kernel_context.h"
#include "backend/scope.h"

namespace weftc {

struct Loop;
/// Declares the variables of an axis's loops from one running number: "const int64_t c_1 = c % 64; const
/// int64_t c_0 = c / 64;".
void split_number(Scope& scope, const Expr& number, const std::vector<Loop>& loops);

/// One range of indices. Its loops, outer first, cover `extent`, which is the product of their extents.
struct LoopAxis {
  std::string name;
  int64_t extent = 1;
  Expr bound = {};  // run-time length; empty: the extent
  Scale below = 0;  // the same for index algebra; 0: it has none
};
/// A loop of an axis, which may be cut into several.
struct Loop {
  std::string variable;
  int64_t extent;
  Expr bound;
  std::string axis;
  Scale unit;       // how far the index of the axis moves in one iteration
  Scale below = 0;  // as in the axis

  IndexExpr index() const {
    return below.number ? index_variable(variable, below) : index_variable(variable, 0, extent - 1);
  }
};

/// The cuts of each axis, by its name and extent: block sizes, each of which is a multiple of the next smaller
/// one.
class Cuts {
 public:
  /// Cuts the axis at multiples of `block`, which may be a run-time number if the extent is one:
  ///
  ///   for c < height * width * 4: x[c / (height * width)]   add(c, height * width)
  ///
  /// False if the cut is there already, does not nest with the others, or does not divide the extent.
  bool add(const LoopAxis& axis, const Scale& block);
  /// The loops of the axis, outer first.
  std::vector<Loop> loops(const LoopAxis& axis) const;
  /// The index of the axis over the variables of its loops.
  static IndexExpr index(const std::vector<Loop>& loops);

 private:
  std::map<std::string, std::vector<Scale>> blocks_;  // smaller ones first
};

/// The threads that share the iterations over a row: one thread on the host, and on a device the lanes of a warp or the
/// threads of a block. Thread: the iteration space has no rows, and each thread of the device has elements of its own.
enum class Lanes : uint8_t { Host, Thread, Warp, Block };

/// The run-time length of a dimension; empty for a static one.
Expr run_bound(KernelContext& context, const TensorType& type, size_t dim);
/// The same for index algebra; 0 if it is static, or a slice of unequal length on the ranks.
Scale run_scale(const KernelContext& context, const TensorType& type, size_t dim);
/// The kind of loop in which one lane acts for all of them (OneLane).
LoopKind lanes_loop(Lanes lanes);

/// The tree of scopes of one nest, with the loop variables and the scopes that own them.
class LoopScopes {
 public:
  LoopScopes(KernelContext& context, Cuts& cuts);

  KernelContext& context;
  Names names;
  /// The outermost scope. Statements go no further out than `floor`, which is the inside of a lambda if there is one.
  Scope root;
  Scope* floor = &root;
  Scope* current = &root;
  Lanes lanes = Lanes::Host;

  /// The loop over the neighbours that a thread loads and stores at once, if one is open.
  struct Vector {
    std::string variable;
    int64_t width = 1;
    Scope* scope = nullptr;
  };
  Vector vector;
  /// How many times loops over an axis were opened so far.
  int opened = 0;
  /// The ends of loops that add up a row, by their number.
  std::map<int, Later> ends;
  /// Host: the loop over rows takes several at once, and the loops over the elements of a row one at a time.
  bool rows_together = false;
  /// Device kernels: how many neighbouring elements of a row a lane takes together.
  int64_t row_vector = 1;

  /// The loops of one axis, from open() until close().
  struct Open {
    std::vector<std::unique_ptr<Scope>> scopes;
    std::vector<Loop> loops;
    IndexExpr index;
    bool shared =
        false;  // lanes take iterations in turn: a result over all iterations needs a reduction over the lanes
    Scope* before = nullptr;
    Vector vector_before;
    std::map<std::string, Scope*> hidden;
    Scope& inner() { return *scopes.back(); }
  };
  /// `like`: the kind of the innermost loop, and its accumulator. `may_share`: lanes may share iterations.
  Open open(Scope* under, const LoopAxis& axis, const For& like = {}, bool may_share = false);
  /// Finishes the loops, and restores the scope and the variables that were visible before.
  void close(Open& open);
  /// The same without adding the loops: they are empty.
  void drop(Open& open);
  /// The innermost loop of a device kernel: over neighbours that a thread loads and stores at once.
  void open_neighbours(std::vector<std::unique_ptr<Scope>>& scopes, const Loop& loop, const LoopAxis& axis);
  /// Axis with this name and extent, renamed if the name is open around `under`.
  LoopAxis fresh_axis(const std::string& name, int64_t extent, const Expr& bound, const Scope* under,
                      const Scale& below = 0) const;

  /// Records the scope in which a variable is declared.
  void own(const std::string& variable, Scope* scope) { owners_[variable] = scope; }
  /// The innermost scope that declares a variable of the expressions.
  Scope* home(const IndexList& index) const;
  Scope* deeper(Scope* a, Scope* b) const { return a->depth > b->depth ? a : b; }
  /// Registers a loop variable that open() did not make.
  void declare_loop(const Loop& loop, const LoopAxis& axis, Scope* scope);

  /// Adds cuts for all index expressions of a finished nest that divide a loop variable. True if the loops lack one of
  /// the cuts, so that the nest must be built again.
  bool cut_digits(const Statements& nest);

 private:
  bool cut_digits(const IndexExpr& expr);
  void open_shared(Open& open, Scope* under, const LoopAxis& axis);

  Cuts& cuts_;
  std::map<std::string, Scope*> owners_;
  std::map<std::pair<std::string, int64_t>, std::pair<Loop, LoopAxis>> loops_;  // by variable and extent
};

}  // namespace weftc
