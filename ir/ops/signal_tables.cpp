// Tables of signal processing that depend on a few numbers: HannWindow, HammingWindow, BlackmanWindow and
// MelWeightMatrix (ONNX 17). The numbers must be known at compile time, so that each table is a constant. A long window
// is computed where it is read, because a constant could take far more memory than its small node suggests.
#include <cmath>

#include "ir/ops/formula.h"

namespace weftc {

namespace {

bool import_table(Graph& graph, OpId id, int, const OpView& view) {
  return import_dtype(graph, id, "output_datatype", view);
}

DType table_dtype(const OpView& op) { return dtype_of_attr(int_of(op.op(), "output_datatype")); }

bool infer_window(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<Tensor> size = op.known(0);
  if (!size) return is_known(op, 0, "size", "size");
  if (size->size() != 1 || size->int_at(0) < 0) return op.fail("window-size", "the size must be one number from 0 on");
  results = {{table_dtype(op), shape_of({size->int_at(0)}), {}}};
  return true;
}

/// Maximum number of elements of a constant table.
constexpr int64_t kMostStored = int64_t{1} << 16;

/// first - second * cos(2 pi i / n) + third * cos(4 pi i / n), where n is the size, or one less with periodic = 0.
std::vector<ValueId> cosines(Builder& build, const OpView& op, double first, double second, double third) {
  const int64_t size = op.result_type(0).count();
  const double n = static_cast<double>(size - (int_of(op.op(), "periodic") ? 0 : 1));
  if (size > kMostStored) {
    const Term angle = positions(build, DType::F64, size, 0, 1, 2 * M_PI / n);
    Term window = first - angle.apply(OpKind::Cos) * second;
    if (third != 0) window = window + (angle * 2).apply(OpKind::Cos) * third;
    return {window.cast(table_dtype(op)).value()};
  }
  Tensor window(table_dtype(op), op.result_type(0).dims());
  for (int64_t i = 0; i < window.size(); ++i) {
    const double angle = 2 * M_PI * static_cast<double>(i) / n;
    window.put(i, first - second * std::cos(angle) + third * std::cos(2 * angle));
  }
  return {build.constant(window)};
}

std::vector<ValueId> hann(Builder& build, const OpView& op) { return cosines(build, op, 0.5, 0.5, 0); }
std::vector<ValueId> hamming(Builder& build, const OpView& op) { return cosines(build, op, 25.0 / 46, 21.0 / 46, 0); }
std::vector<ValueId> blackman(Builder& build, const OpView& op) { return cosines(build, op, 0.42, 0.5, 0.08); }

OpDef window(OpKind kind, const char* name, DecomposeFn decompose) {
  OpDef def;
  def.kind = kind;
  def.name = name;
  def.onnx = {name, 17};
  def.attrs = {{"output_datatype", AttrType::Int, dtype_attr(DType::F32)}, flag("periodic", 1)};
  def.import = import_table;
  def.infer = infer_window;
  def.decompose = decompose;
  return def;
}

/// The operands of MelWeightMatrix.
struct MelBands {
  int64_t bands, length, rate;
  double lowest, highest;

  int64_t frequencies() const { return length / 2 + 1; }
};

/// Nothing if an operand is not a single known number.
std::optional<MelBands> mel_bands(const OpView& op) {
  std::vector<double> numbers;
  for (int i = 0; i < 5; ++i) {
    const std::optional<Tensor> number = op.known(i);
    if (!number || number->size() != 1) return {};
    numbers.push_back(number->at(0));
  }
  const auto whole = [&](int i) { return static_cast<int64_t>(numbers[i]); };
  return MelBands{whole(0), whole(1), whole(2), numbers[3], numbers[4]};
}

/// The frequency bin of each band's edge: evenly spaced on the mel scale.
std::vector<int64_t> mel_edges(const MelBands& mel) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = to_mel(mel.lowest), step = (to_mel(mel.highest) - low) / static_cast<double>(mel.bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < mel.bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(mel.length + 1) * hertz / static_cast<double>(mel.rate))));
  }
  return edges;
}

bool infer_mel(const OpView& op, std::vector<TensorType>& results) {
  const std::optional<MelBands> mel = mel_bands(op);
  if (!mel)
    return op.fail("mel-weights-runtime-unsupported",
                   "all operands must be single numbers that are known at compile time: fix the inputs that they "
                   "depend on with --bind");
  const bool are_counts = mel->bands >= 0 && mel->length >= 1 && mel->rate >= 1;
  constexpr int64_t kMostElements = int64_t{1} << 24;
  if (are_counts && mel->bands > kMostElements / mel->frequencies())
    return op.fail("mel-weights-size-unsupported", "{} bands of {} frequencies are more than {} elements", mel->bands,
                   mel->frequencies(), kMostElements);
  const bool fits =
      are_counts && mel->lowest >= 0 && mel->highest >= mel->lowest && mel_edges(*mel).back() <= mel->frequencies();
  if (!fits) return op.fail("mel-weights-operands", "the bands lie outside of the spectrum");
  results = {{table_dtype(op), shape_of({mel->frequencies(), mel->bands}), {}}};
  return true;
}

/// Each band rises from its first edge to the second and falls to the third.
std::vector<ValueId> decompose_mel(Builder& build, const OpView& op) {
  const MelBands mel = *mel_bands(op);
  const std::vector<int64_t> edges = mel_edges(mel);
  Tensor weights(table_dtype(op), {mel.frequencies(), mel.bands});
  for (int64_t band = 0; band < mel.bands; ++band) {
    const int64_t low = edges[band], middle = edges[band + 1], high = edges[band + 2];
    const auto put = [&](int64_t frequency, double value) {
      if (frequency < mel.frequencies()) weights.put(frequency * mel.bands + band, value);
    };
    if (low == middle) put(middle, 1);
    for (int64_t f = low; low != middle && f <= middle; ++f)
      put(f, static_cast<double>(f - low) / static_cast<double>(middle - low));
    for (int64_t f = middle; f < high; ++f) put(f, static_cast<double>(high - f) / static_cast<double>(high - middle));
  }
  return {build.constant(weights)};
}

}  // namespace

const OpDef kHannWindow = window(OpKind::HannWindow, "HannWindow", hann);
const OpDef kHammingWindow = window(OpKind::HammingWindow, "HammingWindow", hamming);
const OpDef kBlackmanWindow = window(OpKind::BlackmanWindow, "BlackmanWindow", blackman);

const OpDef kMelWeightMatrix{.kind = OpKind::MelWeightMatrix,
                             .name = "MelWeightMatrix",
                             .onnx = {"MelWeightMatrix", 17},
                             .attrs = {{"output_datatype", AttrType::Int, dtype_attr(DType::F32)}},
                             .inputs = {5, 5},
                             .import = import_table,
                             .infer = infer_mel,
                             .decompose = decompose_mel};

}  // namespace weftc
