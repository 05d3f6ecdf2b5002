// Reads what executables wrote with --trace (Chrome's trace format) into a timeline. Files come from outside,
// so every number is checked.
#include "cli/trace_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "cli/json_items.h"
#include "cli/process.h"

namespace weftc {

namespace {

constexpr int kMostRanks = 1 << 16, kMostStreams = 1 << 10, kMostIterations = 1 << 30;

/// One entry of "traceEvents".
struct Entry {
  std::string phase, name, category, nodes, transform, meant, block, pass;
  int rank = -1, stream = -1, iteration = -1, index = 0, micro_batch = 0;
  double begin = 0, length = -1, waited = 0;  // microseconds
};

/// Takes integers out of an event; why() is the first reason to refuse it.
class IntegerReader {
 public:
  explicit IntegerReader(const JsonItem& item) : item_(item) {}

  /// Unchanged if the entry has no such member.
  void take(const char* path, int least, int most, int& to) {
    const double value = item_.number(path, to);
    if (value >= least && value <= most && value == static_cast<int>(value))
      to = static_cast<int>(value);
    else if (item_.numbers.count(path) != 0)
      why_ = format("'{}' of this event is no integer from {} to {}", path, least, most);
  }
  const std::string& why() const { return why_; }

 private:
  const JsonItem& item_;
  std::string why_;
};

/// Gathers the events of all files; ranks must not repeat between files.
class TraceReader {
 public:
  explicit TraceReader(Diags& diags) : diags_(diags) {}

  bool read(const std::string& file);
  Trace finish();

 private:
  struct Run {
    TimelineBox box;
    int iteration;
    Trace::Turn turn;
  };

  std::string take(const JsonItem& item);
  std::string add(const Entry& entry);
  int lane(int rank, int stream);
  int step(const Entry& entry);
  int block(const Entry& entry);
  void order_lanes();
  void drop_outer();

  Diags& diags_;
  Timeline line_;
  std::vector<Run> runs_;
  std::map<std::pair<int, int>, int> lanes_;  // by rank and stream
  std::map<std::tuple<std::string, std::string, bool>, int> steps_;
  std::map<std::string, int> blocks_;  // by name
  std::vector<PictureBlock> all_blocks_;
  std::vector<std::string> files_;
  std::map<int, size_t> file_of_rank_;  // its number in files_
};

/// The lane of a stream of a rank, made on first sight.
int TraceReader::lane(int rank, int stream) {
  const auto [at, is_new] = lanes_.insert({{rank, stream}, static_cast<int>(line_.lanes.size())});
  if (is_new) line_.lanes.push_back({rank, format("stream {}", stream)});
  return at->second;
}

/// The step of that name, nodes and kind, made on first sight.
int TraceReader::step(const Entry& e) {
  const bool communicates = e.category == "communication";
  const auto [at, is_new] = steps_.insert({{e.name, e.nodes, communicates}, static_cast<int>(line_.steps.size())});
  if (is_new) line_.steps.push_back({e.name, "", e.nodes, e.transform, "", communicates, false, {}});
  return at->second;
}

/// The pass of that name.
std::optional<PicturePass> pass_named(const std::string& name) {
  for (const PicturePass pass : kPicturePasses)
    if (name_of(pass) == name) return pass;
  return {};
}

/// The block of that name, made on first sight; -1 if the entry has no block.
int TraceReader::block(const Entry& e) {
  if (e.block.empty()) return -1;
  const auto [at, is_new] = blocks_.insert({e.block, static_cast<int>(all_blocks_.size())});
  if (is_new) all_blocks_.push_back({e.block, *pass_named(e.pass)});
  return at->second;
}

/// Why the entry is refused, or "".
std::string TraceReader::take(const JsonItem& item) {
  Entry e;
  IntegerReader whole(item);
  whole.take("pid", 0, kMostRanks, e.rank);
  whole.take("tid", 0, kMostStreams, e.stream);
  whole.take("args.iteration", 0, kMostIterations, e.iteration);
  whole.take("args.index", std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), e.index);
  whole.take("args.micro_batch", 0, kMostIterations, e.micro_batch);
  if (!whole.why().empty()) return whole.why();
  e.phase = item.string("ph");
  e.name = item.string("name");
  e.category = item.string("cat");
  e.nodes = item.string("args.nodes");
  e.transform = item.string("args.transform");
  e.meant = item.string("args.name");
  e.block = item.string("args.block");
  e.pass = item.string("args.pass");
  e.begin = item.number("ts", 0);
  e.length = item.number("dur", -1);
  e.waited = item.number("args.waited", 0);
  return add(e);
}

std::string TraceReader::add(const Entry& e) {
  if (e.phase == "M" && e.name == "thread_name" && e.rank >= 0 && e.stream >= 0)
    line_.lanes[static_cast<size_t>(lane(e.rank, e.stream))].stream = e.meant;
  if (e.phase != "X") return "";
  if (e.rank < 0 || e.stream < 0 || e.length < 0) return "this event lacks one of 'pid', 'tid', 'dur'";
  if (e.category != "computation" && e.category != "communication")
    return "this event says neither that it is 'computation' nor that it is 'communication': its file is no --trace of "
           "this version";
  if (e.iteration < 0) return "this event lacks its 'iteration'";
  if (e.waited < 0 || e.waited > e.length) return "this event waited longer than it ran";
  if (!e.block.empty() && !pass_named(e.pass)) return "this event says no 'pass' of its 'block' that there is";
  const size_t before = file_of_rank_.insert({e.rank, files_.size()}).first->second;
  if (before != files_.size()) return format("rank {} is also in {}", e.rank, files_[before]);
  Run run;
  run.box.lane = lane(e.rank, e.stream);
  run.box.step = step(e);
  run.box.ready = e.begin * 1e-6;
  run.box.begin = (e.begin + e.waited) * 1e-6;
  run.box.end = (e.begin + e.length) * 1e-6;
  if (e.index != 0) run.box.at = format("index {}", e.index);
  run.iteration = e.iteration;
  run.turn = {block(e), e.micro_batch};
  runs_.push_back(std::move(run));
  return "";
}

bool TraceReader::read(const std::string& file) {
  const std::optional<std::string> text = read_file(file);
  if (!text) {
    diags_.error("trace-file", Loc::in_file(file), "the trace cannot be read");
    return false;
  }
  if (!read_json_list(
          file, *text, "traceEvents", [&](const JsonItem& item) { return take(item); }, diags_))
    return false;
  files_.push_back(file);
  return true;
}

/// In the order of ranks and their streams, not of the file.
void TraceReader::order_lanes() {
  std::vector<int> moved(line_.lanes.size());
  std::vector<TimelineLane> lanes;
  for (const auto& [key, lane] : lanes_) {
    moved[static_cast<size_t>(lane)] = static_cast<int>(lanes.size());
    lanes.push_back(line_.lanes[static_cast<size_t>(lane)]);
  }
  line_.lanes = std::move(lanes);
  for (Run& run : runs_) run.box.lane = moved[static_cast<size_t>(run.box.lane)];
}

/// Steps of one lane never overlap, unless one holds others: If, Loop.
void TraceReader::drop_outer() {
  std::stable_sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) {
    return std::tuple(a.box.lane, a.box.ready, -a.box.end) < std::tuple(b.box.lane, b.box.ready, -b.box.end);
  });
  const auto holds_next = [&](size_t i) {
    if (i + 1 == runs_.size()) return false;
    const TimelineBox &box = runs_[i].box, &next = runs_[i + 1].box;
    return box.lane == next.lane && next.ready < box.end && next.end <= box.end;
  };
  std::vector<Run> kept;
  for (size_t i = 0; i < runs_.size(); ++i)
    if (!holds_next(i)) kept.push_back(runs_[i]);
  runs_ = std::move(kept);
}

Trace TraceReader::finish() {
  order_lanes();
  drop_outer();
  Trace trace;
  double first = std::numeric_limits<double>::infinity();
  for (const Run& run : runs_) first = std::min(first, run.box.ready);
  for (Run& run : runs_) {
    TimelineBox& box = run.box;
    for (double* time : {&box.ready, &box.begin, &box.end}) *time -= first;
    Trace::Span& span = trace.iterations.insert({run.iteration, {box.ready, box.end}}).first->second;
    span = {std::min(span.begin, box.ready), std::max(span.end, box.end)};
    line_.seconds = std::max(line_.seconds, box.end);
    trace.of_box.push_back(run.iteration);
    trace.turns.push_back(run.turn);
    line_.boxes.push_back(std::move(box));
  }
  trace.all = std::move(line_);
  trace.blocks = std::move(all_blocks_);
  return trace;
}

}  // namespace

std::optional<Trace> read_traces(const std::vector<std::string>& files, Diags& diags) {
  TraceReader reader(diags);
  bool all = true;
  for (const std::string& file : files) all &= reader.read(file);
  if (!all) return {};
  Trace trace = reader.finish();
  if (trace.iterations.empty()) {
    diags.error("trace-empty", Loc::in_file(files[0]), "the trace holds no step");
    return {};
  }
  return trace;
}

int median_iteration(const Trace& trace) {
  std::vector<std::pair<double, int>> lengths;
  for (const auto& [number, span] : trace.iterations) lengths.push_back({span.end - span.begin, number});
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

Timeline iteration_of(const Trace& trace, int number) {
  const Trace::Span span = trace.iterations.at(number);
  Timeline one{trace.all.title, trace.all.source, trace.all.notes, trace.all.lanes, trace.all.steps, {}, 0};
  one.seconds = span.end - span.begin;
  for (size_t i = 0; i < trace.of_box.size(); ++i) {
    if (trace.of_box[i] != number) continue;
    TimelineBox box = trace.all.boxes[i];
    for (double* time : {&box.ready, &box.begin, &box.end}) *time -= span.begin;
    one.boxes.push_back(std::move(box));
  }
  return one;
}

}  // namespace weftc
