// Adds a section to a linked ELF file. No process loads it, and `strip` and `objcopy` keep it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace weftc {

/// Adds a section to a file; its contents are written between the constructor and finish().
class AddedSection {
 public:
  /// Reads the tables of the file, which is open for reading and writing, and moves to the beginning of the section:
  /// the next multiple of `align` after its last byte. On failure, ok() is false and errno says why.
  AddedSection(std::FILE* file, std::string name, int64_t align);
  bool ok() const { return ok_; }
  /// Writes the tables again after the section, which ends at `bytes` from its beginning. False on failure.
  bool finish(int64_t bytes);

 private:
  std::FILE* file_;
  const std::string name_;
  const int64_t align_;
  int64_t begin_ = 0;
  bool ok_ = false;
};

}  // namespace weftc
