// The existing parts of the file stay in place. The tables of sections and of their names are written again after the
// new section, and the file's header points to them.
//
//   head | program | names | sections     ->     head' | program | names | sections | NEW | names' | sections'
#include "backend/elf_section.h"

#include <elf.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace weftc {

namespace {

/// Moves objects between memory and a position in the file; false on failure.
template <class T>
bool read_at(std::FILE* file, uint64_t offset, T* to, size_t count) {
  return std::fseek(file, static_cast<long>(offset), SEEK_SET) == 0 && std::fread(to, sizeof(T), count, file) == count;
}
template <class T>
bool write_at(std::FILE* file, uint64_t offset, const T* from, size_t count) {
  return std::fseek(file, static_cast<long>(offset), SEEK_SET) == 0 &&
         std::fwrite(from, sizeof(T), count, file) == count;
}

struct Tables {
  Elf64_Ehdr head = {};
  std::vector<Elf64_Shdr> sections;
  std::string names;
};

/// Nothing for a file of another kind.
std::optional<Tables> read_tables(std::FILE* file) {
  Tables out;
  errno = ENOEXEC;
  if (!read_at(file, 0, &out.head, 1) || std::memcmp(out.head.e_ident, ELFMAG, SELFMAG) != 0 ||
      out.head.e_ident[EI_CLASS] != ELFCLASS64 || out.head.e_shstrndx >= out.head.e_shnum)
    return {};
  out.sections.resize(out.head.e_shnum);
  if (!read_at(file, out.head.e_shoff, out.sections.data(), out.sections.size())) return {};
  const Elf64_Shdr& names = out.sections[out.head.e_shstrndx];
  out.names.resize(names.sh_size);
  if (!read_at(file, names.sh_offset, out.names.data(), out.names.size())) return {};
  return out;
}

}  // namespace

AddedSection::AddedSection(std::FILE* file, std::string name, int64_t align)
    : file_(file), name_(std::move(name)), align_(align) {
  if (!read_tables(file) || std::fseek(file, 0, SEEK_END) != 0) return;
  begin_ = (std::ftell(file) + align - 1) / align * align;
  ok_ = std::fseek(file, begin_, SEEK_SET) == 0;
}

bool AddedSection::finish(int64_t bytes) {
  std::optional<Tables> tables = read_tables(file_);
  if (!tables) return false;
  Elf64_Shdr added = {};
  added.sh_name = static_cast<Elf64_Word>(tables->names.size());
  added.sh_type = SHT_PROGBITS;
  added.sh_offset = static_cast<Elf64_Off>(begin_);
  added.sh_size = static_cast<Elf64_Xword>(bytes);
  added.sh_addralign = static_cast<Elf64_Xword>(align_);
  tables->sections.push_back(added);
  tables->names += name_ + '\0';
  Elf64_Shdr& names = tables->sections[tables->head.e_shstrndx];
  names.sh_offset = added.sh_offset + added.sh_size;
  names.sh_size = tables->names.size();
  constexpr uint64_t kTableAlign = 8;
  tables->head.e_shoff = (names.sh_offset + names.sh_size + kTableAlign - 1) / kTableAlign * kTableAlign;
  tables->head.e_shnum = static_cast<Elf64_Half>(tables->sections.size());
  return write_at(file_, names.sh_offset, tables->names.data(), tables->names.size()) &&
         write_at(file_, tables->head.e_shoff, tables->sections.data(), tables->sections.size()) &&
         write_at(file_, 0, &tables->head, 1) && std::fflush(file_) == 0;
}

}  // namespace weftc
