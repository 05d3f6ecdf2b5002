// JSON text by paths. Refusals of traces are tested in timeline_test.cpp.
#include "cli/json_items.h"

#include <doctest/doctest.h>

using namespace weftc;

TEST_CASE("an object's values are found by their paths") {
  const JsonItem report = read_json_object(
      R"({"name": "a\u00e9", "ranks": 2, "latency_ms": {"median": 3.5, "p99": -4e1}, "list": [1, {"x": 2}]})");
  CHECK(report.string("name") == "aé");
  CHECK(report.number("ranks", 0) == 2);
  CHECK(report.number("latency_ms.median", 0) == 3.5);
  CHECK(report.number("latency_ms.p99", 0) == -40);
  CHECK(report.number("list.[].x", 0) == 2);
  CHECK(report.number("median", 7) == 7);
  CHECK(report.string("ranks").empty());
  for (const char* broken : {"", "7", "[]", "{\"ranks\": 2", "{\"ranks\": 2} x"})
    CHECK(read_json_object(broken).number("ranks", 7) == 7);
}

TEST_CASE("objects of a list come one by one, with where they begin") {
  const std::string text = R"({"other": [{"n": 9}], "list": [{"n": 1, "in": {"n": 5}}, 3, {"n": 2}]})";
  std::vector<double> numbers;
  std::vector<size_t> places;
  const auto take = [&](const JsonItem& item) {
    numbers.push_back(item.number("n", 0));
    places.push_back(item.at);
    return std::string(item.number("n", 0) == 2 ? "refused" : "");
  };
  Diags diags;
  CHECK_FALSE(read_json_list("f.json", text, "list", take, diags));
  CHECK(numbers == std::vector<double>{1, 2});
  CHECK(places == std::vector<size_t>{text.find("{\"n\": 1"), text.find("{\"n\": 2")});
  CHECK(diags.text().find("f.json:1:" + std::to_string(places[1] + 1) + ": error: refused [trace-text]") == 0);
}
