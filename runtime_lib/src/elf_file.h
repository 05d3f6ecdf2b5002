// The tables of an ELF file (an executable or library on disk): its code, and its other sections.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Bytes of a file.
struct FileRange {
  int64_t offset = 0, bytes = 0;
  int64_t end() const { return offset + bytes; }
};

int64_t file_bytes(int fd);
/// Reads bytes [offset, offset + bytes) of a file; false if it has fewer.
bool read_into(char* to, int fd, int64_t offset, int64_t bytes);
/// The same as text; empty if the file has fewer.
std::string read_at(int fd, int64_t offset, int64_t bytes);

class ElfFile {
 public:
  /// A section whose bytes are in the file.
  struct Section {
    std::string name;  // empty if the table of names is broken
    FileRange range;
  };

  /// Reads the tables of an open file, which may be of any kind.
  explicit ElfFile(int fd);

  bool is_elf() const { return is_elf_; }
  /// Whether everything in the tables lies inside the file, so that nothing was cut off.
  bool is_whole() const { return is_whole_; }
  const std::vector<Section>& sections() const { return sections_; }
  /// The position of the table of sections.
  const FileRange& section_table() const { return section_table_; }
  /// A checksum of the parts of the file that a process loads. Tools that remove symbols or add sections do not change
  /// it.
  uint32_t code_checksum() const;

 private:
  void read_sections(int64_t names);

  const int fd_;
  bool is_elf_ = false, is_whole_ = false;
  FileRange section_table_;
  std::vector<Section> sections_;
  std::vector<FileRange> loaded_;
};

}  // namespace weft
