// Variants of one executable: the same model planned for several lengths of its dims (`--dim seq=1,128`). A rank stores
// weights that variants share only once:
//
//   weights of seq=1   a b m1                     a b m1 m128      one image; what both store alike is there once
//   weights of seq=128 b a m128        ->         a b m1 m128
//   states             at the same place in both
//   working memory     as large as the largest needs
#pragma once
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "ir/plan.h"

namespace weftc {

struct VariantPlan {
  std::string name;  // "seq=128"
  Plan* plan;
};

/// Lays weights of all variants into the same segments, gives their programs the same memory, and reports states that
/// would not lie in one place. Their kernels, steps and the positions of buffers stay as they are.
void merge_variants(const std::vector<VariantPlan>& variants, Diags& diags);

/// The bytes of the weights file that hold constants once more, because variants want them stored in different ways.
int64_t doubled_weight_bytes(const std::vector<VariantPlan>& variants);

}  // namespace weftc
