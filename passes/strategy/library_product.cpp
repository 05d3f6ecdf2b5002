// Products that a device's library computes: both operands and the result have constant strides over rows, columns and
// at most two dimensions of the batch. At most a bias, then a Relu or the tanh form of Gelu, follows.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/strategy/library_epilogue.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// A parameter as a tensor over variables of the batch and "m", "n", "k".
struct Tensor3 {
  size_t parameter = 0;
  IndexExpr offset;

  /// The stride of one variable; nothing where the variable is inside a division.
  std::optional<int64_t> stride(const std::string& variable) const {
    const Stride found = stride_of(offset, variable);
    return found.affine && found.coefficient.is_number() ? std::optional(found.coefficient.number) : std::nullopt;
  }
};

/// One dimension of the batch, with its stride in each tensor.
struct BatchDim {
  std::string variable;
  int64_t extent, a = 0, b = 0, y = 0;
};

/// A variable that is split into blocks: v = outer * block + inner.
struct Split {
  std::string variable;
  int64_t block = 0;
};

class LibraryMatcher {
 public:
  LibraryMatcher(const StrategyContext& context, ValueId root)
      : context_(context),
        at_(context.body),
        body_(context.body.body),
        op_(body_.producer_op(root)),
        root_(root),
        dims_(at_.dims(root)) {}

  /// Tries again with a variable split if a division of it was the reason for a refusal.
  std::optional<LibraryProduct> run();
  const std::string& why() const { return why_; }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }
  IndexExpr variable(const std::string& name, int64_t extent, bool is_batch);
  IndexList operand_index(ValueId value, const IndexExpr& row, const IndexExpr& column) const;
  std::optional<Tensor3> tensor(ValueId value, IndexList index) const;
  bool read_operands();
  bool read_result();
  bool read_strides();
  bool read_extents();
  bool ask_split();
  void fold_batch();
  bool is_library_call();
  LibraryProduct::Operand operand(const Tensor3& tensor, int64_t row, int64_t column, int64_t BatchDim::*stride) const;

  const StrategyContext& context_;
  const KernelBody& at_;
  const Graph& body_;
  const Op& op_;
  const ValueId root_;
  const Dims dims_;
  std::vector<Split> splits_;
  std::string why_;
  // State of one try:
  LibraryProduct out_;
  IndexList index_;  // of the product
  std::vector<BatchDim> batch_;
  std::vector<std::string> variables_;
  Tensor3 a_, b_, y_;
  std::optional<Tensor3> bias_;
  int64_t rows_ = 0, n_ = 0, k_ = 0;
};

/// A variable of the product, in the parts that it is split into; the outer ones are dimensions of the batch.
IndexExpr LibraryMatcher::variable(const std::string& name, int64_t extent, bool is_batch) {
  IndexExpr sum;
  int64_t rest = extent;
  for (const Split& split : splits_) {
    if (split.variable != name) continue;
    const std::string outer = name + "_" + std::to_string(split.block);
    const int64_t count = rest / split.block;
    batch_.push_back({outer, count});
    variables_.push_back(outer);
    sum = sum + index_variable(outer, 0, count - 1) * split.block;
    rest = split.block;
  }
  variables_.push_back(name);
  if (is_batch)
    batch_.push_back({name, rest});
  else
    rows_ = rest;
  return sum + index_variable(name, 0, rest - 1);
}

/// The leading dimensions of an operand may be fewer than the product's, or of extent 1.
IndexList LibraryMatcher::operand_index(ValueId value, const IndexExpr& row, const IndexExpr& column) const {
  const Dims of = at_.dims(value);
  IndexList index(of.size());
  for (size_t d = 0; d + 2 < of.size(); ++d)
    index[d] = of[d] == 1 ? IndexExpr(0) : index_[dims_.size() - of.size() + d];
  index[of.size() - 2] = row, index[of.size() - 1] = column;
  return index;
}

std::optional<Tensor3> LibraryMatcher::tensor(ValueId value, IndexList index) const {
  const std::optional<Load> load = at_.load_of(value, std::move(index));
  if (!load || at_.kernel.parameters[load->parameter].type.dtype != body_.type(root_).dtype) return {};
  return Tensor3{load->parameter, load->offset};
}

bool LibraryMatcher::read_operands() {
  batch_.clear(), index_.clear(), bias_.reset(), out_ = {};
  variables_ = {"n", "k"};
  n_ = dims_.back(), k_ = at_.dims(op_.inputs[0]).back();
  for (size_t d = 0; d + 2 < dims_.size(); ++d) {
    if (at_.run_extent_of(body_.type(root_), static_cast<int>(d)))
      return refuse("a dimension of the batch has a run-time length");
    index_.push_back(variable("b" + std::to_string(d), dims_[d], true));
  }
  const IndexDims extents = at_.extents(root_);
  const Scale& rows = extents[dims_.size() - 2];
  rows_ = dims_[dims_.size() - 2];
  const IndexExpr m = rows.is_number() ? variable("m", rows_, false) : index_variable("m", rows);
  if (!rows.is_number()) variables_.push_back("m");
  const IndexExpr n = index_variable("n", extents.back());
  const IndexExpr k = index_variable("k", at_.extents(op_.inputs[0]).back());
  const std::optional<Tensor3> left = tensor(op_.inputs[0], operand_index(op_.inputs[0], m, k));
  const std::optional<Tensor3> right = tensor(op_.inputs[1], operand_index(op_.inputs[1], k, n));
  if (!left || !right) return refuse("an operand is computed, or of another type");
  a_ = *left, b_ = *right;
  index_.push_back(m), index_.push_back(n);
  return true;
}

/// From the product to the kernel's one output: first the library's epilogue, then views.
bool LibraryMatcher::read_result() {
  if (body_.outputs().size() != 1) return refuse("it has several results");
  ValueId value = root_;
  IndexList at = index_;
  std::vector<EpilogueStep> steps;
  while (value != body_.outputs()[0].value) {
    const std::optional<EpilogueStep> step = next_epilogue_step(body_, context_.constants, value, steps);
    if (step) {
      if (!step->is_alone) return refuse("a value after it has other readers");
      if (step->bias) {
        const Dims of = at_.dims(step->bias);
        IndexList index(of.size(), IndexExpr(0));
        if (of.back() != 1) index.back() = at.back();
        bias_ = tensor(step->bias, index);
        if (!bias_) return refuse("the bias is computed, or of another type");
        if (bias_->stride("n") != 1 && n_ != 1) return refuse("the bias is not along the columns");
      }
      if (step->activation != Activation::None) out_.activation = step->activation;
      steps.push_back(*step);
      value = step->result;
      continue;
    }
    const std::vector<Use>& uses = body_.value(value).uses;
    if (uses.size() != 1 || !uses[0].op) return refuse("a value after it has other readers");
    const Op& op = body_.op(uses[0].op);
    if (op.kind == OpKind::Reshape) {
      at = unravel(linear_index(at, at_.extents(value)), at_.extents(op.outputs[0]));
    } else if (op.kind == OpKind::Transpose) {
      IndexList moved(at.size());
      for (size_t d = 0; d < at.size(); ++d) moved[d] = at[static_cast<size_t>(op.ints("perm")[d])];
      at = moved;
    } else {
      return refuse(format("'{}' that follows is nothing that the library does", op.name));
    }
    value = op.outputs[0];
  }
  const size_t parameter = at_.output_parameter(0);
  y_ = {parameter, at_.offset(at_.kernel.parameters[parameter], at)};
  return at_.kernel.parameters[parameter].type.dtype == body_.type(root_).dtype ||
         refuse("its result has another type");
}

bool LibraryMatcher::read_strides() {
  const auto read = [](const Tensor3& tensor, const std::string& variable, int64_t& stride) {
    const std::optional<int64_t> found = tensor.stride(variable);
    return found && ((stride = *found), true);
  };
  bool is_affine = read(a_, "m", out_.a.row) && read(a_, "k", out_.a.column) && read(b_, "k", out_.b.row) &&
                   read(b_, "n", out_.b.column) && read(y_, "m", out_.y.row) && read(y_, "n", out_.y.column);
  for (BatchDim& d : batch_)
    is_affine = is_affine && read(a_, d.variable, d.a) && read(b_, d.variable, d.b) && read(y_, d.variable, d.y);
  return is_affine || refuse("an operand or the result has no constant strides");
}

/// Reads the extents. A run-time length may be replaced by its bound where the extra rows do no harm.
bool LibraryMatcher::read_extents() {
  const TensorType &type = body_.type(root_), &a = body_.type(op_.inputs[0]), &b = body_.type(op_.inputs[1]);
  const auto extent = [&](const TensorType& of, int dim, int64_t bound) {
    LibraryProduct::Extent found{bound, {}};
    if (!of.shape[dim].is_run_time()) found.run = at_.run_extent_of(of, dim);  // ragged: the launching host knows it
    return found;
  };
  out_.m = extent(type, type.ndim() - 2, rows_);
  out_.n = extent(type, type.ndim() - 1, n_);
  out_.k = extent(a, a.ndim() - 1, k_);
  if (!out_.k.run) out_.k = extent(b, b.ndim() - 2, k_);
  if (a.shape.back().is_run_time() || b.shape[static_cast<size_t>(b.ndim()) - 2].is_run_time())
    return refuse("k has a run-time length");
  if (out_.m.run && rows_ != dims_[dims_.size() - 2]) return refuse("rows of a ragged slice lie in blocks");
  return true;
}

/// The block in which the values of a variable lie in an offset: rows of a chunk, heads that share a key.
std::optional<int64_t> block_of(const IndexExpr& offset, const std::string& variable, int64_t extent) {
  for (const IndexExpr::Term& t : offset.terms()) {
    if (!t.atom->is_digit()) continue;
    const std::vector<IndexExpr::Term>& of = t.atom->of.terms();
    const bool is_it = of.size() == 1 && of[0].atom->text == variable && of[0].scale == 1 &&
                       t.atom->divisor.is_number() && t.atom->modulus.is_number();
    const int64_t block = t.atom->divisor.number > 1 ? t.atom->divisor.number : t.atom->modulus.number;
    if (is_it && block > 1 && block < extent && extent % block == 0) return block;
  }
  return {};
}

/// Splits a variable that occurs inside a division. False if there is no such variable, or it is split already.
bool LibraryMatcher::ask_split() {
  std::vector<std::pair<std::string, int64_t>> candidates = {{"m", rows_}};
  for (const BatchDim& d : batch_) candidates.emplace_back(d.variable, d.extent);
  for (const auto& candidate : candidates)
    for (const Tensor3* tensor : {&a_, &b_, &y_}) {
      const std::optional<int64_t> block = block_of(tensor->offset, candidate.first, candidate.second);
      const bool known =
          std::any_of(splits_.begin(), splits_.end(), [&](const Split& s) { return s.variable == candidate.first; });
      if (!block || known) continue;
      splits_.push_back({candidate.first, *block});
      return true;
    }
  return false;
}

/// Dimensions of the batch that are more rows of one matrix, and neighbours that are one dimension.
void LibraryMatcher::fold_batch() {
  std::erase_if(batch_, [](const BatchDim& d) { return d.extent == 1; });
  while (!out_.m.run && !batch_.empty() && batch_.back().b == 0 && batch_.back().a == out_.a.row * rows_ &&
         batch_.back().y == out_.y.row * rows_) {
    rows_ *= batch_.back().extent;
    batch_.pop_back();
  }
  for (size_t d = batch_.size(); d-- > 1;) {
    BatchDim& outer = batch_[d - 1];
    const BatchDim inner = batch_[d];
    if (outer.a != inner.a * inner.extent || outer.b != inner.b * inner.extent || outer.y != inner.y * inner.extent)
      continue;
    outer = {inner.variable, outer.extent * inner.extent, inner.a, inner.b, inner.y};
    batch_.erase(batch_.begin() + static_cast<long>(d));
  }
  out_.m.bound = rows_;
}

/// One of both strides is 1 and the other is at least the length of a line, which excludes repeated and reversed
/// dimensions. A dimension of one element may have any stride: it gets the one that it would have alone in memory.
bool is_matrix(int64_t rows, int64_t columns, LibraryProduct::Operand& of) {
  if (columns == 1) of.column = of.row == 1 ? rows : 1;
  if (rows == 1) of.row = of.column == 1 ? columns : 1;
  return (of.column == 1 && of.row >= columns) || (of.row == 1 && of.column >= rows);
}

bool LibraryMatcher::is_library_call() {
  if (!read_extents()) return false;
  fold_batch();
  const bool is_reversed =
      std::any_of(batch_.begin(), batch_.end(), [](const BatchDim& d) { return d.a < 0 || d.b < 0; });
  if (batch_.size() > 2) return refuse("the batch has more than two dimensions that are no one");
  if (is_reversed || !is_matrix(rows_, k_, out_.a) || !is_matrix(k_, n_, out_.b))
    return refuse("an operand's elements repeat, or are side by side in neither rows nor columns");
  if (out_.y.column != 1 && n_ != 1) return refuse("the result's columns are not side by side");
  out_.y.column = 1;
  if (rows_ == 1) out_.y.row = n_;
  return true;
}

LibraryProduct::Operand LibraryMatcher::operand(const Tensor3& tensor, int64_t row, int64_t column,
                                                int64_t BatchDim::*stride) const {
  IndexExpr first = tensor.offset;
  for (const std::string& variable : variables_) first = substitute(first, variable, 0);
  LibraryProduct::Operand made{tensor.parameter, first, row, column, {}};
  for (const BatchDim& d : batch_) made.batch.push_back(d.*stride);
  return made;
}

std::optional<LibraryProduct> LibraryMatcher::run() {
  if (element_count(dims_) == 0 || at_.dims(op_.inputs[0]).back() == 0)
    return (why_ = "it has no elements"), std::nullopt;
  while (true) {
    if (!read_operands() || !read_result()) return {};
    if (read_strides()) break;
    if (!ask_split()) return {};
  }
  if (!is_library_call()) return {};
  out_.a = operand(a_, out_.a.row, out_.a.column, &BatchDim::a);
  out_.b = operand(b_, out_.b.row, out_.b.column, &BatchDim::b);
  out_.y = operand(y_, out_.y.row, out_.y.column, &BatchDim::y);
  if (bias_) out_.bias = operand(*bias_, 0, 1, &BatchDim::y);
  for (const BatchDim& d : batch_) out_.batch.push_back(d.extent);
  return out_;
}

}  // namespace

Verdict library_product(const StrategyContext& context) {
  const Graph& body = context.body.body;
  if (!context.target.library_products || !has_op(body, {OpKind::MatMul})) return {};
  if (context.use == KernelUse::InChunks) return refused("the one kernel of a loop over chunks cannot call a library");
  const ValueId root = contraction_of(body);
  if (!root || !is_float(body.type(root).dtype)) return refused("it has several products, or one of integers");
  LibraryMatcher matcher(context, root);
  std::optional<LibraryProduct> product = matcher.run();
  if (!product) return refused(matcher.why());
  return {std::move(*product), ""};
}

}  // namespace weftc
