// For each longest period, by stages from the first cell on (Alpa's recurrence, with the time to receive added):
//
//   least[i][r] = the smallest least[j][q] + seconds of cells j .. i - 1 on r - q ranks + what they take to receive
#include "passes/pipelining/placed_stages.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace weftc {

namespace {

constexpr double kNearPeriods = 1.005;  // periods that are nearer to each other are one
constexpr double kNoSeconds = std::numeric_limits<double>::infinity();

class LinePlacer {
 public:
  explicit LinePlacer(const PlacedLine& line) : line_(line), cells_(line.cells()), unit_(line.ranks) {
    for (const PlaceChoice& choice : line.choices) {
      unit_ = std::gcd(unit_, choice.ranks);
      until_.push_back({0});
      bytes_until_.push_back({0});
      for (int i = 0; i < cells_; ++i) {
        until_.back().push_back(until_.back().back() + choice.seconds[as_size(i)]);
        bytes_until_.back().push_back(bytes_until_.back().back() + choice.bytes[as_size(i)]);
      }
    }
    units_ = line.ranks / unit_;
    measure_received();
  }

  std::vector<PlacedStages> run() {
    std::vector<PlacedStages> found;
    for (double most = kNoSeconds; place(most); most = found.back().period / kNearPeriods) {
      found.push_back(measured(stages()));
      if (found.back().period == 0) break;
    }
    return found;
  }

 private:
  /// The last stage of the best ones up to a cell and a rank.
  struct Last {
    double seconds = kNoSeconds;
    int begin = 0;
    size_t choice = 0;
  };

  static size_t as_size(int i) { return static_cast<size_t>(i); }
  Last& last(int cell, int units) { return last_[as_size(cell) * as_size(units_ + 1) + as_size(units)]; }
  int units_of(size_t choice) const { return line_.choices[choice].ranks / unit_; }
  double seconds(size_t choice, int begin, int end) const {
    return until_[choice][as_size(end)] - until_[choice][as_size(begin)];
  }
  bool fits(size_t choice, int begin, int end) const {
    return line_.memory == 0 ||
           bytes_until_[choice][as_size(end)] - bytes_until_[choice][as_size(begin)] <= line_.memory;
  }

  /// For each stretch of cells: the bytes that it reads from other cells.
  void measure_received() {
    std::vector<std::vector<size_t>> made(as_size(cells_)), read(as_size(cells_));  // by cell: values
    for (size_t v = 0; v < line_.values.size(); ++v) {
      made[as_size(line_.values[v].from)].push_back(v);
      for (const int to : line_.values[v].to) read[as_size(to)].push_back(v);
    }
    received_.assign(as_size(cells_), std::vector<int64_t>(as_size(cells_) + 1, 0));
    for (int begin = 0; begin < cells_; ++begin) {
      std::vector<int64_t> counted(line_.values.size(), 0);  // bytes of the values that the stretch reads but does not
                                                             // make
      for (int end = begin + 1; end <= cells_; ++end) {
        int64_t& all = received_[as_size(begin)][as_size(end)];
        all = received_[as_size(begin)][as_size(end) - 1];
        for (const size_t v : made[as_size(end) - 1]) all -= std::exchange(counted[v], 0);
        for (const size_t v : read[as_size(end) - 1]) {
          const CellValue& value = line_.values[v];
          if (counted[v] > 0 || (begin <= value.from && value.from < end)) continue;
          all += counted[v] = value.bytes;
        }
      }
    }
  }

  /// Over the slower one of the links at the ends of the place.
  double receiving(int begin, int end, int first, int next) const {
    const double before = first > 0 ? line_.link[as_size(first)] : 0;
    const double after = next < line_.ranks ? line_.link[as_size(next)] : 0;
    return static_cast<double>(received_[as_size(begin)][as_size(end)]) * std::max(before, after);
  }

  /// Finds the stages for a longest period. False where no stages fit it.
  bool place(double most) {
    last_.assign(as_size(cells_ + 1) * as_size(units_ + 1), {});
    last(0, 0).seconds = 0;
    for (int end = 1; end <= cells_; ++end)
      for (int begin = end - 1; begin >= 0; --begin) {
        bool is_short = false;  // else a longer stretch is not either
        for (size_t c = 0; c < line_.choices.size(); ++c) {
          if (seconds(c, begin, end) > most) continue;
          is_short = true;
          if (fits(c, begin, end)) extend(begin, end, c, most);
        }
        if (!is_short) break;
      }
    return last(cells_, units_).seconds < kNoSeconds;
  }

  void extend(int begin, int end, size_t choice, double most) {
    const int units = units_of(choice);
    for (int before = 0; before + units <= units_; ++before) {
      const double so_far = last(begin, before).seconds;
      if (so_far == kNoSeconds) continue;
      const double received = receiving(begin, end, before * unit_, (before + units) * unit_);
      if (received > most) continue;
      const double all = so_far + seconds(choice, begin, end) + received;
      if (Last& best = last(end, before + units); all < best.seconds) best = {all, begin, choice};
    }
  }

  std::vector<PlacedStage> stages() {
    std::vector<PlacedStage> found;
    for (int end = cells_, units = units_; end > 0;) {
      const Last& stage = last(end, units);
      found.push_back({stage.begin, end, line_.choices[stage.choice].ranks});
      units -= units_of(stage.choice);
      end = stage.begin;
    }
    std::ranges::reverse(found);
    return found;
  }

  size_t choice_of(int ranks) const {
    const auto found = std::ranges::find(line_.choices, ranks, &PlaceChoice::ranks);
    return static_cast<size_t>(found - line_.choices.begin());
  }

  /// Stages of branches run at the same time: a stage begins when the stages that it reads have ended.
  PlacedStages measured(std::vector<PlacedStage> stages) const {
    PlacedStages made{std::move(stages)};
    std::vector<double> ends;
    int first = 0;
    for (const PlacedStage& stage : made.stages) {
      const double computing = seconds(choice_of(stage.ranks), stage.begin, stage.end);
      const double received = receiving(stage.begin, stage.end, first, first + stage.ranks);
      double begin = 0;
      for (size_t s = 0; s < ends.size(); ++s)
        if (reads(stage, made.stages[s])) begin = std::max(begin, ends[s]);
      ends.push_back(begin + received + computing);
      made.fill = std::max(made.fill, ends.back());
      made.period = std::max({made.period, computing, received});
      first += stage.ranks;
    }
    return made;
  }

  bool reads(const PlacedStage& stage, const PlacedStage& of) const {
    const auto is_in = [](int cell, const PlacedStage& where) { return where.begin <= cell && cell < where.end; };
    return std::ranges::any_of(line_.values, [&](const CellValue& value) {
      return is_in(value.from, of) && std::ranges::any_of(value.to, [&](int to) { return is_in(to, stage); });
    });
  }

  const PlacedLine& line_;
  const int cells_;
  int unit_, units_ = 0;                    // ranks that a place has a multiple of, and how many of these there are
  std::vector<std::vector<double>> until_;  // by choice: of all earlier cells
  std::vector<std::vector<int64_t>> bytes_until_;
  std::vector<std::vector<int64_t>> received_;  // by the first cell and the end of the stretch
  std::vector<Last> last_;
};

}  // namespace

bool PlacedStages::are_even() const {
  return std::ranges::all_of(stages, [&](const PlacedStage& stage) { return stage.ranks == stages.front().ranks; });
}

std::vector<PlacedStages> place_stages(const PlacedLine& line) {
  if (line.choices.empty()) return {};
  return LinePlacer(line).run();
}

std::vector<PlacedStages> place_even_stages(const PlacedLine& line) {
  std::vector<PlacedStages> found;
  for (const PlaceChoice& choice : line.choices) {
    if (line.ranks % choice.ranks != 0) continue;
    PlacedLine even = line;
    even.choices = {choice};
    for (PlacedStages& stages : place_stages(even)) found.push_back(std::move(stages));
  }
  return found;
}

}  // namespace weftc
