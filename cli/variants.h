// Requested variants of an executable: `--dim seq=1,128` requests two, each compiled with one of the values.
#pragma once
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "ir/length_relation.h"
#include "ir/schedule.h"

namespace weftc {

struct VariantRequest {
  std::string name;                    // "batch=1, seq<=128"; empty: it is the only one
  std::string space;                   // its folder and namespace: "batch_1_seq_128"
  std::vector<DimRequest> of_variant;  // the dims with several values: one value for each
  std::vector<DimRequest> dims;        // these, and all others as given
};

/// The variants that these dims request, small before large: all combinations of the values. Empty after reporting.
std::vector<VariantRequest> variants_of(const std::vector<DimRequest>& dims, Diags& diags);

/// Whether the model's relations between lengths exclude these values together: n = 2 and m = 4 if n = m.
bool is_excluded(const VariantRequest& variant, const std::vector<LengthRelation>& relations);

/// Reports the diagnostics of a variant's compilation, with its name. A warning that another variant already had is
/// left out.
void report_for(const VariantRequest& variant, const Diags& found, Diags& diags);

}  // namespace weftc
