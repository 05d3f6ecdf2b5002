// The file that a training executable writes with --log: one object per line, figures by step.
//
//   {"step": 20, "loss": 0.7312, "rate": 0.002, "grad_norm": 0.66, "ms": 8.3, "samples_per_s": 967.1}
//   {"step": 20, "eval_loss": 0.7301, "eval_samples": 96, "eval_ms": 0.12}
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

/// A figure by step, in the order of the file. Values that are not finite, which a log stores as null, are left out.
struct Series {
  struct Point {
    double step = 0, value = 0;
  };
  std::string name;
  std::vector<Point> points;

  const Point& lowest() const;
  const Point& highest() const;
  /// Whether it belongs to evaluations: "eval_loss".
  bool is_evaluation() const;
  /// The figure's name without that prefix: "loss" of "eval_loss".
  std::string figure() const;
};

/// The log of one run.
struct TrainingLog {
  std::string name;                   // of the file, without folders
  std::vector<Series> series;         // as they first occur
  int64_t steps = 0, not_finite = 0;  // lines of steps; numbers that were null

  const Series* find(const std::string& series_name) const;
};

/// Returns nullopt after reporting (log-line) a malformed line with its number, or (log-empty) a file without steps. An
/// unterminated last line, as from a run that is still writing, is left out.
std::optional<TrainingLog> read_training_log(const std::string& file, Diags& diags);

}  // namespace weftc
