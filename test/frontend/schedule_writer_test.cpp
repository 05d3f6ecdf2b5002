// Transforms written into schedules: what is written is what the reader reads, and the rest stays as it was.
#include "frontend/schedule_writer.h"

#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

namespace {

Selector named(const std::string& name) { return {Selector::Kind::Name, name, {}}; }

std::vector<TransformStep> all_kinds() {
  return {{SplitStep{named("h.{l}.sum"), 1, {"rs{l}", "ag{l}"}}, {}},
          {ReorderStep{true, {named("ag{l}")}, {named("a \"b\" \\ c"), named("caf\xc3\xa9: #x")}}, {}},
          {ReorderStep{false, {named("p"), named("q")}, {named("add")}}, {}},
          {FuseStep{{named("rs{l}"), {Selector::Kind::Uses, "w", {}}}, "far{l}"}, {}},
          {FuseStep{{named("*.grad.sum")}, "sums", {}, 1 << 20}, {}},
          {OverlapStep{{named("mm"), named("far{l}")}, 8, 2, Mechanism::Signal}, {}},
          {OverlapStep{{named("sums.*")}, 0}, {}}};
}

std::string added(const std::string& text, const std::vector<TransformStep>& steps) {
  Diags diags;
  const std::optional<std::string> made = with_transforms("s.yaml", text, steps, diags);
  return made ? *made : diags.all().front().id;
}

std::string pinned(const std::string& text, const std::vector<KernelPin>& pins) {
  Diags diags;
  const std::optional<std::string> made = with_pins("s.yaml", text, pins, diags);
  return made ? *made : diags.all().front().id;
}

/// A pin with all that one can say.
KernelPin full_pin() {
  KernelPin pin{"c", "unfolded-convolution", {}, {}, {}, {}};
  pin.panels = 8, pin.one_thread = true;
  return pin;
}

const std::vector<TransformStep> kOne = {{FuseStep{{named("a")}, "b"}, {}}};
const std::string kOneLine = "- fuse: {ops: [\"a\"], into: \"b\"}\n";

}  // namespace

TEST_CASE("what is written is read back") {
  const ReadSchedule read = read_yaml_schedule(added("weft: 1\nmesh: {tp: 2}\n", all_kinds()));
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  const std::vector<TransformStep>& steps = read.schedule->transforms;
  REQUIRE(steps.size() == all_kinds().size());
  for (size_t i = 0; i < steps.size(); ++i) CHECK(transform_text(steps[i]) == transform_text(all_kinds()[i]));
  CHECK(std::get<ReorderStep>(steps[1].what).past[0].text == "a \"b\" \\ c");
  CHECK(std::get<ReorderStep>(steps[1].what).past[1].text == "caf\xc3\xa9: #x");
  CHECK(std::get<OverlapStep>(steps[5].what).mechanism == Mechanism::Signal);
  CHECK(std::get<OverlapStep>(steps[6].what).chunks == 0);
  CHECK(std::get<FuseStep>(steps[4].what).bucket == 1 << 20);
  CHECK(transform_text(steps[4]).find("bucket: 1MiB") != std::string::npos);
}

TEST_CASE("a list is made where there is none") {
  CHECK(added("weft: 1 # one\nmesh: {tp: 2}", kOne) == "weft: 1 # one\nmesh: {tp: 2}\ntransform:\n  " + kOneLine);
  CHECK(added("weft: 1\n", {}) == "weft: 1\n");
}

TEST_CASE("steps stand after those of the list, before what follows it") {
  const std::string head = "weft: 1\ntransform:  # why\n    # first\n    - fuse: {ops: [x],\n            into: y}\n";
  const std::string tail = "\n# the seed\nseed: 3\n";
  CHECK(added(head + tail, kOne) == head + "    " + kOneLine + tail);
  CHECK(added("weft: 1\ntransform:\nseed: 3\n", kOne) == "weft: 1\ntransform:\n  " + kOneLine + "seed: 3\n");
}

TEST_CASE("steps stand before the end of the document, and what follows it stays") {
  const std::string ends[] = {"...\n", "...\r\n# the end\n", "... # why\n...\n"};
  for (const std::string& end : ends) {
    CHECK(added("weft: 1\n" + end, kOne) == "weft: 1\ntransform:\n  " + kOneLine + end);
    const std::string list = "transform:\n- fuse: {ops: [x], into: ...y}\n";
    CHECK(added(list + "# more\n" + end, kOne) == list + kOneLine + "# more\n" + end);
  }
}

TEST_CASE("a byte order mark is left out") {
  const ReadSchedule read = read_yaml_schedule("\xEF\xBB\xBFweft: 1\nmesh: {tp: 2}\n");
  CHECK_MESSAGE(read.schedule, read.diags.text());
  CHECK(added("\xEF\xBB\xBFweft: 1\n", kOne) == "weft: 1\ntransform:\n  " + kOneLine);
}

TEST_CASE("a step may begin on a line after that of its dash") {
  const std::string list = "transform:\n # all\n   - # first\n\n     fuse: {ops: [x], into: y}\n";
  CHECK(added(list + "seed: 3\n", kOne) == list + "   " + kOneLine + "seed: 3\n");
}

TEST_CASE("a style that has no place for a line is refused") {
  CHECK(added("{weft: 1, mesh: {tp: 2}}\n", kOne) == "schedule-style");
  CHECK(added("weft: 1\ntransform: [{fuse: {ops: [x], into: y}}]\n", kOne) == "schedule-style");
  CHECK(added("weft: 1\ntransform: ~\n", kOne) == "schedule-style");
  CHECK(added("weft: 1\ntransform: []\n", kOne) == "schedule-style");
  CHECK(added("weft: 1\ntransform: [\n  {fuse: {ops: [x], into: y}}]\n", kOne) == "schedule-style");
}

TEST_CASE("pins are written after those of the mapping, and read back") {
  const std::vector<KernelPin> pins = {{"fc", "tiled-product", {64, 32}, {}, {}, {}}, {"a: b", "rows", {}, {}, {}, {}}};
  const std::string lines = "  \"fc\": {strategy: tiled-product, tile: [64, 32]}\n  \"a: b\": {strategy: rows}\n";
  CHECK(pinned("weft: 1\nmesh: {tp: 2}\n", pins) == "weft: 1\nmesh: {tp: 2}\nkernels:\n" + lines);
  CHECK(pinned("weft: 1\n", {}) == "weft: 1\n");
  const std::string before = "weft: 1\nkernels:  # mine\n  qkv: {strategy: plain-loops}\n", after = "# seed\nseed: 3\n";
  CHECK(pinned(before + after, pins) == before + lines + after);
  const ReadSchedule read = read_yaml_schedule(pinned(before + after, pins));
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  REQUIRE(read.schedule->kernels.size() == 3);
  CHECK(read.schedule->kernels[1].tile == pins[0].tile);
  CHECK(read.schedule->kernels[2].name == "a: b");
}

TEST_CASE("a mapping without a line for each kernel takes no pin") {
  const std::vector<KernelPin> pins = {{"fc", "rows", {}, {}, {}, {}}};
  CHECK(pinned("weft: 1\nkernels: {qkv: {strategy: rows}}\n", pins) == "schedule-style");
  CHECK(pinned("weft: 1\nkernels:\n  {qkv: {strategy: rows}}\nseed: 1\n", pins) == "schedule-style");
  CHECK(pinned("weft: 1\nkernels: {\n  qkv: {strategy: rows}}\nseed: 1\n", pins) == "schedule-style");
}

TEST_CASE("pins with panels, one thread and a comment") {
  Diags diags;
  const std::optional<std::string> made =
      with_pins("s.yaml", "weft: 1\n", {full_pin()}, diags, {"2 ms before, 1 ms after"});
  REQUIRE(made);
  CHECK(*made ==
        "weft: 1\nkernels:\n  \"c\": {strategy: unfolded-convolution, panels: 8, threads: 1}  # 2 ms before, 1 ms "
        "after\n");
  const ReadSchedule read = read_yaml_schedule(*made);
  REQUIRE_MESSAGE(read.schedule, read.diags.text());
  CHECK(read.schedule->kernels[0].panels == 8);
  CHECK(read.schedule->kernels[0].one_thread);
}
