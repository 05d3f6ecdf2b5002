// The report on an executable that was built: one line, and the file of --report.
#pragma once
#include <chrono>

#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// Measures the time since its construction.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Prints one line about the result, and writes --report.
void report_build(const CompiledVariants& variants, const Options& options, double seconds, Diags& diags);

}  // namespace weftc
