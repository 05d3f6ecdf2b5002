// A file that is there as a whole or not at all: outputs, states, traces.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace weft {

/// Written beside its place under a name of its own, and moved there when it is complete. What is no plain file (a
/// pipe, /dev/null) is written as it stands. Throws Failure (environment) that names the path and the reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  /// Removes what was written so far, unless finish() was called.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// What was written last may fail only here, such as on a full disk.
  void finish();

 private:
  [[noreturn]] void wrong(int reason) const;

  const std::string path_;
  std::string beside_;  // empty: the path itself
  FILE* file_ = nullptr;
};

}  // namespace weft
