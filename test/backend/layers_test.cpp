// Layers that repeat as a loop: the texts that all layers share, and where there is no loop.
#include "backend/emit.h"
#include "backend/number_pattern.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

using Texts = std::vector<std::string>;

TEST_CASE("layers: one text for names in which numbers go with the layer") {
  CHECK(layer_text({"h.1.ln", "h.2.ln", "h.3.ln"}, 1) == "h.{layer}.ln");
  CHECK(layer_text({"h.1.ln", "h.2.ln"}, 0) == "h.{layer + 1}.ln");
  CHECK(layer_text({"val_3", "val_7", "val_11"}, 0) == "val_{4 * layer + 3}");
  CHECK(layer_text({"val_3", "val_7"}, 2) == "val_{4 * layer - 5}");
  CHECK(layer_text({"a.0.b.5", "a.1.b.5"}, 0) == "a.{layer}.b.5");
  CHECK(layer_text({"9.to.9", "10.to.10"}, 9) == "{layer}.to.{layer}");
  CHECK(layer_text({"same", "same"}, 3) == "same");
  CHECK(layer_text({"val_9", "val_6", "val_3"}, 0) == "val_{-3 * layer + 9}");
  // Counter-cases: unequal steps, other words, a leading zero, more digits than a number of a layer has.
  CHECK(!layer_text({"h.1", "h.2", "h.4"}, 1));
  CHECK(!layer_text({"h.1.query", "h.2.key"}, 1));
  CHECK(!layer_text({"h.01", "h.02"}, 1));
  CHECK(!layer_text({"h.1234567890", "h.1234567891"}, 0));
}

TEST_CASE("layers: a name without its number") {
  CHECK(without_layer("h.0.ln_1", "h.1.ln_1", "") == "h.ln_1");
  CHECK(without_layer("h.0.ln_1", "h.1.ln_1", "layer") == "h.layer.ln_1");
  CHECK(without_layer("x/3", "x/4", "") == "x");
  CHECK(without_layer("p0", "p1", "") == "p");
  CHECK(without_layer("first", "second", "layer") == "first");
}

/// program.cpp of a stack of layers; `residual` is what the last node of layer k adds.
static std::string program_of(int layers, bool unrolls, const std::string& name = "h.") {
  std::string nodes, constants, value = "x";
  for (int k = 0; k < layers; ++k) {
    const std::string n = std::to_string(k);
    constants += "float[16,16] w" + n + " = random(" + std::to_string(k + 1) + ", 0.3), ";
    nodes += "[\"" + name + n + ".fc\"] p" + n + " = MatMul(" + value + ", w" + n + ")\n";
    nodes += "[\"" + name + n + ".act\"] a" + n + " = Softmax(p" + n + ")\n";
    nodes += "[\"" + name + n + ".turn\"] t" + n + " = Transpose<perm = [1, 0]>(a" + n + ")\n";
    nodes += "[\"" + name + n + ".share\"] s" + n + " = Softmax(t" + n + ")\n";
    value = "s" + n;
  }
  Planned made = plan_of("<ir_version: 10, opset_import: [\"\" : 20]>\nm (float[16,16] x) => (float[16,16] y) <" +
                             constants + "int64[1] one = {1}> {\n" + nodes + "y = Neg(" + value + ")\n}\n",
                         "");
  made.plan.unrolls_layers = unrolls;
  Diags diags;
  for (const SourceFile& file : emit(made.plan, diags))
    if (file.path == "program.cpp") return file.text;
  return diags.text();
}

static bool has_loop(const std::string& text) { return text.find("for (int layer = ") != std::string::npos; }

TEST_CASE("layers: text does not grow with depth") {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  // Buffers at which layers take turns are in tables, of which a line has twenty.
  CHECK(lines(program_of(40, false)) <= lines(program_of(10, false)) + 4);
  CHECK(lines(program_of(40, true)) >= lines(program_of(10, true)) + 90);
}

TEST_CASE("layers: no loop where it saves little, is not wanted, or names could be taken for those of layers") {
  CHECK(has_loop(program_of(6, false)));
  CHECK(!has_loop(program_of(2, false)));
  CHECK(!has_loop(program_of(6, true)));
  CHECK(!has_loop(program_of(6, false, "h{x}.")));
}
