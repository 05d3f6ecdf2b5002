// The planner's own ranges say when a buffer is live and where the peak is (passes/plan/memory_peak.h). Steps are
// numbered from 1 over all blocks.
#include "cli/memory_text.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/timeline_text.h"
#include "cli/training_memory.h"
#include "ir/base/contains.h"
#include "ir/kernel/kernel_scratch.h"
#include "ir/plan_walk.h"
#include "ir/segments.h"
#include "passes/plan/memory_peak.h"

namespace weftc {

namespace {

constexpr size_t kMostBuffers = 10;

/// Where a buffer's elements come from: the names of ports, and of the nodes whose steps write it.
struct Sources {
  std::vector<std::string> inputs, states, lengths, nodes;
};

/// A Plan, and queries of it for each buffer.
class PlanMemory {
 public:
  explicit PlanMemory(const Plan& plan) : plan_(plan), ranges_(plan), writers_(plan.buffers.size()) {
    for (const Block& block : plan.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        for (const Access& access : step.accesses)
          if (access.write) writers_[access.buffer.index].push_back(&step);
      });
  }

  const Plan& plan() const { return plan_; }
  const LiveRanges& ranges() const { return ranges_; }
  MemoryPeak peak(const Program& program, MemoryKind kind) const { return memory_peak(plan_, program, kind, ranges_); }

  std::vector<std::string> names(const HeldMemory& memory) const {
    std::vector<std::string> names;
    for (const BufferId id : memory.buffers) names.push_back(plan_.buffer(id).name);
    return names;
  }

  /// "f32[4, 16], 2 instances": one rank's part of it.
  std::string type(const HeldMemory& memory) const {
    const Buffer& buffer = plan_.buffer(memory.buffers[0]);
    const Dims dims = buffer.dims();
    Shape shape = buffer.type.shape;
    for (size_t d = 0; d < shape.size(); ++d) shape[d].bound = dims[d];
    std::string text = type_text({buffer.type.dtype, shape, {}}, buffer.mesh);
    if (buffer.life == Life::Block) text += ", a block of rows";
    return buffer.depth > 1 ? text + format(", {} instances", buffer.depth) : text;
  }

  Sources sources(const HeldMemory& memory) const {
    Sources sources;
    std::set<BufferId> seen;
    for (const BufferId id : memory.buffers) add_sources(id, seen, sources);
    return sources;
  }

  /// The name of the block of a step; of the input and the output "".
  std::string block(int position) const {
    const size_t block = ranges_.block(position);
    return block < plan_.blocks.size() ? plan_.blocks[block].name : "";
  }

  /// "in step 'fc' (2 of 14)", with its block if there are several.
  std::string where(int position) const {
    if (position == 0) return "before the first step";
    if (position == ranges_.end()) return "after the last step";
    return format("in step '{}' ({} of {}{})", ranges_.name(position), position, ranges_.end() - 1,
                  plan_.blocks.size() > 1 ? format(", in block '{}'", block(position)) : "");
  }

  /// "fc (2) .. proj (5)".
  std::string range(const LiveRange& range) const {
    if (range.first <= 1 && range.last >= ranges_.end() - 1) return "all steps";
    const auto end = [&](int position) {
      const bool is_step = position > 0 && position < ranges_.end();
      return ranges_.name(position) + (is_step ? format(" ({})", position) : "");
    };
    return range.first == range.last ? end(range.first) : end(range.first) + " .. " + end(range.last);
  }

 private:
  /// A step that belongs to no node, such as the gathering of a sliced input, stands for the values that it reads.
  void add_sources(BufferId id, std::set<BufferId>& seen, Sources& sources) const {
    if (!seen.insert(id).second) return;
    const auto add = [](std::vector<std::string>& names, const std::string& name) {
      if (!contains(names, name)) names.push_back(name);
    };
    for (const Port& port : plan_.inputs)
      if (port.buffer == id) add(plan_.buffer(id).life == Life::State ? sources.states : sources.inputs, port.name);
    for (const LengthBuffer& length : plan_.lengths)
      if (length.buffer == id && !length.is_made) add(sources.lengths, length.name);
    for (const Step* step : writers_[id.index]) {
      for (const OriginId origin : step->origins) add(sources.nodes, plan_.origins[origin.index].name);
      if (!step->origins.empty()) continue;
      for (const Access& access : step->accesses)
        if (!access.write) add_sources(access.buffer, seen, sources);
    }
  }

  const Plan& plan_;
  LiveRanges ranges_;
  std::vector<std::vector<const Step*>> writers_;
};

/// The memories of a program that hold anything.
std::vector<MemoryKind> memories_of(const Program& program) {
  std::vector<MemoryKind> kinds;
  if (program.own_bytes) kinds.push_back(MemoryKind::Own);
  if (program.window_bytes) kinds.push_back(MemoryKind::Window);
  if (program.thread_bytes) kinds.push_back(MemoryKind::Thread);
  return kinds;
}

/// As in "2.0 KiB of its own", and in JSON.
std::pair<const char*, const char*> words_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Own:
      return {"of its own", "own"};
    case MemoryKind::Window:
      return {"that peers reach", "window"};
    case MemoryKind::Thread:
      return {"of each thread", "thread"};
  }
  return {"", ""};
}

std::string sources_text(const Sources& sources) {
  std::vector<std::string> parts;
  for (const std::string& name : sources.inputs) parts.push_back("input " + name);
  for (const std::string& name : sources.states) parts.push_back("state " + name);
  for (const std::string& name : sources.lengths) parts.push_back("length " + name);
  if (!sources.nodes.empty()) parts.push_back(few_of(sources.nodes, 6));
  return printable(join(parts, "; "));
}

int64_t bytes_after(const MemoryPeak& peak, size_t first) {
  int64_t bytes = 0;
  for (size_t i = first; i < peak.held.size(); ++i) bytes += peak.held[i].bytes;
  return bytes;
}

std::string peak_text(const PlanMemory& memory, const MemoryPeak& peak, MemoryKind kind) {
  const size_t count = peak.held.size(), listed = std::min(count, kMostBuffers);
  std::string text =
      format("  at the peak, {}, {} of the {} {} are live: {} buffer{}{}\n", printable(memory.where(peak.at)),
             bytes_text(peak.bytes), bytes_text(peak.size), words_of(kind).first, count, count == 1 ? "" : "s",
             listed < count ? format(", the {} largest of them:", listed) : "");
  TableRows cells;
  for (size_t i = 0; i < listed; ++i) {
    const HeldMemory& held = peak.held[i];
    const std::string in_place = held.buffers.size() > 1 ? " (in one place)" : "";
    cells.push_back({"  " + printable(few_of(memory.names(held), 3)) + in_place, memory.type(held),
                     bytes_text(held.bytes), printable(memory.range(held.range)), sources_text(memory.sources(held))});
  }
  text += table_text(cells);
  if (listed < count) text += format("    the others take {}\n", bytes_text(bytes_after(peak, listed)));
  if (memory.plan().training) text += "    " + training_memory(memory.plan(), peak).text() + "\n";
  return text;
}

std::string peak_json(const PlanMemory& memory, const MemoryPeak& peak, MemoryKind kind) {
  const size_t listed = std::min(peak.held.size(), kMostBuffers);
  std::vector<std::string> buffers;
  for (size_t i = 0; i < listed; ++i) {
    const HeldMemory& held = peak.held[i];
    const Sources sources = memory.sources(held);
    buffers.push_back(json_object({{"names", json_strings(memory.names(held))},
                                   {"type", json_string(memory.type(held))},
                                   {"bytes", std::to_string(held.bytes)},
                                   {"first_step", std::to_string(held.range.first)},
                                   {"first", json_string(memory.ranges().name(held.range.first))},
                                   {"last_step", std::to_string(held.range.last)},
                                   {"last", json_string(memory.ranges().name(held.range.last))},
                                   {"inputs", json_strings(sources.inputs)},
                                   {"states", json_strings(sources.states)},
                                   {"lengths", json_strings(sources.lengths)},
                                   {"nodes", json_strings(sources.nodes)}}));
  }
  const std::string training = memory.plan().training ? training_memory(memory.plan(), peak).json() : "null";
  return json_object({{"memory", json_string(words_of(kind).second)},
                      {"step", std::to_string(peak.at)},
                      {"name", json_string(memory.ranges().name(peak.at))},
                      {"block", json_string(memory.block(peak.at))},
                      {"live_bytes", std::to_string(peak.bytes)},
                      {"bytes", std::to_string(peak.size)},
                      {"buffers", json_list(buffers)},
                      {"other_buffers", std::to_string(peak.held.size() - listed)},
                      {"other_bytes", std::to_string(bytes_after(peak, listed))},
                      {"training", training}});
}

}  // namespace

int64_t weight_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Weight& weight : plan.weights) bytes += weight.bytes;
  return bytes;
}

/// Those at the places of a program.
static int64_t weight_bytes(const Plan& plan, const Program& program) {
  int64_t bytes = 0;
  for (const Weight& weight : plan.weights)
    if (holds(plan, program, weight.place)) bytes += weight.bytes;
  return bytes;
}

/// " products keep up to 20.0 KiB of panels ..", or "" without such products.
static std::string kept_text(const Plan& plan) {
  int64_t most = 0;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* loop = std::get_if<LoopStep>(&step.what);
      if (loop && loop->is_chain()) most = std::max(most, kept_bytes(plan, *loop));
    });
  return most ? format("    products keep up to {} of panels from one block of rows to the next\n", bytes_text(most))
              : "";
}

std::string memory_text(const Plan& plan) {
  const PlanMemory memory(plan);
  std::string text;
  for (const Program& program : plan.programs) {
    const std::string threads =
        program.thread_bytes ? format(", {} for each of its threads", bytes_text(program.thread_bytes)) : "";
    const int64_t scratch = scratch_bytes(plan, program);
    const std::string of_kernels = scratch ? format(", {} that a kernel takes while it runs", bytes_text(scratch)) : "";
    text +=
        format("memory of {}{}: {} of its own{}{}, {} that peers reach; weights {}\n",
               program.ranks.size() == 1 ? "" : "each of ", ranks_text(program.ranks), bytes_text(program.own_bytes),
               threads, of_kernels, bytes_text(program.window_bytes), bytes_text(weight_bytes(plan, program)));
    for (const MemoryKind kind : memories_of(program)) text += peak_text(memory, memory.peak(program, kind), kind);
    if (program.thread_bytes) text += kept_text(plan);
  }
  return text;
}

std::string memory_json(const Plan& plan) {
  const PlanMemory memory(plan);
  std::vector<std::string> programs;
  for (const Program& program : plan.programs) {
    std::vector<std::string> ranks, peaks;
    for (const int rank : program.ranks) ranks.push_back(std::to_string(rank));
    for (const MemoryKind kind : memories_of(program))
      peaks.push_back(peak_json(memory, memory.peak(program, kind), kind));
    programs.push_back(json_object({{"ranks", json_list(ranks)},
                                    {"own_bytes", std::to_string(program.own_bytes)},
                                    {"thread_bytes", std::to_string(program.thread_bytes)},
                                    {"scratch_bytes", std::to_string(scratch_bytes(plan, program))},
                                    {"window_bytes", std::to_string(program.window_bytes)},
                                    {"weight_bytes", std::to_string(image_bytes(plan, program))},
                                    {"peaks", json_list(peaks)}}));
  }
  return json_lines(programs);
}

}  // namespace weftc
