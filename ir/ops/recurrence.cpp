// Operands of LSTM, GRU and RNN are checked here against each other, and their activation functions are read.
//
//   activations = ["HardSigmoid", "Tanh", "LeakyRelu"], activation_alpha = [0.3, 0.1], activation_beta = [0.4]
//     ->  HardSigmoid(0.3, 0.4), Tanh, LeakyRelu(0.1): functions take what they need, in their order
#include "ir/ops/recurrence.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/ops/index.h"

namespace weftc {

namespace {

/// True if operand `input` is absent or has these extents; else reports.
bool has_dims(const OpView& op, int input, const char* what, const Dims& dims) {
  if (!op.has(input)) return true;
  if (!is_fixed(op, input)) return false;
  if (op.dims(input) == dims) return true;
  return op.fail("recurrence-dims", "{} have shape {}, expected {}", what, dims_text(op.dims(input)), dims_text(dims));
}

/// The shape of states: initial ones and the last ones.
Shape state_shape(const RecurrenceSizes& s) {
  return s.batch_first ? Shape{s.batch, {s.directions}, {s.hidden}} : Shape{{s.directions}, s.batch, {s.hidden}};
}

/// Operands other than the sequence and its weights.
bool check_optional_operands(const OpView& op, const RecurrenceSizes& s, int64_t gates) {
  if (!has_dims(op, kCellBias, "biases", {s.directions, 2 * gates * s.hidden})) return false;
  if (op.op().kind == OpKind::LSTM && !has_dims(op, kPeephole, "peephole weights", {s.directions, 3 * s.hidden}))
    return false;
  if (!have_shapes(op, recurrence_shapes(op, s), "recurrence-dims")) return false;
  if (op.has(kLengths) && !integer_operand(op, kLengths)) return false;
  for (int i = 0; i < op.inputs(); ++i)
    if (i != kLengths && op.has(i) && op.type(i).dtype != op.type(kSequence).dtype)
      return op.fail("recurrence-dtypes", "operands have element types {} and {}", dtype_name(op.type(0).dtype),
                     dtype_name(op.type(i).dtype));
  return true;
}

/// A function's name and its parameters. A parameter without a default must be given.
struct GateFunctionRow {
  const char* name;
  GateFunction::Form form;
  OpKind kind;
  std::optional<double> alpha = {}, beta = {};
};
using Form = GateFunction::Form;
constexpr GateFunctionRow kActivations[] = {
    {"affine", Form::Affine, OpKind::Mul},
    {"elu", Form::Alpha, OpKind::Elu, 1.0},
    {"hardsigmoid", Form::AlphaBeta, OpKind::HardSigmoid, 0.2, 0.5},
    {"leakyrelu", Form::Alpha, OpKind::LeakyRelu, 0.01},
    {"relu", Form::Plain, OpKind::Relu},
    {"scaledtanh", Form::ScaledTanh, OpKind::Tanh},
    {"sigmoid", Form::Plain, OpKind::Sigmoid},
    {"softplus", Form::Plain, OpKind::Softplus},
    {"softsign", Form::Plain, OpKind::Softsign},
    {"tanh", Form::Plain, OpKind::Tanh},
    {"thresholdedrelu", Form::Alpha, OpKind::ThresholdedRelu, 1.0},
};

const GateFunctionRow* find_activation(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const GateFunctionRow& row : kActivations)
    if (name == row.name) return &row;
  return nullptr;
}

/// Parameters of functions, which are consumed in order.
class ParameterList {
 public:
  ParameterList(const OpView& op, const char* attr) : op_(op), attr_(attr) {
    if (op.op().has(attr)) left_ = op.op().reals(attr);
  }
  bool take(const std::string& function, std::optional<double> otherwise, double& value) {
    if (next_ < left_.size()) otherwise = left_[next_++];
    if (!otherwise) return op_.fail("activation-parameter", "'{}' needs a value of '{}'", printable(function), attr_);
    value = *otherwise;
    return true;
  }
  bool is_empty() const {
    return next_ == left_.size() || op_.fail("activation-parameter", "'{}' has {} values, but its functions take {}",
                                             attr_, left_.size(), next_);
  }

 private:
  const OpView& op_;
  const char* attr_;
  std::vector<double> left_;
  size_t next_ = 0;
};

/// The names given by the node, or the defaults of every direction.
std::vector<std::string> activation_names(const OpView& op, const std::vector<std::string>& defaults,
                                          int64_t directions) {
  if (op.op().has("activations")) return op.op().texts("activations");
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  return names;
}

}  // namespace

std::optional<RecurrenceSizes> recurrence_sizes(const OpView& op, int64_t gates) {
  if (!is_real_operand(op, kSequence)) return {};
  for (int i = 0; i <= kRecurrent; ++i)
    if (!has_ndim(op, i, 3, 3) || (i == kSequence ? !is_fixed_dim(op, i, 2) : !is_fixed(op, i))) return {};
  const std::string& direction = text_of(op.op(), "direction");
  const Shape x = op.type(kSequence).shape;
  const Dims r = op.dims(kRecurrent);
  const bool batch_first = int_of(op.op(), "layout") == 1;
  const RecurrenceSizes sizes{x[batch_first ? 1 : 0],
                              x[batch_first ? 0 : 1],
                              x[2].bound,
                              r[2],
                              direction == "bidirectional" ? 2 : 1,
                              batch_first};
  if (op.op().has("hidden_size") && op.op().integer("hidden_size") != sizes.hidden)
    return op.fail("recurrence-hidden", "'hidden_size' is {}, but the recurrent weights have shape {}",
                   op.op().integer("hidden_size"), dims_text(r)),
           std::nullopt;
  if (!has_dims(op, kInputWeight, "weights", {sizes.directions, gates * sizes.hidden, sizes.input})) return {};
  if (!has_dims(op, kRecurrent, "recurrent weights", {sizes.directions, gates * sizes.hidden, sizes.hidden})) return {};
  if (!check_optional_operands(op, sizes, gates)) return {};
  return sizes;
}

OperandShapes recurrence_shapes(const OpView& op, const RecurrenceSizes& s) {
  OperandShapes shapes = {{kLengths, {s.batch}}, {kInitialHidden, state_shape(s)}};
  if (op.op().kind == OpKind::LSTM) shapes.emplace_back(kInitialCell, state_shape(s));
  return shapes;
}

std::vector<TensorType> recurrence_types(const OpView& op, const RecurrenceSizes& s, int states) {
  const DType dtype = op.type(kSequence).dtype;
  const Shape all = s.batch_first ? Shape{s.batch, s.steps, {s.directions}, {s.hidden}}
                                  : Shape{s.steps, {s.directions}, s.batch, {s.hidden}};
  std::vector<TensorType> types = {{dtype, all, {}}};
  for (int i = 0; i < states; ++i) types.push_back({dtype, state_shape(s), {}});
  return types;
}

std::optional<std::vector<GateFunction>> recurrence_activations(const OpView& op,
                                                                const std::vector<std::string>& defaults,
                                                                int64_t directions) {
  const std::vector<std::string> names = activation_names(op, defaults, directions);
  if (names.size() != defaults.size() * static_cast<size_t>(directions))
    return op.fail("recurrence-activations", "{} activations for {} directions, expected {}", names.size(), directions,
                   defaults.size() * static_cast<size_t>(directions)),
           std::nullopt;
  ParameterList alphas(op, "activation_alpha"), betas(op, "activation_beta");
  std::vector<GateFunction> found;
  for (const std::string& name : names) {
    const GateFunctionRow* row = find_activation(name);
    if (!row) return op.fail("recurrence-activations", "unknown activation '{}'", printable(name)), std::nullopt;
    GateFunction& made = found.emplace_back(GateFunction{row->form, row->kind});
    const bool has_alpha = row->form != Form::Plain, has_beta = has_alpha && row->form != Form::Alpha;
    if (has_alpha && !alphas.take(name, row->alpha, made.alpha)) return {};
    if (has_beta && !betas.take(name, row->beta, made.beta)) return {};
  }
  if (!alphas.is_empty() || !betas.is_empty()) return {};
  return found;
}

Term activate(const GateFunction& a, Builder& build, Term x) {
  switch (a.form) {
    case Form::Plain:
      return x.apply(a.kind);
    case Form::Alpha:
      return {build, build.op(a.kind, {x.value()}, {{"alpha", a.alpha}})};
    case Form::AlphaBeta:
      return {build, build.op(a.kind, {x.value()}, {{"alpha", a.alpha}, {"beta", a.beta}})};
    case Form::ScaledTanh:
      return (x * a.beta).apply(OpKind::Tanh) * a.alpha;
    case Form::Affine:
      break;
  }
  return x * a.alpha + a.beta;
}

}  // namespace weftc
