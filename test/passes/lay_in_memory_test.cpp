// Values that something other than a kernel reads lie in memory afterwards. Values that already do so stay.
#include <doctest/doctest.h>

#include "ir/text/text_form.h"
#include "ir/value_memory.h"
#include "passes/passes.h"
#include "passes/runner.h"

using namespace weftc;

namespace {

constexpr const char* kHead = "module \"m\" file \"m.onnx\" seed 0\nplace @all [0, 1] {tp: 2}\n";

struct Laid {
  Diags diags;
  std::optional<Module> module;
  std::vector<std::string> before, after;  // findings of the verifier
};

Laid laid(const std::string& constants, const std::string& graph) {
  Laid made;
  made.module = parse_module("t.weft", kHead + constants + "graph {\n" + graph + "\n}\n", made.diags);
  INFO(made.diags.text());
  REQUIRE(made.module);
  made.before = verify(*made.module, Form::Stored);
  const Schedule schedule;
  const Target target;
  lay_in_memory(*made.module, {schedule, target, made.diags});
  clean_up(*made.module);
  made.after = verify(*made.module, Form::Stored);
  for (const std::string& line : made.after) MESSAGE(line);
  return made;
}

int copies(const Graph& graph) {
  int count = 0;
  for (OpId id : graph.order()) {
    count += is_copy(graph, graph.op(id));
    for (const Graph& region : graph.op(id).regions) count += copies(region);
  }
  return count;
}

std::string branches(const std::string& then_body, const std::string& else_body) {
  const auto region = [](const std::string& body) {
    return " {\n%a = Input() : f32[4] @all\n%w = Constant() {value = #0} : f32[4] @all\n" + body + "\n}";
  };
  return "%c = Input() : bool[] @all\n%x = Input() : f32[4] @all\n%y, %z = If(%c, %x) : f32[4], f32[4] @all" +
         region(then_body) + region(else_body) + "\nreturn %y, %z";
}

constexpr const char* kWeightText = "constant #0 \"w\" f32[4] = [1, 2, 3, 4]\n";

}  // namespace

TEST_CASE("lay in memory: a constant that a collective reads is copied, once for each reader") {
  const Laid made = laid(kWeightText, R"(%w = Constant() {value = #0} : f32[4] [tp: S(0,2)] @all
%y = AllGather(%w) {axes = [0]} : f32[4] @all
return %y)");
  CHECK(made.before ==
        std::vector<std::string>{"'y' (AllGather): operand 0 ('w') is a constant and must lie in a buffer"});
  CHECK(made.after.empty());
  CHECK(copies(made.module->graph) == 1);
}

TEST_CASE("lay in memory: results of a region are no constants, no parameters, and not twice the same value") {
  const std::string own = "%b = Neg(%a) : f32[4] @all\n%d = Exp(%a) : f32[4] @all\nreturn %b, %d";
  const Laid given = laid(kWeightText, branches(own, "return %a, %w"));
  CHECK(given.before == std::vector<std::string>{"'y' (If): result 0 of a region is the memory of parameter 'a'",
                                                 "'y' (If): result 1 of a region is a constant"});
  CHECK(given.after.empty());
  CHECK(copies(given.module->graph) == 2);
  const Laid twice = laid(kWeightText, branches(own, "%b = Neg(%a) : f32[4] @all\nreturn %b, %b"));
  CHECK(twice.before ==
        std::vector<std::string>{"'y' (If): result 1 of a region shares its memory with another result"});
  CHECK(twice.after.empty());
  CHECK(copies(twice.module->graph) == 1);
}

TEST_CASE("lay in memory: equal copies stay apart") {
  const Laid made = laid(kWeightText, branches("return %a, %a",
                                               "%b = Neg(%a) : f32[4] @all\n%d = Exp(%a) : f32[4] @all\n"
                                               "return %b, %d"));
  CHECK(made.after.empty());
  CHECK(copies(made.module->graph) == 2);
}

TEST_CASE("lay in memory: near misses stay as they are") {
  const std::string own = "%b = Neg(%a) : f32[4] @all\n%d = Exp(%w) : f32[4] @all\nreturn %b, %d";
  const Laid regions = laid(kWeightText, branches(own, own));
  CHECK(regions.before.empty());
  CHECK(copies(regions.module->graph) == 0);
  const Laid kernels = laid(kWeightText, R"(%w = Constant() {value = #0} : f32[4] @all
%y = Neg(%w) : f32[4] @all
return %y)");
  CHECK(copies(kernels.module->graph) == 0);
}

TEST_CASE("lay in memory: a constant that a Chunk reads whole stands in its body") {
  const Laid made = laid(kWeightText, R"(%x = Input() : f32[8, 4] @all
%w = Constant() {value = #0} : f32[4] @all
%y = Chunk(%x, %w) {chunks = 2} : f32[8, 4] @all {
  time {t: 2}
  %c = Input() : f32[8, 4] [t: S(0,4)] @all
  %d = Input() : f32[4] @all
  %r = Mul(%c, %d) : f32[8, 4] [t: S(0,4)] @all
  return %r
}
return %y)");
  CHECK(made.after.empty());
  const Graph& graph = made.module->graph;
  const Op& chunk = graph.op(graph.find_op("y"));
  CHECK(chunk.inputs.size() == 1);
  CHECK(bool(chunk.regions[0].find_value("d.again")));
}
