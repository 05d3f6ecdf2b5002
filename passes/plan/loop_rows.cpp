// Rows are followed from buffer to buffer by their stride, which a Reshape between two kernels leaves as it is.
#include "passes/plan/loop_rows.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// Elements from one row to the next, of rows along a dimension.
int64_t stride_of(const TensorType& type, const AxisState& rows) {
  return strides_of(type.dims())[static_cast<size_t>(rows.dim)] * rows.block;
}

/// The dimension along which rows lie so far apart; R where there is none.
AxisState rows_of_type(const TensorType& type, int64_t count, int64_t stride) {
  const Dims strides = strides_of(type.dims());
  for (int d = 0; d < type.ndim(); ++d) {
    const int64_t step = strides[static_cast<size_t>(d)], extent = type.shape[d].bound;
    if (step > 0 && stride % step == 0 && extent == count * (stride / step)) return AxisState::sliced(d, stride / step);
  }
  return {};
}

/// Whether strides are the same numbers with rows as a length, and without.
bool has_fixed_strides(const TensorType& type, const Storage& storage) {
  return storage.is_row_major() && is_static(type.shape);
}

/// A kernel that computes all of its results on this rank, from memory that nobody else reaches.
bool stands_alone(const Kernel& kernel) {
  return std::all_of(kernel.parameters.begin(), kernel.parameters.end(), [](const Parameter& parameter) {
    return !parameter.window && parameter.whole_over.empty() && parameter.type.layout.is_replicated();
  });
}

class LoopRowFinder {
 public:
  LoopRowFinder(const Plan& plan, const Module& module, const LoopStep& loop, int64_t count)
      : plan_(plan), module_(module), loop_(loop), rows_{count, {}, {}} {}

  std::optional<SharedRows> run(BufferId buffer, int64_t stride) {
    rows_.strides[buffer] = stride;
    do {
      is_changed_ = false;
      for (const Step& step : loop_.body)
        if (!visit(step)) return {};
    } while (is_changed_);
    find_own();
    const bool all =
        std::all_of(loop_.body.begin(), loop_.body.end(), [&](const Step& step) { return writes_rows_only(step); });
    return all ? std::optional(std::move(rows_)) : std::nullopt;
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
    const std::optional<BodyRows> rows = rows_of_launch(plan_, module_, launch, rows_);
    if (!rows) return false;
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      const Parameter& parameter = kernel.parameters[f];
      const AxisState& own = (*rows)[parameter_value(kernel.body, f).index];
      if (!own.is(AxisState::Kind::S)) continue;
      if (launch.operands[f].weight || !has_fixed_strides(parameter.type, parameter.storage)) return false;
      if (!put(launch.operands[f].buffer, stride_of(parameter.type, own))) return false;
    }
    return true;
  }

  bool join(BufferId a, BufferId b) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
      if (const auto at = rows_.strides.find(from); at != rows_.strides.end() && !put(to, at->second)) return false;
    return true;
  }

  /// False where the buffer has other rows.
  bool put(BufferId buffer, int64_t stride) {
    const auto [at, is_new] = rows_.strides.emplace(buffer, stride);
    is_changed_ = is_changed_ || is_new;
    return at->second == stride && plan_.buffer(buffer).depth == 1;
  }

  /// Numbers that a trip makes for all rows, such as the index of the step that it reads.
  void find_own() {
    constexpr int64_t kMostBytes = 64;
    if (loop_.iteration) rows_.own.insert(loop_.iteration);
    for (const Step& step : loop_.body)
      for (const Access& access : step.accesses) {
        const Buffer& buffer = plan_.buffer(access.buffer);
        const int64_t bytes = element_count(buffer.dims()) * dtype_bytes(buffer.type.dtype);
        const bool is_own = access.write && !rows_.strides.contains(access.buffer) && bytes <= kMostBytes;
        if (is_own && is_inside(plan_, loop_, access.buffer)) rows_.own.insert(access.buffer);
      }
  }

  bool writes_rows_only(const Step& step) const {
    if (const auto* copy = std::get_if<CopyStep>(&step.what); copy && !copies_rows(plan_, *copy, rows_)) return false;
    return std::all_of(step.accesses.begin(), step.accesses.end(), [&](const Access& access) {
      return !access.write || rows_.strides.contains(access.buffer) || rows_.own.contains(access.buffer);
    });
  }

  const Plan& plan_;
  const Module& module_;
  const LoopStep& loop_;
  SharedRows rows_;
  bool is_changed_ = false;
};

}  // namespace

/// The rows of a body's values, as its parameters' buffers have them.
static std::optional<BodyRows> rows_of(const Module& module, const Graph& body, const LaunchStep& launch,
                                       const SharedRows& rows) {
  BodyRows known(body.value_capacity());
  for (size_t f = 0; f < launch.operands.size(); ++f) {
    const auto at = launch.operands[f].buffer ? rows.strides.find(launch.operands[f].buffer) : rows.strides.end();
    if (at == rows.strides.end()) continue;
    const ValueId value = parameter_value(body, f);
    known[value.index] = rows_of_type(body.type(value), rows.count, at->second);
    if (!known[value.index].is(AxisState::Kind::S)) return {};
  }
  return rows_of_body(module, body, rows.count, std::move(known));
}

bool is_inside(const Plan& plan, const LoopStep& loop, BufferId buffer) {
  const auto is_at = [&](const auto& port) { return port.buffer == buffer; };
  if (contains(loop.carried, buffer) || std::any_of(plan.inputs.begin(), plan.inputs.end(), is_at) ||
      std::any_of(plan.outputs.begin(), plan.outputs.end(), is_at) ||
      std::any_of(plan.lengths.begin(), plan.lengths.end(), is_at))
    return false;
  int all = 0;
  for (const Block& block : plan.blocks) all += users_in(block.steps, buffer);
  return all == users_in(loop.body, buffer) + (buffer == loop.iteration);
}

bool copies_rows(const Plan& plan, const CopyStep& copy, const SharedRows& rows) {
  const auto from = rows.strides.find(copy.from), to = rows.strides.find(copy.to);
  if (from == rows.strides.end() || to == rows.strides.end()) return false;
  const int64_t elements = element_count(plan.buffer(copy.from).dims());
  return from->second == to->second && (copy.in_place || elements == rows.count * from->second);
}

std::optional<BodyRows> rows_of_launch(const Plan& plan, const Module& module, const LaunchStep& launch,
                                       const SharedRows& rows) {
  return rows_of(module, plan.kernel(launch.kernel).body, launch, rows);
}

/// The dimension that has the length of rows becomes one of their number: which it is, or R for none.
static AxisState take_length(Graph& body, ValueId value, const Length& own) {
  TensorType type = body.type(value);
  for (int d = 0; d < type.ndim(); ++d) {
    Extent& extent = type.shape[static_cast<size_t>(d)];
    const std::optional<Length> block = extent.is_run_time() ? exact_quotient(*extent.length, own) : std::nullopt;
    if (!block || !block->is_constant()) continue;
    extent.length = nullptr;
    body.retype(value, std::move(type));
    return AxisState::sliced(d, block->constant());
  }
  return {};
}

bool keeps_rows(const Plan& plan, const LaunchStep& launch, const SharedRows& rows) {
  Module module;
  module.places = plan.places;
  Graph body = plan.kernel(launch.kernel).body;
  BodyRows own(body.value_capacity());
  for (OpId id = body.first(); id; id = body.next(id))
    for (ValueId value : body.op(id).outputs)
      own[value.index] = take_length(body, value, Length::named(kOwnRows, rows.count));
  for (size_t f = 0; f < launch.operands.size(); ++f) {
    const bool has_rows = launch.operands[f].buffer && rows.strides.contains(launch.operands[f].buffer);
    if (has_rows != own[parameter_value(body, f).index].is(AxisState::Kind::S)) return false;
  }
  return rows_of(module, body, launch, rows) == own;
}

std::optional<SharedRows> rows_of_loop(const Plan& plan, const Module& module, const LoopStep& loop, BufferId buffer,
                                       int dim) {
  const TensorType& type = plan.buffer(buffer).type;
  if (!has_fixed_strides(type, plan.buffer(buffer).storage) || type.shape[dim].is_run_time()) return {};
  return LoopRowFinder(plan, module, loop, type.shape[dim].bound)
      .run(buffer, stride_of(type, AxisState::sliced(dim, 1)));
}

}  // namespace weftc
