// What a run prints and writes beside its tensors: latency, --json, --info, the trace.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "rank_base.h"

namespace weft {

struct RunReport {
  int threads = 1;
  std::vector<double> latency_ms = {};                             // of the measured invocations, as rank 0 saw them
  std::vector<double> computation_ms = {}, communication_ms = {};  // --overlap: alone
  int64_t peak_bytes = 0;                                          // of the largest rank
  int64_t device_bytes = 0;                                        // the same on its device
  int64_t received_bytes = 0;  // from peers in one invocation, through shared memory: of the rank with the most
};

std::string info_json(const Executable& executable, std::string_view manifest);
/// What --overlap measured, as a line; empty without it.
std::string overlap_text(const RunReport& report);
/// To standard output, which may be a full disk.
void print_text(const std::string& text);
/// "512 bytes", "12.3 KiB".
std::string size_text(int64_t bytes);
void print_report(const Executable& executable, const Options& options, const RunReport& report);

/// All ranks: each writes its events beside FILE, rank 0 joins them.
void write_trace(RankBase& rank, const std::string& file);

}  // namespace weft
