// The output of a run other than tensors: latency, --json, --info, the trace.
#pragma once
#include <string>
#include <string_view>

#include "level.h"
#include "options.h"
#include "rank_base.h"
#include "run_report.h"

namespace weft {

std::string info_json(const Executable& executable, const LevelChoice& level, std::string_view manifest);
/// The measurements of --overlap, as a line; empty without it.
std::string overlap_text(const RunReport& report);
/// Writes to standard output, which may be a full disk.
void print_text(const std::string& text);
/// "512 bytes", "12.3 KiB".
std::string size_text(int64_t bytes);
void print_report(const Executable& executable, const Options& options, const RunReport& report);

/// All ranks: each writes its events beside FILE, rank 0 joins them.
void write_trace(RankBase& rank, const std::string& file);

}  // namespace weft
