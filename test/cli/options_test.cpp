// The command line as data: what is taken, what is a usage error.
#include "cli/options.h"

#include <doctest/doctest.h>

#include <iterator>

namespace weftc {

static int run_nothing(const Options&) { return 0; }

static constexpr Verb kVerbs[] = {
    {"compile", "", Verb::kModel | Verb::kBuild, run_nothing},
    {"verify", "", Verb::kModel | Verb::kVerify, run_nothing},
    {"explain", "", Verb::kModel | Verb::kExplain, run_nothing},
};

static CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "weft");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data(), kVerbs, std::size(kVerbs));
}

TEST_CASE("compile takes its flags in any order, lists one value at a time") {
  const CommandLine line =
      parse({"compile", "--dim", "batch=2", "--dim=seq<=16", "m.onnx", "--shape", "x=1x3", "-o", "p"});
  REQUIRE(line.verb);
  CHECK(line.options.model == "m.onnx");
  CHECK(line.options.output == "p");
  REQUIRE(line.options.dims.size() == 2);
  CHECK(line.options.dims[0].name == "batch");
  CHECK(line.options.dims[1].bounded);
  CHECK(line.options.shapes[0].dims == Dims{1, 3});
}

TEST_CASE("a shape may have bounds") {
  const CommandLine line = parse({"compile", "m.onnx", "--shape", "x=1x<=3x<=12", "--shape", "a=b=<=5", "-o", "p"});
  REQUIRE(line.verb);
  CHECK(line.options.shapes[0].dims == Dims{1, 3, 12});
  CHECK(line.options.shapes[0].bounded == std::vector<size_t>{1, 2});
  CHECK(line.options.shapes[1].input == "a=b");
  CHECK(parse({"compile", "m.onnx", "--shape", "x<=3", "-o", "p"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "--shape", "x=<3", "-o", "p"}).exit_code == kUsage);
}

TEST_CASE("verify takes several schedules, compile one") {
  CHECK(parse({"verify", "m.onnx", "--schedule", "a", "--schedule", "b"}).options.schedules.size() == 2);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--schedule", "a", "--schedule", "b"}).exit_code == kUsage);
}

TEST_CASE("what is missing, unknown or malformed is a usage error") {
  CHECK(parse({}).exit_code == kUsage);
  CHECK(parse({"compyle"}).exit_code == kUsage);
  CHECK(parse({"compyle", "m.onnx", "-o", "p"}).exit_code == kUsage);
  CHECK(parse({"verify", "m.onnx", "--tolerance", "-1"}).exit_code == kUsage);
  CHECK(parse({"compile", "-o", "p"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--dim", "batch"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--schedule", "s", "--mesh", "tp"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--mesh", "tp=2"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--stop-after", "nothing"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--arch", "z80"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--arch", "x86-64-v2,native"}).exit_code == kUsage);
  CHECK(parse({"compile", "m.onnx", "-o", "p", "--arch", "aarch64,x86-64-v3"}).exit_code == kUsage);
}

#if defined(__x86_64__)
TEST_CASE("an executable has two levels of CPUs, what is shown the lower one, on every machine") {
  CHECK(parse({"compile", "m.onnx", "-o", "p"}).options.target.archs ==
        std::vector<std::string>{"x86-64-v3", "x86-64-v4"});
  CHECK(parse({"explain", "m.onnx"}).options.target.archs == std::vector<std::string>{"x86-64-v3"});
  CHECK(parse({"verify", "m.onnx"}).options.target.archs.size() == 1);
}
#endif

TEST_CASE("archs bring their vector width") {
  CHECK(host_target({"x86-64-v3"}).vector_floats == 8);
  CHECK(host_target({"x86-64-v4"}).vector_floats == 16);
  CHECK(host_target({"aarch64"}).vector_floats == 4);
  CHECK(host_target({"aarch64"}).machine == "aarch64");
  CHECK_FALSE(find_host_arch("z80"));
}

TEST_CASE("flags of a list's line") {
  Options options;
  std::string why;
  CHECK(parse_model_flags({"--dim", "batch=2", "--shape=x=2x3", "--sequence", "s=2", "--optional", "o=absent"}, options,
                          why));
  CHECK(options.elements.size() == 2);
  CHECK(options.dims.size() == 1);
  CHECK(options.shapes.size() == 1);
  CHECK_FALSE(parse_model_flags({"--fast"}, options, why));
  CHECK_FALSE(why.empty());
}

}  // namespace weftc
