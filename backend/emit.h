// Plan -> source files of a program: program.cpp, kernels/<category>.cpp, CMakeLists.txt, manifest.json.
#pragma once
#include <string>
#include <vector>

#include "ir/plan.h"

namespace weftc {

struct SourceFile {
  std::string path;  // relative, with '/'
  std::string text;
};

/// The same Plan gives the same bytes. Reports kernels and steps that cannot be lowered; then the result is empty.
std::vector<SourceFile> emit(const Plan& plan, Diags& diags);

/// manifest.json: what the text leaves out; where each step came from.
std::string manifest_text(const Plan& plan);

}  // namespace weftc
