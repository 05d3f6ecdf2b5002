// Each pass on graphs in text form: test/passes/PASS/*.weft, one behaviour a file.
//
//   // Neg of a constant is a constant.           what the case shows
//   // run: fold-constants                        the pass, a row of passes/pipeline.cpp
//   // with: {mesh: {tp: 2}, shard: {w: {tp: 0}}} a schedule, in YAML's flow style; may be left out
//   module "m" ...                                the graph before
//   // gives
//   module "m" ...                                the graph after it; of files named fail_*: what is reported
//
// `./dev update-goldens` writes the text after `// gives`.
#include <doctest/doctest.h>

#include <cstdlib>

#include "frontend/schedule_reader.h"
#include "ir/text/text_form.h"
#include "passes/runner.h"
#include "test/fixtures.h"

using namespace weftc;
using namespace weftc::test;

namespace {

constexpr std::string_view kGives = "// gives\n";

struct PassCase {
  std::string head, before, after;  // with kGives between the last two
  std::string pass, schedule;
};

/// The rest of a line of the head that begins with a word.
std::string head_line(const std::string& head, const std::string& word) {
  const size_t at = head.find("\n// " + word + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + word.size() + 6;
  return head.substr(begin, head.find('\n', begin) - begin);
}

PassCase read_case(const std::string& text) {
  const size_t graph = text.find("\nmodule ") + 1, gives = text.find(kGives);
  REQUIRE(text.starts_with("// "));
  REQUIRE(graph != 0);
  REQUIRE(gives != std::string::npos);
  PassCase read{text.substr(0, graph), text.substr(graph, gives - graph), text.substr(gives + kGives.size()), "", ""};
  read.pass = head_line(read.head, "run");
  read.schedule = head_line(read.head, "with");
  return read;
}

Schedule schedule_of(const PassCase& of) {
  if (of.schedule.empty()) return {};
  Diags diags;
  const std::optional<Schedule> schedule =
      read_schedule_text("s.yaml", "{weft: 1, " + of.schedule.substr(1) + "\n", diags);
  INFO(diags.text());
  REQUIRE(schedule);
  return *schedule;
}

/// The graph after the pass, or its diagnostics. It runs the pass like the runner, and also checks the form before it.
std::string result_of(const PassCase& of, const Pass& pass, Form before) {
  Diags diags;
  std::optional<Module> module = parse_module("case.weft", of.before, diags);
  INFO(diags.text());
  REQUIRE(module);
  for (const std::string& wrong : verify(*module, before)) CHECK_MESSAGE(false, "before: " << wrong);
  const Schedule schedule = schedule_of(of);
  pass.run(*module, {schedule, Target{}, diags});
  if (!diags.ok()) return diags.text();
  clean_up(*module);
  for (const std::string& wrong : verify(*module, pass.form)) CHECK_MESSAGE(false, "after: " << wrong);
  return print_module(*module);
}

void check_case(const std::filesystem::path& file, const Pass& pass, Form before) {
  CAPTURE(file.string());
  const PassCase read = read_case(read_file(file));
  CHECK(read.pass == pass.name);
  const std::string result = result_of(read, pass, before);
  CHECK(file.stem().string().starts_with("fail_") == !result.starts_with("module "));
  if (std::getenv("WEFT_UPDATE_GOLDENS"))
    std::ofstream(file) << read.head << read.before << kGives << result;
  else
    CHECK_MESSAGE(result == read.after, "./dev update-goldens rewrites what is expected");
}

}  // namespace

TEST_CASE("pass cases: every pass gives what its text cases say") {
  Form before = Form::Imported;
  for (const Pass& pass : pipeline()) {
    CAPTURE(std::string(pass.name));
    int cases = 0;
    std::error_code none;
    const std::string folder = WEFT_TEST_DIR "/passes/" + std::string(pass.name);
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() != ".weft") continue;
      check_case(entry.path(), pass, before);
      ++cases;
    }
    CHECK_MESSAGE(cases > 0, "a pass needs a case in test/passes/" << pass.name);
    before = pass.form;
  }
}
