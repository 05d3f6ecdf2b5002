// The implementation of a rank of weft/host.h: its memory, its streams and their threads.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "finite_check.h"
#include "mapping.h"
#include "messages.h"
#include "rank_base.h"
#include "weft/host.h"

namespace weft {

/// One stream's position in the program.
struct Walk {
  /// For --trace: the open step communicates.
  void note_exchange() {
    if (!steps.empty()) steps.back().communicates = true;
  }

  std::unique_ptr<Team> team;
  std::unique_ptr<Messages> messages;  // if ranks share no memory
  std::vector<uint32_t> ticks;         // barriers entered with each rank
  std::vector<Event> steps;            // entered and not yet left, outer first
  std::vector<Event> trace;
  std::set<std::string> names;  // of the steps that have run, kept if one of them is to stall
  std::vector<char> scratch;    // for a small reduction in place
  LinkClock clock;
  std::unique_ptr<FiniteCheck> finite_check;  // with --check-nan
};

struct RankState final : RankBase {
  RankState(const Executable& executable, const Program& program, World& world, int rank, const char* image,
            std::string_view manifest, const RankOptions& options);
  ~RankState() override;

  void iterate() override;
  void poison(const std::vector<Range>& keep) override;
  char* at(const Range& range) const override;
  /// Throws if the step of --stall has not run.
  void check_stalled() const override;
  const std::vector<Event>& trace(int stream) const override { return walks[size_t(stream)].trace; }
  void clear_trace() override;
  int64_t received_bytes() const override { return link.received_bytes; }
  Oddity first_infinity() const override;
  [[noreturn]] void time_out(int stream, const std::string& awaited) const;

  const Mapping memory;
  char* const own;         // of `memory`
  Network* const network;  // nullptr: the ranks share their memory
  Link link;
  std::vector<Walk> walks;  // one a stream

 private:
  void walk(int stream);
  void guarded_walk(int stream);
  void serve(int stream);
  void rethrow();
  void end_threads();
  [[noreturn]] void leave(int code) const;

  std::vector<std::thread> threads_;  // of all streams but the first
  Word started_{0}, done_{0}, sleepers_{0};
  bool stop_ = false;
  std::mutex failure_mutex_;
  std::vector<Failure> failures_;
};

}  // namespace weft
