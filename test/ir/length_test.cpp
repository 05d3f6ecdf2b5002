// The canonical form of run-time lengths: equal lengths have equal texts, bounds hold, quotients are exact or symbols.
#include "ir/length.h"

#include <doctest/doctest.h>

#include "ir/shape_arithmetic.h"

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
  CHECK(half.text() == "seq / 2");
  CHECK(half.high() == 256);
  CHECK(half == *floor_quotient(kSeq, 2));
  CHECK(remainder_of(kSeq * 4, 2)->constant() == 0);
  CHECK(remainder_of(kSeq, 1000).value() == kSeq);
  CHECK(!floor_quotient(kSeq - 1, 2));  // may be negative
}

TEST_CASE("lengths: a text with divisions is read as it is meant") {
  const std::map<std::string, int64_t> bounds = {{"seq", 512}, {"past", 1024}, {"batch", 8}};
  const Length half = *floor_quotient(kSeq, 2), rest = *remainder_of(kSeq + 1, 3);
  const Length many = *floor_quotient(half * kBatch + 1, kPast + 1);
  const std::pair<Length, std::string> written[] = {{half * 3, "seq / 2 * 3"},
                                                    {kBatch * half, "batch * (seq / 2)"},
                                                    {half * kSeq + rest, "seq * (seq / 2) + (seq + 1) % 3"},
                                                    {Length() - half, "-seq / 2"},
                                                    {minimum(half, kBatch), "min(seq / 2, batch)"},
                                                    {*floor_quotient(half, kBatch + 1), "(seq / 2) / (batch + 1)"},
                                                    {many, "(batch * (seq / 2) + 1) / (past + 1)"}};
  for (const auto& [length, text] : written) {
    CHECK(length.text() == text);
    CHECK(weftc::parse_length(text, bounds) == length);
  }
  CHECK(weftc::parse_length("seq % 2 + (seq) / (2)", bounds) == *remainder_of(kSeq, 2) + half);
  for (const char* wrong : {"seq /", "/ 2", "seq / 0", "(seq", "seq / (past - 9)"})
    CHECK(!weftc::parse_length(wrong, bounds));
}

TEST_CASE("lengths: quotients that are equal have one form") {
  const Length side = *weftc::with_least(Length::named("side", 64), {{"side", 1}});
  CHECK(*floor_quotient(side - 1, 4) + 1 == *floor_quotient(side + 3, 4));
  CHECK(*floor_quotient(side * 6 + 1, 4) == side + *floor_quotient(side * 2 + 1, 4));
  const Length half = *floor_quotient(side + 1, 2);
  CHECK(*floor_quotient(half + 1, 2) == *floor_quotient(side + 3, 4));
  CHECK(*floor_quotient(side * 6, 8) == *floor_quotient(side * 3, 4));
  CHECK(*remainder_of(side * 6, 8) == *remainder_of(side * 3, 4) * 2);
  CHECK(*remainder_of(side * 5 + 7, 4) == *remainder_of(side + 3, 4));
}

TEST_CASE("lengths: whether a sum is positive follows from a part of it") {
  CHECK(minimum(1, kSeq + minimum(1, kSeq)) == minimum(kSeq, 1));
  CHECK(!(minimum(1, kSeq + minimum(1, kPast)) == minimum(1, kSeq)));
}

TEST_CASE("lengths: from which value of a name on a length is not negative") {
  CHECK(weftc::with_least(kSeq - 3, {{"seq", 3}})->low() == 0);
  const Length windows = *floor_quotient(kSeq, 10) - 3;
  CHECK(weftc::least_for(windows) == std::pair<std::string, int64_t>("seq", 30));
  CHECK(!weftc::least_for(kSeq - kPast));
  CHECK(!weftc::least_for(kSeq - 1000));
}

TEST_CASE("lengths: what is certainly smaller needs no symbol") {
  CHECK(minimum(kSeq, 512) == kSeq);
  CHECK(minimum(kSeq, kSeq + kPast) == kSeq);
  CHECK(maximum(kSeq - kSeq, 0).constant() == 0);
  CHECK(minimum(kSeq, 100).text() == "min(seq, 100)");
  CHECK(maximum(kSeq, kPast).high() == 1024);
}
