// Common code of LSTM, GRU and RNN of ONNX: extents and activation functions (recurrence.cpp). The loop over the
// sequence is in recurrent_cells.cpp.
#pragma once
#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

/// Operands by number, the same for all three.
constexpr int kSequence = 0, kInputWeight = 1, kRecurrent = 2, kCellBias = 3, kLengths = 4, kInitialHidden = 5;
/// Only LSTM has these.
constexpr int kInitialCell = 6, kPeephole = 7;

/// Extents of a recurrent op, and the order of its operands' dimensions.
struct RecurrenceSizes {
  Extent steps, batch;
  int64_t input, hidden, directions;
  bool batch_first;  // layout 1: the batch is the first dimension of the sequence, the states and the results
};

/// Checks operands and attributes against each other; nothing after reporting. `gates`: blocks of `hidden` rows in the
/// weights.
std::optional<RecurrenceSizes> recurrence_sizes(const OpView& op, int64_t gates);

/// The shapes that operands must have, with the lengths of the sequence.
OperandShapes recurrence_shapes(const OpView& op, const RecurrenceSizes& sizes);

/// Types of the sequence of states and of the last ones; there are `states` of these.
std::vector<TensorType> recurrence_types(const OpView& op, const RecurrenceSizes& sizes, int states);

/// An activation function with its parameters: `kind` of alpha and beta, or alpha * tanh(beta * x), or alpha * x +
/// beta.
struct GateFunction {
  enum class Form : uint8_t { Plain, Alpha, AlphaBeta, ScaledTanh, Affine };
  Form form = Form::Plain;
  OpKind kind = OpKind::Tanh;
  double alpha = 0, beta = 0;
};

/// The functions of all directions, one direction after the other, from the attributes `activations`,
/// `activation_alpha` and `activation_beta`. `defaults` are those of one direction. Nothing after reporting.
std::optional<std::vector<GateFunction>> recurrence_activations(const OpView& op,
                                                                const std::vector<std::string>& defaults,
                                                                int64_t directions);
/// The value of the function.
Term activate(const GateFunction& activation, Builder& build, Term x);

}  // namespace weftc
