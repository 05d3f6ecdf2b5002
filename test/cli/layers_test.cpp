// Lists about equal layers, as one row for all of them; names by their ends.
#include "cli/layers.h"

#include <doctest/doctest.h>

using namespace weftc;

TEST_CASE("layers: equal rows of twelve layers are one row with their range") {
  TableRows rows = {{"wte", "f32[4]"}};
  for (int l = 0; l < 12; ++l) {
    rows.push_back({"h." + std::to_string(l) + ".mlp.c_fc", "f32[0, 8]"});
    rows.push_back({"h." + std::to_string(l) + ".ln", l == 5 ? "f32[16]" : "f32[8]"});
  }
  CHECK(fold_layers(rows, {0}) == TableRows{{"wte", "f32[4]", ""},
                                            {"h.{l}.mlp.c_fc", "f32[0, 8]", "l = 0 to 11"},
                                            {"h.{l}.ln", "f32[8]", "l = 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11"},
                                            {"h.5.ln", "f32[16]", ""}});
}

TEST_CASE("layers: a number is folded where it is a whole part of a name, and the same in all names of a row") {
  CHECK(fold_layers({{"'h.0.a' beside 'h.0.b'"}, {"'h.1.a' beside 'h.1.b'"}}, {0}) ==
        TableRows{{"'h.{l}.a' beside 'h.{l}.b'", "l = 0 to 1"}});
  CHECK(fold_layers({{"blocks/2/x"}, {"blocks/3/x"}}, {0}) == TableRows{{"blocks/{l}/x", "l = 2 to 3"}});
  const TableRows apart = {{"'h.0.a' beside 'h.1.a'"}, {"'h.1.a' beside 'h.1.a'"}, {"Mul_2"}, {"Mul_3"}, {"3"}, {"4"}};
  CHECK(fold_layers(apart, {0}) == apart);
  CHECK(fold_layers({{"z"}, {"z"}, {"x.1.y"}, {"x.1.y"}}, {0}) == TableRows{{"z"}, {"z"}, {"x.1.y"}, {"x.1.y"}});
}

TEST_CASE("layers: a name's end is as short as tells it from the others") {
  CHECK(name_ends({"h.0.mlp.c_fc", "h.1.mlp.c_fc", "h.0.mlp.c_proj", "h.0.attn.c_proj", "wte", "wte.sum"}) ==
        std::vector<std::string>{"mlp.c_fc", "mlp.c_fc", "mlp.c_proj", "attn.c_proj", "wte", "wte.sum"});
  CHECK(name_ends({"a.left.mlp.fc", "a.right.mlp.fc"}) == std::vector<std::string>{"left.mlp.fc", "right.mlp.fc"});
  CHECK(name_ends({"h.3.ln"}) == std::vector<std::string>{"3.ln"});
}
