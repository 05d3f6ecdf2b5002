// Prints a Plan: ports, kernels, weights, signals, then for each program its memory and for each block its
// steps with their accesses, waits and signals. Golden tests and --print-plan-after show it; nothing parses it.
#include "ir/text/plan_text.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/exchange_types.h"

namespace weftc {

namespace {

const char* reason_name(Wait::Reason reason) {
  switch (reason) {
    case Wait::Reason::Data:
      return "data";
    case Wait::Reason::Reuse:
      return "reuse";
    case Wait::Reason::Position:
      return "position";
  }
  return "";
}

/// The element of a signal that a step uses: the only one, its chunk's, or its micro-batch's.
const char* per_text(Per per) {
  switch (per) {
    case Per::Once:
      return "";
    case Per::Chunk:
      return "[chunk]";
    case Per::MicroBatch:
      return "[micro-batch]";
  }
  return "";
}

std::string axes_text(const std::vector<int>& axes, const Mesh& mesh) {
  std::vector<std::string> names;
  for (int axis : axes) names.push_back(mesh[axis].name);
  return join(names, ",");
}

/// A buffer, the accessed part of it, and the rank that owns it.
std::string access_text(const Plan& plan, const Access& access) {
  const Buffer& buffer = plan.buffer(access.buffer);
  std::string text = buffer.name;
  for (const PartDigit& digit : access.part)
    text += format("[dim {} div {} mod {} = axis {}]", digit.dim, digit.block, digit.size, digit.axis);
  if (const std::optional<Stripe>& stripe = access.stripe)
    text += format("[dim {} from {} to {}]", stripe->dim, stripe->start, stripe->end());
  if (!access.peers.empty()) text += " of all " + axes_text(access.peers, buffer.mesh);
  return access.accumulate ? "onto " + text : text;
}

std::string list_text(const std::vector<std::string>& items) { return items.empty() ? "-" : join(items, ", "); }

/// The action of a step; a launch with its operands by the names of parameters.
std::string what_text(const Plan& plan, const Step& step) {
  if (const auto* launch = std::get_if<LaunchStep>(&step.what)) {
    const Kernel& kernel = plan.kernel(launch->kernel);
    std::vector<std::string> operands;
    for (size_t i = 0; i < launch->operands.size(); ++i) {
      const Operand& o = launch->operands[i];
      operands.push_back(kernel.parameters[i].name + " = " +
                         (o.weight ? "weight " + plan.weight(o.weight).name : plan.buffer(o.buffer).name));
    }
    return kernel.name + "(" + join(operands, ", ") + ")";
  }
  return step_kind(plan, step);
}

/// A line for each wait and each signal of a step.
void append_sync(std::string& text, const Plan& plan, const Step& step, const std::string& pad) {
  for (const Wait& wait : step.waits) {
    text += pad + "waits " + plan.signals[wait.signal.index].name + per_text(wait.per);
    if (wait.lag) text += format(" - {}", wait.lag);
    text += std::string(" for ") + reason_name(wait.reason) + (wait.in_kernel ? ", in the kernel\n" : "\n");
  }
  for (const Raise& raise : step.raises)
    text += pad + "raises " + plan.signals[raise.signal.index].name + per_text(raise.per) +
            (raise.in_kernel ? ", in the kernel\n" : "\n");
}

std::string steps_text(const Plan& plan, const std::vector<Step>& steps, int indent) {
  std::string text;
  for (const Step& step : steps) text += step_text(plan, step, indent);
  return text;
}

/// A position as planned: symbolic, since one program serves several ranks (P7).
std::string position_text(const Plan& plan, const Position& position) {
  switch (position.kind) {
    case Position::Kind::Absent:
      return "absent";
    case Position::Kind::Start:
      return "start";
    case Position::Kind::EndOf:
      return "end of " + plan.buffer(position.of).name;
    case Position::Kind::SameAs:
      return "same as " + plan.buffer(position.of).name;
    case Position::Kind::OfThread:
      return position.of ? "of each thread, same as " + plan.buffer(position.of).name : "of each thread";
  }
  return "";
}

std::string stored_text(const Storage& storage) { return storage == Storage{} ? "" : ", stored " + storage.text(); }

std::string buffers_text(const Plan& plan, const Program& program) {
  std::string text;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (program.positions.empty()) {  // before positions are planned
      text += format("  {}: {}, {} bytes x {}{}\n", buffer.name, type_text(buffer.type, buffer.mesh), buffer.bytes,
                     buffer.depth, stored_text(buffer.storage));
      continue;
    }
    const Position& position = program.positions[b];
    if (position.kind == Position::Kind::Absent) continue;
    text += format("  {} {}: {}, {} bytes", buffer.window ? "window" : "own", buffer.name,
                   type_text(buffer.type, buffer.mesh), buffer.bytes);
    if (buffer.depth > 1) text += format(" x {}", buffer.depth);
    text += format(", at {} ({}){}, live {}\n", position.offset, position_text(plan, position),
                   stored_text(buffer.storage), buffer.live);
  }
  return text;
}

std::string strategy_line(const Kernel& kernel) {
  const std::string pin = pinned_at(kernel);
  return strategies_text(kernel) + (pin.empty() ? "" : ", pinned (" + pin + ")");
}

std::string kernels_text(const Plan& plan) {
  // choose-kernels records the name that a schedule would use for each kernel. Before that pass, strategies have no
  // meaning.
  const bool are_chosen = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                                      [](const Kernel& kernel) { return !kernel.pin_name.empty(); });
  std::string text = "kernels\n";
  for (const Kernel& kernel : plan.kernels) {
    std::vector<std::string> parameters, ops;
    for (const Parameter& f : kernel.parameters) parameters.push_back(f.name + ": " + type_text(f.type, kernel.mesh));
    for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
      if (category(kernel.body.op(id)) != Category::Source) ops.push_back(op_def(kernel.body.op(id)).name);
    text += format("  {} {}({}): {}\n", category_name(kernel.category), kernel.name, join(parameters, ", "),
                   list_text(ops));
    if (are_chosen) text += format("    by {}\n", strategy_line(kernel));
    if (kernel.users.size() > 1) text += format("    used by {}\n", join(kernel.users, ", "));
  }
  return text;
}

std::string weights_text(const Plan& plan) {
  std::string text = "weights\n";
  for (const Weight& weight : plan.weights) {
    text += format("  {}: {}, segment {}, at {}, {} bytes{}\n", weight.name,
                   type_text(weight.type, plan.places[weight.place.index].mesh), weight.segment, weight.offset,
                   weight.bytes, stored_text(weight.storage));
  }
  for (size_t s = 0; s < plan.segments.size(); ++s)
    text +=
        format("  segment {}: sliced over [{}], ends at {}\n", s,
               axes_text(plan.segments[s].axes, plan.places[plan.segments[s].place.index].mesh), plan.segments[s].end);
  return text;
}

std::string ports_text(const Plan& plan) {
  std::string text;
  for (const Port& port : plan.inputs)
    text += format("input {}: {} in {}\n", port.name, type_text(port.type, port.mesh), plan.buffer(port.buffer).name);
  for (const Port& port : plan.outputs)
    text += format("output {}: {} in {}\n", port.name, type_text(port.type, port.mesh), plan.buffer(port.buffer).name);
  for (const LengthBuffer& length : plan.lengths)
    text += format("length {}<={} in {}{}\n", length.name, length.bound, plan.buffer(length.buffer).name,
                   length.is_made ? ", made" : "");
  for (const StateSlot& state : plan.states)
    text += format("state {} -> {}{}{}\n", state.input, state.output, state.in_place ? ", in place" : "",
                   state.initial ? ", from " + plan.weight(state.initial).name : "");
  if (plan.training) text += format("train by {}\n", plan.training->loss);
  if (plan.generation)
    text += format("generate {} from {}, up to {} tokens\n", plan.generation->tokens, plan.generation->logits,
                   plan.generation->room);
  return text;
}

std::string transfers_text(const Plan& plan) {
  std::string text;
  for (const TransferTable& table : plan.transfers) {
    text += format("transfer {}: {} -> {}\n", table.name, plan.buffer(table.from).name, plan.buffer(table.to).name);
    for (const Message& m : table.messages)
      text += format("  {} -> {}: {} at {} to {}\n", m.from, m.to, dims_text(m.extents), m.source, m.target);
  }
  return text;
}

}  // namespace

std::string step_kind(const Plan& plan, const Step& step) {
  struct Visitor {
    const Plan& plan;
    std::string operator()(const LaunchStep& s) const { return "launch " + plan.kernel(s.kernel).name; }
    std::string operator()(const CopyStep&) const { return "copy"; }
    std::string operator()(const CollectiveStep& s) const {
      const bool reduces = s.kind == OpKind::AllReduce || s.kind == OpKind::ReduceScatter || s.kind == OpKind::Reduce;
      const std::string root = has_root(s.kind) ? format(" of root {}", s.root) : "";
      return format("{}{} over {}{}", op_def(s.kind).name, reduces ? std::string(" ") + reduce_name(s.reduce) : "",
                    axes_text(s.axes, s.mesh), root);
    }
    std::string operator()(const SendStep& s) const { return "send " + plan.transfers[s.transfer].name; }
    std::string operator()(const RecvStep& s) const { return "recv " + plan.transfers[s.transfer].name; }
    std::string operator()(const ForStep& s) const {
      static constexpr const char* kHow[] = {"", ", what computes as one kernel", ", all as one kernel"};
      return format("for {} chunks{}", s.trips, kHow[static_cast<int>(s.mechanism)]);
    }
    std::string operator()(const IfStep& s) const { return "if " + plan.buffer(s.condition).name; }
    std::string operator()(const LoopStep& s) const {
      if (!s.rows) return "loop";
      if (!s.is_chain()) return format("loop, each thread with rows of {}", s.rows->axes[0].count.text());
      std::vector<std::string> blocks, counts;
      for (const RowAxis& axis : s.rows->axes)
        blocks.push_back(std::to_string(axis.block)), counts.push_back(axis.count.text());
      return "in blocks of " + join(blocks, " x ") + " of " + join(counts, " x ") + " rows";
    }
  };
  return std::visit(Visitor{plan}, step.what);
}

std::string step_text(const Plan& plan, const Step& step, int indent) {
  const std::string pad(static_cast<size_t>(indent) * 2, ' ');
  std::string text = pad + plan.streams[step.stream] + " '" + step.name + "': " + what_text(plan, step);
  if (!step.transform.empty()) text += "; " + step.transform;
  text += "\n";
  std::vector<std::string> reads, writes;
  for (const Access& access : step.accesses) (access.write ? writes : reads).push_back(access_text(plan, access));
  if (!step.accesses.empty()) text += format("{}  {} -> {}\n", pad, list_text(reads), list_text(writes));
  append_sync(text, plan, step, pad + "  ");
  if (const auto* loop = std::get_if<ForStep>(&step.what)) text += steps_text(plan, loop->body, indent + 1);
  if (const auto* loop = std::get_if<LoopStep>(&step.what)) text += steps_text(plan, loop->body, indent + 1);
  if (const auto* branch = std::get_if<IfStep>(&step.what))
    text += steps_text(plan, branch->then_body, indent + 1) + pad + "else\n" +
            steps_text(plan, branch->else_body, indent + 1);
  return text;
}

std::string strategies_text(const Kernel& kernel) {
  const std::string launched = strategy_text(kernel.strategy) + (kernel.one_thread ? ", one thread" : "");
  const std::string called = kernel.in_chunks ? strategy_text(*kernel.in_chunks) : launched;
  return called == launched ? launched : format("{}, in chunks {}", launched, called);
}

std::string pinned_at(const Kernel& kernel) {
  const Loc& loc = kernel.pin;
  return loc.kind == Loc::Kind::Text ? format("{}:{}:{}", printable(loc.file), loc.line, loc.column) : "";
}

std::string print_plan(const Plan& plan) {
  std::string text = format("plan {} on {} ranks, streams {}\n", plan.name, plan.world, join(plan.streams, ", "));
  text += ports_text(plan) + kernels_text(plan) + weights_text(plan);
  for (const Signal& signal : plan.signals)
    text += format("signal {}: {} elements{}\n", signal.name, signal.count,
                   signal.axes.empty() ? "" : ", all " + axes_text(signal.axes, plan.places[signal.place.index].mesh));
  text += transfers_text(plan);
  for (const Program& program : plan.programs) {
    text += format("program of ranks {}: own {} bytes, windows {} bytes",
                   dims_text({program.ranks.begin(), program.ranks.end()}), program.own_bytes, program.window_bytes);
    if (program.thread_bytes) text += format(", each thread {} bytes", program.thread_bytes);
    text += "\n";
    text += buffers_text(plan, program);
  }
  for (const Block& block : plan.blocks)
    text +=
        format("block {} of {}\n", block.name, plan.places[block.place.index].name) + steps_text(plan, block.steps, 1);
  if (plan.order.size() > 1) {
    std::vector<std::string> order;
    for (const OrderedBlock& o : plan.order)
      order.push_back(plan.blocks[o.block].name + "(" + std::to_string(o.micro_batch) + ")");
    text += "order " + join(order, ", ") + "\n";
  }
  return text;
}

}  // namespace weftc
