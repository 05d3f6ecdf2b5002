// Slices of a batch of run-time length cannot pass a Reshape that joins it with another run-time length, because its
// blocks would be lengths themselves. Exporters write such a Reshape before each product with a matrix (a view of all
// rows), and its inverse after the product. The product works with either shape, so the Reshape moves to its result:
//
//   %r = Reshape(%x) : [batch * seq, 64]         %p = MatMul(%x, %w) : [batch, seq, 96]
//   %p = MatMul(%r, %w) : [batch * seq, 96]  ->
//   %y = Reshape(%p) : [batch, seq, 96]          %y = %p
#include "passes/layout/split_rows.h"

#include <algorithm>

#include "ir/op_def.h"

namespace weftc {

namespace {

class RowSplitter {
 public:
  RowSplitter(Module& module, const LayoutRequests& requests) : graph_(module.graph), requests_(requests) {}

  void run() {
    for (const OpId id : graph_.order()) {
      if (!graph_.is_live(id) || joined_dims(id) == 0 || has_request(graph_.op(id))) continue;
      regroup_first(id);
      move_after_readers(id);
    }
  }

 private:
  /// How many leading dimensions, the first of run-time length, a Reshape joins to one; 0: it does something else.
  size_t joined_dims(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.kind != OpKind::Reshape) return 0;
    const Shape &from = graph_.type(op.inputs[0]).shape, &to = graph_.type(op.outputs[0]).shape;
    if (to.empty() || from.empty() || !from[0].is_run_time()) return 0;
    Length product = 1;
    for (size_t d = 0; d < from.size(); ++d) {
      product = product * length_of(from[d]);
      if (product == length_of(to[0])) return d > 0 ? d + 1 : 0;
    }
    return 0;
  }

  /// If the Reshape also changes the dimensions after those that it joins, a separate Reshape before it makes that
  /// change.
  void regroup_first(OpId reshape) {
    const ValueId from = graph_.op(reshape).inputs[0];
    TensorType type = graph_.type(graph_.result(reshape));
    const Shape joined = joined_shape(reshape);
    type.shape.erase(type.shape.begin());
    type.shape.insert(type.shape.begin(), joined.begin(), joined.end());
    if (type.shape == graph_.type(from).shape) return;
    graph_.set_input(reshape, 0, add_reshape(graph_.op(reshape), "regrouped", from, std::move(type), reshape));
  }

  /// Inserts a Reshape of `from` before `before`, named after `like`.
  ValueId add_reshape(const Op& like, const std::string& part, ValueId from, TensorType type, OpId before) {
    NewOp made = copy_of(like);
    made.kind = OpKind::Reshape;
    made.attrs = {{"allowzero", int64_t{1}}, {"shape", type.dims()}};
    made.name += "/" + part;
    made.inputs = {from};
    made.results = {std::move(type)};
    return graph_.result(graph_.add(std::move(made), before));
  }

  void move_after_readers(OpId reshape) {
    const std::vector<Use> uses = graph_.value(graph_.result(reshape)).uses;
    for (const Use& use : uses)
      if (use.op && reads_rows(use, reshape)) move_after(reshape, use.op);
    if (graph_.value(graph_.result(reshape)).uses.empty()) graph_.erase(reshape);
  }

  /// Whether the reader computes each row as it would in the dimensions before.
  bool reads_rows(const Use& use, OpId reshape) const {
    const Op& reader = graph_.op(use.op);
    if (reader.kind == OpKind::Reshape) return true;
    if (has_request(reader)) return false;
    const TensorType& rows = graph_.type(graph_.result(reshape));
    if (reader.kind == OpKind::MatMul)
      return use.input == 0 && rows.ndim() == 2 && graph_.type(reader.inputs[1]).ndim() == 2 &&
             !(reader.inputs[1] == graph_.result(reshape));
    if (category(reader) != Category::Pointwise || reader.outputs.size() != 1) return false;
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      const bool is_other = reader.inputs[i] && !(reader.inputs[i] == graph_.result(reshape));
      if (is_other && graph_.type(reader.inputs[i]).ndim() >= rows.ndim() && !joins_alike(reader.inputs[i], reshape))
        return false;
    }
    return true;
  }

  /// Whether the value is the result of a Reshape that joins the same dimensions.
  bool joins_alike(ValueId value, OpId reshape) const {
    const OpId other = graph_.producer(value);
    return graph_.value(value).result == 0 && joined_dims(other) == joined_dims(reshape) &&
           joined_shape(other) == joined_shape(reshape);
  }
  /// The dimensions that a Reshape joins.
  Shape joined_shape(OpId reshape) const {
    const Shape& from = graph_.type(graph_.op(reshape).inputs[0]).shape;
    return {from.begin(), from.begin() + static_cast<long>(joined_dims(reshape))};
  }

  bool has_request(const Op& op) const {
    const auto is_asked = [&](ValueId v) { return requests_.results.contains(v) || requests_.uses.contains(v); };
    return std::any_of(op.outputs.begin(), op.outputs.end(), is_asked) ||
           std::any_of(op.origins.begin(), op.origins.end(), [&](OriginId o) { return requests_.nodes.contains(o); });
  }

  /// Makes the reader work on the original dimensions; a Reshape of its result gives later readers the shape that they
  /// had.
  void move_after(OpId reshape, OpId reader) {
    const ValueId rows = graph_.result(reshape);
    const Shape joined = joined_shape(reshape);
    for (size_t i = 0; i < graph_.op(reader).inputs.size(); ++i) {
      const ValueId input = graph_.op(reader).inputs[i];
      if (input && (input == rows || (graph_.type(input).ndim() >= graph_.type(rows).ndim() && is_pointwise(reader))))
        graph_.set_input(reader, i, graph_.producer_op(input).inputs[0]);
    }
    if (graph_.op(reader).kind == OpKind::Reshape) return drop_if_identity(reader);
    const ValueId result = graph_.result(reader);
    const TensorType before = graph_.type(result);
    TensorType type = before;
    type.shape.erase(type.shape.begin());
    type.shape.insert(type.shape.begin(), joined.begin(), joined.end());
    graph_.retype(result, std::move(type));
    const ValueId after = add_reshape(graph_.op(reader), "rows", result, before, graph_.next(reader));
    graph_.replace_uses(result, after);
    graph_.set_input(graph_.producer(after), 0, result);
    move_after_readers(graph_.producer(after));
  }

  bool is_pointwise(OpId id) const { return category(graph_.op(id)) == Category::Pointwise; }

  /// A Reshape that gives back the dimensions before does nothing now.
  void drop_if_identity(OpId reshape) {
    const Op& op = graph_.op(reshape);
    if (!(graph_.type(op.inputs[0]).shape == graph_.type(op.outputs[0]).shape) || has_request(op)) return;
    graph_.replace_uses(op.outputs[0], op.inputs[0]);
    graph_.erase(reshape);
  }

  Graph& graph_;
  const LayoutRequests& requests_;
};

/// Whether a request slices a dimension of run-time length.
bool slices_run_time_length(const Graph& graph, const std::map<ValueId, LayoutRequest>& requests) {
  for (const auto& [value, request] : requests) {
    const Shape& shape = graph.type(value).shape;
    for (const AxisRequest& r : *request.axes) {
      const int64_t dim = r.dim < 0 ? r.dim + static_cast<int64_t>(shape.size()) : r.dim;
      const bool is_dim = !r.replicated && dim >= 0 && dim < static_cast<int64_t>(shape.size());
      if (is_dim && shape[static_cast<size_t>(dim)].is_run_time()) return true;
    }
  }
  return false;
}

}  // namespace

void split_rows(Module& module, const LayoutRequests& requests) {
  if (slices_run_time_length(module.graph, requests.results) || slices_run_time_length(module.graph, requests.uses))
    RowSplitter(module, requests).run();
}

}  // namespace weftc
