// Variants of an executable as they are asked for: `--dim seq=1,128` is two, each compiled with one of the values.
#pragma once
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "ir/length_relation.h"
#include "ir/schedule.h"

namespace weftc {

struct VariantRequest {
  std::string name;                    // "batch=1, seq<=128"; empty: there is only one
  std::string space;                   // its folder and namespace: "batch_1_seq_128"
  std::vector<DimRequest> of_variant;  // the dims that have several values: one of them each
  std::vector<DimRequest> dims;        // these, and all others as they were given
};

/// The variants that these dims ask for, small before large: all combinations of the values. Nothing after reporting.
std::vector<VariantRequest> variants_of(const std::vector<DimRequest>& dims, Diags& diags);

/// Whether what the model demands of its lengths, wherever it does, excludes these together: n = 2 and m = 4 where
/// n = m.
bool is_excluded(const VariantRequest& variant, const std::vector<LengthRelation>& relations);

/// Reports what was found out while a variant was compiled, with its name; a warning that another one had already is
/// left out.
void report_for(const VariantRequest& variant, const Diags& found, Diags& diags);

}  // namespace weftc
