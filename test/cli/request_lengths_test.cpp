// Lengths that are made up for a request keep what the model demands of them.
#include "cli/request_lengths.h"

#include <doctest/doctest.h>

#include "test/scheduled.h"

namespace weftc {

namespace {

const std::string kMaskedScores =
    "<ir_version: 10, opset_import: [\"\" : 20]>\n"
    "m (float[1, past, 4] cache, float[1, seq, 4] x, float[1, total] mask) => (float[1, seq, total] y, float[1, rows, "
    "4] next)\n<int64[1] one = {1}> {\n"
    "  next = Concat<axis = 1>(cache, x)\n"
    "  turned = Transpose<perm = [0, 2, 1]>(next)\n"
    "  scores = MatMul(x, turned)\n"
    "  row = Unsqueeze(mask, one)\n"
    "  y = Add(scores, row)\n"
    "}";

}  // namespace

TEST_CASE("lengths that an op takes for one are equal in a request that is made up") {
  const std::string dims = "weft: 1\ndims: {past: \"<=8\", seq: \"<=5\", total: \"<=13\"}\n";
  const auto made = test::prepare(kMaskedScores, dims, "");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const auto lengths = request_lengths(*made->module);
  CHECK(lengths.at("past") + lengths.at("seq") == lengths.at("total"));
  for (const auto& [name, number] : lengths) CHECK_MESSAGE(number > 0, name);
}

TEST_CASE("positions of a request that is made up lie in the table, where two lengths have to be less for it") {
  const std::string positions =
      "<ir_version: 10, opset_import: [\"\" : 20]>\n"
      "m (float[past, 4] cache, float[seq, 4] x) => (float[seq, 4] y)\n"
      "<float[6, 4] table = random(1, 1), int64 one = {1}, int64[1] front = {0}> {\n"
      "  pasts = Shape<start = 0, end = 1>(cache)\n"
      "  first = Squeeze(pasts, front)\n"
      "  counts = Shape<start = 0, end = 1>(x)\n"
      "  count = Squeeze(counts, front)\n"
      "  end = Add(first, count)\n"
      "  at = Range(first, end, one)\n"
      "  y = Gather(table, at)\n"
      "}";
  const auto made = test::prepare(positions, "weft: 1\ndims: {past: \"<=16\", seq: \"<=16\"}\n", "");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const auto lengths = request_lengths(*made->module);
  CHECK(lengths.at("past") + lengths.at("seq") == 6);
}

TEST_CASE("a state that grows out of what a request demands ends the requests that are alike") {
  const std::string dims = "weft: 1\ndims: {past: \"<=8\", seq: \"<=4\", total: \"<=8\"}\nstate: {cache: next}\n";
  const auto made = test::prepare(kMaskedScores, dims, "");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  const auto lengths = request_lengths(*made->module);
  CHECK(lengths.at("past") + lengths.at("seq") == lengths.at("total"));
  CHECK(request_count(*made->module, lengths, 3) == 1);
}

}  // namespace weftc
