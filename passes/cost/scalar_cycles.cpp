// Measured on a Sapphire Rapids core at 3 GHz with AVX-512, from traces of programs with one op a step and operands of
// some ten thousand elements. The figures tell costly elements from cheap ones; they do not aim at predictions within
// some percent.
#include "passes/cost/scalar_cycles.h"

#include <algorithm>
#include <cmath>

#include "ir/kernel/column_sums.h"
#include "ir/kernel/top_k_lines.h"
#include "ir/kernel/window_geometry.h"

namespace weftc {

namespace {

enum class Numbers : uint8_t { Whole, Half, Float, Double };

Numbers numbers_of(DType dtype) {
  if (!is_float(dtype)) return Numbers::Whole;
  return dtype == DType::F64 ? Numbers::Double : dtype == DType::F32 ? Numbers::Float : Numbers::Half;
}

/// Cycles of an element of a pointwise op.
struct ElementRow {
  OpKind kind;
  Numbers numbers;
  double cycles;
};
constexpr ElementRow kElements[] = {
    {OpKind::Div, Numbers::Whole, 9},      {OpKind::Mod, Numbers::Whole, 11},    {OpKind::Pow, Numbers::Whole, 10},
    {OpKind::Mod, Numbers::Float, 32},     {OpKind::Mod, Numbers::Half, 53},     {OpKind::Mod, Numbers::Double, 33},
    {OpKind::Pow, Numbers::Float, 25},     {OpKind::Pow, Numbers::Half, 70},     {OpKind::Pow, Numbers::Double, 42},
    {OpKind::Sin, Numbers::Float, 3.7},    {OpKind::Cos, Numbers::Float, 3.7},   {OpKind::Tan, Numbers::Float, 4.1},
    {OpKind::Asinh, Numbers::Float, 3.9},  {OpKind::Acosh, Numbers::Float, 3.9}, {OpKind::Mish, Numbers::Float, 4.3},
    {OpKind::Softplus, Numbers::Float, 3},
};
constexpr double kDoubleFunction = 35;  // of libm: exp takes 15, asinh 80
constexpr double kByConstant = 2.5;     // a division of integers by a number that the compiler knows
constexpr double kDraw = 25;            // ten rounds of Philox
constexpr double kArgument = 4;         // an element of ArgMax
constexpr double kRunningSum = 2.4;     // each waits for the one before
constexpr double kLookUp = 1.3, kLookUpOfElement = 4, kUpdate = 6;
constexpr double kTransposed = 3;  // an element whose neighbour in memory belongs to another row
constexpr double kDownColumn = 8;  // the same in a reduction that is no sum of column_sums.h
constexpr double kConvertedHalf = 1;
constexpr int64_t kAdjacent = 8;  // elements that are looked up together are copied as vectors

double count_of(const TensorType& type, const Mesh& mesh) {
  return static_cast<double>(element_count(buffer_dims(type, mesh)));
}

double element_cycles(const OpView& op) {
  const Numbers numbers = numbers_of(op.type(0).dtype);
  const bool by_constant = numbers == Numbers::Whole && op.has(1) && op.type(1).count() == 1 && op.known(1);
  for (const ElementRow& row : kElements)
    if (row.kind == op.op().kind && row.numbers == numbers) return by_constant ? kByConstant : row.cycles;
  return numbers == Numbers::Double && op_def(op.op()).cost == ScalarCost::Function ? kDoubleFunction : 0;
}

/// Cycles of a line of TopK (weft/top_k.h). For few elements of a short line, each pass of vectors finds one. Otherwise
/// elements are compared with a bound as vectors, and blocks of 32 that hold a greater one are taken one by one:
/// element i is greater with a probability of k / i. A full room of candidates is cut to k. At last those are sorted.
double top_k_cycles(int64_t elements, int64_t most) {
  constexpr double kKey = 1.9, kPass = 0.25, kCompared = 1.2, kTaken = 4, kCut = 45, kSorted = 18, kBlock = 32;
  const auto length = static_cast<double>(elements), k = static_cast<double>(most);
  if (finds_by_passes(elements, most)) return length * (kKey + kPass * k);
  const auto room = static_cast<double>(most_candidates(elements, most));
  const double greater = k * std::log(length / room), cuts = k < room ? 1 + greater / (room - k) : 0;
  const double taken = room + std::min(length - room, kBlock * greater);
  return length * kCompared + taken * kTaken + cuts * room * kCut + k * std::log2(k + 1) * kSorted;
}

double top_k_cycles(const OpView& op, const Mesh& mesh) {
  const auto axis = static_cast<size_t>(op.op().integer("axis"));
  const int64_t length = buffer_dims(op.type(0), mesh)[axis], k = buffer_dims(op.result_type(0), mesh)[axis];
  if (length == 0 || k == 0) return 0;
  return count_of(op.type(0), mesh) / static_cast<double>(length) * top_k_cycles(length, k);
}

/// Each box is taken from a heap, and compared with those that are kept.
double box_cycles(const OpView& op, const Mesh& mesh) {
  constexpr double kOfHeap = 20, kCompared = 1.5;
  const Dims boxes = buffer_dims(op.type(0), mesh);
  const auto length = static_cast<double>(std::max<int64_t>(1, boxes[boxes.size() - 2]));
  const double kept = std::min(length, static_cast<double>(op.op().integer("places")));
  return count_of(op.type(1), mesh) * (std::log2(length + 1) * kOfHeap + kept * kCompared);
}

/// Elements after the axis along which the op looks up: they are adjacent.
bool copies_vectors(const Dims& dims, size_t axis) {
  return element_count(Dims(dims.begin() + static_cast<long>(axis) + 1, dims.end())) >= kAdjacent;
}

double index_cycles(const OpView& op, const Mesh& mesh) {
  switch (op.op().kind) {
    case OpKind::BoxChoice:
      return box_cycles(op, mesh);
    case OpKind::Gather:
      if (copies_vectors(buffer_dims(op.type(0), mesh), static_cast<size_t>(op.op().integer("axis")))) return 0;
      return kLookUp * count_of(op.result_type(0), mesh);
    case OpKind::GatherElements:
      return kLookUpOfElement * count_of(op.result_type(0), mesh);
    case OpKind::ScatterElements:
      return kUpdate * count_of(op.type(2), mesh);
    default:
      return 0;
  }
}

/// A kernel of the host, by its strategy.
class StrategyCycles {
 public:
  StrategyCycles(const KernelBody& body) : body_(body) {}

  /// Rows, then columns, of each window; a stride along a row is a look-up for each element. With channels innermost,
  /// some channels of an output at a time.
  double operator()(const WindowReduction& s) const {
    constexpr double kTap = 0.7, kStridedTap = 2.2, kOutput = 6, kTapOfOutput = 3, kLanes = 16;
    const ValueId root = contraction_of(body_.body);
    const std::optional<WindowGeometry> g = root ? window_geometry(body_, root) : std::nullopt;
    if (!g) return 0;
    const auto images = static_cast<double>(g->batch.high()), outputs = static_cast<double>(g->outputs.high()),
               channels = static_cast<double>(g->groups), taps = static_cast<double>(g->taps);
    if (s.channels_last) return images * outputs * std::ceil(channels / kLanes) * (kOutput + kTapOfOutput * taps);
    const auto width = static_cast<double>(g->window.back()), in_width = static_cast<double>(g->in.back().high());
    const double rows = static_cast<double>(g->inputs.high()) / std::max(1.0, in_width);
    const double along = rows * static_cast<double>(g->out.back().high()) * width;
    const double across = outputs * taps / std::max(1.0, width);
    return images * channels * (along * (g->stride.back() > 1 ? kStridedTap : kTap) + across * kTap);
  }

  /// A panel that is not full is packed element by element.
  double operator()(const StridedProduct&) const {
    constexpr double kPacked = 2, kPanel = 16;
    const ValueId root = contraction_of(body_.body);
    if (!root || body_.body.producer_op(root).inputs.size() < 2) return 0;
    const Dims b = body_.dims(body_.body.producer_op(root).inputs[1]), y = body_.dims(root);
    if (b.size() < 2 || y.size() < 2 || static_cast<double>(y.back()) >= kPanel) return 0;
    const auto products = static_cast<double>(element_count(Dims(y.begin(), y.end() - 2)));
    return products * static_cast<double>(b[b.size() - 2]) * kPanel * kPacked;
  }

  double operator()(const Elementwise&) const {
    double cycles = of_halves();
    for_each_op([&](const Op& op) {
      if (op.kind != OpKind::Transpose) return;
      const std::vector<int64_t>& perm = op.ints("perm");
      const bool moves_rows = !perm.empty() && perm.back() + 1 != static_cast<int64_t>(perm.size());
      if (moves_rows) cycles += kTransposed * elements(op.outputs[0]);
    });
    return cycles;
  }

  /// Every reduction down columns reads all elements in the wrong order, and so does the last pass over all results.
  double operator()(const Rows&) const {
    double cycles = of_halves();
    if (sums_down_columns(body_)) return cycles;
    double largest = 0, passes = 0;
    for_each_op([&](const Op& op) {
      if (!op.has("axes") || category(op) != Category::Reduction) return;
      const Dims dims = body_.dims(op.inputs[0]);
      const std::vector<int64_t>& axes = op.ints("axes");
      const auto last = static_cast<int64_t>(dims.size()) - 1;
      if (dims.empty() || std::find(axes.begin(), axes.end(), last) != axes.end() || dims.back() < kAdjacent) return;
      passes += elements(op.inputs[0]), largest = std::max(largest, elements(op.inputs[0]));
    });
    for (const Graph::Output& output : body_.body.outputs())
      if (largest > 0 && elements(output.value) >= largest) passes += largest;
    return cycles + kDownColumn * passes;
  }
  template <class Other>
  double operator()(const Other&) const {
    return 0;
  }

 private:
  template <class Visit>
  void for_each_op(const Visit& visit) const {
    for (OpId id = body_.body.first(); id; id = body_.body.next(id)) visit(body_.body.op(id));
  }
  double elements(ValueId value) const { return static_cast<double>(element_count(body_.dims(value))); }
  /// Conversions of the kernel's operands and results.
  double of_halves() const {
    double count = 0;
    for (const Parameter& parameter : body_.kernel.parameters)
      if (parameter.type.dtype == DType::F16) count += static_cast<double>(element_count(body_.dims(parameter.type)));
    return kConvertedHalf * count;
  }

  const KernelBody& body_;
};

}  // namespace

double scalar_cycles(const OpView& op, const Mesh& mesh) {
  switch (op.op().kind) {
    case OpKind::TopK:
      return top_k_cycles(op, mesh);
    case OpKind::RandomUniform:
      return kDraw * count_of(op.result_type(0), mesh);
    case OpKind::ArgMax:
    case OpKind::ArgMin:
      return kArgument * count_of(op.type(0), mesh);
    case OpKind::CumSum:
      return kRunningSum * count_of(op.type(0), mesh);
    default:
      break;
  }
  if (category(op.op()) == Category::Index) return index_cycles(op, mesh);
  if (category(op.op()) != Category::Pointwise || op.inputs() == 0) return 0;
  return element_cycles(op) * count_of(op.result_type(0), mesh);
}

double strategy_cycles(const Plan& plan, const Kernel& kernel, const Strategy& strategy) {
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  return std::visit(StrategyCycles(body), strategy);
}

}  // namespace weftc
