// Executables of several variants (passes/plan/merge_variants.h): the files of each in a folder and namespace of its
// own, and one program.cpp that lists them.
//
//   program.cpp            the table of variants, main
//   seq_1/program.cpp      a program like any other, but for main
//   seq_1/kernels/...
//   seq_128/...
#pragma once
#include <string>
#include <vector>

#include "backend/emit.h"
#include "ir/schedule.h"

namespace weftc {

/// One variant: its dims, and its plan.
struct Variant {
  std::string name;              // "batch=1, seq<=128"
  std::string space;             // its namespace and folder: "batch_1_seq_128"
  std::vector<DimRequest> dims;  // with one value each
  const Plan* plan;
};

/// The files of an executable or library with these variants, in ascending order of size; emit() writes those of one.
std::vector<SourceFile> emit_variants(const std::vector<Variant>& variants, Diags& diags, ProgramForm form);

}  // namespace weftc
