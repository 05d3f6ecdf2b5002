// Names in emitted text, and the template engine.
#include <doctest/doctest.h>

#include "backend/program_names.h"
#include "backend/render.h"
#include "ir/base/check.h"
#include "ir/base/naming.h"

using namespace weftc;

TEST_CASE("naming: identifiers are legal whatever the model calls things") {
  CHECK(identifier("h.0.mlp.c_fc") == "h_0_mlp_c_fc");
  CHECK(identifier("/model/layers.0/MatMul_3:0") == "model_layers_0_MatMul_3_0");
  CHECK(identifier("0") == "n0");
  CHECK(identifier("") == "value");
  CHECK(identifier("__x__y__") == "x_y");
  CHECK(identifier("int") == "int_value");
  CHECK(identifier("weft") == "weft_value");
  CHECK(identifier("kInputs") == "kInputs_value");
  CHECK(identifier("x\n#define y") == "x_define_y");
  CHECK(identifier("\xc3\xa4\xe2\x82\xac") == "value");
  Names names;
  CHECK(names.unique("a.b") == "a_b");
  CHECK(names.unique("a_b") == "a_b_2");
  CHECK(names.unique("a/b") == "a_b_3");
}

TEST_CASE("naming: nothing breaks out of a comment or a string") {
  CHECK(comment_text("a\nb*/\\") == "a_b*//");
  CHECK(comment_text("?\?/") == "? ?/");
  CHECK(string_literal("a\"b\\\n?\?/\xff") == "\"a\\\"b\\\\\\012?\\?/\\377\"");
  CHECK(json_string("a\"\n\x01") == "\"a\\\"\\u000a\\u0001\"");
  CHECK(last_component("h.0/c_fc") == "c_fc");
}

TEST_CASE("counts: a product of ints that fits no int is a long") {
  CHECK(count_text({}) == "1");
  CHECK(count_text({8, 1, 768}) == "8 * 768");
  CHECK(count_text({1, 32768, 65536}) == "32768L * 65536");
}

TEST_CASE("render: names, lists, conditions, indentation") {
  Params params;
  params.set("name", "f").set("body", "one;\ntwo;\n").set("empty", "").set("on", "yes");
  for (const char* n : {"a", "b"}) params.list("items").emplace_back().set("text", n);
  const char* text =
      "void $name() {\n  $body\n  $empty\n//@ for i in items\n  $i.text;\n//@ end\n//@ if empty\nno\n//@ end\n//@ if "
      "on\n${x} $name.y\n//@ end\n}\n";
  CHECK(render(text, params) == "void f() {\n  one;\n  two;\n  a;\n  b;\n${x} f.y\n}\n");
}

TEST_CASE("render: unknown and unused names are bugs") {
  CHECK_THROWS_AS(render("$x\n", Params()), InternalError);
  CHECK_THROWS_AS(render("x\n", Params().set("y", "1")), InternalError);
  CHECK_THROWS_AS(render("//@ if x\n", Params().set("x", "1")), InternalError);
}
