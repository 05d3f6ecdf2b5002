// Buffers that lie at one offset at the same time share memory in place; all others that are live together lie apart,
// which place-buffers sees to and the proof checks.
#include "passes/plan/memory_peak.h"

#include <algorithm>
#include <tuple>

#include "ir/plan_walk.h"

namespace weftc {

namespace {

bool is_in(const Buffer& buffer, const Position& position, MemoryKind kind) {
  if (position.kind == Position::Kind::Absent || buffer.bytes == 0) return false;
  const bool is_of_thread = position.kind == Position::Kind::OfThread;
  return is_of_thread == (kind == MemoryKind::Thread) && buffer.window == (kind == MemoryKind::Window);
}

int64_t size_of(const Program& program, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Own:
      return program.own_bytes;
    case MemoryKind::Window:
      return program.window_bytes;
    case MemoryKind::Thread:
      return program.thread_bytes;
  }
  return 0;
}

/// The bytes held at each position among the steps.
std::vector<int64_t> bytes_by_position(const std::vector<HeldMemory>& held, size_t positions) {
  std::vector<int64_t> bytes(positions + 1);
  for (const HeldMemory& memory : held) {
    bytes[static_cast<size_t>(memory.range.first)] += memory.bytes;
    bytes[static_cast<size_t>(memory.range.last) + 1] -= memory.bytes;
  }
  for (size_t p = 1; p < bytes.size(); ++p) bytes[p] += bytes[p - 1];
  bytes.pop_back();
  return bytes;
}

}  // namespace

std::vector<HeldMemory> held_memory(const Plan& plan, const Program& program, MemoryKind kind,
                                    const LiveRanges& ranges) {
  struct Placed {
    int64_t offset;
    LiveRange range;
    uint32_t buffer;
  };
  std::vector<Placed> placed;
  for (uint32_t b = 0; b < program.positions.size(); ++b) {
    if (!is_in(plan.buffers[b], program.positions[b], kind)) continue;
    const LiveRange range = ranges.in_memory(b);
    if (range.used()) placed.push_back({program.positions[b].offset, range, b});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& x, const Placed& y) {
    return std::tuple(x.offset, x.range.first, x.buffer) < std::tuple(y.offset, y.range.first, y.buffer);
  });
  std::vector<HeldMemory> held;
  int64_t offset = -1;
  for (const Placed& next : placed) {
    if (next.offset != offset || next.range.first > held.back().range.last) held.push_back({});
    offset = next.offset;
    HeldMemory& memory = held.back();
    memory.buffers.push_back({next.buffer});
    memory.range.add(next.range);
    memory.bytes = std::max(memory.bytes, plan.buffers[next.buffer].bytes * plan.buffers[next.buffer].depth);
  }
  return held;
}

MemoryPeak memory_peak(const Plan& plan, const Program& program, MemoryKind kind, const LiveRanges& ranges) {
  std::vector<HeldMemory> held = held_memory(plan, program, kind, ranges);
  const std::vector<int64_t> bytes = bytes_by_position(held, static_cast<size_t>(ranges.end()) + 1);
  // Ranges of several blocks span steps that other ranks run: of equal positions, one of this program's is named.
  const auto weight_at = [&](int position) {
    const size_t block = ranges.block(position);
    const bool is_run = block < plan.blocks.size() && holds(plan, program, plan.blocks[block].place);
    return std::pair(bytes[static_cast<size_t>(position)], is_run);
  };
  MemoryPeak peak{0, 0, size_of(program, kind), {}};
  for (int position = 1; position <= ranges.end(); ++position)
    if (weight_at(position) > weight_at(peak.at)) peak.at = position;
  peak.bytes = bytes[static_cast<size_t>(peak.at)];
  for (HeldMemory& memory : held)
    if (memory.range.first <= peak.at && peak.at <= memory.range.last) peak.held.push_back(std::move(memory));
  std::sort(peak.held.begin(), peak.held.end(), [](const HeldMemory& x, const HeldMemory& y) {
    return std::tuple(-x.bytes, x.range.first, x.buffers[0]) < std::tuple(-y.bytes, y.range.first, y.buffers[0]);
  });
  return peak;
}

}  // namespace weftc
