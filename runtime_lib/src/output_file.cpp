// Writing beside the target under a name of its own, and renaming at the end, which POSIX makes atomic.
#include "output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "failure.h"

namespace weft {

OutputFile::OutputFile(const std::string& path) : path_(path) {
  struct stat status = {};
  const bool is_special = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (!is_special) beside_ = text("%s.%d.part", path.c_str(), int(getpid()));
  file_ = fopen(is_special ? path_.c_str() : beside_.c_str(), "wb");
  if (file_ == nullptr) wrong(errno);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) fclose(file_);
  if (!beside_.empty()) unlink(beside_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) wrong(errno);
}

void OutputFile::finish() {
  FILE* file = file_;
  file_ = nullptr;
  if (fclose(file) != 0) wrong(errno);
  if (beside_.empty()) return;
  if (rename(beside_.c_str(), path_.c_str()) != 0) wrong(errno);
  beside_.clear();
}

void OutputFile::wrong(int reason) const { fail(kEnvironment, "cannot write %s: %s", path_.c_str(), strerror(reason)); }

}  // namespace weft
