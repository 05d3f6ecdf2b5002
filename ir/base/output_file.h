// A file that is there as a whole or not at all.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace weftc {

/// Written beside its place under a name of its own, and moved there when it is complete. What is no plain file (a
/// pipe, /dev/null) is written as it stands. The folders above it are made.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  /// Removes what was written so far, unless finish() said that all is well.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// For those who write by themselves; nullptr after an error.
  std::FILE* file() const { return file_; }
  void write(std::string_view bytes);
  /// Why the file is not there, or "". What was written last may fail only here, such as on a full disk.
  std::string finish();

 private:
  void keep_error(int code);

  std::string path_, beside_;  // no `beside_`: the path itself
  std::FILE* file_ = nullptr;
  std::string error_;
};

/// Writes a whole file; why it could not, or "".
std::string write_file(const std::string& path, std::string_view text);

}  // namespace weftc
