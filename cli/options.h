// The command line: one struct, one function that fills it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_options.h"
#include "ir/target.h"

namespace weftc {

/// Exit codes of README.md that diagnostics do not give.
enum ExitCode : int { kUsage = 2, kToolchain = 4, kMismatch = 5, kEnvironment = 6, kBug = 70, kTimedOut = 124 };

struct Options {
  // The program to compile.
  std::string model;
  std::vector<std::string> schedules;                 // verify takes several, the other verbs one at most
  std::map<std::string, std::string> schedule_texts;  // texts of schedules that are not files (with_schedule)
  std::vector<MeshAxis> mesh;                         // sizes that replace the schedule's
  std::vector<DimRequest> dims;
  std::vector<ShapeRequest> shapes;
  std::vector<BindRequest> binds;
  std::vector<ElementsRequest> elements;
  std::vector<std::string> overrides;  // inputs with a default that stay open
  std::optional<DType> precision;      // of all contractions, overriding the schedule
  Target target;
  bool transport_mpi = false;
  std::string mpicc = "mpicc";

  // The output.
  std::string output;
  bool emit_source = false, emit_library = false, unroll_layers = false;
  std::string dump_dir;
  std::vector<std::string> print_ir_after;
  std::vector<std::string> print_plan_after;
  std::string stop_after;
  std::vector<std::string> skip_passes;  // set by verbs, not by a flag
  bool time_passes = false;
  std::string report;
  bool quiet = false;  // no progress

  // Options of single verbs.
  bool json = false;
  bool names = false;         // explain
  bool requirements = false;  // inspect
  bool markdown = false;      // ops
  std::string data;           // verify
  std::optional<double> tolerance;
  bool taps = false;
  std::string checkpoint;           // export
  bool averages = false;            // export: the averages of parameters
  std::string page;                 // explain, trace: a timeline as HTML; plan: the alternatives
  std::vector<std::string> traces;  // trace
  std::vector<std::string> logs;    // log
  std::string iteration = "median";
  std::string machine;            // compile, explain, tune: the file of the machine for predictions
  bool measures_machine = false;  // profile: the machine, not a model
  int machine_ranks = 0;          // profile, plan: of the machine; 0: one per core (profile), or all (plan)
  bool is_planned = false;        // compile: with the schedule that `plan` writes for the machine
  std::string level = "shard";    // plan, compile: how much is chosen
  std::vector<std::pair<std::string, double>> ceilings;  // explain: figures that replace the machine's
  std::string problems;                                  // solve
  std::vector<std::string> cases;
  int per_period = 1;
  std::vector<int> micro_batches;
  double effort = 1;
  double seconds = 60;
  uint64_t seed = 1;
  std::string list;  // verify-many
  int jobs = 1;
  std::vector<std::string> collectives, kernels;  // tune
  std::vector<int> chunks;
  std::vector<std::string> run_args;  // verify-many and profile too
  std::string profile;                // compile, explain, tune: measured times instead of the cost model's
  int iterations = 10;                // profile
  int pairs = 30;
  double budget = 0;    // seconds; 0: no limit
  bool is_all = false;  // includes candidates that the cost model would prune
};

/// The same options with this text as the schedule. Messages give it the name of --schedule, or plan.yaml.
Options with_schedule(Options options, std::string text);

/// A verb of the command line: its flags, and its function.
struct Verb {
  enum Flags : unsigned {
    kModel = 1,
    kBuild = 2,
    kJson = 4,
    kExplain = 8,
    kOps = 16,
    kVerify = 32,
    kMany = 64,
    kTarget = 128,
    kInspect = 256,
    kTune = 512,
    kTrace = 1024,
    kExport = 2048,
    kLog = 4096,
    kSolve = 8192,
    kProfile = 16384,
    kPlan = 32768
  };
  const char* name;
  const char* help;
  unsigned flags;
  int (*run)(const Options&);  // the exit code
};

/// Reads the command line. If help was requested or there is an error, it prints the text and sets `exit_code`; `verb`
/// is null.
struct CommandLine {
  const Verb* verb = nullptr;
  Options options;
  int exit_code = 0;
};
CommandLine parse_command_line(int argc, const char* const* argv, const Verb* verbs, size_t count);

/// Parses the flags of one line of a list: those that select the program (--dim, --shape, --bind, --schedule), and
/// --tolerance. False with `why`.
bool parse_model_flags(const std::vector<std::string>& flags, Options& options, std::string& why);

}  // namespace weftc
