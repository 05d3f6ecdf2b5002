// Rows are followed from buffer to buffer by their stride, which a Reshape between two kernels leaves as it is.
#include "passes/plan/loop_rows.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// Elements from one row to the next, of rows along a dimension.
Length stride_of(const TensorType& type, const Storage& storage, const AxisState& rows) {
  return storage.strides(type.shape)[static_cast<size_t>(rows.dim)] * rows.block;
}

/// Whether there are elements from each index of each dimension to the next.
bool has_strides(const TensorType& type, const Storage& storage) {
  return !contains(storage.strides(type.shape), Length(0));
}

/// The distance in elements between rows of a launch's operand or result; nothing where all rows share the whole.
std::optional<Length> stride_in(const RowAxis& axis, const Operand& operand) {
  const auto find = [](const auto& strides, auto id) {
    const auto at = id ? strides.find(id) : strides.end();
    return at == strides.end() ? std::nullopt : std::optional(at->second);
  };
  return operand.weight ? find(axis.weight_strides, operand.weight) : find(axis.strides, operand.buffer);
}

/// A kernel that computes all of its results on this rank, from memory that no other rank reaches.
bool stands_alone(const Kernel& kernel) {
  return std::all_of(kernel.parameters.begin(), kernel.parameters.end(), [](const Parameter& parameter) {
    return !parameter.window && parameter.whole_over.empty() && parameter.type.layout.is_replicated();
  });
}

RowContext::Launch row_launch(const LaunchStep& launch, const RowAxis& axis) {
  RowContext::Launch found{launch.kernel, axis.count, {}};
  for (const Operand& operand : launch.operands) found.strides.push_back(stride_in(axis, operand));
  return found;
}

/// The rows of a body's values, as its parameters' memory has them. Where a Slice reads a part of a parameter, the body
/// tells where the rows are.
std::optional<BodyRows> rows_of(const Module& module, const Graph& body, const std::vector<Parameter>& parameters,
                                const RowContext::Launch& launch) {
  BodyRows known(body.value_capacity());
  for (size_t f = 0; f < launch.strides.size(); ++f) {
    if (!launch.strides[f]) continue;
    const ValueId value = parameter_value(body, f);
    known[value.index].state = rows_of_type(body.type(value), parameters[f].storage, launch.count, *launch.strides[f]);
  }
  const std::optional<BodyRows> rows = rows_of_body(module, body, launch.count, std::move(known));
  for (size_t f = 0; rows && f < launch.strides.size(); ++f) {
    const ValueId value = parameter_value(body, f);
    const ValueRows& own = (*rows)[value.index];
    const bool is_so =
        own.has_rows() && stride_of(body.type(value), parameters[f].storage, own.state) == launch.strides[f];
    if (launch.strides[f] && !is_so) return {};
  }
  return rows;
}

const std::optional<BodyRows>& rows_of(const RowContext& context, const LaunchStep& launch, const RowAxis& axis) {
  const RowContext::Launch asked = row_launch(launch, axis);
  const auto [at, is_new] = context.known.try_emplace(asked.text());
  const Kernel& kernel = context.plan.kernel(launch.kernel);
  if (is_new) at->second = rows_of(context.module, kernel.body, kernel.parameters, asked);
  return at->second;
}

class LoopRowFinder {
 public:
  LoopRowFinder(const RowContext& context, const LoopStep& loop, const Length& count)
      : context_(context), plan_(context.plan), loop_(loop), axis_{count, 0, {}, {}} {}

  std::optional<SharedRows> run(BufferId buffer, const Length& stride) {
    axis_.strides[buffer] = stride;
    do {
      is_changed_ = false;
      for (const Step& step : loop_.body)
        if (!visit(step)) return {};
    } while (is_changed_);
    SharedRows rows{{std::move(axis_)}, {}};
    find_own(rows);
    const bool all = std::all_of(loop_.body.begin(), loop_.body.end(),
                                 [&](const Step& step) { return writes_rows_only(step, rows); });
    return all ? std::optional(std::move(rows)) : std::nullopt;
  }

 private:
  bool visit(const Step& step) {
    if (!step.waits.empty() || !step.raises.empty()) return false;
    if (const auto* copy = std::get_if<CopyStep>(&step.what)) return join(copy->from, copy->to);
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    return launch && visit(*launch);
  }

  bool visit(const LaunchStep& launch) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    if (!stands_alone(kernel) || kernel.in_chunks) return false;
    const std::optional<BodyRows>& rows = rows_of(context_, launch, axis_);
    if (!rows) return false;
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      const Parameter& parameter = kernel.parameters[f];
      const ValueRows& own = (*rows)[parameter_value(kernel.body, f).index];
      if (!own.has_rows()) continue;
      if (!has_strides(parameter.type, parameter.storage)) return false;
      if (!put(launch.operands[f], stride_of(parameter.type, parameter.storage, own.state))) return false;
    }
    return true;
  }

  bool join(BufferId a, BufferId b) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
      if (const auto at = axis_.strides.find(from); at != axis_.strides.end() && !put({to, {}}, at->second))
        return false;
    return true;
  }

  /// False where the operand has other rows.
  bool put(const Operand& operand, const Length& stride) {
    const bool is_new = operand.weight ? axis_.weight_strides.emplace(operand.weight, stride).second
                                       : axis_.strides.emplace(operand.buffer, stride).second;
    is_changed_ = is_changed_ || is_new;
    return *stride_in(axis_, operand) == stride && (operand.weight || plan_.buffer(operand.buffer).depth == 1);
  }

  /// Numbers that a trip makes for all rows, such as the index of the step that it reads.
  void find_own(SharedRows& rows) const {
    constexpr int64_t kMostBytes = 64;
    const auto& strides = rows.axes[0].strides;
    if (loop_.iteration) rows.own.insert(loop_.iteration);
    for (const Step& step : loop_.body)
      for (const Access& access : step.accesses) {
        const Buffer& buffer = plan_.buffer(access.buffer);
        const int64_t bytes = element_count(buffer.dims()) * dtype_bytes(buffer.type.dtype);
        const bool is_own = access.write && !strides.contains(access.buffer) && bytes <= kMostBytes;
        if (is_own && is_inside(context_.users, loop_, access.buffer)) rows.own.insert(access.buffer);
      }
  }

  bool writes_rows_only(const Step& step, const SharedRows& rows) const {
    if (const auto* copy = std::get_if<CopyStep>(&step.what); copy && !copies_rows(plan_, *copy, rows)) return false;
    return std::all_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
      return !access.write || rows.axes[0].strides.contains(access.buffer) || rows.own.contains(access.buffer);
    });
  }

  const RowContext& context_;
  const Plan& plan_;
  const LoopStep& loop_;
  RowAxis axis_;
  bool is_changed_ = false;
};

}  // namespace

RowContext::RowContext(const Plan& asked, const Module& its_module)
    : plan(asked), module(its_module), users(buffer_users(asked)) {}

std::string RowContext::Launch::text() const {
  std::string text = std::to_string(kernel.index) + ": " + count.text();
  for (const std::optional<Length>& stride : strides) text += ", " + (stride ? stride->text() : "whole");
  return text;
}

bool is_inside(const std::vector<int>& users, const LoopStep& loop, BufferId buffer) {
  return !contains(loop.carried, buffer) &&
         users[buffer.index] == users_in(loop.body, buffer) + (buffer == loop.iteration);
}

bool copies_rows(const Plan& plan, const CopyStep& copy, const SharedRows& rows) {
  const RowAxis& axis = rows.axes.front();
  const auto from = axis.strides.find(copy.from), to = axis.strides.find(copy.to);
  if (rows.in_blocks() || from == axis.strides.end() || to == axis.strides.end()) return false;
  const int64_t elements = element_count(plan.buffer(copy.from).dims());
  return from->second == to->second && (copy.in_place || axis.count * from->second == elements);
}

std::optional<BodyRows> rows_of_launch(const Plan& plan, const Module& module, const LaunchStep& launch,
                                       const RowAxis& axis) {
  const Kernel& kernel = plan.kernel(launch.kernel);
  return rows_of(module, kernel.body, kernel.parameters, row_launch(launch, axis));
}

/// Replaces the dimension that has the length of an axis by one of its `count`; returns which one, or R if there is no
/// such dimension.
static ValueRows take_length(Graph& body, ValueId value, const Length& own, const Length& count) {
  TensorType type = body.type(value);
  for (int d = 0; d < type.ndim(); ++d) {
    Extent& extent = type.shape[static_cast<size_t>(d)];
    if (!extent.is_run_time()) continue;
    // first + own * block
    const Length first = substitute(*extent.length, [](const LengthSymbol&) { return Length(0); });
    const std::optional<Length> block = exact_quotient(*extent.length - first, own);
    if (!block || !block->is_constant() || block->constant() == 0) continue;
    if (!first.is_constant()) continue;
    extent = count.is_constant() ? Extent{extent.bound} : run_time_extent(extent.bound, count * *block);
    body.retype(value, std::move(type));
    return {AxisState::sliced(d, block->constant()), first.constant()};
  }
  return {};
}

bool keeps_rows(const Plan& plan, const LaunchStep& launch, const SharedRows& rows) {
  Module module;
  module.places = plan.places;
  Graph body = plan.kernel(launch.kernel).body;
  std::vector<BodyRows> own(rows.axes.size(), BodyRows(body.value_capacity()));
  for (size_t a = 0; a < rows.axes.size(); ++a)
    for (OpId id = body.first(); id; id = body.next(id))
      for (ValueId value : body.op(id).outputs)
        own[a][value.index] =
            take_length(body, value, Length::named(row_words(a, rows.axes.size()).length, rows.axes[a].count.high()),
                        rows.axes[a].count);
  const std::vector<Parameter>& parameters = plan.kernel(launch.kernel).parameters;
  for (size_t f = 0; f < parameters.size(); ++f)
    if (parameters[f].memory_type().shape != body.type(parameter_value(body, f)).shape) return false;
  for (size_t a = 0; a < rows.axes.size(); ++a) {
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      const bool has_rows = stride_in(rows.axes[a], launch.operands[f]).has_value();
      if (has_rows != own[a][parameter_value(body, f).index].has_rows()) return false;
    }
    if (rows_of(module, body, parameters, row_launch(launch, rows.axes[a])) != own[a]) return false;
  }
  return true;
}

std::optional<SharedRows> rows_of_loop(const RowContext& context, const LoopStep& loop, BufferId buffer, int dim,
                                       int64_t block) {
  const Buffer& rows = context.plan.buffer(buffer);
  const std::optional<Length> count = exact_quotient(length_of(rows.type.shape[dim]), block);
  if (!count || !has_strides(rows.type, rows.storage)) return {};
  return LoopRowFinder(context, loop, *count)
      .run(buffer, stride_of(rows.type, rows.storage, AxisState::sliced(dim, block)));
}

}  // namespace weftc
