// Loop axes of a kernel under construction, and the scopes that are open. An axis is cut into several loops where an
// index expression would otherwise need a division.
#pragma once
#include <deque>
#include <map>
#include <set>

#include "backend/kernel_context.h"
#include "backend/scope.h"

namespace weftc {

struct Loop;
/// "const int64_t c_0 = c / 64, ..." for the loops of an axis, taken apart from one running number.
void split_number(Scope& scope, const Expr& number, const std::vector<Loop>& loops);

/// One run of indices. Its loops, outer first, cover extent = product of their extents.
struct LoopAxis {
  std::string name;
  int64_t extent = 1;
  Expr bound = {};  // run-time length; empty: the extent
};
struct Loop {
  std::string variable;
  int64_t extent;
  Expr bound;
  std::string axis;
  int64_t unit;  // by how much the axis moves in one step
};

/// Cuts of each axis by name: block sizes, each a multiple of the one before.
class Cuts {
 public:
  /// False if the cut is there already or does not nest.
  bool add(const LoopAxis& axis, int64_t block);
  std::vector<Loop> loops(const LoopAxis& axis) const;
  static IndexExpr index(const std::vector<Loop>& loops);

 private:
  std::map<std::string, std::set<int64_t>> blocks_;
};

/// Who runs the iterations of a row together: on the host one thread, on a device the lanes of a warp or a block; for
/// spaces without rows each thread has elements of its own.
enum class Lanes : uint8_t { Host, Thread, Warp, Block };

/// The run-time length of a dimension; empty where it is static.
Expr run_bound(KernelContext& context, const TensorType& type, size_t dim);
/// The loop kind in which one of the lanes stands for all.
LoopKind lanes_loop(Lanes lanes);

class LoopScopes {
 public:
  LoopScopes(KernelContext& context, Cuts& cuts);

  KernelContext& context;
  Names names;
  /// The whole text; statements are put no further out than `floor`.
  Scope root;
  Scope* floor = &root;
  Scope* current = &root;
  Lanes lanes = Lanes::Host;

  /// The loop over neighbours that a thread loads and stores at once, if one is open.
  struct Vector {
    std::string variable;
    int64_t width = 1;
    Scope* scope = nullptr;
  };
  Vector vector;
  /// Device kernels: how many neighbours of a row a lane takes together.
  int64_t row_vector = 1;

  /// Loops opened inside `under`; the innermost becomes current.
  struct Open {
    std::vector<std::unique_ptr<Scope>> scopes;
    std::vector<Loop> loops;
    IndexExpr index;
    bool shared = false;  // by the lanes of a row: a result of all needs a reduction over them
    Scope* before = nullptr;
    Vector vector_before;
    std::map<std::string, Scope*> hidden;
    Scope& inner() { return *scopes.back(); }
  };
  /// `like`: the kind of the innermost loop, and its accumulator. `may_share`: lanes may take iterations in turn.
  Open open(Scope* under, const LoopAxis& axis, const For& like = {}, bool may_share = false);
  void close(Open& open);
  /// The innermost loop of a device kernel: over neighbours that a thread loads and stores at once.
  void open_neighbours(std::vector<std::unique_ptr<Scope>>& scopes, const Loop& loop, const LoopAxis& axis);
  /// Axis of that name and extent, renamed where one is open around `under`.
  LoopAxis fresh_axis(const std::string& name, int64_t extent, const Expr& bound, const Scope* under) const;

  void own(const std::string& variable, Scope* scope) { owners_[variable] = scope; }
  /// The innermost scope that the variables of the expressions live in.
  Scope* home(const IndexList& index) const;
  Scope* deeper(Scope* a, Scope* b) const { return a->depth > b->depth ? a : b; }
  /// Registers a loop variable that open() did not make.
  void declare_loop(const Loop& loop, const LoopAxis& axis, Scope* scope);

  /// Cuts the axes where the index expressions of a finished nest have digits of a loop variable: loops opened from
  /// then on need none. True if there is such a cut that the loops did not have.
  bool cut_digits(const Statements& nest);

 private:
  bool cut_digits(const IndexExpr& expr);
  void open_shared(Open& open, Scope* under, const LoopAxis& axis);

  Cuts& cuts_;
  std::map<std::string, Scope*> owners_;
  std::map<std::pair<std::string, int64_t>, std::pair<Loop, LoopAxis>> loops_;  // by variable and extent
};

}  // namespace weftc
