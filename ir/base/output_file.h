// A file that is written as a whole or not at all.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace weftc {

/// Writes a temporary file next to the target and renames it when it is complete. A target that is not a regular file
/// (a pipe, /dev/null) is written directly. Missing parent folders are created.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  /// Removes the unfinished file unless finish() succeeded.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// For callers that write to the stream themselves; nullptr after an error.
  std::FILE* file() const { return file_; }
  void write(std::string_view bytes);
  /// Returns why the file could not be written, or "". The last bytes written may fail only here, for example on a full
  /// disk.
  std::string finish();

 private:
  void keep_error(int code);

  std::string path_, beside_;  // no `beside_`: the path itself
  std::FILE* file_ = nullptr;
  std::string error_;
};

/// Writes a whole file. Returns why it could not, or "".
std::string write_file(const std::string& path, std::string_view text);

}  // namespace weftc
