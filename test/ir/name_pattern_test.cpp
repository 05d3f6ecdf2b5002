// Patterns of names: variables, stars, ranges of numbers, dots that are slashes.
#include "ir/name_pattern.h"

#include <doctest/doctest.h>

using namespace weftc;

namespace {
bool matches(const char* pattern, const char* name) { return NamePattern(pattern).match(name).has_value(); }
}  // namespace

TEST_CASE("name_pattern: a variable is one component, a star anything") {
  CHECK(NamePattern("h.{l}.fc").match("h.12.fc") == Bindings{{"l", "12"}});
  CHECK_FALSE(matches("h.{l}.fc", "h.1.2.fc"));
  CHECK(matches("h.*.fc", "h.1.2.fc"));
  CHECK(matches("{a}.{a}", "x.x"));
  CHECK_FALSE(matches("{a}.{a}", "x.y"));
}

TEST_CASE("name_pattern: a range is one of its numbers") {
  for (const char* name : {"h.0.fc", "h.5.fc"}) CHECK(matches("h.{0..5}.*", name));
  for (const char* name : {"h.6.fc", "h.10.fc", "h.x.fc", "h..fc", "h.-1.fc"}) CHECK_FALSE(matches("h.{0..5}.*", name));
  CHECK(matches("{10..12}", "11"));
  CHECK(substitute("h.{0..5}.{l}", {{"l", "3"}}) == "h.{0..5}.3");
  CHECK_FALSE(NamePattern("h.{0..5}.*").has_variables());
  CHECK(NamePattern("h.{0..}.*").has_variables());  // no range: a variable of that name
}

TEST_CASE("name_pattern: a dot is a slash too, and a slash may stand in front") {
  CHECK(matches("model.layers.{l}.*", "/model/layers/3/mlp/Mul"));
  CHECK(matches("model.layers.{l}.*", "/model/layers.3/mlp/Mul"));
  CHECK(matches("model.layers.{l}.*", "model.layers.3.mlp"));
  CHECK_FALSE(matches("/model/layers/{l}/*", "model.layers.3.mlp"));
  CHECK_FALSE(matches("odel.*", "/model/x"));
  CHECK(NamePattern("model.layers").start() == "model");
}
