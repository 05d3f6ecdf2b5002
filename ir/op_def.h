// The record of an op: all that the compiler knows of it, in one place (ir/ops/README.md).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diag.h"
#include "ir/module.h"
#include "ir/shape_values.h"
#include "ir/tensor.h"

namespace weftc {

/// How an op is lowered. Passes and backends switch over this, never over the op.
///   Pointwise    one element of each result from one element of each (broadcast) operand
///   Reduction    over attribute `axes` (kept as extent 1 iff `keepdims`), or arg-reductions over `axis`
///   Contraction  MatMul, convolution, pooling: sums of products over factors or windows
///   View         moves elements, computes nothing
///   Index        gather and scatter: addresses come from data
///   Scan         running values along one axis
///   Region       owns graphs: If, Loop, Chunk, Fused
///   Collective   between ranks
///   Source       no operands: Input, Constant, Iota
///   Composite    only ever decomposed; none is left after the decompose pass
enum class Category : uint8_t {
  Pointwise,
  Reduction,
  Contraction,
  View,
  Index,
  Scan,
  Region,
  Collective,
  Source,
  Composite
};
const char* category_name(Category category);

/// Type: an ONNX type, which is ignored (an optional without an element gives its element type).
enum class AttrType : uint8_t { Int, Real, Text, Ints, Reals, Texts, Tensor, Type };
struct AttrSpec {
  const char* name;
  AttrType type;
  std::optional<AttrValue> otherwise = {};  // the default; if absent, the attribute is optional without one, unless
                                            // `required`
  bool required = false;
  bool is_own = false;  // written by the importer or the record, not an attribute of an ONNX node
  /// Permitted values of a text or an integer, separated by spaces; null: any. Two quotes stand for an empty text.
  const char* choices = nullptr;
};

/// An operand that a lowering needs at compile time. Once it is a constant, infer-types moves it into the attribute.
struct ConstantOperand {
  int input;
  const char* attr;
  AttrType type;         // Int (from a scalar or one element), Ints, Real, Reals
  bool required = true;  // false: the op also works on a run-time operand
  /// True: canonicalize sets the attribute. It may name run-time lengths by their bounds, which numbers of a model do
  /// not.
  bool is_canonical = false;
};

struct Arity {
  int min = 1;
  int max = 1;  // -1: any number
  /// Operands among the first `min` that may be left out although others follow.
  std::vector<int> optional = {};
};

/// One op as its record's functions see it. has() is false for absent optional operands.
class OpView {
 public:
  OpView(const Module& module, const Graph& graph, const Op& op, Diags* diags = nullptr,
         const ShapeValues* shapes = nullptr)
      : module_(module), graph_(graph), op_(op), diags_(diags), shapes_(shapes) {}

  const Op& op() const { return op_; }
  const Graph& graph() const { return graph_; }
  const Module& module() const { return module_; }
  /// The same view of another op in place of this one.
  OpView with(const Op& op) const { return {module_, graph_, op, diags_, shapes_}; }
  int inputs() const { return static_cast<int>(op_.inputs.size()); }
  bool has(int input) const { return input < inputs() && bool(op_.inputs[input]); }
  const TensorType& type(int input) const { return graph_.type(op_.inputs[input]); }
  Dims dims(int input) const { return type(input).dims(); }
  const TensorType& result_type(int output) const { return graph_.type(op_.outputs[output]); }
  /// The operand's tensor if it is a Constant.
  std::optional<Tensor> known(int input) const;
  /// The elements of an integer operand (or of a float one that holds integers) as lengths. They are known for a small
  /// Constant, and while types are inferred also for results of shape arithmetic.
  std::optional<std::vector<Length>> lengths(int input) const;
  /// Attribute `attr` of ints as lengths, or else those of the operand `input`; nothing if neither is known.
  std::optional<std::vector<Length>> lengths_of(std::string_view attr, int input) const;
  /// A dimension of this length.
  Extent extent(const Length& length) const;
  /// The length that a LengthOf reads; nothing if its text is not a length of this model.
  std::optional<Length> length() const { return parse_length(op_.text("length"), module_.lengths); }
  /// Attribute `attr` of ints as an axis list of `ndim` dims: negatives resolved, range checked, reported if wrong.
  std::optional<std::vector<int64_t>> axes(std::string_view attr, int ndim) const;
  /// One axis attribute, resolved; `-ndim <= axis < ndim` (or `<= ndim` with `end`), reported if wrong.
  std::optional<int64_t> axis(std::string_view attr, int ndim, bool end = false) const;
  /// Reports an error at the op's node and returns false.
  template <class... Arguments>
  bool fail(std::string id, std::string_view pattern, const Arguments&... arguments) const {
    if (diags_) diags_->error(std::move(id), module_.loc(op_), pattern, arguments...);
    return false;
  }
  /// Warns at the op's node.
  template <class... Arguments>
  void warn(std::string id, std::string_view pattern, const Arguments&... arguments) const {
    if (diags_) diags_->warning(std::move(id), module_.loc(op_), pattern, arguments...);
  }

 private:
  const Module& module_;
  const Graph& graph_;
  const Op& op_;
  Diags* diags_;
  const ShapeValues* shapes_;
};

/// Infers types of the results from types and attributes (layouts are left replicated). False after reporting. It may
/// give more types than the op has outputs (optional trailing ones). Ops with a variable number of results read it from
/// op().outputs.size().
using InferFn = bool (*)(const OpView& op, std::vector<TensorType>& results);

/// Brings the attributes of an op that infer accepted to the canonical form that all later passes read: defaults filled
/// in, axes non-negative, Slice and Pad with one entry for each dimension.
using CanonicalFn = void (*)(Op& op, const OpView& view);

/// A loop of an op (L4), and the effect of slicing it.
struct Factor {
  enum class Role : uint8_t { Pass, Reduce, Whole };
  int64_t extent = 0;
  Role role = Role::Pass;
  ReduceOp reduce = ReduceOp::Sum;  // Reduce
};
/// The factor that each dimension of each operand and result runs over; -1: none (a broadcast extent 1).
struct FactorRule {
  std::vector<Factor> factors;
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> outputs;
};
using FactorFn = FactorRule (*)(const OpView& op);

/// The conditions that a typed op puts on the lengths of its operands and results. Conditions that always hold may be
/// among them; `what` is left empty.
using RelateFn = std::vector<LengthRelation> (*)(const OpView& op);

/// Philox draw position of a random op (ir/README.md, Randomness).
struct RandomState {
  int64_t seed = 0;
  int64_t trip = 0;  // of the enclosing Loop
  int64_t invocation = 0;
};

/// One evaluation on one rank: local tensors in, local tensors out. The evaluator has made attributes with global
/// positions (Slice, Pad, shapes of views) local in `op`.
struct EvalContext {
  const Op& op;
  std::vector<const Tensor*> inputs;  // null where absent
  std::vector<Dims> result_dims;      // local, with run-time lengths
  std::vector<DType> result_dtypes;
  std::vector<Tensor>& results;  // to be filled, one for each output
  RandomState random;
  /// Global index of local index i of dim d of result r / of operand k: identity where the dim is not sliced.
  std::vector<std::vector<std::vector<int64_t>>> held_results;  // [r][d]; empty inner vector: identity
  std::vector<std::vector<std::vector<int64_t>>> held_inputs;   // [k][d]
  std::vector<Dims> global_dims;                                // of results
  std::vector<Dims> global_input_dims;
  const std::map<std::string, int64_t>* lengths = nullptr;  // this run's, by name
  bool is_refused = false;  // set by an evaluation if a program would refuse the operands: it has no result

  const Tensor& in(int i) const { return *inputs[i]; }
  bool has(int i) const { return i < static_cast<int>(inputs.size()) && inputs[i]; }
  int64_t result_index(int r, int d, int64_t i) const {
    return held_results.empty() || held_results[r][d].empty() ? i : held_results[r][d][i];
  }
  int64_t input_index(int k, int d, int64_t i) const {
    return held_inputs.empty() || held_inputs[k][d].empty() ? i : held_inputs[k][d][i];
  }
};
using EvalFn = void (*)(EvalContext& context);

class Builder;
/// Global index of local index i of dim d of result r / of operand k; identity if the dim is not sliced.
using DecomposeFn = std::vector<ValueId> (*)(Builder& build, const OpView& op);

class Unfolding;
struct Unfolded;
/// The values that replace the results of an op on sequences or optionals (ir/unfolding.h), one entry for each output.
/// Empty after reporting.
using UnfoldFn = std::vector<Unfolded> (*)(Unfolding& op);

/// Converts the ONNX form that the generic importer read (all attributes and operands of the node) to Weft's form.
/// `opset` is that of the op's domain. False after reporting.
using ImportFn = bool (*)(Graph& graph, OpId op, int opset, const OpView& view);

/// The value of a pointwise op on element values, in double; it is the reference.
using ScalarFn = double (*)(const double* operands, const Op& op);
/// The same on integers and bool, exact; `dtype` is the first operand's.
using IntFn = int64_t (*)(const int64_t* operands, const Op& op, DType dtype);

class Term;
struct BackwardStep;
/// Derivatives with respect to the operands of an op, given the derivative with respect to its result
/// (ir/ops/gradient.h).
using GradientFn = std::vector<std::optional<Term>> (*)(const BackwardStep& step);

/// A question about one op. For a record with `decompose`: whether the op needs none (Max of two operands, MatMul of
/// matrices). For one with `linear`: whether it holds (Cast between floats, Pad with 0).
using QuestionFn = bool (*)(const OpView& op);

struct OnnxName {
  const char* name = "";
  int since = 1;            // first opset that this record reads
  const char* domain = "";  // "" is ai.onnx
};

/// Cost of one element of a pointwise op.
enum class ScalarCost : uint8_t {
  Cheap,     // a few additions: computed again at each use
  Moderate,  // a division, a root, a conversion
  Function   // a polynomial or a library function
};

struct OpDef {
  OpKind kind;
  const char* name;                    // in text form; equal to the ONNX name where there is one
  OnnxName onnx = {};                  // empty name: internal
  std::vector<OnnxName> aliases = {};  // further ONNX names with the same meaning
  std::vector<AttrSpec> attrs = {};
  Arity inputs = {1, 1};
  Arity outputs = {1, 1};
  Category category = Category::Composite;
  std::vector<ConstantOperand> constant_operands = {};
  ImportFn import = nullptr;
  InferFn infer = nullptr;
  CanonicalFn canonicalize = nullptr;
  const char* einsum = nullptr;  // the factor rule as one line: "b m k, b k n -> b m n"
  FactorFn factors = nullptr;    // otherwise; null: from the category
  RelateFn relate = nullptr;     // null: dimensions of operands with a common factor are equal
  /// Operand groups in each of which the op is linear (L6): Add {{0, 1}}, MatMul {{0}, {1}}; {{-1}}: all together.
  std::vector<std::vector<int>> linear = {};
  QuestionFn is_linear = nullptr;  // null: always as `linear` says
  GradientFn gradient = nullptr;   // null: that of its parts if it has any, else it cannot be differentiated
  int kept_results = 1;            // how many results `gradient` reads; they are added if the model leaves them out
  /// Pointwise: expression in C++ on scalars of the compute type; $0, $1 operands (read several times), $T the compute
  /// type (float for f16 and bf16, else the type of the first operand that is not bool), $R the result's element type,
  /// $name an attribute as a literal. Functions of weft/math.h by name.
  const char* scalar = nullptr;
  const char* scalar_int = nullptr;  // for integer and bool operands, if it differs
  ScalarCost cost = ScalarCost::Cheap;
  ScalarFn value = nullptr;   // Pointwise: the meaning of `scalar`, for the reference
  IntFn int_value = nullptr;  // the same for integers; null: the op takes no integers
  EvalFn eval = nullptr;
  DecomposeFn decompose = nullptr;  // non-null: the decompose pass replaces the op, unless is_primitive says otherwise
  QuestionFn is_primitive = nullptr;
  UnfoldFn unfold = nullptr;  // non-null: infer-types replaces the op, and `unfold` gives the values for its results
  /// Whether type inference replaces the op by its parts, because only these know the run-time lengths of its results.
  QuestionFn is_typed_by_parts = nullptr;
  /// Whether operands and results may be strings. Ops that move elements take them; ops that compute with numbers do
  /// not.
  bool takes_strings = false;
};

const OpDef& op_def(OpKind kind);
inline const OpDef& op_def(const Op& op) { return op_def(op.kind); }
inline Category category(const Op& op) { return op_def(op).category; }
/// All records in the order of ops.def.
std::span<const OpDef* const> all_op_defs();
/// The record that reads an ONNX op, or null. `domain` "" and "ai.onnx" are the same.
const OpDef* find_onnx_op(std::string_view domain, std::string_view name);
/// The kind with that name in the text form.
std::optional<OpKind> parse_op_kind(std::string_view name);

// An attribute, else the default of the op's record; one of them must exist.
int64_t int_of(const Op& op, std::string_view attr);
double real_of(const Op& op, std::string_view attr);
const std::string& text_of(const Op& op, std::string_view attr);
/// Empty without an attribute and a default.
std::vector<int64_t> ints_of(const Op& op, std::string_view attr);
/// Fills every record default that the op lacks (defaults of optional attributes).
void fill_defaults(Op& op);
/// A negative `axis` counts from the end.
inline int64_t from_front(int64_t axis, int64_t ndim) { return axis < 0 ? axis + ndim : axis; }

/// Runs the infer-types pass for one op: infers, gives the results their types, makes the attributes canonical.
/// `shapes` holds the results of shape arithmetic that are known so far.
bool infer_op(const Module& module, Graph& graph, OpId id, Diags* diags, const ShapeValues* shapes = nullptr);
/// True if the decompose pass must replace the op.
bool decomposes(const OpView& op);
/// `linear` of the record, or nothing if its condition does not hold for this op.
std::vector<std::vector<int>> linear_groups(const OpView& op);

/// The factor rule of a record, from `factors`, `einsum` or the category. View, Region, Collective, Source have none
/// (an empty rule). Every factor's extent is filled in.
FactorRule factor_rule(const OpView& op);

/// A rule with one pass factor for each dimension of the shape, to be extended.
FactorRule pass_rule(const Shape& shape);

/// True for an extent that broadcasts; a run-time length is never treated as 1.
bool is_one(const Extent& extent);
/// The common extent of two equal extents: the one of the smaller bound, a number before a length. Nothing if no
/// request can make them equal.
std::optional<Extent> one_extent(const Extent& a, const Extent& b);
/// NumPy broadcasting of several shapes; nullopt if two dimensions that are not 1 cannot be equal.
std::optional<Shape> broadcast(const std::vector<Shape>& shapes);

}  // namespace weftc
