// One element of a value as C++: a body's value at given indices, pulled through views, pointwise ops, reductions and
// look-ups down to loads. A statement stands in the outermost scope in which its indices are known, so that what a row
// needs once is computed once.
#pragma once
#include <functional>

#include "backend/loops.h"

namespace weftc {

/// The expression of an element, and the innermost scope that it depends on.
struct Element {
  Expr expr;
  Scope* scope;
  Expr loaded = {};  // of what is only loaded: the same without a conversion to the compute type
};

class Elements {
 public:
  Elements(KernelContext& context, Cuts& cuts);

  LoopScopes scopes;

  /// The element of `value` at local indices.
  Element at(ValueId value, const IndexList& index);
  /// From now on the element is that variable of `scope`.
  void bind(ValueId value, const IndexList& index, const Expr& expr, Scope* scope);
  /// output number `number` (an element of the value behind a last AllGather) = element.
  void store(size_t number, const IndexList& index, const Element& element);
  /// Reads of window operands inside at() go to this peer ("p" or "0"); empty: the rank's own.
  std::string peer;

 private:
  Element compute(ValueId value, const IndexList& index, const std::string& key);
  Element load(ValueId value, const IndexList& index);
  Element source(ValueId value, const Op& op, const IndexList& index);
  Element pointwise(ValueId value, const Op& op, const IndexList& index, const std::string& key);
  Element view(ValueId value, const Op& op, const IndexList& index);
  Element concat(ValueId value, const Op& op, const IndexList& index);
  Element pad(ValueId value, const Op& op, const IndexList& index);
  Element reduction(ValueId value, const Op& op, const IndexList& index);
  Element arg_reduction(ValueId value, const Op& op, const IndexList& index);
  Element product(ValueId value, const Op& op, const IndexList& index);
  Element window(ValueId value, const Op& op, const IndexList& index);
  Element index_op(ValueId value, const Op& op, const IndexList& index);
  Element scan(ValueId value, const Op& op, const IndexList& index);
  Element collective(ValueId value, const Op& op, const IndexList& index);
  Element from_peers(const Op& op, const IndexList& index);
  Element fail(const char* id, const Op& op, const std::string& what);

  /// `const float name = expression;` in the scope of the element.
  Element named(ValueId value, Element element);
  /// Lets a later loop over the same row have the element of this one.
  void offer(const std::string& key, const Element& element, DType dtype);
  /// Where a value that an earlier loop has offered is kept from now on; empty where there is no room for it.
  Expr kept(Scope::RowValue& value);
  /// An integer of run-time data as an index in [0, extent).
  IndexExpr data_index(const Element& element, const std::string& name, int64_t extent);
  /// The index brought into [0, extent); adds the conditions under which it is there already.
  IndexExpr clamped(const IndexExpr& index, int64_t extent, std::vector<Expr>& inside);
  /// Loops over some dimensions of a value of local `dims`; fills their entries of `index`.
  struct Inner {
    std::vector<LoopScopes::Open> loops;
    std::vector<IndexExpr> at;
    /// By the lanes of a row: at most one run of dimensions is, and not the first where that is of one element.
    bool shared() const {
      return std::any_of(loops.begin(), loops.end(), [](const LoopScopes::Open& loop) { return loop.shared; });
    }
  };
  Inner open_dims(Scope* under, const TensorType& type, const std::vector<int64_t>& dims, const For& like);
  /// The lanes' values become one: "weft::block_sum".
  std::string lanes_function(const std::string& reduction) const;
  void close(Inner& inner);
  /// Loops over the taps of a window: the indices of the operand and of the filter, and the conditions under which a
  /// tap lies in the operand, and in its padding too.
  struct WindowLoops {
    std::vector<LoopScopes::Open> loops;
    IndexList x, w;
    std::vector<Expr> inside = {}, padded = {};
  };
  WindowLoops open_window(ValueId value, const Op& op, const IndexList& index, Scope* home);
  /// The index of a dimension that an entry names, and the condition under which this rank holds it, if not always.
  IndexExpr entry_index(ValueId indices, const Element& entry, const TensorType& type, int dim,
                        std::vector<Expr>& held);

  KernelContext& context_;
  const Graph& body_;
  bool is_vector(const IndexExpr& offset) const;
  Expr vector_load(const std::string& base, const IndexExpr& offset);
  void vector_store(const std::string& base, DType dtype, const IndexExpr& offset, const Element& element);
  int64_t shared_bytes_ = 0;
  int shared_arrays_ = 0;
};

/// The statements of a nest. `build` opens its loops and closes them; where an index asks for a cut, the loops are
/// built with it.
Statements build_nest(KernelContext& context, const std::function<void(Elements& elements, Cuts& cuts)>& build);

}  // namespace weftc
