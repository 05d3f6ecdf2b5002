// Profiles as files: what is written is read, and what is refused, where.
#include "cli/profile_file.h"

#include <doctest/doctest.h>

#include "cli/block_times.h"

using namespace weftc;

namespace {

Profile some_profile() {
  return {.file = "p.json",
          .machine = "A \"fast\" one",
          .model = "1f",
          .stages = "2e",
          .ranks = 3,
          .threads = 2,
          .cores = 4,
          .peak_memory = 5000,
          .blocks = {{"a.forward", {0, 2}, 4, 1200, 512}, {"a.backward", {1}, 4, 2400, -512}, {"update", {0}, 1, 7, 0}},
          .transfers = {{"a.forward", "a.backward", 512, 300}}};
}

/// The id of the first message, with its line; "" where the text is read.
std::string refusal(const std::string& text) {
  Diags diags;
  const bool is_read = parse_profile("p.json", text, diags).has_value();
  CHECK(is_read == diags.ok());
  return is_read ? "" : format("{}:{}", diags.all().front().id, diags.all().front().loc.line);
}

/// The written form of a profile with `from` replaced by `to`.
std::string with(const std::string& from, const std::string& to) {
  std::string text = profile_json(some_profile());
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("profiles: what is written is read") {
  Diags diags;
  const std::string text = profile_json(some_profile());
  const std::optional<Profile> read = parse_profile("p.json", text, diags);
  REQUIRE(read);
  CHECK(profile_json(*read) == text);
  CHECK(read->file == "p.json");
  CHECK(read->blocks[0].ranks == std::vector{0, 2});
  CHECK(read->blocks[1].memory == -512);
  CHECK(read->transfers[0].time == 300);
  CHECK(read->shares_cores());
}

TEST_CASE("profiles: what is refused") {
  CHECK(refusal(profile_json(some_profile())) == "");
  CHECK(refusal("{\"weft_profile\": 1") == "json-text:1");
  CHECK(refusal("[]") == "profile-form:1");
  CHECK(refusal(with("\"weft_profile\": 1", "\"weft_profile\": 2")) == "profile-version:1");
  CHECK(refusal(with("\"weft_profile\": 1", "\"weft_profile\": \"1\"")) == "profile-form:1");
  CHECK(refusal(with("\"model\": \"1f\"", "\"model\": 1")) == "profile-form:3");
  CHECK(refusal(with("\"stages\": \"2e\",\n", "\n")) == "profile-form:1");
  CHECK(refusal(with("\"ranks\": 3", "\"ranks\": 0")) == "profile-form:5");
  CHECK(refusal(with("\"time_ns\": 1200", "\"time_ns\": 0")) == "profile-form:10");
  CHECK(refusal(with("\"time_ns\": 1200", "\"time_ns\": 1.5")) == "profile-form:10");
  CHECK(refusal(with("\"time_ns\": 1200", "\"time_ns\": -5")) == "profile-form:10");
  CHECK(refusal(with("[0, 2]", "[0, -2]")) == "profile-form:10");
  CHECK(refusal(with("\"a.backward\"", "\"a.forward\"")) == "profile-form:11");
  CHECK(refusal(with("\"time_ns\": 300", "\"time_ns\": 99999999999999")) == "profile-form:15");
}

TEST_CASE("profiles: a part of the way from the least to the largest time") {
  CHECK(quantile({5, 1, 3}, 0.5) == 3);
  CHECK(quantile({4, 1, 2, 3}, 0.5) == 2.5);
  CHECK(quantile({5, 1, 3, 2, 4}, 0.25) == 2);
  CHECK(quantile({7}, 0.25) == 7);
}
