// What is said of an executable once it is built: one line, and the file of --report.
#pragma once
#include <chrono>

#include "cli/compilation.h"
#include "cli/options.h"

namespace weftc {

/// Time since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One line on what was made, and --report.
void report_build(const CompiledVariants& variants, const Options& options, double seconds, Diags& diags);

}  // namespace weftc
