// A batch of cases of `verify-many` in one process: each is compiled to sources, all sources are built into a few
// executables, each case is run and compared.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace weftc {

/// A line of the list.
struct ManyCase {
  std::string name, model, data;
  std::vector<std::string> flags;
};

/// "passed", "refused", "no_kernel", "wrong", "failed"; see test/verify_many.py.
struct CaseResult {
  std::string status, detail;
};

struct BatchReport {
  std::function<void(size_t)> begins;  // work on this case begins; errors until the next call belong to it
  std::function<void()> builds;        // work on several cases begins
  std::function<void(size_t, CaseResult)> result;
};

void run_batch(const Options& options, const std::vector<ManyCase>& cases, const BatchReport& report);

}  // namespace weftc
