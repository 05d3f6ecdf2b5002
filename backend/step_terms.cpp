// Indices of chunks and micro-batches as text. A buffer with several instances is used in turn, so that
// instance `chunk % depth` belongs to a chunk; a signal has an element for each chunk of each micro-batch.
#include "backend/step_terms.h"

#include <algorithm>

#include "backend/dialects/target_dialect.h"
#include "backend/length_expression.h"
#include "ir/base/contains.h"
#include "ir/op_def.h"
#include "ir/trips.h"

namespace weftc {

std::string StepTerms::instance_offset(const Buffer& buffer) const {
  if (buffer.depth <= 1 || times_.empty()) return "";
  const std::string variable = buffer.life == Life::MicroBatch ? times_.front().variable : times_.back().variable;
  return variable + " % " + std::to_string(buffer.depth) + " * " +
         std::to_string(buffer.bytes / dtype_bytes(buffer.type.dtype));
}

std::string StepTerms::handle(BufferId id, const std::string& first) const {
  const Buffer& buffer = plan_.buffer(id);
  std::string at = instance_offset(buffer);
  if (!first.empty()) at += (at.empty() ? "" : " + ") + first;
  const std::string& name = names_.buffers[id.index];
  return at.empty() ? name : name + ".part(" + at + kComma + count_text(buffer.dims()) + ")";
}

IndexExpr StepTerms::time_index(PlaceId place, const Mesh& mesh, int axis) const {
  const size_t first = plan_.places[place.index].mesh.size();
  const size_t time = static_cast<size_t>(axis) - first, count = mesh.size() - first;
  // The innermost time axes of the mesh are the innermost loops.
  const size_t skip = times_.size() > count ? times_.size() - count : 0;
  return time + skip < times_.size() ? time_index(times_[time + skip]) : 0;
}

/// A signal has `count` / micro-batches elements for each micro-batch. A step outside the loop over chunks refers to
/// the last of them: all ordered work is complete with the last chunk.
std::optional<IndexExpr> StepTerms::index(SignalId id, Per per, int lag) const {
  const bool batches = plan_.micro_batches > 1, chunk = per == Per::Chunk && !times_.empty();
  const int each = plan_.signals[id.index].count / std::max(1, plan_.micro_batches);
  if (!batches && !chunk && each == 1) return {};
  IndexExpr index = batches ? (time_index(times_.front()) - (per == Per::MicroBatch ? lag : 0)) * each : 0;
  if (chunk) return index + time_index(times_.back()) - lag;
  return index + (each - 1);
}

StepTerms::SignalCall StepTerms::of_rank(const std::string& call) const {
  return [this, call](SignalId id, const std::optional<IndexExpr>& at, const std::string& condition) {
    return (condition.empty() ? "" : "if (" + condition + ") ") + "r." + call + "(" + names_.signals[id.index] +
           (at ? kComma + at->text() : "") + ");";
  };
}

// A wait with a lag refers to an iteration that is `lag` before this one; the first `lag` iterations do not wait. In an
// evaluation, signals of the training's blocks are not raised.
StepTerms::Lines StepTerms::waits(const Step& s, const SignalCall& wait_for) const {
  Lines lines;
  for (const Wait& wait : s.waits) {
    const TimeLoop* time = times_.empty() || wait.per == Per::Once ? nullptr
                           : wait.per == Per::MicroBatch           ? &times_.front()
                                                                   : &times_.back();
    std::vector<std::string> conditions;
    if (wait.lag && time) conditions.push_back(time->variable + " >= " + std::to_string(wait.lag));
    if (wait.trains) conditions.push_back("!r.evaluates()");
    lines.push_back(wait_for(wait.signal, index(wait.signal, wait.per, wait.lag), join(conditions, " && ")));
  }
  return lines;
}

StepTerms::Lines StepTerms::raises(const Step& s, const SignalCall& raise_it) const {
  Lines lines;
  for (const Raise& raise : s.raises) lines.push_back(raise_it(raise.signal, index(raise.signal, raise.per, 0), ""));
  return lines;
}

/// The node of an op in a kernel. Equal layers share a kernel, whose ops name the nodes of the first layer. In other
/// layers it is the step's own node at the same position, or one of the same type.
static std::string node_of(const Plan& plan, const Kernel& kernel, const Step& step, const Op& op) {
  const auto text = [&](OriginId id) {
    return format("node '{}' ({})", plan.origins[id.index].name, plan.origins[id.index].op_type);
  };
  for (const OriginId id : op.origins)
    if (contains(step.origins, id)) return text(id);
  for (size_t i = 0; i < kernel.origins.size() && kernel.origins.size() == step.origins.size(); ++i)
    if (contains(op.origins, kernel.origins[i])) return text(step.origins[i]);
  for (const OriginId own : step.origins)
    for (const OriginId id : op.origins)
      if (plan.origins[own.index].op_type == plan.origins[id.index].op_type) return text(own);
  return format("node '{}' ({})", step.name, op_def(op).name);
}

std::string StepTerms::argument(const Step& step, const LaunchStep& launch, const KernelText& text,
                                const Argument& argument) const {
  const Kernel& kernel = plan_.kernel(launch.kernel);
  switch (argument.kind) {
    case Argument::Kind::Team:
      return shared_ ? "alone" : kernel.one_thread ? "weft::Team::alone()" : "r.team()";
    case Argument::Kind::Peers: {
      std::vector<int> axes(text.group.begin(), text.group.end());
      return "r.peers(" + names_.group(kernel.place, axes) + ")";
    }
    case Argument::Kind::Chunk:
      return time_index(kernel.place, kernel.mesh, argument.number).text();
    case Argument::Kind::Coordinate:
      return "r.coordinate(" + names_.axes[kernel.place.index][static_cast<size_t>(argument.number)] + ")";
    case Argument::Kind::Extent: {
      const RunExtent& extent = kernel.extents[static_cast<size_t>(argument.number)];
      if (extent.is_slice())
        return part_expression(
            std::to_string(extent.extent), extent.block,
            "r.coordinate(" + names_.axes[kernel.place.index][static_cast<size_t>(extent.axis)] + ")");
      size_t number = 0;
      for (int e = 0; e < argument.number; ++e) number += kernel.extents[static_cast<size_t>(e)].is_named();
      if (!launch.lengths[number]) {
        const std::vector<RowAxis>& axes = shared_->rows->axes;
        const size_t axis = *row_axis(*shared_->rows, *extent.length);
        return axes[axis].in_one_block() ? all_rows(axis) : row_words(axis, axes.size()).count;
      }
      return (dialect_of(plan_.target).facts.passes_values ? "*" : "") + pointer(launch.lengths[number]);
    }
    case Argument::Kind::Invocation:
      return dialect_of(plan_.target).words.invocation_of_rank;
    case Argument::Kind::Trip:
      return trip_number(loops_);
    case Argument::Kind::Panels:
      return panels_.at(launch.kernel.index);
    case Argument::Kind::Indices: {
      const Op& op = kernel.body.op(OpId{static_cast<uint32_t>(argument.number)});
      const std::string node = string_literal(node_of(plan_, kernel, step, op));
      return "r.indices_of(" + node + (in_layers_ ? std::string(kComma) + "layer" : "") + ")";
    }
  }
  return "";
}

std::optional<std::string> StepTerms::length(const Length& length, PlaceId place) const {
  if (!dialect_of(plan_.target).facts.passes_values) return {};
  std::map<std::string, std::string> known;
  for (const LengthBuffer& each : plan_.lengths)
    if (each.place == place && !each.is_made) known[each.name] = "*" + pointer(each.buffer);
  bool all = true;
  for_each_name(length, [&](const LengthSymbolPtr& name) { all = all && known.contains(name->text); });
  if (!all) return {};
  return length_expression(length, [&](const std::string& name) { return known.at(name); });
}

std::string StepTerms::length_factor(const Length& length) const {
  std::string counts;
  Length rest = length;
  for (size_t a = 0; a < shared_->rows->axes.size(); ++a) {
    const Length& count = shared_->rows->axes[a].count;
    if (count.is_constant()) continue;
    while (const std::optional<Length> left = exact_quotient(rest, count))
      counts += (counts.empty() ? "" : " * ") + all_rows(a), rest = *left;
  }
  const std::string text = *this->length(rest, shared_place());
  if (!counts.empty() && rest == Length(1)) return counts;
  return (counts.empty() ? "" : counts + " * ") + (rest.terms().size() > 1 ? "(" + text + ")" : text);
}

std::string StepTerms::all_rows(size_t axis) const {
  const std::vector<RowAxis>& axes = shared_->rows->axes;
  return axes[axis].count.is_constant() ? axes[axis].count.text() : row_words(axis, axes.size()).all;
}

PlaceId StepTerms::shared_place() const {
  return plan_.kernel(std::get<LaunchStep>(shared_->body.front().what).kernel).place;
}

std::string StepTerms::trip_number(int loops) {
  if (loops == 0) return "0";
  const std::string own = "uint32_t(" + trip_variable(loops) + ")";
  if (loops == 1) return own;
  const std::string outer = trip_number(loops - 1);
  return (loops > 2 ? "(" + outer + ")" : outer) + " * " + std::to_string(kTripStride) + "u + " + own;
}

/// "r[x] + row * 64": the address of a part's first row.
std::string StepTerms::first_row(const std::string& whole, const Operand& operand) const {
  if (!shared_) return whole;
  std::string text = whole;
  const auto add = [&](const auto& strides, auto id, const char* row) {
    if (const auto at = strides.find(id); at != strides.end())
      text += std::string(" + ") + row + " * " + length_factor(at->second);
  };
  const std::vector<RowAxis>& axes = shared_->rows->axes;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].in_one_block()) continue;
    const char* row = row_words(a, axes.size()).first;
    add(axes[a].strides, operand.buffer, row), add(axes[a].weight_strides, operand.weight, row);
  }
  return text;
}

std::string StepTerms::pointer(BufferId id, const std::string& first) const {
  if (shared_ && id == shared_->iteration) return "&" + trip_variable(loops_);
  if (shared_ && shared_->rows->own.contains(id))
    return !shared_->is_chain() ? own_name(id) : names_.buffers[id.index] + (replaced(id) ? "" : ".get()");
  return first_row("r[" + handle(id, first) + "]", {id, {}});
}

BufferId StepTerms::replaced(BufferId id) const {
  for (const Program& program : plan_.programs)
    if (program.positions[id.index].kind == Position::Kind::OfThread) return program.positions[id.index].of;
  return {};
}

std::string StepTerms::pointer(const Operand& operand) const {
  return operand.weight ? first_row("r[" + names_.weights[operand.weight.index] + "]", operand)
                        : pointer(operand.buffer);
}

const KernelText& StepTerms::called(KernelId kernel) const {
  const auto function = functions_.find(kernel.index);
  return function == functions_.end() ? kernels_[kernel.index] : function->second;
}

}  // namespace weftc
