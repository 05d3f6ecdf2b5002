// Sequences and optionals of ONNX exist only while types are inferred. A sequence is a list of values, and each op here
// computes its list (ir/unfolding.h).
#include "ir/ops/record.h"
#include "ir/unfolding.h"

namespace weftc {

// Each element becomes a value of its own, and most of them an op.
static constexpr int64_t kMostElementsOfSequence = 4096;
static constexpr size_t kMostOpsOfMap = 1 << 14;

/// A position operand, counted from the first element; nothing after reporting. `end`: the position after the last
/// element is valid too.
static std::optional<int64_t> position(const Unfolding& op, int input, size_t length, bool end) {
  const std::optional<int64_t> given = op.known_integer(input);
  if (!given) {
    op.op().fail(
        "sequence-position-runtime-unsupported",
        "the position is computed at run time (value '{}'); it must be one integer that is known at compile time",
        op.op().graph().value(op.op().op().inputs[static_cast<size_t>(input)]).name);
    return {};
  }
  const int64_t count = static_cast<int64_t>(length), at = *given < 0 ? *given + count : *given;
  if (at >= 0 && at < count + (end ? 1 : 0)) return at;
  op.op().fail("sequence-position", "position {} lies outside a sequence of {}", *given, count);
  return {};
}

/// The operands as a sequence.
static std::vector<Unfolded> unfold_construct(Unfolding& op) {
  std::vector<ValueId> tensors;
  for (int i = 0; i < op.op().inputs(); ++i) {
    const std::optional<ValueId> element = op.tensor(i);
    if (!element) return {};
    tensors.push_back(*element);
  }
  return {Unfolded::sequence(std::move(tensors))};
}

static std::vector<Unfolded> unfold_empty(Unfolding&) { return {Unfolded::sequence({})}; }

static std::vector<Unfolded> unfold_insert(Unfolding& op) {
  std::optional<std::vector<ValueId>> tensors = op.sequence(0);
  const std::optional<ValueId> element = op.tensor(1);
  if (!tensors || !element) return {};
  if (static_cast<int64_t>(tensors->size()) == kMostElementsOfSequence)
    return op.refuse("sequence-length-unsupported", "a sequence has at most {} elements", kMostElementsOfSequence);
  const std::optional<int64_t> at =
      op.op().has(2) ? position(op, 2, tensors->size(), true) : static_cast<int64_t>(tensors->size());
  if (!at) return {};
  tensors->insert(tensors->begin() + *at, *element);
  return {Unfolded::sequence(std::move(*tensors))};
}

static std::vector<Unfolded> unfold_erase(Unfolding& op) {
  std::optional<std::vector<ValueId>> tensors = op.sequence(0);
  if (!tensors) return {};
  if (tensors->empty()) return op.refuse("sequence-position", "there is nothing to erase in an empty sequence");
  const std::optional<int64_t> at =
      op.op().has(1) ? position(op, 1, tensors->size(), false) : static_cast<int64_t>(tensors->size()) - 1;
  if (!at) return {};
  tensors->erase(tensors->begin() + *at);
  return {Unfolded::sequence(std::move(*tensors))};
}

/// True if one tensor could hold all elements.
static bool are_alike(const OpView& op, const std::vector<ValueId>& tensors) {
  return !tensors.empty() && std::ranges::all_of(tensors, [&](ValueId v) {
    return op.graph().type(v) == op.graph().type(tensors[0]) && is_static(op.graph().type(v).shape);
  });
}

/// The element at a position. If that is computed at run time, the elements are stacked into one tensor and one of them
/// is gathered.
static std::vector<Unfolded> unfold_at(Unfolding& op) {
  const std::optional<std::vector<ValueId>> tensors = op.sequence(0);
  if (!tensors) return {};
  if (op.known_integer(1) || op.op().type(1).count() != 1 || !are_alike(op.op(), *tensors)) {
    const std::optional<int64_t> at = position(op, 1, tensors->size(), false);
    if (!at) return {};
    return {Unfolded::tensor((*tensors)[static_cast<size_t>(*at)])};
  }
  std::vector<ValueId> rows;
  for (const ValueId tensor : *tensors)
    rows.push_back(op.add(OpKind::Unsqueeze, {tensor}, {{"axes", std::vector<int64_t>{0}}}));
  const ValueId all = op.add(OpKind::Concat, rows, {{"axis", int64_t{0}}});
  const ValueId given = op.op().op().inputs[1];
  const ValueId at = op.op().type(1).ndim() == 0 ? given : op.add(OpKind::Squeeze, {given});
  return {Unfolded::tensor(op.add(OpKind::Gather, {all, at}, {{"axis", int64_t{0}}}))};
}

static std::vector<Unfolded> unfold_length(Unfolding& op) {
  const std::optional<std::vector<ValueId>> tensors = op.sequence(0);
  if (!tensors) return {};
  return {Unfolded::tensor(op.constant(Tensor::scalar(DType::I64, static_cast<double>(tensors->size()))))};
}

/// Concatenates the elements along an axis; with `new_axis` along a new one.
static std::vector<Unfolded> unfold_concat(Unfolding& op) {
  std::optional<std::vector<ValueId>> tensors = op.sequence(0);
  if (!tensors) return {};
  if (tensors->empty()) return op.refuse("sequence-empty", "an empty sequence cannot be concatenated");
  const int64_t axis = int_of(op.op().op(), "axis");
  if (int_of(op.op().op(), "new_axis"))
    for (ValueId& tensor : *tensors)
      tensor = op.add(OpKind::Unsqueeze, {tensor}, {{"axes", std::vector<int64_t>{axis}}});
  return {Unfolded::tensor(op.add(OpKind::Concat, *tensors, {{"axis", axis}}))};
}

/// The lengths of the pieces: from a list operand, equal ones for a scalar operand, or 1.
static std::optional<std::vector<int64_t>> piece_lengths(const OpView& op, int64_t length) {
  if (!op.has(1)) return std::vector<int64_t>(static_cast<size_t>(length), 1);
  const std::optional<Tensor> split = op.known(1);
  if (!split) {
    op.fail("split-runtime-unsupported",
            "the lengths of the pieces are computed at run time (value '{}'); they must be known at compile time",
            op.graph().value(op.op().inputs[1]).name);
    return {};
  }
  std::vector<int64_t> lengths;
  if (split->dims.empty()) {
    const int64_t each = split->int_at(0);
    if (each < 1) return op.fail("split-length", "pieces cannot have length {}", each), std::nullopt;
    for (int64_t left = length; left > 0; left -= each) lengths.push_back(std::min(each, left));
    return lengths;
  }
  for (int64_t i = 0; i < split->size(); ++i) lengths.push_back(split->int_at(i));
  return lengths;
}

static std::vector<Unfolded> unfold_split(Unfolding& op) {
  const OpView& view = op.op();
  if (!op.tensor(0)) return {};
  const std::optional<int64_t> axis = view.axis("axis", view.type(0).ndim());
  if (!axis) return {};
  const Extent& extent = view.type(0).shape[static_cast<size_t>(*axis)];
  const bool singles = !view.has(1);
  if (extent.is_run_time() || (singles && extent.bound > kMostElementsOfSequence))
    return op.refuse("sequence-length-runtime-unsupported",
                     "dimension {} of shape {} is split into a sequence; its length must be known at compile time, and "
                     "a sequence has at most {} elements",
                     *axis, shape_text(view.type(0).shape), kMostElementsOfSequence);
  const std::optional<std::vector<int64_t>> lengths = piece_lengths(view, extent.bound);
  if (!lengths) return {};
  if (static_cast<int64_t>(lengths->size()) > kMostElementsOfSequence)
    return op.refuse("sequence-length-unsupported", "a sequence has at most {} elements, not {}",
                     kMostElementsOfSequence, lengths->size());
  if (lengths->empty()) return {Unfolded::sequence({})};
  std::vector<ValueId> pieces = op.add(OpKind::Split, {view.op().inputs[0]}, {{"axis", *axis}, {"split", *lengths}},
                                       static_cast<int>(lengths->size()));
  if (singles && !int_of(view.op(), "keepdims"))
    for (ValueId& piece : pieces) piece = op.add(OpKind::Squeeze, {piece}, {{"axes", std::vector<int64_t>{*axis}}});
  return {Unfolded::sequence(std::move(pieces))};
}

/// Copies the body once for each element of the first operand; tensors among the others are the same each time.
static std::vector<Unfolded> unfold_map(Unfolding& op) {
  const std::optional<std::vector<ValueId>> first = op.sequence(0);
  if (!first) return {};
  const size_t ops = first->size() * op.op().op().regions[0].op_count();
  if (ops > kMostOpsOfMap)
    return op.refuse("sequence-map-size-unsupported", "the body for each of {} elements makes {} ops, more than {}",
                     first->size(), ops, kMostOpsOfMap);
  const size_t own = static_cast<size_t>(int_of(op.op().op(), "operands"));
  std::vector<Unfolded> results(op.op().op().outputs.size(), Unfolded::sequence({}));
  for (size_t k = 0; k < first->size(); ++k) {
    std::vector<ValueId> arguments;
    for (size_t i = 0; i < op.op().op().inputs.size(); ++i) {
      const Unfolded operand = op.operand(static_cast<int>(i));
      const bool is_walked = i < own && operand.kind == Unfolded::Kind::Sequence;
      if (is_walked && operand.tensors.size() != first->size())
        return op.refuse("sequence-lengths", "operand {} is a sequence of {}, operand 0 one of {}", i,
                         operand.tensors.size(), first->size());
      arguments.push_back(is_walked ? operand.tensors[k] : op.op().op().inputs[i]);
    }
    const std::vector<ValueId> made = op.add_body(arguments);
    for (size_t r = 0; r < results.size(); ++r) results[r].tensors.push_back(made[r]);
  }
  return results;
}

static std::vector<Unfolded> unfold_optional(Unfolding& op) { return {op.operand(0)}; }

static std::vector<Unfolded> unfold_has_element(Unfolding& op) {
  const bool has = op.operand(0).kind != Unfolded::Kind::Nothing;
  return {Unfolded::tensor(op.constant(Tensor::scalar(DType::Bool, has ? 1 : 0)))};
}

static std::vector<Unfolded> unfold_get_element(Unfolding& op) {
  if (op.operand(0).kind != Unfolded::Kind::Nothing) return {op.operand(0)};
  return op.refuse("optional-empty", "the optional has no element");
}

const OpDef kConcatFromSequence{.kind = OpKind::ConcatFromSequence,
                                .name = "ConcatFromSequence",
                                .onnx = {"ConcatFromSequence", 11},
                                .attrs = {{"axis", AttrType::Int, {}, true}, flag("new_axis", 0)},
                                .unfold = unfold_concat};

const OpDef kOptional{.kind = OpKind::Optional,
                      .name = "Optional",
                      .onnx = {"Optional", 15},
                      .attrs = {{"type", AttrType::Type}},
                      .inputs = {0, 1},
                      .unfold = unfold_optional};

const OpDef kOptionalGetElement{.kind = OpKind::OptionalGetElement,
                                .name = "OptionalGetElement",
                                .onnx = {"OptionalGetElement", 15},
                                .unfold = unfold_get_element};

const OpDef kOptionalHasElement{.kind = OpKind::OptionalHasElement,
                                .name = "OptionalHasElement",
                                .onnx = {"OptionalHasElement", 15},
                                .inputs = {0, 1},
                                .unfold = unfold_has_element};

const OpDef kSequenceAt{.kind = OpKind::SequenceAt,
                        .name = "SequenceAt",
                        .onnx = {"SequenceAt", 11},
                        .inputs = {2, 2},
                        .unfold = unfold_at};

const OpDef kSequenceConstruct{.kind = OpKind::SequenceConstruct,
                               .name = "SequenceConstruct",
                               .onnx = {"SequenceConstruct", 11},
                               .inputs = {0, -1},
                               .unfold = unfold_construct};

const OpDef kSequenceEmpty{.kind = OpKind::SequenceEmpty,
                           .name = "SequenceEmpty",
                           .onnx = {"SequenceEmpty", 11},
                           .attrs = {{"dtype", AttrType::Int, 1}},
                           .inputs = {0, 0},
                           .unfold = unfold_empty};

const OpDef kSequenceErase{.kind = OpKind::SequenceErase,
                           .name = "SequenceErase",
                           .onnx = {"SequenceErase", 11},
                           .inputs = {1, 2},
                           .unfold = unfold_erase};

const OpDef kSequenceInsert{.kind = OpKind::SequenceInsert,
                            .name = "SequenceInsert",
                            .onnx = {"SequenceInsert", 11},
                            .inputs = {2, 3},
                            .unfold = unfold_insert};

const OpDef kSequenceLength{
    .kind = OpKind::SequenceLength, .name = "SequenceLength", .onnx = {"SequenceLength", 11}, .unfold = unfold_length};

/// Inputs: a sequence, further ones or tensors (`operands` in all), captures.
const OpDef kSequenceMap{.kind = OpKind::SequenceMap,
                         .name = "SequenceMap",
                         .onnx = {"SequenceMap", 17},
                         .attrs = {{.name = "operands", .type = AttrType::Int, .is_own = true}},
                         .inputs = {1, -1},
                         .outputs = {1, -1},
                         .category = Category::Region,
                         .unfold = unfold_map};

const OpDef kSplitToSequence{.kind = OpKind::SplitToSequence,
                             .name = "SplitToSequence",
                             .onnx = {"SplitToSequence", 11},
                             .attrs = {{"axis", AttrType::Int, 0}, flag("keepdims", 1)},
                             .inputs = {1, 2},
                             .unfold = unfold_split};

}  // namespace weftc
