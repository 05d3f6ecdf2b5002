// Finds the rank that all others wait for: the one that itself waits for no other rank.
#include "whereabouts.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "manifest.h"

namespace weft {

/// The letter of the process's state: 'T' if a signal has stopped it, 't' if a debugger has.
static char state_of(const World& world, int rank) {
  const int pid = world.rank(rank).pid.load();
  if (world.relay != nullptr || pid <= 0) return '?';
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(text("/proc/%d/stat", pid).c_str(), "r"), fclose);
  char line[512] = {};
  if (file == nullptr || fgets(line, sizeof line, file.get()) == nullptr) return '?';
  const char* name_end = strrchr(line, ')');  // "PID (NAME) STATE ..."
  return name_end == nullptr || strlen(name_end) < 3 ? '?' : name_end[2];
}

bool is_stopped(const World& world, int rank) { return state_of(world, rank) == 'T'; }

namespace {

/// Then it can say nothing for itself.
bool is_held(const World& world, int rank) {
  const char state = state_of(world, rank);
  return state == 'T' || state == 't';
}

std::string silence_of(const World& world, int rank) {
  const int pid = world.rank(rank).pid.load();
  return text("rank %d is silent: its process %d is stopped (kill -CONT %d)", rank, pid, pid);
}

/// The stream that best describes the rank's position; -1: no stream has begun.
int telling_stream(const World& world, int rank) {
  constexpr Awaited kMostTelling[] = {Awaited::Nothing, Awaited::OtherRanks, Awaited::OwnRank};
  for (const Awaited awaited : kMostTelling)
    for (int s = 0; s < world.shape.streams; ++s)
      if (!world.status(rank, s).empty() && world.awaited(rank, s) == awaited) return s;
  return -1;
}

bool waits_for_nothing(const World& world, int rank) {
  const int stream = telling_stream(world, rank);
  return stream >= 0 && world.awaited(rank, stream) == Awaited::Nothing;
}

/// Those that hold up others first.
std::vector<int> ranks_in_order(const World& world) {
  std::vector<int> order;
  const auto add = [&](bool stopped, bool waiting) {
    for (int r = 0; r < world.shape.ranks; ++r)
      if (is_held(world, r) == stopped && (stopped || waits_for_nothing(world, r) != waiting)) order.push_back(r);
  };
  add(true, false), add(false, false), add(false, true);
  return order;
}

}  // namespace

std::string whereabouts(const World& world, int rank) {
  const int stream = telling_stream(world, rank);
  if (stream < 0) return "at its start";
  const std::string status = world.status(rank, stream);
  const char* before = status.starts_with(kAfter) ? "" : status == kEnd ? "at the " : "in ";
  return before + with_facts(world.manifest, status);
}

std::string who_holds_up(const World& world) {
  const int first = ranks_in_order(world).front();
  if (is_held(world, first)) return silence_of(world, first) + " " + whereabouts(world, first);
  if (!waits_for_nothing(world, first) || world.shape.ranks == 1) return "";
  return text("rank %d waits for no other, and is still %s", first, whereabouts(world, first).c_str());
}

std::string describe_streams(const World& world, const Program& program) {
  std::string out;
  for (const int r : ranks_in_order(world)) {
    if (is_held(world, r)) out += "\n  " + silence_of(world, r);
    for (int s = 0; s < world.shape.streams; ++s) {
      const std::string status = world.status(r, s);
      if (status.empty()) continue;
      const char* name = s < int(program.streams.size()) ? program.streams[size_t(s)].name : "another stream";
      out += text("\n  rank %d, %s: %s", r, name, with_facts(world.manifest, status).c_str());
    }
  }
  return out;
}

}  // namespace weft
