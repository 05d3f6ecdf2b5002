// StringSplit (ONNX StringSplit-20): the pieces of each string, along a new dimension of the maximum number of pieces,
// and the number of pieces of each string.
//
//   "a.b" "c"  by "."   ->   a b    2
//                            c ""   1
#include <algorithm>

#include "ir/ops/selection.h"
#include "ir/ops/strings/strings.h"

namespace weftc {

namespace {

constexpr std::string_view kWhite = " \t\n\v\f\r";

std::vector<std::string> pieces_at_white(std::string_view text, int64_t most) {
  std::vector<std::string> pieces;
  text = text.substr(0, text.find_last_not_of(kWhite) + 1);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
    if (text.empty()) return pieces;
    const bool is_rest = static_cast<int64_t>(pieces.size()) == most;
    const size_t end = is_rest ? text.size() : std::min(text.find_first_of(kWhite), text.size());
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string> pieces_of(std::string_view text, const std::string& delimiter, int64_t most) {
  if (delimiter.empty()) return pieces_at_white(text, most);
  std::vector<std::string> pieces;
  while (true) {
    const size_t end = static_cast<int64_t>(pieces.size()) == most ? std::string::npos : text.find(delimiter);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string::npos) return pieces;
    text.remove_prefix(end + delimiter.size());
  }
}

/// Attributes of PieceCount and Piece: the delimiter, and the maximum number of cuts.
const std::string& delimiter_of(const Op& op) { return text_of(op, "delimiter"); }
int64_t most_cuts_of(const Op& op) { return std::max<int64_t>(int_of(op, "maxsplit"), -1); }

/// The maximum number of pieces of a string that fits into an element.
int64_t most_pieces(const Op& op) {
  const auto width = static_cast<int64_t>(delimiter_of(op).size());
  const int64_t pieces = width == 0 ? (kMostStringBytes + 1) / 2 : kMostStringBytes / width + 1;
  return most_cuts_of(op) < 0 ? pieces : std::min(pieces, most_cuts_of(op) + 1);
}

int64_t longest_of(const Op& op, const Tensor& strings) {
  size_t longest = 0;
  for (const int64_t id : strings.integers)
    longest = std::max(longest, pieces_of(string_of(id), delimiter_of(op), most_cuts_of(op)).size());
  return static_cast<int64_t>(longest);
}

/// Whether the strings are constant, or the tensor is empty.
bool is_counted_now(const OpView& op) { return op.type(0).count() == 0 || op.known(0); }

bool infer_split(const OpView& op, std::vector<TensorType>& results) {
  if (!is_string_operand(op, 0) || !are_elements(op, {delimiter_of(op.op())}, "the delimiter")) return false;
  if (!is_counted_now(op) && !may_have_counts(op)) return false;
  const std::optional<Tensor> known = op.known(0);
  Shape pieces = op.type(0).shape;
  pieces.push_back({known ? longest_of(op.op(), *known) : op.type(0).count() == 0 ? 0 : most_pieces(op.op()), {}});
  results = {{DType::String, pieces, {}}, {DType::I64, op.type(0).shape, {}}};
  return true;
}

/// The length of the new dimension: 0 if run-time lengths leave no string.
Extent pieces_extent(Builder& build, const OpView& op, Term counts) {
  if (const std::optional<Tensor> known = op.known(0)) return {longest_of(op.op(), *known), {}};
  const Term longest = counts.reduce(OpKind::ReduceMax, range_of(0, op.type(0).ndim()), false).apply(OpKind::Max, 0);
  return build.counted_extent(longest.value(), most_pieces(op.op()));
}

std::vector<ValueId> decompose_split(Builder& build, const OpView& op) {
  const ValueId x = op.op().inputs[0];
  const ValueId delimiter = build.constant(string_scalar(delimiter_of(op.op())));
  const ValueId most = build.constant(Tensor::scalar(DType::I64, static_cast<double>(most_cuts_of(op.op()))));
  const Term counts(build, build.op(OpKind::PieceCount, {x, delimiter, most}));
  Shape column = op.type(0).shape;
  if (op.type(0).count() == 0) {
    column.push_back({0, {}});
    const ValueId nothing = build.constant(Tensor(DType::String, bounds(column)));
    return {build.with_lengths(nothing, column), counts.value()};
  }
  column.push_back({1, {}});
  const Extent extent = pieces_extent(build, op, counts);
  const ValueId numbers = shortened(build, positions(build, DType::I64, extent.bound, 0, 1).value(), 0, extent);
  const ValueId strings = build.reshape_to(x, column);
  return {build.op(OpKind::Piece, {strings, numbers, delimiter, most}), counts.value()};
}

OpDef piece_count() {
  return string_function(
      OpKind::PieceCount, "PieceCount", 3, "weft::piece_count($0, $1, $2)",
      [](const int64_t* x, const Op&, DType) {
        return static_cast<int64_t>(pieces_of(string_of(x[0]), string_of(x[1]), x[2]).size());
      },
      [](const OpView& op, std::vector<TensorType>& results) {
        results = {{DType::I64, op.type(0).shape, {}}};
        return is_string_operand(op, 0) && is_string_operand(op, 1);
      });
}

int64_t piece(const int64_t* x, const Op&, DType) {
  const std::vector<std::string> pieces = pieces_of(string_of(x[0]), string_of(x[2]), x[3]);
  return x[1] < static_cast<int64_t>(pieces.size()) ? string_id(pieces[static_cast<size_t>(x[1])]) : string_id("");
}

bool infer_piece(const OpView& op, std::vector<TensorType>& results) {
  if (!is_string_operand(op, 0) || !is_string_operand(op, 2)) return false;
  const std::optional<Shape> shape = broadcast({op.type(0).shape, op.type(1).shape});
  if (!shape) return op.fail("broadcast-dims", "numbers of pieces do not fit the strings");
  results = {{DType::String, *shape, {}}};
  return true;
}

}  // namespace

const OpDef kPieceCount = piece_count();
const OpDef kPiece = string_function(OpKind::Piece, "Piece", 4, "weft::piece($0, $1, $2, $3)", piece, infer_piece);

const OpDef kStringSplit{.kind = OpKind::StringSplit,
                         .name = "StringSplit",
                         .onnx = {"StringSplit", 20},
                         .attrs = {{"delimiter", AttrType::Text, ""}, {"maxsplit", AttrType::Int, -1}},
                         .outputs = {2, 2},
                         .infer = infer_split,
                         .decompose = decompose_split,
                         .is_typed_by_parts = [](const OpView& op) { return !is_counted_now(op); },
                         .takes_strings = true};

}  // namespace weftc
