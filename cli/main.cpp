// The verbs of the command line, and internal errors.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>

#include "cli/commands.h"
#include "ir/base/check.h"

namespace {

using weftc::Verb;

constexpr Verb kVerbs[] = {
    {"compile", "makes an executable of a model and a schedule", Verb::kModel | Verb::kBuild,
     weftc::run_compile_or_plan},
    {"inspect", "shows inputs, outputs, dims and operators of a model, and what requests must be like",
     Verb::kModel | Verb::kJson | Verb::kInspect, weftc::run_inspect},
    {"explain", "shows layouts, collectives, kernels and what moves", Verb::kModel | Verb::kJson | Verb::kExplain,
     weftc::run_explain},
    {"trace", "shows what was measured: when each stream ran what", Verb::kTrace | Verb::kJson, weftc::run_trace},
    {"log", "shows what trainings wrote with --log: figures, the curve of the loss", Verb::kLog | Verb::kJson,
     weftc::run_log},
    {"verify", "compiles, runs and compares with known results", Verb::kModel | Verb::kVerify, weftc::run_verify},
    {"export", "writes a trained model as ONNX", Verb::kExport, weftc::run_export},
    {"tune", "tries transforms and strategies of kernels, writes the fastest schedule", Verb::kModel | Verb::kTune,
     weftc::run_tune},
    {"plan", "chooses layouts, transforms and stages for a machine, writes them as a schedule",
     Verb::kModel | Verb::kPlan, weftc::run_plan},
    {"profile", "measures what each block of a pipeline takes on this machine, or the machine itself",
     Verb::kModel | Verb::kProfile, weftc::run_profile},
    {"solve", "finds the shortest periods of pipelines, with the least memory", Verb::kSolve | Verb::kJson,
     weftc::run_solve},
    {"verify-many", "the same of a list of cases", Verb::kTarget | Verb::kMany, weftc::run_verify_many},
    {"ops", "lists the operators that are read", Verb::kJson | Verb::kOps, weftc::run_ops},
    {"doctor", "says what is missing on this machine", Verb::kTarget, weftc::run_doctor},
};

int bug(const char* what) {
  std::fprintf(stderr,
               "weft: internal error: %s\n"
               "This is a bug of weft; please report it with the model, the schedule and the command.\n",
               what);
  return weftc::kBug;
}

/// A result that did not reach its file is no result.
int after_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "weft: error: cannot write to standard output: %s\n", std::strerror(errno));
  return code == 0 ? weftc::kEnvironment : code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const weftc::CommandLine line = weftc::parse_command_line(argc, argv, kVerbs, std::size(kVerbs));
    return after_output(line.verb ? line.verb->run(line.options) : line.exit_code);
  } catch (const weftc::InternalError& error) {
    return bug(error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "weft: error: out of memory\n");
    return weftc::kEnvironment;
  } catch (const std::exception& error) {
    return bug(error.what());
  }
}
