// The bytes of requests and answers, and a server whose ranks run different programs.
#include "runtime_lib/src/request.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "test/runtime_lib/program_run.h"

using namespace weft;
using namespace weft::test;

namespace {

std::string number(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += char(uint8_t(value >> (8 * i)));
  return out;
}

/// The bytes after the head of a request.
std::string request_text(const std::string& session, const std::string& name, const std::string& npy) {
  return number(session.size(), 4) + session + number(name.size(), 4) + number(npy.size(), 8) + name + npy;
}

std::string npy_text(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return npy_head(DType::F32, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::string message_text(Verb verb, const std::string& rest) { return head_text({uint32_t(verb), rest.size()}) + rest; }

/// The codes and contents of a stream of answers.
std::vector<std::pair<uint32_t, std::string>> answers_in(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::vector<std::pair<uint32_t, std::string>> out;
  for (size_t at = 0; at + MessageHead::kBytes <= bytes.size();) {
    const MessageHead head = parse_head(std::string_view(bytes).substr(at));
    out.emplace_back(head.word, bytes.substr(at + MessageHead::kBytes, head.bytes));
    at += MessageHead::kBytes + head.bytes;
  }
  return out;
}

}  // namespace

TEST_CASE("request: a head and what follows it are read as they were written") {
  const std::string npy = npy_text({2}, {1, 2}), rest = request_text("mine", "x", npy);
  const MessageHead head = parse_head(message_text(Verb::Run, rest));
  CHECK(head.word == 1);
  CHECK(head.bytes == rest.size());
  const Request request = parse_request(head.word, rest);
  CHECK(request.session == "mine");
  REQUIRE(request.arrays.size() == 1);
  CHECK(request.arrays[0].name == "x");
  CHECK(request.arrays[0].npy == npy);
  CHECK(can_begin_message("WE"));
  CHECK(!can_begin_message("WET"));
}

TEST_CASE("request: one that is cut anywhere, or asks for what there is not, is refused") {
  const std::string rest = request_text("mine", "x", npy_text({2}, {1, 2}));
  const size_t without_arrays = 4 + 4;
  for (size_t length = 0; length < rest.size(); ++length)
    if (length != without_arrays) CHECK_THROWS_AS(parse_request(1, rest.substr(0, length)), Failure);
  CHECK(parse_request(1, rest.substr(0, without_arrays)).arrays.empty());
  CHECK_THROWS_AS(parse_request(0, rest), Failure);
  CHECK_THROWS_AS(parse_request(7, rest), Failure);
}

TEST_CASE("program: a server whose ranks have different inputs and outputs") {
  const Folder folder;
  const std::vector<int64_t> shape{4, 6};
  std::vector<float> wanted = some_floats(24);
  std::string requests = message_text(Verb::Run, request_text("", "x", npy_text({6, 4}, some_floats(24))));
  for (int i = 0; i < 3; ++i)
    requests += message_text(Verb::Run, request_text("", "x", npy_text(shape, some_floats(24))));
  std::ofstream(folder / "requests", std::ios::binary) << requests;
  for (const char* ranks : {"", " --ranks-as-threads"}) {
    const std::string files = " < " + folder / "requests" + " > " + folder / "answers";
    CHECK(run("staged", "--serve" + std::string(ranks) + files).code == 0);
    const auto answers = answers_in(folder / "answers");
    REQUIRE(answers.size() == 4);
    CHECK(answers[0].first == 1);
    CHECK(answers[0].second == "array 'x': shape 6x4; 'x' is 4x6");
    for (float& value : wanted = some_floats(24)) value = 10 * value + 1;
    for (size_t a = 1; a < 4; ++a) {
      CHECK(answers[a].first == 0);
      CHECK(answers[a].second == request_text("", "y", npy_text(shape, wanted)).substr(4));
    }
  }
}

static std::string rows_for(const std::string& session, const std::vector<float>& rows) {
  return message_text(Verb::Run, request_text(session, "x", npy_text({int64_t(rows.size()) / 3, 3}, rows)));
}

TEST_CASE("program: a request that would outgrow a state is refused, and its session goes on") {
  const Folder folder;
  const auto rows = [](const std::string& session, int64_t n) { return rows_for(session, some_floats(n * 3)); };
  std::ofstream(folder / "requests", std::ios::binary)
      << rows("a", 2) << rows("b", 1) << rows("a", 2) << rows("a", 2) << rows("a", 1) << rows("b", 1) << rows("", 2);
  CHECK(run("cache", "--serve --poison < " + folder / "requests" + " > " + folder / "answers").code == 0);
  const auto answers = answers_in(folder / "answers");
  REQUIRE(answers.size() == 7);
  for (size_t a = 0; a < answers.size(); ++a) CHECK(answers[a].first == (a == 3 ? 1 : 0));
  CHECK(answers[3].second == "state 'past' ('present') would have 6 elements, more than its bound of 5");
}

TEST_CASE("program: what only the program notices is the answer, and ends the session") {
  const Folder folder;
  std::ofstream(folder / "requests", std::ios::binary) << rows_for("a", {1, 2, 3}) << rows_for("a", {-1, 2, 3});
  CHECK(run("cache", "--serve < " + folder / "requests" + " > " + folder / "answers").code == 0);
  const auto answers = answers_in(folder / "answers");
  REQUIRE(answers.size() == 2);
  CHECK(answers[1].first == 1);
  CHECK(answers[1].second == "node 'look': index 7 lies outside of a dimension of 5 elements; session 'a' is closed");
}
