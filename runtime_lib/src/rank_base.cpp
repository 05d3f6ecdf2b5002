// The part of ranks that all targets share: their barrier, and reports of failures.
#include "rank_base.h"

#include <unistd.h>

#include <cstdio>

#include "manifest.h"
#include "nearest.h"
#include "ports.h"
#include "relay.h"
#include "step_text.h"
#include "wait.h"
#include "whereabouts.h"

namespace weft {

RankBase::RankBase(const Executable& e, const Program& p, World& w, int r, const char* i, std::string_view m,
                   const RankOptions& o)
    : executable(e),
      widest(p),
      world(w),
      rank(r),
      image(i),
      manifest(m),
      options(o),
      variant(&e),
      program(p),
      file_sums(w, r, o.check_files) {
  if (!e.variants.empty()) select(0);
}

void RankBase::select(size_t number) {
  if (executable.variants.empty() || variant == executable.variants[number].executable) return;
  variant_number = number;
  variant = executable.variants[number].executable;
  program = program_of(*variant, rank);
  lengths.clear();  // those in memory have the last variant's layout
}

/// The ranks that have entered fewer barriers of all ranks than this one; empty if unknown.
static std::string missing_ranks(const World& world, int rank) {
  const uint32_t mine = world.rank(rank).arrivals.load();
  std::string out;
  for (int r = 0; r < world.shape.ranks; ++r)
    if (world.relay == nullptr && world.rank(r).arrivals.load() != mine)
      out += (out.empty() ? "rank " : ", rank ") + std::to_string(r);
  return out;
}

void RankBase::barrier() const {
  constexpr double kPatience = 1;  // a rank that waits inside a step knows better what is missing: let it speak first
  world.rank(rank).arrivals.fetch_add(1);
  world.set_awaited(rank, 0, Awaited::OtherRanks);
  if (world.barrier(options.timeout + kPatience)) return world.set_awaited(rank, 0, Awaited::Nothing);
  const std::string missing = missing_ranks(world, rank);
  time_out(nullptr, (missing.empty() ? "the other ranks" : missing) + " at the end of the iteration");
}

void RankBase::meet_with_files() {
  barrier();
  if (!file_sums.has_new()) return;
  file_sums.check();
  barrier();
}

void RankBase::await_others() const {
  constexpr int64_t kBetweenLooks = 1'000'000'000;
  int64_t looked = now_ns();
  bool is_held_up = false;
  const auto is_rank_0_stopped = [&] {
    if (now_ns() - looked < kBetweenLooks) return is_held_up;
    looked = now_ns();
    return is_held_up = is_stopped(world, 0);
  };
  world.rank(rank).arrivals.fetch_add(1);
  world.set_awaited(rank, 0, Awaited::OtherRanks);
  if (!world.barrier(options.timeout, is_rank_0_stopped)) time_out(nullptr, "rank 0, which takes the requests");
  world.set_awaited(rank, 0, Awaited::Nothing);
}

void RankBase::end_walk(int stream) const {
  world.set_status(rank, stream, kEnd.data(), 0);
  world.set_awaited(rank, stream, Awaited::OwnRank);
}

void RankBase::complain(const std::string& what) const {
  if (options.complaint == nullptr) fail(kWrongInput, "%s", what.c_str());
  const std::lock_guard lock(complaint_mutex_);
  if (*options.complaint == '\0') snprintf(options.complaint, kComplaintBytes, "%s", what.c_str());
}

void report_failure(const char* name, const World& world, int rank, const Failure& failure) {
  if (failure.text.empty() || !world.note_failure(rank, failure.code)) return;
  const std::string what = failure.text + (failure.gone < 0 ? "" : " " + whereabouts(world, failure.gone));
  if (world.shape.ranks == 1 || failure.names_rank || failure.gone >= 0)
    fprintf(stderr, "%s: error: %s\n", name, what.c_str());
  else
    fprintf(stderr, "%s: rank %d: error: %s\n", name, rank, what.c_str());
  fflush(stderr);
  // Only then: a rank on another machine ends the whole job as soon as it hears of this.
  if (world.relay != nullptr) world.relay->tell_failure(rank, failure.code, what);
}

void RankBase::time_out(const Step* step, const std::string& awaited) const {
  std::string where = "outside of steps";
  if (step != nullptr) {
    where = text("step %s (%s", name_of(*step).c_str(), nodes_of(*step).c_str());
    if (*step->transform != '\0') where += text("; %s", transform_of(*step).c_str());
    const std::string line = schedule_line(manifest, name_of(*step));
    if (!line.empty()) where += text("; %s", line.c_str());
    where += ")";
  }
  std::string report = text("%s: waited %g s for %s; ranks are in:%s", where.c_str(), options.timeout, awaited.c_str(),
                            describe_streams(world, program).c_str());
  const std::string culprit = who_holds_up(world);
  if (culprit.empty()) throw Failure{kTimedOut, report};
  constexpr bool kNamesRank = true;
  throw Failure{kTimedOut, text("%s; rank %d, %s", culprit.c_str(), rank, report.c_str()), -1, kNamesRank};
}

void RankBase::stall_in(const Step& step) const {
  // If nobody waits for this step, the rank ends itself.
  const int64_t end = now_ns() + int64_t((2 * options.timeout + 5) * 1e9);
  while (!world.has_failed() && now_ns() < end) usleep(10'000);
  if (!world.has_failed()) fail(kTimedOut, "step %s was stalled, and nothing waited for it", name_of(step).c_str());
  throw Failure{world.failure(), ""};
}

void RankBase::no_such_step(const std::set<std::string>& names) const {
  const std::vector<std::string> list(names.begin(), names.end());
  fail(kUsage, "--stall %d:%s: this rank has no such step%s; there are: %s", rank, options.stall.c_str(),
       did_you_mean(options.stall, list).c_str(), list_text(list).c_str());
}

}  // namespace weft
