// A file that is written completely or not at all: outputs, states, traces.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace weft {

/// The file is written beside its place under another name, and moved there when it is complete. Pipes and
/// devices (/dev/null) are written directly. Throws Failure (environment) that names the path and the reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  /// Removes the unfinished file, unless finish() was called.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// Completes the file. The last bytes may fail only here, for example on a full disk.
  void finish();

 private:
  [[noreturn]] void wrong(int reason) const;

  const std::string path_;
  std::string beside_;  // empty: the path itself
  FILE* file_ = nullptr;
};

}  // namespace weft
