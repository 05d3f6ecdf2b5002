// The texts of steps in a loop over layers.
#include "runtime_lib/src/step_text.h"

#include <doctest/doctest.h>

using namespace weft;

TEST_CASE("step text: the number of a layer stands for what the compiler wrote in braces") {
  CHECK(in_layer("h.{layer}.ln_1", 12) == "h.12.ln_1");
  CHECK(in_layer("{layer + 3}{layer - 3}", 5) == "82");
  CHECK(in_layer("val_{4 * layer}, val_{4 * layer + 2}, val_{10 * layer - 7}", 3) == "val_12, val_14, val_23");
  CHECK(in_layer("val_{-3 * layer + 9}", 2) == "val_3");
  CHECK(in_layer("h.0 no number", 4) == "h.0 no number");
  for (const char* cut : {"{", "h.{lay", "h.{layer", "h.{layer + ", "h.{2 * layer - 3"}) CHECK(in_layer(cut, 7) == cut);
}

TEST_CASE("step text: outside of such loops a text is what it says") {
  CHECK(in_layer("an {layer} of the model's {", kNoLayer) == "an {layer} of the model's {");
  CHECK(name_of({.stream = 0, .name = "{layer}", .nodes = ""}) == "{layer}");
  CHECK(name_of({.stream = 0, .name = "h.{layer}", .nodes = "", .transform = "", .layer = 2}) == "h.2");
}
