// The canonical form of run-time lengths: equal lengths have equal texts, bounds hold, quotients are exact or symbols.
#include "ir/length.h"

#include <doctest/doctest.h>

using weftc::exact_quotient;
using weftc::floor_quotient;
using weftc::Length;
using weftc::maximum;
using weftc::minimum;
using weftc::remainder_of;

namespace {
const Length kBatch = Length::named("batch", 8), kSeq = Length::named("seq", 512), kPast = Length::named("past", 1024);
}

TEST_CASE("lengths: sums and products have one form") {
  CHECK((kSeq + kPast).text() == "past + seq");
  CHECK((kPast + kSeq) * 2 == kSeq * 2 + kPast * 2);
  CHECK((kBatch * kSeq * 12 - kSeq * kBatch * 12).is_constant());
  CHECK((kSeq * kBatch + 3 - kSeq).text() == "batch * seq - seq + 3");
  CHECK(Length(0).text() == "0");
  CHECK(!(kSeq == kPast));
}

TEST_CASE("lengths: bounds are those of the terms") {
  CHECK((kPast + kSeq + 1).low() == 1);
  CHECK((kPast + kSeq + 1).high() == 1537);
  CHECK((kSeq - kPast).low() == -1024);
  CHECK((kBatch * kSeq).high() == 4096);
  const Length far = Length::named("far", int64_t{1} << 50);
  // No overflow: what is longer than any tensor stays so.
  CHECK((far * far * far).high() > 0);
  CHECK(minimum(Length(INT64_MAX), kSeq - 3) == kSeq - 3);
  CHECK(maximum(Length(INT64_MIN), kSeq) == kSeq);
  CHECK((Length(INT64_MAX) * Length(INT64_MAX) + 1).constant() > 0);
}

TEST_CASE("lengths: quotients are polynomials where they can be") {
  const Length elements = kBatch * (kPast + kSeq) * 768;
  CHECK(*exact_quotient(elements, kBatch * 64) == (kPast + kSeq) * 12);
  CHECK(*exact_quotient(elements, kPast + kSeq) == kBatch * 768);
  CHECK(!exact_quotient(elements, kBatch * 5));
  CHECK(!exact_quotient(kSeq, Length(0)));
  const Length half = *floor_quotient(kSeq, 2);
  CHECK(half.text() == "(seq) / (2)");
  CHECK(half.high() == 256);
  CHECK(half == *floor_quotient(kSeq, 2));
  CHECK(remainder_of(kSeq * 4, 2)->constant() == 0);
  CHECK(remainder_of(kSeq, 1000).value() == kSeq);
  CHECK(!floor_quotient(kSeq - 1, 2));  // may be negative
}

TEST_CASE("lengths: what is certainly smaller needs no symbol") {
  CHECK(minimum(kSeq, 512) == kSeq);
  CHECK(minimum(kSeq, kSeq + kPast) == kSeq);
  CHECK(maximum(kSeq - kSeq, 0).constant() == 0);
  CHECK(minimum(kSeq, 100).text() == "min(seq, 100)");
  CHECK(maximum(kSeq, kPast).high() == 1024);
}
