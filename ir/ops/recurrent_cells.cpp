// LSTM, GRU and RNN of ONNX. The product of the whole sequence with the weights does not depend on the states. It is
// one product before a Loop over the steps; the Loop's body has the product with the last state and the gates.
//
//   p = MatMul(X, W^T) + b                                     [steps, batch, gates * hidden]
//   y, h = Loop(steps) { h_next = f(p[t] + MatMul(h, R^T));  y_next = y with h_next at t }
//
// Each direction is a Loop of its own. If sequences have lengths, a step after the end of one keeps its states and
// gives 0. In the reverse direction these steps come first, so that the sequence starts with its initial state.
#include <algorithm>
#include <functional>

#include "ir/base/check.h"
#include "ir/ops/recurrence.h"
#include "ir/ops/step_loop.h"

namespace weftc {

namespace {

/// One direction of one op.
class Direction {
 public:
  Direction(Builder& build, const OpView& op, const RecurrenceSizes& sizes, int64_t number, int64_t gates,
            std::vector<GateFunction> activations)
      : build_(build),
        op_(op),
        sizes_(sizes),
        number_(number),
        gates_(gates),
        activations_(std::move(activations)),
        reverse_(number == 1 || text_of(op.op(), "direction") == "reverse"),
        loop_(build, reverse_ ? "reverse" : "forward", build.length(length_of(sizes.steps))) {}

  /// This direction's part of an operand, which keeps its first dimension.
  Term part_of(Term operand) const { return operand.slice(0, number_, number_ + 1); }
  Term outer(int input) const { return {build_, op_.op().inputs[static_cast<size_t>(input)]}; }
  Term inner(int input) { return part_of({loop_.body(), loop_.capture(outer(input).value())}); }
  bool has(int input) const { return op_.has(input); }

  /// Block `gate` of the last dimension.
  Term gate(Term x, int64_t gate) const {
    const int64_t axis = static_cast<int64_t>(x.dims().size()) - 1;
    return x.slice(axis, gate * sizes_.hidden, (gate + 1) * sizes_.hidden);
  }
  /// A state times the recurrent weights of gates [first, last).
  Term recurrent(Term state, int64_t first, int64_t last) {
    return product(state, matrix(loop_.body(), kRecurrent, first * sizes_.hidden, last * sizes_.hidden));
  }
  /// The recurrent half of the bias.
  Term recurrent_bias() { return inner(kCellBias).slice(1, gates_ * sizes_.hidden, 2 * gates_ * sizes_.hidden); }
  /// The activation function of a gate, after the clip. The cell of an LSTM is not a gate: its activation function is
  /// not clipped, as in ONNX Runtime, for which models are exported.
  Term gated(size_t function, Term x) {
    if (!op_.op().has("clip")) return activated(function, x);
    const double clip = op_.op().real("clip");
    return activated(function, x.clamp(-clip, clip));
  }
  Term activated(size_t function, Term x) { return activate(activations_[function], loop_.body(), x); }

  using Step = std::function<std::vector<Term>(Direction&, Term projected, const std::vector<Term>& states)>;
  /// Runs all steps. Returns the last states, each [1, batch, hidden]. If `keeps` is set, the sequence of the first
  /// state, [steps, batch, hidden], comes first. `adds_bias`: the recurrent half of the bias is added before the loop.
  std::vector<Term> run(const std::vector<int>& initial, bool keeps, const Step& step, bool adds_bias);

 private:
  /// Zeros of the sequence's type.
  ValueId zeros_of(const Shape& shape) const {
    return build_.with_lengths(zeros(build_, op_.type(kSequence).dtype, bounds(shape)), shape);
  }
  Term initial_state(int input) const;
  Term matrix(Builder& where, int input, int64_t first, int64_t last);
  Term projected(bool adds_bias);
  Term step_number();
  Term lengths();

  Builder& build_;
  const OpView& op_;
  const RecurrenceSizes& sizes_;
  const int64_t number_, gates_;
  const std::vector<GateFunction> activations_;
  const bool reverse_;
  StepLoop loop_;
};

/// Rows [first, last) of this direction's weights, transposed: [1, columns, rows]. Constants are cut here, so that a
/// kernel reads a weight of its own, which is packed when the executable is built.
Term Direction::matrix(Builder& where, int input, int64_t first, int64_t last) {
  const Term all = outer(input);
  const Dims dims = all.dims();
  const Op& producer = build_.graph().producer_op(all.value());
  const bool is_whole = dims[0] == 1 && first == 0 && last == dims[1];
  if (is_whole || producer.kind != OpKind::Constant) {
    const Term seen(where, &where == &build_ ? all.value() : loop_.capture(all.value()));
    return seen.slice(0, number_, number_ + 1).slice(1, first, last).transpose({0, 2, 1});
  }
  const Tensor weights = build_.module().constants.tensor(producer.constant("value"));
  Tensor rows(weights.dtype, {1, last - first, dims[2]});
  for (int64_t i = 0; i < rows.size(); ++i) rows.copy_element(i, weights, (number_ * dims[1] + first) * dims[2] + i);
  return Term(where, where.constant(rows)).transpose({0, 2, 1});
}

/// The given states of this direction, or zeros. Their batch is the sequence's, even if a model gives it another name:
/// a Loop carries one type.
Term Direction::initial_state(int input) const {
  const Shape shape{{1}, sizes_.batch, {sizes_.hidden}};
  if (!has(input)) return {build_, zeros_of(shape)};
  const Term given = part_of(sizes_.batch_first ? outer(input).transpose({1, 0, 2}) : outer(input));
  if (given.shape() == shape) return given;
  return {build_, build_.with_lengths(given.expand(bounds(shape)).value(), shape)};
}

/// The sequence times the weights, [steps, batch, gates * hidden].
Term Direction::projected(bool adds_bias) {
  const Term x = sizes_.batch_first ? outer(kSequence).transpose({1, 0, 2}) : outer(kSequence);
  const Term p = product(x, matrix(build_, kInputWeight, 0, gates_ * sizes_.hidden));
  if (!has(kCellBias)) return p;
  const Term bias = part_of(outer(kCellBias));
  const int64_t half = gates_ * sizes_.hidden;
  const Term sum = p + bias.slice(1, 0, half);
  return adds_bias ? sum + bias.slice(1, half, 2 * half) : sum;
}

/// The element of the sequence for this step.
Term Direction::step_number() {
  const Term i(loop_.body(), loop_.iteration());
  if (!reverse_) return i;
  return Term(loop_.body(), loop_.body().length(length_of(sizes_.steps) - 1)) - i;
}

/// The length of each sequence, [1, batch, 1]. An impossible length is looked up outside of a table, which the program
/// reports.
Term Direction::lengths() {
  const Term all = positions(build_, DType::I64, op_.extent(length_of(sizes_.steps) + 1), 0, 1);
  return gather(build_, all, outer(kLengths).cast(DType::I64), 0).reshape_to({{1}, sizes_.batch, {1}});
}

std::vector<Term> Direction::run(const std::vector<int>& initial, bool keeps, const Step& step, bool adds_bias) {
  Builder& body = loop_.body();
  std::vector<Term> states, next;
  std::vector<ValueId> kept, values;
  if (keeps) kept.push_back(loop_.carry(zeros_of({sizes_.steps, sizes_.batch, {sizes_.hidden}})));
  for (int input : initial) states.push_back({body, loop_.carry(initial_state(input).value())});
  const Term now = step_number().reshape({1});
  const Term x(body, element_at(body, loop_.capture(projected(adds_bias).value()), now.value()));
  next = step(*this, x, states);
  Term shown = next[0];
  if (has(kLengths)) {
    const Term is_inside = now < Term(body, loop_.capture(lengths().value()));
    for (size_t i = 0; i < next.size(); ++i) next[i] = is_inside.choose(next[i], states[i]);
    shown = is_inside.choose(shown, shown.scalar(0));
  }
  if (keeps) values.push_back(with_element(body, kept[0], now.value(), shown.value()));
  for (const Term& state : next) values.push_back(state.value());
  loop_.next(values);
  std::vector<Term> results;
  for (ValueId v : loop_.finish()) results.push_back({build_, v});
  return results;
}

/// h = f(p + h R^T)
std::vector<Term> rnn_step(Direction& d, Term p, const std::vector<Term>& states) {
  return {d.gated(0, p + d.recurrent(states[0], 0, 1))};
}

/// Gates z, r, h: h_next = (1 - z) * g(p_h + r * h R_h^T) + z * h.
std::vector<Term> gru_step(Direction& d, Term p, const std::vector<Term>& states, bool linear_before_reset) {
  const Term h = states[0];
  Term sums = d.recurrent(h, 0, linear_before_reset ? 3 : 2);
  if (linear_before_reset && d.has(kCellBias)) sums = sums + d.recurrent_bias();
  const Term z = d.gated(0, d.gate(p, 0) + d.gate(sums, 0));
  const Term r = d.gated(0, d.gate(p, 1) + d.gate(sums, 1));
  const Term hidden = linear_before_reset ? r * d.gate(sums, 2) : d.recurrent(r * h, 2, 3);
  const Term candidate = d.gated(1, d.gate(p, 2) + hidden);
  return {(1 - z) * candidate + z * h};
}

/// Gates i, o, f, c: c_next = f * c + i * g(..), h = o * h(c_next); peepholes look at the cell in order i, o, f.
std::vector<Term> lstm_step(Direction& d, Term p, const std::vector<Term>& states, bool input_forget) {
  const Term sums = p + d.recurrent(states[0], 0, 4), c = states[1];
  const auto peeped = [&](int64_t gate, Term cell) {
    const Term sum = d.gate(sums, gate);
    return d.has(kPeephole) ? sum + d.gate(d.inner(kPeephole), gate) * cell : sum;
  };
  const Term i = d.gated(0, peeped(0, c));
  const Term f = input_forget ? 1 - i : d.gated(0, peeped(2, c));
  const Term next = f * c + i * d.gated(1, d.gate(sums, 3));
  const Term o = d.gated(0, peeped(1, next));
  return {o * d.activated(2, next), next};
}

/// Joins the directions' parts of one result, along the new dimension 1 (sequence) or 0 (last states).
ValueId joined(Builder& build, const std::vector<Term>& parts, bool is_sequence, bool batch_first) {
  std::vector<ValueId> values;
  for (const Term& part : parts) {
    Shape shape = part.shape();
    if (is_sequence) shape.insert(shape.begin() + 1, Extent{1});
    values.push_back(is_sequence ? part.reshape_to(shape).value() : part.value());
  }
  const int64_t axis = is_sequence ? 1 : 0;
  const ValueId all = values.size() == 1 ? values[0] : build.op(OpKind::Concat, values, {{"axis", axis}});
  if (!batch_first) return all;
  return is_sequence ? build.transpose(all, {2, 0, 1, 3}) : build.transpose(all, {1, 0, 2});
}

/// The differences between the three ops.
struct Cell {
  int64_t gates;
  std::vector<int> initial;  // operands, one for each state
  std::vector<std::string> activations;
  Direction::Step step;
  bool adds_bias = true;  // the recurrent half of it too, to all steps at once
};

bool infer_cell(const OpView& op, std::vector<TensorType>& results, const Cell& cell) {
  const std::optional<RecurrenceSizes> sizes = recurrence_sizes(op, cell.gates);
  if (!sizes || !recurrence_activations(op, cell.activations, sizes->directions)) return false;
  results = recurrence_types(op, *sizes, static_cast<int>(cell.initial.size()));
  results.resize(std::min(results.size(), op.op().outputs.size()));
  return true;
}

std::vector<ValueId> decompose_cell(Builder& build, const OpView& op, const Cell& cell) {
  const RecurrenceSizes sizes = *recurrence_sizes(op, cell.gates);
  const std::vector<GateFunction> all = *recurrence_activations(op, cell.activations, sizes.directions);
  const size_t each = cell.activations.size();
  const bool keeps = !op.graph().value(op.op().outputs[0]).uses.empty();
  std::vector<std::vector<Term>> results(1 + cell.initial.size());
  for (int64_t d = 0; d < sizes.directions; ++d) {
    const auto first = all.begin() + static_cast<long>(each) * d;
    Direction direction(build, op, sizes, d, cell.gates, {first, first + static_cast<long>(each)});
    const std::vector<Term> made = direction.run(cell.initial, keeps, cell.step, cell.adds_bias);
    for (size_t i = 0; i < made.size(); ++i) results[i + (keeps ? 0 : 1)].push_back(made[i]);
  }
  std::vector<ValueId> values(op.op().outputs.size());
  for (size_t r = 0; r < values.size(); ++r)
    if (!results[r].empty()) values[r] = joined(build, results[r], r == 0, sizes.batch_first);
  return values;
}

Cell rnn_cell(const OpView&) { return {1, {kInitialHidden}, {"Tanh"}, rnn_step}; }

/// If the reset gate is applied after the product, it is also applied after the product's bias.
Cell gru_cell(const OpView& op) {
  const bool linear = int_of(op.op(), "linear_before_reset") != 0;
  return {3,
          {kInitialHidden},
          {"Sigmoid", "Tanh"},
          [linear](Direction& d, Term p, const std::vector<Term>& states) { return gru_step(d, p, states, linear); },
          !linear};
}

Cell lstm_cell(const OpView& op) {
  const bool input_forget = int_of(op.op(), "input_forget") != 0;
  return {4,
          {kInitialHidden, kInitialCell},
          {"Sigmoid", "Tanh", "Tanh"},
          [input_forget](Direction& d, Term p, const std::vector<Term>& states) {
            return lstm_step(d, p, states, input_forget);
          }};
}

/// The record of a cell, with the attributes common to all.
template <Cell (*cell)(const OpView&)>
OpDef record(OpKind kind, const char* name, int operands, int results) {
  OpDef def{.kind = kind, .name = name, .onnx = {name, 7}};
  def.attrs = {{"activation_alpha", AttrType::Reals},
               {"activation_beta", AttrType::Reals},
               {"activations", AttrType::Texts},
               {"clip", AttrType::Real},
               choice("direction", "forward", "forward reverse bidirectional"),
               {"hidden_size", AttrType::Int},
               flag("layout", 0)};
  def.inputs = {3, operands};
  def.outputs = {1, results};
  def.infer = [](const OpView& op, std::vector<TensorType>& types) { return infer_cell(op, types, cell(op)); };
  def.relate = [](const OpView& op) {
    return relations_of(op, recurrence_shapes(op, *recurrence_sizes(op, cell(op).gates)));
  };
  def.decompose = [](Builder& build, const OpView& op) { return decompose_cell(build, op, cell(op)); };
  return def;
}

/// Adds an op before the LSTM while it is imported.
ValueId step_of_import(Graph& graph, OpId lstm, OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {}) {
  NewOp made{};
  const Op& like = graph.op(lstm);
  made.kind = kind, made.inputs = std::move(inputs), made.results = {TensorType{}}, made.attrs = std::move(attrs);
  made.name = like.name + "/" + op_def(kind).name, made.origins = like.origins, made.place = like.place;
  return graph.result(graph.add(std::move(made), lstm));
}

/// Weights [directions, inputs, gates] in an LSTM's form, from integers of 8 bits with a scale and a zero point for
/// each direction, or for each of its gates.
ValueId lstm_weight(Graph& graph, OpId lstm, size_t weight, size_t scale, size_t zero) {
  const std::vector<ValueId> in = graph.op(lstm).inputs;
  const auto real = [&](ValueId x) {
    return step_of_import(graph, lstm, OpKind::Cast, {x}, {{"to", dtype_attr(DType::F32)}});
  };
  const auto row = [&](ValueId x) {
    return step_of_import(graph, lstm, OpKind::Reshape, {x}, {{"shape", Dims{0, 1, -1}}});
  };
  const ValueId centred = step_of_import(graph, lstm, OpKind::Sub, {real(in[weight]), row(real(in[zero]))});
  const ValueId scaled = step_of_import(graph, lstm, OpKind::Mul, {centred, row(in[scale])});
  return step_of_import(graph, lstm, OpKind::Transpose, {scaled}, {{"perm", Dims{0, 2, 1}}});
}

/// DynamicQuantizeLSTM of com.microsoft has four more operands. ONNX Runtime also rounds the sequence and the states to
/// 8 bits, each by its own range; here they stay real.
bool import_lstm(Graph& graph, OpId id, int, const OpView& view) {
  constexpr size_t kOperands = 8, kOfQuantized = 12;
  const size_t count = view.op().inputs.size();
  const std::string& type = view.module().origins[view.op().origins[0].index].op_type;
  if (type != "DynamicQuantizeLSTM")
    return count <= kOperands || view.fail("input-count", "LSTM takes at most {} inputs, not {}", kOperands, count);
  if (count != kOfQuantized)
    return view.fail("input-count", "DynamicQuantizeLSTM takes {} inputs, not {}", kOfQuantized, count);
  graph.set_input(id, kInputWeight, lstm_weight(graph, id, kInputWeight, 8, 9));
  graph.set_input(id, kRecurrent, lstm_weight(graph, id, kRecurrent, 10, 11));
  while (graph.op(id).inputs.size() > kOperands) graph.remove_input(id, graph.op(id).inputs.size() - 1);
  return true;
}

OpDef gru() {
  OpDef def = record<gru_cell>(OpKind::GRU, "GRU", 6, 2);
  def.attrs.push_back(flag("linear_before_reset", 0));
  return def;
}

OpDef lstm() {
  OpDef def = record<lstm_cell>(OpKind::LSTM, "LSTM", 12, 3);
  def.aliases = {{"DynamicQuantizeLSTM", 1, "com.microsoft"}};
  def.import = import_lstm;
  def.attrs.push_back(flag("input_forget", 0));
  return def;
}

}  // namespace

const OpDef kRNN = record<rnn_cell>(OpKind::RNN, "RNN", 6, 2);
const OpDef kGRU = gru();
const OpDef kLSTM = lstm();

}  // namespace weftc
