// JSON as a tree, with the position of each value. Refusals of problem files are tested in solve_check.py.
#include "cli/json_tree.h"

#include <doctest/doctest.h>

using namespace weftc;

TEST_CASE("values of a JSON tree know where they begin") {
  const std::string text = R"({"a": [1, -2 , "x\n", null], "b": {"c": true, "d": 1.5}, "e": 18446744073709551615})";
  Diags diags;
  const std::optional<JsonNode> root = read_json_tree("f.json", text, diags);
  REQUIRE(root);
  const JsonNode& list = *root->find("a");
  REQUIRE(list.items.size() == 4);
  CHECK(list.at == text.find('['));
  CHECK(list.items[0].integer == 1);
  CHECK(list.items[0].at == text.find("1,"));
  CHECK(list.items[1].integer == -2);
  CHECK(list.items[1].at == text.find("-2"));
  CHECK(list.items[2].text == "x\n");
  CHECK(list.items[2].at == text.find("\"x"));
  CHECK(list.items[3].is(JsonNode::Kind::Null));
  CHECK(root->find("b")->at == text.find("{\"c"));
  CHECK(root->find("b")->find("c")->is(JsonNode::Kind::Boolean));
  CHECK(root->find("b")->find("d")->is(JsonNode::Kind::Number));
  CHECK(root->find("e")->is(JsonNode::Kind::Number));
  CHECK_FALSE(root->find("c"));
}

TEST_CASE("broken JSON is refused where it breaks") {
  const auto message = [](const std::string& text) {
    Diags diags;
    CHECK_FALSE(read_json_tree("f.json", text, diags));
    return diags.text();
  };
  CHECK(message("{\"a\": 1,\n}").find("f.json:2:1: error: ") == 0);
  CHECK(message("{\"a\": 1, \"a\": 2}").find("f.json:1:10: error: 'a' is given twice [json-text]") == 0);
  CHECK(message(std::string(40, '[')).find("f.json:1:33: error: values are nested more than 32 deep") == 0);
  CHECK(message("").find("[json-text]") != std::string::npos);
}
