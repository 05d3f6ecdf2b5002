// Texts of a run: the latency table and its JSON, --info, what --overlap measured, and the trace in the JSON
// format that chrome://tracing and Perfetto read.
#include "report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "generation_report.h"
#include "latency.h"
#include "manifest.h"
#include "output_file.h"
#include "ports.h"
#include "relay.h"
#include "step_text.h"

namespace weft {

namespace {

std::string list_json(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

std::string group_text(const Group& group) {
  std::string out;
  for (int a = 0; a < group.naxes; ++a) out += (a > 0 ? "*" : "") + std::string(group.axes[a].name);
  return out;
}

std::string port_json(const Port& port) {
  std::string layout, bounds;
  for (const Slice& s : port.layout.slices)
    layout += text("%s{\"axis\": %s, \"dim\": %d, \"block\": %ld}", layout.empty() ? "" : ", ",
                   json_string(group_text(s.group)).c_str(), s.dim, long(s.block));
  for (const Bound& bound : port.layout.bounds) bounds += (bounds.empty() ? "" : ", ") + std::to_string(bound.dim);
  return text("{\"name\": %s, \"dtype\": \"%s\", \"shape\": %s, \"slices\": [%s], \"bounded_dims\": [%s]}",
              json_string(port.name).c_str(), dtype_name(port.dtype), list_json(file_shape(port)).c_str(),
              layout.c_str(), bounds.c_str());
}

std::string ports_json(const Executable& executable, std::span<const Port> Program::*ports) {
  std::string out;
  for (const Port* port : distinct_ports(executable, ports)) out += (out.empty() ? "\n  " : ",\n  ") + port_json(*port);
  return "[" + out + "]";
}

/// The dims of each variant; empty without variants.
std::string variants_json(const Executable& executable) {
  std::string out;
  for (const Variant& variant : executable.variants) {
    std::string dims;
    for (const DimValue& dim : variant.dims)
      dims += text("%s{\"name\": %s, \"%s\": %ld}", dims.empty() ? "" : ", ", json_string(dim.name).c_str(),
                   dim.is_bound ? "bound" : "length", long(dim.value));
    out += text("%s{\"name\": %s, \"dims\": [%s],\n  \"inputs\": ", out.empty() ? "\n  " : ",\n  ",
                json_string(variant.name).c_str(), dims.c_str()) +
           ports_json(*variant.executable, &Program::inputs) +
           ",\n  \"outputs\": " + ports_json(*variant.executable, &Program::outputs) + "}";
  }
  return out.empty() ? "" : " \"variants\": [" + out + "],\n";
}

/// The sizes of the rank that needs most of each kind.
std::string memory_json(const Executable& executable) {
  int64_t own = 0, window = 0, weights = 0;
  for (const Program& program : executable.programs) {
    own = std::max(own, program.own_bytes);
    window = std::max(window, program.window_bytes);
    weights = std::max(weights, program.image_bytes());
  }
  return text(" \"memory_bytes\": {\"own\": %ld, \"window\": %ld, \"weights\": %ld},\n", long(own), long(window),
              long(weights));
}

}  // namespace

/// The level whose kernels would run, and those that there are.
static std::string level_json(const LevelChoice& level) {
  std::string names;
  for (const LevelProgram& program : level.programs)
    names += text("%s\"%s\"", names.empty() ? "" : ", ", level_name(program.level));
  return text(" \"arch\": \"%s\",\n \"archs\": [%s],\n", level_name(level.chosen.level), names.c_str()) +
         (has_bfloat_products(level.chosen) ? " \"bf16_products\": true,\n" : "");
}

std::string info_json(const Executable& executable, const LevelChoice& level, std::string_view manifest) {
  std::string axes, states;
  for (const Axis& a : executable.axes)
    axes += text("%s{\"name\": %s, \"size\": %d}", axes.empty() ? "" : ", ", json_string(a.name).c_str(), a.size);
  for (const State& s : executable.states)
    states += text("%s{\"input\": %s, \"output\": %s}", states.empty() ? "" : ", ", json_string(s.input).c_str(),
                   json_string(s.output).c_str());
  return text("{\n \"name\": %s,\n \"ranks\": %d,\n \"mesh\": [%s],\n", json_string(executable.name).c_str(),
              executable.world, axes.c_str()) +
         " \"inputs\": " + ports_json(executable, &Program::inputs) +
         ",\n \"outputs\": " + ports_json(executable, &Program::outputs) + ",\n \"states\": [" + states + "],\n" +
         level_json(level) + variants_json(executable) + generation_info(executable) + memory_json(executable) +
         " \"manifest\": " + (manifest.empty() ? "null" : std::string(manifest)) + "\n}\n";
}

static void flush_output() {
  if (fflush(stdout) != 0 || ferror(stdout) != 0)
    fail(kEnvironment, "cannot write to standard output: %s", strerror(errno));
}

void print_text(const std::string& text) {
  fputs(text.c_str(), stdout);
  flush_output();
}

namespace {
/// Medians over the rounds, and the fraction of the shorter time that the other hides.
struct Overlap {
  double computation, communication, hidden;
  double low, high;  // the range of the middle half of the rounds
  /// Whether the rounds agree, and the value is a fraction: then it stands out from the machine's noise.
  bool is_measurable() const { return high - low <= 1 && hidden >= -1 && hidden <= 1.5; }
};

Overlap overlap_of(const RunReport& report) {
  Overlap out{};
  out.computation = latency_of(report.computation_ms).median;
  out.communication = latency_of(report.communication_ms).median;
  const double shorter = std::min(out.computation, out.communication);
  std::vector<double> rounds;
  for (size_t i = 0; i < report.latency_ms.size(); ++i)
    rounds.push_back((report.computation_ms[i] + report.communication_ms[i] - report.latency_ms[i]) / shorter);
  std::sort(rounds.begin(), rounds.end());
  const size_t edge = rounds.size() / 4;
  out.low = rounds[edge], out.high = rounds[rounds.size() - 1 - edge];
  out.hidden = (out.computation + out.communication - latency_of(report.latency_ms).median) / shorter;
  return out;
}

std::string received_json(const RunReport& report) {
  return report.received_bytes == 0 ? "" : text(", \"received_bytes\": %ld", long(report.received_bytes));
}

std::string overlap_json(const RunReport& report) {
  if (report.computation_ms.empty()) return "";
  const Overlap o = overlap_of(report);
  const std::string hidden = o.is_measurable() ? text("%.4g", o.hidden) : "null";
  return text(
      ", \"overlap\": {\"computation_ms\": %.6g, \"communication_ms\": %.6g, \"hidden\": %s, \"hidden_low\": "
      "%.4g, \"hidden_high\": %.4g}",
      o.computation, o.communication, hidden.c_str(), o.low, o.high);
}

}  // namespace

std::string overlap_text(const RunReport& report) {
  if (report.computation_ms.empty()) return "";
  const Overlap o = overlap_of(report);
  const std::string hidden = o.is_measurable() ? text("%.0f %% of the shorter", 100 * o.hidden) : "not measurable";
  return text("alone: computation %.3f ms, communication %.3f ms; hidden: %s (half of the rounds: %.0f to %.0f %%)\n",
              o.computation, o.communication, hidden.c_str(), 100 * o.low, 100 * o.high);
}

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return text(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

/// The latency of invocations, or of the tokens of a generation.
static std::string latency_json(const std::vector<double>& ms) {
  if (ms.empty()) return "null";
  const Latency l = latency_of(ms);
  return text("{\"median\": %.6g, \"mean\": %.6g, \"min\": %.6g, \"max\": %.6g, \"p90\": %.6g, \"p99\": %.6g}",
              l.median, l.mean, l.min, l.max, l.p90, l.p99);
}

static std::string variant_json(const RunReport& report) {
  return report.variant == nullptr ? "" : text(", \"variant\": %s", json_string(report.variant).c_str());
}

static void print_json(const Executable& executable, const Options& options, const RunReport& report) {
  const std::string device =
      report.device_bytes > 0 ? text(", \"device_memory_bytes\": %ld", long(report.device_bytes)) : "";
  printf(
      "{\"name\": %s, \"ranks\": %d, \"threads\": %d, \"iterations\": %d, \"warmup\": %d, "
      "\"latency_ms\": %s, \"peak_memory_bytes\": %ld%s%s%s%s%s}\n",
      json_string(executable.name).c_str(), executable.world, report.threads, options.iterations, options.warmup,
      latency_json(report.latency_ms).c_str(), long(report.peak_bytes), device.c_str(), received_json(report).c_str(),
      overlap_json(report).c_str(), variant_json(report).c_str(), generation_json(report).c_str());
}

void print_report(const Executable& executable, const Options& options, const RunReport& report) {
  if (options.json) {
    print_json(executable, options, report);
    return flush_output();
  }
  fputs(generation_text(report).c_str(), stdout);
  if (options.is_timed) {
    printf("%s: %d ranks, %d threads each, %d iterations\n", executable.name, executable.world, report.threads,
           options.iterations);
    if (!report.latency_ms.empty()) {
      const Latency l = latency_of(report.latency_ms);
      printf("%-10s %10s %10s %10s %10s %10s %10s\n", "", "median", "mean", "min", "max", "p90", "p99");
      printf("%-10s %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f\n", "latency ms", l.median, l.mean, l.min, l.max, l.p90,
             l.p99);
    }
    if (report.received_bytes > 0)
      printf("received by a rank: %s an iteration\n", size_text(report.received_bytes).c_str());
    fputs(overlap_text(report).c_str(), stdout);
    printf("peak memory of a rank: %s\n", size_text(report.peak_bytes).c_str());
    if (report.device_bytes > 0) printf("memory of a rank on its device: %s\n", size_text(report.device_bytes).c_str());
  }
  flush_output();
}

/// The run of a pipeline's block to which a step belongs; empty without a pipeline.
static std::string block_fields(const BlockRun& run) {
  if (run.block == nullptr) return "";
  static constexpr const char* kPasses[] = {"forward", "backward", "weight", "once"};
  return text(", \"block\": %s, \"pass\": \"%s\", \"micro_batch\": %d", json_string(run.block).c_str(),
              kPasses[size_t(run.pass)], run.micro_batch);
}

/// An event of the trace. Steps on streams other than the computing one are communication, and so are steps that
/// exchanged data with other ranks.
static std::string event_json(int rank, int stream, bool computes, const Event& e, int64_t offset_ns) {
  return text(
      "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"cat\": \"%s\", \"name\": %s, \"args\": "
      "{\"nodes\": %s, \"transform\": %s, \"index\": %ld, \"iteration\": %u, \"waited\": %.3f%s}}",
      rank, stream, double(e.begin_ns + offset_ns) / 1e3, double(e.end_ns - e.begin_ns) / 1e3,
      computes && !e.communicates ? "computation" : "communication", json_string(name_of(e.step)).c_str(),
      json_string(nodes_of(e.step)).c_str(), json_string(transform_of(e.step)).c_str(), long(e.index), e.invocation,
      double(e.waited_ns) / 1e3, block_fields(e.block).c_str());
}

static std::string part_name(const std::string& file, int rank) { return file + ".rank" + std::to_string(rank); }

/// The events of this rank, with times on rank 0's clock.
static std::string events_text(const RankBase& rank) {
  const int64_t offset_ns = rank.world.relay == nullptr ? 0 : rank.world.relay->clock_offset();
  std::string out = text("{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", \"args\": {\"name\": \"rank %d\"}}",
                         rank.rank, rank.rank);
  for (size_t s = 0; s < rank.widest.streams.size(); ++s) {
    out += text(",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %zu, \"name\": \"thread_name\", \"args\": {\"name\": %s}}",
                rank.rank, s, json_string(rank.widest.streams[s].name).c_str());
    for (const Event& event : rank.trace(int(s)))
      out += ",\n" + event_json(rank.rank, int(s), rank.widest.streams[s].parallel, event, offset_ns);
  }
  return out;
}

/// The events of a rank in a file beside FILE, from which rank 0 reads them. The file exists as long as this
/// object.
class EventsFile {
 public:
  EventsFile(const RankBase& rank, const std::string& file) : name_(part_name(file, rank.rank)) {
    OutputFile out(name_);
    out.write(events_text(rank));
    out.finish();
  }
  ~EventsFile() { unlink(name_.c_str()); }
  EventsFile(const EventsFile&) = delete;
  EventsFile& operator=(const EventsFile&) = delete;

 private:
  const std::string name_;
};

static void append_file(OutputFile& out, const std::string& file) {
  const std::unique_ptr<FILE, int (*)(FILE*)> in(fopen(file.c_str(), "r"), fclose);
  if (in == nullptr) fail(kEnvironment, "cannot read %s: %s", file.c_str(), strerror(errno));
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, in.get())) > 0;) out.write({block, n});
}

/// Joins the events of all ranks, from files beside FILE or from the messages of ranks on other machines.
static void join_events(const RankBase& rank, const std::string& file) {
  std::map<int, std::vector<char>> sent;
  if (rank.world.relay != nullptr)
    for (Delivery& part : rank.world.relay->take_deliveries()) sent[part.from] = std::move(part.bytes);
  OutputFile out(file);
  out.write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  for (int r = 0; r < rank.world.shape.ranks; ++r) {
    if (r > 0) out.write(",\n");
    if (const auto part = sent.find(r); part != sent.end())
      out.write({part->second.data(), part->second.size()});
    else
      append_file(out, part_name(file, r));
  }
  out.write("\n]}\n");
  out.finish();
}

void write_trace(RankBase& rank, const std::string& file) {
  std::optional<EventsFile> mine;
  if (rank.world.relay != nullptr && rank.rank != 0) {
    const std::string events = events_text(rank);
    rank.world.relay->deliver({events.begin(), events.end()});
  } else {
    mine.emplace(rank, file);
  }
  rank.barrier();
  if (rank.rank == 0) join_events(rank, file);
  rank.barrier();
}

}  // namespace weft
