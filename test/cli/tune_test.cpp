// Tuning as arithmetic: times as text, what is worth a program, how sure a ratio is, what is kept for a later run.
#include <doctest/doctest.h>

#include <cstdio>

#include "cli/tune/budget.h"
#include "cli/tune/kernel_trials.h"
#include "cli/tune/program_trials.h"
#include "passes/plan/kernel_candidates.h"

namespace weftc {

TEST_CASE("a budget is a number with its unit") {
  CHECK(parse_duration("90s") == 90);
  CHECK(parse_duration("5m") == 300);
  CHECK(parse_duration("1.5h") == 5400);
  for (const char* text : {"", "s", "5", "0s", "-5s", "5 m", "5min", "m5", "1e3s", "nan", "1..5s", "5ms"})
    CHECK_FALSE(parse_duration(text));
}

TEST_CASE("durations as text") {
  CHECK(duration_text(0.4) == "1 s");
  CHECK(duration_text(119.5) == "120 s");
  CHECK(duration_text(121) == "3 min");
  CHECK(duration_text(9000) == "2.5 h");
}

TEST_CASE("what is left to do takes the sum of its programs") {
  const BuildTimes times{2, 0.5, 10};
  CHECK(estimated_seconds({3, 8, 0, 0}, times, 20) == 3 * 2 + 8 * 0.5);
  CHECK(estimated_seconds({0, 0, 2, 0.25}, times, 20) == 2 * (10 + 20 * 0.25));
}

TEST_CASE("a budget allows what leaves time for the rest") {
  CHECK(Budget(0).allows(1e9, 1e9, 1e9));
  CHECK(Budget(10).allows(3, 4, 3));
  CHECK_FALSE(Budget(10).allows(3, 4, 3.5));
}

TEST_CASE("the first trial stays, and of the others those that are predicted to take least") {
  std::vector<Trial> trials;
  for (const double predicted : {5.0, 9.0, 3.0, 7.0, 1.0}) {
    trials.push_back({std::to_string(static_cast<int>(predicted)), {}});
    trials.back().predicted = predicted;
  }
  keep_promising(trials, 3);
  REQUIRE(trials.size() == 3);
  CHECK(trials[0].what == "5");
  CHECK(trials[1].what == "1");
  CHECK(trials[2].what == "3");
}

TEST_CASE("the costliest kernels that together have a share of the time") {
  std::vector<KernelCandidates> kernels;
  for (const double seconds : {60.0, 30.0, 6.0, 4.0}) kernels.push_back({"k", seconds, {}, 0});
  CHECK(costliest(kernels, 0.5) == 1);
  CHECK(costliest(kernels, 0.9) == 2);
  CHECK(costliest(kernels, 0.95) == 3);
  CHECK(costliest(kernels, 1) == 4);
  CHECK(costliest({}, 0.95) == 0);
}

TEST_CASE("ratios are of the shortest launches of each part of the iterations") {
  std::vector<std::vector<double>> ms(3);
  for (int i = 0; i < 24; ++i) {
    const double disturbed = i % 4 == 0 ? 10 : 0;  // now and then others have the machine
    ms[0].push_back(2 + disturbed);
    ms[1].push_back(1 + 2 * disturbed);
    ms[2].push_back(i < 12 ? 1 : 4);
  }
  const std::vector<Interval> ratios = ratios_of(ms);
  CHECK(ratios[0].mean == doctest::Approx(1));
  CHECK(ratios[1].mean == doctest::Approx(0.5));
  CHECK(ratios[1].high < 0.51);
  CHECK(ratios[2].low < 0.9);
  CHECK(ratios[2].high > 1.1);
}

TEST_CASE("a strategy is taken where it gains more than the noise") {
  std::vector<KernelTrial> trials(1);
  trials.reserve(8);
  const auto fastest_with = [&](const Interval& ratio) {
    trials.push_back({{}, 1, ratio});
    return fastest_of(trials);
  };
  CHECK(fastest_with({0.9, 0.7, 1.1}) == nullptr);       // perhaps
  CHECK(fastest_with({0.99, 0.985, 0.995}) == nullptr);  // surely, but what is a percent
  CHECK(fastest_with({0.8, 0.75, 0.85}) == &trials[3]);
  CHECK(fastest_with({0.7, 0.68, 0.72}) == &trials[4]);
  CHECK(fastest_with({0.6, 0.3, 1.2}) == &trials[4]);
  trials.push_back({{}, NAN, {0.1, 0.1, 0.1}});
  CHECK(fastest_of(trials) == &trials[4]);  // not timed
}

TEST_CASE("records are found again, and damaged lines are no records") {
  const std::string path = "tune_test.trials";
  std::remove(path.c_str());
  {
    TrialRecords records(path);
    CHECK(records.known() == 0);
    CHECK(records.add("a", {1.5, {0.9, 0.8, 0.95}, true}, "a kernel\tof two lines\n"));
    CHECK(records.add("b", {2, {1.1, 1, 1.2}, false}, "b"));
  }
  std::FILE* file = std::fopen(path.c_str(), "a");
  std::fputs("c\t1\t1\nd\t1\tx\t1\t1\tfinal\td\ne\t1\t1", file);
  std::fclose(file);
  const TrialRecords records(path);
  CHECK(records.known() == 2);
  REQUIRE(records.find("a"));
  CHECK(records.find("a")->ratio.high == doctest::Approx(0.95));
  CHECK(records.find("a")->is_final);
  CHECK_FALSE(records.find("b")->is_final);
  CHECK_FALSE(records.find("c"));
  std::remove(path.c_str());
}

TEST_CASE("a key is of all that was measured with, in its order") {
  CHECK(trial_key({"machine", "a", "b"}) == trial_key({"machine", "a", "b"}));
  CHECK(trial_key({"machine", "a", "b"}) != trial_key({"machine", "b", "a"}));
  CHECK(trial_key({"machine", "a", "b"}) != trial_key({"machine", "ab"}));
  Options one, other;
  other.run_args = {"--threads", "1"};
  CHECK(machine_text(one) == machine_text(one));
  CHECK(machine_text(one) != machine_text(other));
  other = one, other.target.archs = {"x86-64-v4"};
  CHECK(machine_text(one) != machine_text(other));
}

}  // namespace weftc
