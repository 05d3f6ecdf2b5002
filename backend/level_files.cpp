// Names of levels in emitted text are the names in weft/level.h.
#include "backend/level_files.h"

#include <algorithm>

#include "backend/program_names.h"
#include "ir/base/naming.h"

namespace weftc {

/// "x86-64-v3" -> "V3"; "x86-64" -> "Any".
static std::string level_name(const std::string& arch) {
  const size_t at = arch.find("-v");
  return at == std::string::npos ? "Any" : "V" + arch.substr(at + 2);
}

std::string level_symbol(const Target& target, const std::string& arch) {
  return arch == target.archs.front() ? kLevelSymbol : std::string(kLevelSymbol) + "_" + identifier(arch);
}

void set_entry(Params& params, const Target& target, ProgramForm form) {
  const bool is_level = form != ProgramForm::Variant && target.has_levels();
  params.set("level", is_level ? "level" : "");
  params.set("main", form == ProgramForm::Executable && !is_level ? "main" : "");
  params.set("library", form == ProgramForm::Library && !is_level ? "library" : "");
}

std::vector<SourceFile> level_files(const Plan& plan, ProgramForm form) {
  if (!plan.target.has_levels() || form == ProgramForm::Variant) return {};
  const std::string name = ProgramNames(plan).program;
  Params params;
  params.set("summary",
             comment_text(name + ", with kernels for CPUs of several levels: the highest that a CPU has are run."));
  params.set("name", name);
  params.set("main", form == ProgramForm::Executable ? "main" : "");
  params.set("library", form == ProgramForm::Library ? "library" : "");
  for (const std::string& arch : plan.target.archs)
    params.list("levels")
        .emplace_back()
        .set("arch", arch)
        .set("level", level_name(arch))
        .set("program", level_symbol(plan.target, arch));
  return {{"levels.cpp", render_file("levels.cpp", params)}};
}

}  // namespace weftc
