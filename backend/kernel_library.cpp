// Products that a device library computes: all strides of both operands and the result are constants, and what follows
// is at most a bias over the columns, then a Relu or the tanh form of Gelu.
#include <algorithm>

#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"
#include "ir/tanh_gelu.h"

namespace weftc {

namespace {

/// A parameter as a strided tensor over "batch, m, n, k".
struct Strided {
  size_t parameter = 0;
  IndexExpr offset;

  /// Of one variable; nothing where it is inside a division.
  std::optional<int64_t> stride(const std::string& variable) const {
    const Stride found = stride_of(offset, variable);
    return found.affine ? std::optional<int64_t>(found.coefficient) : std::nullopt;
  }
};

/// One dimension of the batch, with its stride in each tensor.
struct BatchDim {
  int64_t extent, a, b, y;
};

class LibraryCall {
 public:
  LibraryCall(KernelContext& context, ValueId root)
      : context_(context), body_(context.body), op_(body_.producer_op(root)), root_(root) {}

  /// `block`: rows are taken in blocks of so many, which are one more dimension of the batch; 0: all at once.
  std::optional<std::string> text(int64_t block);
  /// The block that the rows of an operand or the result lie in, known after text(0).
  int64_t block() const { return block_; }

 private:
  std::optional<Strided> tensor(ValueId value, IndexList at);
  bool follow();
  std::optional<ValueId> activated(ValueId value);
  bool take_bias(const Op& op, ValueId product, const IndexList& at);
  std::optional<std::string> extent(const TensorType& type, int dim, int64_t size, bool bound_is_fine);
  bool read_batch(const std::vector<std::string>& variables, const Dims& extents);
  void fold_batch(bool static_rows);
  std::string operand(const Strided& tensor, const std::vector<std::string>& variables) const;

  KernelContext& context_;
  const Graph& body_;
  const Op& op_;
  const ValueId root_;
  Strided a_, b_, y_;
  std::optional<Strided> bias_;
  std::string activation_;  // "Relu", "Gelu"; empty: none
  int64_t block_ = 0;
  IndexList index_;  // of the product
  std::vector<BatchDim> batch_;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  int64_t a_row_ = 0, a_column_ = 0, b_row_ = 0, b_column_ = 0, y_row_ = 0, y_column_ = 0;
};

std::optional<Strided> LibraryCall::tensor(ValueId value, IndexList at) {
  const std::optional<Load> load = context_.load_of(value, std::move(at));
  if (!load || context_.kernel.parameters[load->parameter].type.dtype != body_.type(root_).dtype) return {};
  return Strided{load->parameter, load->offset};
}

/// A bias: one number a column, the same for all rows.
bool LibraryCall::take_bias(const Op& op, ValueId product, const IndexList& at) {
  const ValueId other = op.inputs[0] == product ? op.inputs[1] : op.inputs[0];
  if (bias_ || !activation_.empty() || other == product) return false;
  const Dims dims = context_.dims(other);
  if (dims.empty() || dims.size() > at.size()) return false;
  IndexList index(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) index[d] = dims[d] == 1 ? IndexExpr(0) : at[at.size() - dims.size() + d];
  bias_ = tensor(other, index);
  if (!bias_) return false;
  for (const AtomPtr& atom : variables_of(bias_->offset))
    if (atom->text == "m" || atom->text[0] == 'b' || atom->text == "k") return false;
  return bias_->stride("n") == 1 || n_ == 1;
}

/// The value behind an activation of `value`; nothing where there is none, or one already.
std::optional<ValueId> LibraryCall::activated(ValueId value) {
  const std::vector<Use>& uses = body_.value(value).uses;
  if (!activation_.empty()) return {};
  if (uses.size() == 1 && uses[0].op && body_.op(uses[0].op).kind == OpKind::Relu) {
    activation_ = "Relu";
    return body_.result(uses[0].op);
  }
  const std::optional<TanhGelu> gelu = find_tanh_gelu(body_, *context_.plan.constants, value);
  if (!gelu || !gelu->is_alone) return {};
  activation_ = "Gelu";
  return gelu->result;
}

/// From the product to the kernel's one output.
bool LibraryCall::follow() {
  if (body_.outputs().size() != 1) return false;
  ValueId value = root_;
  IndexList at = index_;
  while (value != body_.outputs()[0].value) {
    if (const std::optional<ValueId> behind = activated(value)) {
      value = *behind;
      continue;
    }
    const std::vector<Use>& uses = body_.value(value).uses;
    if (uses.size() != 1 || !uses[0].op) return false;
    const Op& op = body_.op(uses[0].op);
    const ValueId next = op.outputs[0];
    if (op.kind == OpKind::Add && context_.dims(next) == context_.dims(value)) {
      if (!take_bias(op, value, at)) return false;
    } else if (op.kind == OpKind::Reshape) {
      at = unravel(linear_index(at, context_.dims(value)), context_.dims(next));
    } else if (op.kind == OpKind::Transpose) {
      IndexList moved(at.size());
      for (size_t d = 0; d < at.size(); ++d) moved[d] = at[static_cast<size_t>(op.ints("perm")[d])];
      at = moved;
    } else {
      return false;
    }
    value = next;
  }
  const size_t parameter = context_.output_parameter(0);
  y_ = {parameter, context_.offset(context_.kernel.parameters[parameter], at)};
  return context_.kernel.parameters[parameter].type.dtype == body_.type(root_).dtype;
}

/// An extent as text. A length that only the device knows stands for its bound where rows behind it do no harm.
std::optional<std::string> LibraryCall::extent(const TensorType& type, int dim, int64_t size, bool bound_is_fine) {
  if (type.shape[dim].count) return bound_is_fine ? std::optional<std::string>(std::to_string(size)) : std::nullopt;
  const std::string ragged = context_.run_extent(type, dim);
  return ragged.empty() ? std::to_string(size) : "{{" + ragged + "}}";
}

bool LibraryCall::read_batch(const std::vector<std::string>& variables, const Dims& extents) {
  for (size_t d = 0; d < variables.size(); ++d) {
    const std::optional<int64_t> a = a_.stride(variables[d]), b = b_.stride(variables[d]), y = y_.stride(variables[d]);
    if (!a || !b || !y) return false;
    if (extents[d] != 1) batch_.push_back({extents[d], *a, *b, *y});
  }
  return true;
}

/// Dimensions of the batch that are more rows of one matrix, and neighbours that are one dimension.
void LibraryCall::fold_batch(bool static_rows) {
  while (static_rows && !batch_.empty() && batch_.back().b == 0 && batch_.back().a == a_row_ * m_ &&
         batch_.back().y == y_row_ * m_) {
    m_ *= batch_.back().extent;
    batch_.pop_back();
  }
  for (size_t d = batch_.size(); d-- > 1;) {
    const BatchDim &outer = batch_[d - 1], &inner = batch_[d];
    if (outer.a != inner.a * inner.extent || outer.b != inner.b * inner.extent || outer.y != inner.y * inner.extent)
      continue;
    batch_[d - 1] = {outer.extent * inner.extent, inner.a, inner.b, inner.y};
    batch_.erase(batch_.begin() + static_cast<long>(d));
  }
}

/// "{{0}} + 64": where the tensor's first element is.
std::string LibraryCall::operand(const Strided& tensor, const std::vector<std::string>& variables) const {
  IndexExpr offset = tensor.offset;
  for (const std::string& variable : variables) offset = substitute(offset, variable, 0);
  for (const AtomPtr& atom : variables_of(offset))
    offset = substitute(offset, atom->text, index_variable("{{" + atom->text + "}}", atom->low, atom->high));
  const std::string text = offset.text(), base = "{{" + std::to_string(tensor.parameter) + "}}";
  return text == "0" ? base : base + " + " + text;
}

/// One of both strides is 1 and the other leaves room for a line, so that neither a repeated nor a reversed dimension
/// is one. A dimension of one element may have any stride: it gets the one that it would have alone in memory.
bool is_matrix(int64_t rows, int64_t columns, int64_t& row, int64_t& column) {
  if (columns == 1) column = row == 1 ? rows : 1;
  if (rows == 1) row = column == 1 ? columns : 1;
  return (column == 1 && row >= columns) || (row == 1 && column >= rows);
}

/// Rows that lie in blocks, as those of a chunk do: how many rows a block has; 0 if they do not.
int64_t row_block(const IndexExpr& offset, int64_t rows) {
  for (const IndexExpr::Term& t : offset.terms()) {
    const std::vector<IndexExpr::Term>& of = t.atom->of.terms();
    const bool of_rows = t.atom->is_digit() && of.size() == 1 && of[0].atom->text == "m" && of[0].coefficient == 1;
    const int64_t block = t.atom->divisor > 1 ? t.atom->divisor : t.atom->modulus;
    if (of_rows && block > 1 && rows % block == 0) return block;
  }
  return 0;
}

std::optional<std::string> LibraryCall::text(int64_t block) {
  const TensorType &type = body_.type(root_), &a = body_.type(op_.inputs[0]), &b = body_.type(op_.inputs[1]);
  Dims dims = context_.dims(root_);
  const Dims a_dims = context_.dims(op_.inputs[0]), b_dims = context_.dims(op_.inputs[1]);
  const size_t nd = dims.size();
  m_ = dims[nd - 2], n_ = dims[nd - 1], k_ = a_dims.back();
  if (element_count(dims) == 0 || k_ == 0) return {};
  batch_.clear(), index_.clear(), bias_.reset(), activation_.clear();
  std::vector<std::string> variables;
  for (size_t d = 0; d + 2 < nd; ++d) {
    if (type.shape[d].count || !context_.run_extent(type, static_cast<int>(d)).empty()) return {};
    variables.push_back("b" + std::to_string(d));
    index_.push_back(index_variable(variables.back(), 0, dims[d] - 1));
  }
  const IndexExpr n = index_variable("n", 0, n_ - 1);
  IndexExpr m = index_variable("m", 0, (block ? block : m_) - 1);
  if (block) m = index_variable("b_rows", 0, m_ / block - 1) * block + m;
  const IndexExpr k = index_variable("k", 0, k_ - 1);
  const auto operand_index = [&](const Dims& of, const IndexExpr& row, const IndexExpr& column) {
    IndexList at(of.size());
    for (size_t d = 0; d + 2 < of.size(); ++d) at[d] = of[d] == 1 ? IndexExpr(0) : index_[nd - of.size() + d];
    at[of.size() - 2] = row, at[of.size() - 1] = column;
    return at;
  };
  const std::optional<Strided> left = tensor(op_.inputs[0], operand_index(a_dims, m, k));
  const std::optional<Strided> right = tensor(op_.inputs[1], operand_index(b_dims, k, n));
  index_.push_back(m), index_.push_back(n);
  if (!left || !right || !follow()) return {};
  a_ = *left, b_ = *right;
  block_ = std::max(row_block(a_.offset, m_), row_block(y_.offset, m_));
  dims.resize(nd - 2);
  if (block) variables.emplace_back("b_rows"), dims.push_back(m_ / block);
  const auto read = [](const Strided& tensor, const char* variable, int64_t& stride) {
    const std::optional<int64_t> found = tensor.stride(variable);
    return found && ((stride = *found), true);
  };
  if (!read(a_, "m", a_row_) || !read(a_, "k", a_column_) || !read(b_, "k", b_row_) || !read(b_, "n", b_column_) ||
      !read(y_, "m", y_row_) || !read(y_, "n", y_column_) || !read_batch(variables, dims))
    return {};
  const int na = a.ndim(), nb = b.ndim(), ny = type.ndim();
  const std::optional<std::string> columns = extent(type, ny - 1, n_, true);
  std::optional<std::string> depth = extent(a, na - 1, k_, false);
  if (depth && *depth == std::to_string(k_)) depth = extent(b, nb - 2, k_, false);
  const std::optional<std::string> plain_rows = extent(type, ny - 2, m_, true);
  if (!columns || !depth || !plain_rows) return {};
  const bool static_rows = *plain_rows == std::to_string(m_);
  if (block && !static_rows) return {};
  if (block) m_ = block;
  fold_batch(static_rows);
  const bool is_reversed =
      std::any_of(batch_.begin(), batch_.end(), [](const BatchDim& d) { return d.a < 0 || d.b < 0; });
  if (batch_.size() > 2 || is_reversed || !is_matrix(m_, k_, a_row_, a_column_) ||
      !is_matrix(k_, n_, b_row_, b_column_) || (y_column_ != 1 && n_ != 1))
    return {};
  if (m_ == 1) y_row_ = n_;
  const auto matrix = [&](int64_t row, int64_t column, int64_t BatchDim::*stride) {
    std::string text = "{" + std::to_string(row) + ", " + std::to_string(column);
    for (auto d = batch_.rbegin(); d != batch_.rend(); ++d) text += ", " + std::to_string((*d).*stride);
    return text + "}";
  };
  std::string call = "r.contract({.m = " + (static_rows ? std::to_string(m_) : *plain_rows) + ", .n = " + *columns +
                     ", .k = " + *depth + ", .a = " + matrix(a_row_, a_column_, &BatchDim::a) +
                     ", .b = " + matrix(b_row_, b_column_, &BatchDim::b) + ", .y = " + matrix(y_row_, 1, &BatchDim::y);
  if (!batch_.empty()) call += ", .batch = " + std::to_string(batch_.back().extent);
  if (batch_.size() > 1) call += ", .outer = " + std::to_string(batch_[0].extent);
  const std::string epilogue = (bias_ ? "Bias" : "") + activation_;
  if (!epilogue.empty()) call += ", .epilogue = weft::Epilogue::" + epilogue;
  for (const char* variable : {"m", "n", "k"}) variables.emplace_back(variable);
  return call + "}, " + operand(a_, variables) + ", " + operand(b_, variables) + ", " +
         (bias_ ? operand(*bias_, variables) : "nullptr") + ", " + operand(y_, variables) + ");";
}

}  // namespace

std::optional<std::string> write_library_call(KernelContext& context) {
  ValueId root;
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) == Category::Pointwise || category(op) == Category::View || category(op) == Category::Source)
      continue;
    if (root || op.kind != OpKind::MatMul) return {};
    root = op.outputs[0];
  }
  if (!root || !is_float(context.body.type(root).dtype)) return {};
  LibraryCall call(context, root);
  if (std::optional<std::string> text = call.text(0)) return text;
  return call.block() ? call.text(call.block()) : std::nullopt;
}

}  // namespace weftc
