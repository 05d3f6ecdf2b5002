// Writes to a temporary file in the target's folder and renames it, so that a full disk or an interrupt leaves the old
// file.
#include "ir/base/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ir/base/text.h"

namespace weftc {

namespace fs = std::filesystem;

OutputFile::OutputFile(const std::string& path) : path_(path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) beside_ = format("{}.{}.part", path, getpid());
  file_ = std::fopen(beside_.empty() ? path.c_str() : beside_.c_str(), "wb");
  if (!file_) keep_error(errno);
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
  if (!beside_.empty()) unlink(beside_.c_str());
}

void OutputFile::keep_error(int code) {
  if (error_.empty()) error_ = std::strerror(code);
}

void OutputFile::write(std::string_view bytes) {
  if (file_ && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) keep_error(errno);
}

std::string OutputFile::finish() {
  if (file_ && std::ferror(file_)) keep_error(errno);
  if (file_ && std::fclose(file_) != 0) keep_error(errno);
  file_ = nullptr;
  if (!error_.empty() || beside_.empty()) return error_;
  if (std::rename(beside_.c_str(), path_.c_str()) != 0)
    keep_error(errno);
  else
    beside_.clear();
  return error_;
}

std::string write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  return file.finish();
}

}  // namespace weftc
