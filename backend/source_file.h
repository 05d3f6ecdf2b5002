// Files of an emitted program.
#pragma once
#include <string>

namespace weftc {

/// One file of an emitted program.
struct SourceFile {
  std::string path;  // relative, with '/'
  std::string text;
};

/// The form of the program: an executable; a library, whose C functions are in more files (library_files.h); one
/// variant of either (variant_files.h).
enum class ProgramForm { Executable, Library, Variant };

}  // namespace weftc
