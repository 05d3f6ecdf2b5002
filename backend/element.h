// One element of a value as C++. A kernel is written from its outputs. It requests the element at the indices of the
// loops, and each op requests the elements of its operands at the indices that it needs, down to loads from memory.
//
//   body:   t = Transpose(x);  y = Relu(t + b)              x is [64, 32], y is [32, 64]
//   asked:  y[i, j]  ->  t[i, j] + b[j]  ->  x[j, i], b[j]
//   text:   const float t_b = x[j * 32 + i] + b[j];
//           y[i * 64 + j] = t_b < float(0) ? float(0) : t_b;
//
// A statement goes into the outermost scope in which its indices are known: an element that does not depend on the
// inner loop is computed once before it. Elements that were computed before are found again by value and index.
#pragma once
#include <functional>

#include "backend/iteration_space.h"
#include "backend/loops.h"

namespace weftc {

/// An element's expression, and the innermost scope on whose variables it depends.
struct Element {
  Expr expr;
  Scope* scope;
  Expr loaded = {};  // for a plain load: the expression without the conversion to the compute type
};

/// An element from memory, converted to the compute type.
Expr converted(const Expr& loaded, DType dtype);

/// The elements of one loop nest. The caller opens loops through `scopes`, requests elements by at(), and stores them.
class Elements {
 public:
  Elements(KernelContext& context, Cuts& cuts);

  LoopScopes scopes;

  /// The element of `value` at indices local to this rank: found again, or computed by statements in suitable scopes.
  /// An op that cannot be computed inside a kernel is reported, and the element is then "0".
  Element at(ValueId value, const IndexList& index);
  /// From now on this element is known in `scope` under the given expression, usually a variable's name.
  void bind(ValueId value, const IndexList& index, const Expr& expr, Scope* scope);
  /// Puts `const float name = expression;` into the scope of the element, so that several uses compute it once.
  Element named(ValueId value, Element element);
  /// Stores an element of output `number` of the kernel. If the output is in peers' windows, it is stored on each peer.
  void store(size_t number, const IndexList& index, const Element& element);
  /// An output's element that loop number `loop` over the row has computed, if it may be stored at the end of that
  /// loop; otherwise null.
  Scope::RowValue* storable(size_t number, const IndexList& index, Scope& row, int loop);
  /// Stores it there.
  void store_there(size_t number, const IndexList& index, Scope::RowValue& value);
  /// While this is set, at() reads window operands from the peer with that index; empty: the rank's own memory.
  std::string peer;

 private:
  Element compute(ValueId value, const IndexList& index, const std::string& key);
  Element load(ValueId value, const IndexList& index);
  Element source(ValueId value, const Op& op, const IndexList& index);
  Element pointwise(ValueId value, const Op& op, const IndexList& index, const std::string& key);
  /// Host: a Gelu that one function computes.
  struct WholeGelu {
    ValueId x;
    const char* function;
  };
  using WholeGelus = std::map<ValueId, WholeGelu>;  // by result
  static WholeGelus whole_gelus_of(const KernelContext& context);
  Element whole_gelu(ValueId value, const WholeGelu& gelu, const IndexList& index, const std::string& key);
  Element view(ValueId value, const Op& op, const IndexList& index);
  Element concat(ValueId value, const Op& op, const IndexList& index);
  Element alike_operand(const Op& concat, const AlikeOperands& operands, const IndexList& index);
  Element pad(ValueId value, const Op& op, const IndexList& index);
  Element reduction(ValueId value, const Op& op, const IndexList& index);
  Element arg_reduction(ValueId value, const Op& op, const IndexList& index);
  Element product(ValueId value, const Op& op, const IndexList& index);
  Element block_product(ValueId value, const Op& op, const IndexList& index);
  Element window(ValueId value, const Op& op, const IndexList& index);
  Element index_op(ValueId value, const Op& op, const IndexList& index);
  Element look_up(ValueId value, const Op& op, const IndexList& index);
  Element scan(ValueId value, const Op& op, const IndexList& index);
  Element collective(ValueId value, const Op& op, const IndexList& index);
  Element from_peers(const Op& op, const IndexList& index);
  Element fail(const char* id, const Op& op, const std::string& what);

  /// Makes a costly element available to a later loop over the same row, which may then keep it (kept()) instead of
  /// computing it again. In a softmax, exp(x - max) is needed for the sum and for the result.
  void offer(const std::string& key, const Element& element, DType dtype);
  /// The place that keeps the value of an earlier loop from now on; empty without room for it.
  Expr kept(Scope::RowValue& value);
  /// A variable that holds an integer of run-time data, as an index expression with values in [0, extent).
  IndexExpr data_index(const Element& element, const std::string& name, int64_t extent);
  /// The index clamped to [0, extent), so that a load is always legal. The conditions under which the index was inside
  /// before are appended to `inside`; the caller uses another value if they do not hold.
  IndexExpr clamped(const IndexExpr& index, const Scale& extent, std::vector<Expr>& inside);
  /// The loops over some dimensions of a value, and the index of each of these dimensions.
  struct Inner {
    std::vector<LoopScopes::Open> loops;
    std::vector<IndexExpr> at;
    /// True if the lanes of a row share the iterations of one of the loops, so that each has a partial result.
    bool shared() const {
      return std::any_of(loops.begin(), loops.end(), [](const LoopScopes::Open& loop) { return loop.shared; });
    }
  };
  Inner open_dims(Scope* under, const TensorType& type, const std::vector<int64_t>& dims, const For& like);
  /// The function that combines the partial results of the lanes: "weft::block_sum".
  std::string lanes_function(const std::string& reduction) const;
  void close(Inner& inner);
  /// Loops over the taps of a window, with the indices of the operand and of the filter. `inside`: the conditions for a
  /// tap in the operand. `padded`: the conditions for a tap in the operand or its padding.
  struct WindowLoops {
    std::vector<LoopScopes::Open> loops;
    IndexList x, w;
    std::vector<Expr> inside = {}, padded = {};
  };
  WindowLoops open_window(ValueId value, const Op& op, const IndexList& index, Scope* home);
  /// The local index of a dimension that an entry of an index tensor addresses. If other ranks hold parts of the
  /// dimension, the condition under which this rank holds the element is appended to `held`.
  IndexExpr entry_index(const Op& op, const Element& entry, int dim, std::vector<Expr>& held);

  KernelContext& context_;
  const Graph& body_;
  WholeGelus gelus_;
  // Loads and stores of several neighbours at once, on a device where one instruction moves them all.
  bool is_vector(const IndexExpr& offset) const;
  Expr vector_load(const std::string& base, const IndexExpr& offset);
  void vector_store(const std::string& base, DType dtype, const IndexExpr& offset, const Element& element);
  int64_t shared_bytes_ = 0;
  int shared_arrays_ = 0;
};

/// An op's scalar expression with its types and attributes filled in: operands are its only placeholders.
std::string scalar_pattern(const Op& op, std::string_view scalar, DType compute, DType result);

/// The statements of a nest. `build` opens the loops, stores the elements and closes the loops. If an index then needs
/// a division by a constant, the nest is built again with that loop cut in two (loops.h), until no index does.
Statements build_nest(KernelContext& context, const std::function<void(Elements& elements, Cuts& cuts)>& build);

}  // namespace weftc
