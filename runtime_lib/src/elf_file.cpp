// Little-endian files of 64 bits, which all machines that programs are compiled for have.
#include "elf_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "checksum.h"

namespace weft {

int64_t file_bytes(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? int64_t{status.st_size} : 0;
}

bool read_into(char* to, int fd, int64_t offset, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = pread(fd, to + done, size_t(bytes - done), offset + done);
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

std::string read_at(int fd, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > file_bytes(fd) || bytes > file_bytes(fd) - offset) return "";
  std::string out(size_t(bytes), '\0');
  return read_into(out.data(), fd, offset, bytes) ? out : "";
}

namespace {

/// The entries of a table; none if it does not lie inside the file.
template <class Entry>
std::vector<Entry> table_at(int fd, uint64_t offset, size_t count) {
  const std::string bytes = offset > INT64_MAX ? "" : read_at(fd, int64_t(offset), int64_t(count * sizeof(Entry)));
  std::vector<Entry> out(bytes.size() / sizeof(Entry));
  if (!out.empty()) memcpy(out.data(), bytes.data(), out.size() * sizeof(Entry));
  return out;
}

bool lies_inside(int64_t size, uint64_t offset, uint64_t bytes) {
  return offset <= uint64_t(size) && bytes <= uint64_t(size) - offset;
}

}  // namespace

ElfFile::ElfFile(int fd) : fd_(fd) {
  const std::vector<Elf64_Ehdr> heads = table_at<Elf64_Ehdr>(fd, 0, 1);
  if (heads.empty() || memcmp(heads[0].e_ident, ELFMAG, SELFMAG) != 0) return;
  const Elf64_Ehdr& head = heads[0];
  is_elf_ = true;
  const int64_t size = file_bytes(fd), heads_end = int64_t(head.e_phoff + head.e_phnum * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : table_at<Elf64_Phdr>(fd, head.e_phoff, head.e_phnum)) {
    if (segment.p_type != PT_LOAD || !lies_inside(size, segment.p_offset, segment.p_filesz)) continue;
    const FileRange all{int64_t(segment.p_offset), int64_t(segment.p_filesz)};
    const int64_t begin = std::max(all.offset, all.offset == 0 ? heads_end : 0);  // without what tools rewrite
    if (begin < all.end()) loaded_.push_back({begin, all.end() - begin});
  }
  const auto table_bytes = uint64_t{head.e_shnum} * sizeof(Elf64_Shdr);
  is_whole_ = lies_inside(size, head.e_shoff, table_bytes) && (head.e_shnum != 0) == (head.e_shoff != 0);
  if (!is_whole_) return;
  section_table_ = {int64_t(head.e_shoff), int64_t(table_bytes)};
  read_sections(head.e_shstrndx);
}

/// `names` is the number of the section that holds the names of all.
void ElfFile::read_sections(int64_t names) {
  const int64_t size = file_bytes(fd_);
  const auto count = size_t(section_table_.bytes) / sizeof(Elf64_Shdr);
  const std::vector<Elf64_Shdr> table = table_at<Elf64_Shdr>(fd_, uint64_t(section_table_.offset), count);
  for (const Elf64_Shdr& section : table)
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
      is_whole_ &= lies_inside(size, section.sh_offset, section.sh_size);
  if (!is_whole_) return;
  std::string texts;
  if (names < int64_t(table.size()))
    texts = read_at(fd_, int64_t(table[size_t(names)].sh_offset), int64_t(table[size_t(names)].sh_size));
  texts += '\0';
  for (const Elf64_Shdr& section : table) {
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    const char* name = section.sh_name < texts.size() ? texts.c_str() + section.sh_name : "";
    sections_.push_back({name, {int64_t(section.sh_offset), int64_t(section.sh_size)}});
  }
}

uint32_t ElfFile::code_checksum() const {
  uint32_t crc = 0;
  for (const FileRange& range : loaded_) {
    char block[1 << 16];
    for (int64_t at = range.offset; at < range.end();) {
      const int64_t bytes = std::min(range.end() - at, int64_t{sizeof block});
      if (!read_into(block, fd_, at, bytes)) break;
      crc = crc32c(crc, block, size_t(bytes));
      at += bytes;
    }
  }
  return crc;
}

}  // namespace weft
