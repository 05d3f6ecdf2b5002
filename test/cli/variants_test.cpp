// Which combinations of the values of dims the model's own demands leave.
#include "cli/variants.h"

#include <doctest/doctest.h>

namespace weftc {

namespace {

VariantRequest variant(int64_t n, int64_t m, bool bounded) {
  VariantRequest made;
  made.of_variant = {{"n", {n}, bounded, {}}, {"m", {m}, bounded, {}}};
  return made;
}

const Length kN = Length::named("n", 8), kM = Length::named("m", 8), kTaken = Length::named("taken", 1);

}  // namespace

TEST_CASE("variants: what an equation of two dims excludes") {
  const std::vector<LengthRelation> equal{{"", kN * 2, kM}};
  CHECK_FALSE(is_excluded(variant(2, 4, false), equal));
  CHECK(is_excluded(variant(2, 2, false), equal));
  CHECK(is_excluded(variant(4, 4, false), equal));
  CHECK_FALSE(is_excluded(variant(4, 4, true), equal));  // two and four rows are possible
  CHECK_FALSE(is_excluded(variant(2, 2, false), {}));
}

TEST_CASE("variants: what an inequality excludes, also in a branch that may not be taken") {
  const std::vector<LengthRelation> less{{"", kN, kM, true}};
  CHECK_FALSE(is_excluded(variant(2, 4, false), less));
  CHECK(is_excluded(variant(4, 2, false), less));
  CHECK(is_excluded(variant(4, 2, false), {{"", kN, kM, true, kTaken}}));
}

TEST_CASE("variants: bounds that a branch takes for each other differ") {
  const std::vector<LengthRelation> equal{{"", kN, kM, false, kTaken}};
  CHECK(is_excluded(variant(2, 4, true), equal));
  CHECK_FALSE(is_excluded(variant(4, 4, true), equal));
}

}  // namespace weftc
