// What a plan was chosen from, as plain figures: what the page of `weft plan --page` draws.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/layout.h"

namespace weftc {

/// A time in its parts, of a rank in the mean.
struct TimeParts {
  double computing = 0;   // and nothing else
  double both = 0;        // at once
  double exchanging = 0;  // and nothing else
  double idle = 0;

  double seconds() const { return computing + both + exchanging + idle; }
};

/// Collectives of one kind, or messages, on one rank.
struct ExchangeRow {
  std::string what;              // "AllReduce over tp"
  int64_t count = 0, bytes = 0;  // that the rank sends or, of messages, gets
  double seconds = 0;
};

/// The plan, or another way to run the model.
struct PlanWay {
  std::string name;                    // as the table of plans has it, or as people call it: "FSDP"
  bool is_known = false;               // one that people know, and not of the search
  bool is_bound = false;               // its time is at least the one that is given, and nothing else is known
  std::optional<TimeParts> time = {};  // nothing where there is no program
  int64_t memory = 0;                  // bytes of a rank
  std::string refused = {};            // why it cannot run
  std::vector<ExchangeRow> exchanges = {};
};

/// A line of the schedule.
struct PlanEntryRow {
  std::string line;                // as the schedule has it
  int64_t values = 0;              // that it is about
  std::string type, layout;        // of the first one
  int64_t whole = 0, of_rank = 0;  // bytes of all
  std::string saves;
};

/// The search on one mesh.
struct SearchRow {
  std::string mesh;
  std::string outcome;  // "42.1 ms", "at least 43.0 ms: left out", "no layouts fit"
  int64_t ops = 0, classes = 0;
  // Ops by the number of ways to compute them, before and behind reduction.
  std::map<int, int64_t> ways = {}, ways_left = {};
  double bound = 0, gap = 0, seconds = 0;  // gap: a part of the bound
};

struct PlanReport {
  std::string model, machine, level;
  int ranks = 1;
  int64_t memory = 0;         // of a rank of the machine; 0: not known
  std::vector<Mesh> stages;   // their meshes: one where there is no pipeline
  std::vector<PlanWay> ways;  // of the search, the best first, which is the plan; then those that people know
  std::vector<PlanEntryRow> entries;
  std::vector<SearchRow> searches;
  std::string schedule;  // YAML
};

}  // namespace weftc
