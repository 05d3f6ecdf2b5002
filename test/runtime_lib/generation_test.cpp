// The loop over tokens on a handwritten program, as a library on two ranks that are threads of the test. It has two
// texts at once, a prompt in pieces, and a vocabulary that the ranks do not divide.
#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "weft/host.h"
#include "weft/library.h"

using namespace weft;

namespace {

constexpr int64_t kBatch = 2, kPiece = 3, kRoom = 12, kVocabulary = 5, kSlice = 3;
constexpr int kRanks[] = {0, 1};
constexpr Axis tp{.name = "tp", .size = 2, .stride = 1, .id = 0, .ranks = kRanks};
constexpr Own<int64_t> ids{0, kBatch*kPiece}, at{ids.end(), kPiece}, seen{at.end(), kBatch*kRoom},
    past{seen.end(), kBatch*kRoom}, length{past.end(), 1}, total{length.end(), 1}, rows{total.end(), 1};
constexpr Own<float> logits{rows.end(), kBatch* kPiece* kSlice};

/// The next token is the sum of all tokens, of the last position and of the length of the mask, modulo the vocabulary.
/// A text that adds up to 66 has no logits.
void run_sums(Rank& r) {
  r.step({0, "sums", "Sum sums"}, [&] {
    const int64_t count = r[length][0], before = r[rows][0];
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t s = 0; s < count; ++s) {
        r[past][b * kRoom + before + s] = r[ids][b * count + s];
        const int64_t sum = std::accumulate(r[past] + b * kRoom, r[past] + b * kRoom + before + s + 1, int64_t{0});
        const int64_t next = (sum + r[at][s] + r[total][0]) % kVocabulary;
        for (int64_t v = 0; v < kSlice; ++v)
          r[logits][(b * count + s) * kSlice + v] = sum == 66 ? std::numeric_limits<float>::quiet_NaN()
                                                    : r.rank * kSlice + v == next ? 1.0f
                                                                                  : 0.0f;
      }
  });
}

constexpr Stream kStreams[] = {{"compute", true}};
constexpr Slice kWords[] = {{2, kSlice, tp}};
constexpr int kLength = 0, kTotal = 1, kPast = 2;
constexpr const char* kLengths[] = {"length", "total", "past"};
constexpr LengthSlot kSlots[] = {{kLength, length}, {kTotal, total}, {kPast, rows}};
constexpr Bound kIdsBounds[] = {{1, kLength}}, kAtBounds[] = {{0, kLength}}, kSeenBounds[] = {{1, kTotal}},
                kPastBounds[] = {{1, kPast}},
                kPresentBounds[] = {{1, [](const int64_t*l) { return l[kPast] + l[kLength]; }}};
constexpr Port kInputs[] = {{"ids", {kBatch, kPiece}, ids, {.bounds = kIdsBounds}},
                            {"at", {kPiece}, at, {.bounds = kAtBounds}},
                            {"seen", {kBatch, kRoom}, seen, {.bounds = kSeenBounds}},
                            {"past", {kBatch, kRoom}, past, {.bounds = kPastBounds, .by_bounds = true}}};
constexpr Port kOutputs[] = {
    {"logits", {kBatch, kPiece, kVocabulary}, logits, {.slices = kWords, .bounds = kIdsBounds}},
    {"present", {kBatch, kRoom}, past, {.bounds = kPresentBounds, .by_bounds = true}}};
constexpr State kStates[] = {{"past", "present"}};
constexpr Program kPrograms[] = {{.streams = kStreams,
                                  .inputs = kInputs,
                                  .outputs = kOutputs,
                                  .lengths = kSlots,
                                  .own_bytes = logits.end(),
                                  .run = run_sums}};
constexpr int64_t kEnd[] = {4};
constexpr Generation kGeneration{.tokens = "ids",
                                 .logits = "logits",
                                 .positions = "at",
                                 .mask = "seen",
                                 .past = "past",
                                 .past_dim = 1,
                                 .room = kRoom,
                                 .end = kEnd,
                                 .sampling = {.max_new = 2}};
constexpr Executable kSums{.name = "sums",
                           .world = 2,
                           .programs = kPrograms,
                           .states = kStates,
                           .lengths = kLengths,
                           .generation = &kGeneration};

using Tokens = std::vector<std::vector<int64_t>>;  // by row

/// The expected continuation of these texts. `past`: a mask is as long as all tokens fed, without the last token.
Tokens expected(Tokens texts, int64_t count) {
  Tokens out(texts.size());
  const auto has_ended = [&](size_t b) { return !out[b].empty() && out[b].back() == kEnd[0]; };
  for (int64_t n = 0; n < count && !(has_ended(0) && has_ended(1)); ++n)
    for (size_t b = 0; b < texts.size(); ++b) {
      const auto size = int64_t(texts[b].size());
      const int64_t sum = std::accumulate(texts[b].begin(), texts[b].end(), int64_t{0});
      const int64_t token = has_ended(b) ? kEnd[0] : (sum + size - 1 + size) % kVocabulary;
      texts[b].push_back(token);
      out[b].push_back(token);
    }
  return out;
}

template <class T>
int set(Library& library, const char* name, const std::vector<T>& values, const std::vector<int64_t>& shape) {
  return library.set_input(name, {values.data(), values.size() * sizeof(T), shape.data(), int(shape.size())});
}

int set_prompt(Library& library, const Tokens& prompt) {
  std::vector<int64_t> flat;
  for (const std::vector<int64_t>& row : prompt) flat.insert(flat.end(), row.begin(), row.end());
  return set(library, "ids", flat, {int64_t(prompt.size()), int64_t(prompt[0].size())});
}

Tokens tokens_of(Library& library) {
  TensorView tensor{};
  REQUIRE(library.get_output("tokens", &tensor) == 0);
  REQUIRE(tensor.ndim == 2);
  const auto* data = static_cast<const int64_t*>(tensor.data);
  Tokens out;
  for (int64_t b = 0; b < tensor.shape[0]; ++b)
    out.emplace_back(data + b * tensor.shape[1], data + (b + 1) * tensor.shape[1]);
  return out;
}

void append(Tokens& texts, const Tokens& more) {
  for (size_t b = 0; b < texts.size(); ++b) texts[b].insert(texts[b].end(), more[b].begin(), more[b].end());
}

}  // namespace

TEST_CASE("texts of two rows, in pieces, from one prompt to the next") {
  Library library(kSums, 1, Library::Ranks::Threads);
  REQUIRE(std::string(library.error()) == "");
  Tokens texts = {{}, {}};
  for (const Tokens& prompt : {Tokens{{1, 2, 3, 1, 0}, {0, 0, 2, 3, 1}}, Tokens{{2}, {3}}}) {
    append(texts, prompt);
    CHECK(set_prompt(library, prompt) == 0);
    REQUIRE_MESSAGE(library.run() == 0, library.error());
    const Tokens wanted = expected(texts, 2);
    CHECK(tokens_of(library) == wanted);
    append(texts, wanted);
  }
}

TEST_CASE("a row that has ended is filled up, and all of them end the text") {
  Library library(kSums, 1, Library::Ranks::Threads);
  const std::vector<int64_t> most = {8};
  CHECK(set(library, "max_new", most, {}) == 0);
  const Tokens prompt = {{1, 3}, {2, 0}};
  CHECK(set_prompt(library, prompt) == 0);
  REQUIRE_MESSAGE(library.run() == 0, library.error());
  const Tokens wanted = expected(prompt, 8);
  CHECK(wanted[0].size() < 8);
  CHECK(tokens_of(library) == wanted);
}

TEST_CASE("what is wrong is said, and the text stays") {
  Library library(kSums, 1, Library::Ranks::Threads);
  const auto refused = [&](const Tokens& prompt, const std::string& text) {
    CHECK(set_prompt(library, prompt) == 0);
    CHECK(library.run() == 1);
    CHECK_MESSAGE(std::string(library.error()).find(text) != std::string::npos, library.error());
  };
  CHECK(library.run() == 1);
  CHECK(std::string(library.error()).find("input 'ids' (i64, 2x<=12) is not set") != std::string::npos);
  CHECK(set_prompt(library, {{1, 2, 3}, {3, 2, 1}}) == 0);
  REQUIRE_MESSAGE(library.run() == 0, library.error());
  const Tokens before = tokens_of(library);
  refused({{1, 2, 3, 4, 0, 1, 2}, {1, 2, 3, 4, 0, 1, 2}},
          "4 tokens and the 9 to be fed for 2 new ones are more than the 12");
  refused({{1, 5}, {1, 2}}, "token 5 lies outside of the vocabulary of 5");
  CHECK(set(library, "temperature", std::vector<double>{-1}, {}) == 0);
  refused({{1}, {2}}, "'temperature' is -1: a number from 0 to 1000000 is expected");
  CHECK(set(library, "temperature", std::vector<double>{0}, {}) == 0);
  CHECK(set(library, "seen", std::vector<int64_t>{1, 1}, {2, 1}) == 1);
  Tokens texts = {{1, 2, 3}, {3, 2, 1}};
  append(texts, before);
  append(texts, {{1}, {2}});
  CHECK(set_prompt(library, {{1}, {2}}) == 0);
  REQUIRE_MESSAGE(library.run() == 0, library.error());
  CHECK(tokens_of(library) == expected(texts, 2));
}

TEST_CASE("logits that are no numbers end the text, not the library") {
  Library library(kSums, 1, Library::Ranks::Threads);
  CHECK(set_prompt(library, {{1, 2}, {0, 0}}) == 0);
  REQUIRE_MESSAGE(library.run() == 0, library.error());
  const Tokens first = tokens_of(library);
  CHECK(library.reset() == 0);
  CHECK(set(library, "past", std::vector<int64_t>{60, 0}, {2, 1}) == 0);
  CHECK(set_prompt(library, {{2, 4}, {1, 1}}) == 0);
  CHECK(library.run() == 1);
  CHECK(std::string(library.error()).find("no token can be chosen: 'logits'") != std::string::npos);
  CHECK(set(library, "past", std::vector<int64_t>{}, {2, 0}) == 0);  // settings of a refused run still hold
  CHECK(set_prompt(library, {{1, 2}, {0, 0}}) == 0);
  REQUIRE_MESSAGE(library.run() == 0, library.error());
  CHECK(tokens_of(library) == first);
}
