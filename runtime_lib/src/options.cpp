// The flags of an emitted program as one table: name, value, help text, and what each sets. Parsing and --help
// read the same table.
#include "options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "failure.h"
#include "nearest.h"
#include "root.h"
#include "sampling.h"

namespace weft {

namespace {

using Value = const std::string&;

struct Flag {
  const char* name;
  const char* value;  // nullptr: a switch
  const char* help;
  void (*set)(Options&, Value);
  bool may_lack_value = false;
};

double number(const char* flag, Value value, double low, double high) {
  const bool is_decimal = value.find_first_not_of("0123456789.eE+-") == std::string::npos;
  char* end = nullptr;
  const double out = strtod(value.c_str(), &end);
  if (!is_decimal || *end != '\0' || !(out >= low && out <= high))
    fail(kUsage, "%s %s: a number from %.10g to %.10g is expected", flag, value.c_str(), low, high);
  return out;
}

int whole(const char* flag, Value value, int low, int high) {
  const double out = number(flag, value, low, high);
  if (out != int(out)) fail(kUsage, "%s %s: an integer is expected", flag, value.c_str());
  return int(out);
}

void set_input(Options& o, Value value) {
  const size_t equals = value.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == value.size())
    fail(kUsage, "--input %s: NAME=FILE.npy is expected", value.c_str());
  if (!o.inputs.emplace(value.substr(0, equals), value.substr(equals + 1)).second)
    fail(kUsage, "--input %s is given twice", value.substr(0, equals).c_str());
}

void add_samples(std::map<std::string, std::string>& files, const char* flag, Value value) {
  const size_t equals = value.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == value.size())
    fail(kUsage, "%s %s: NAME=FILE.npy is expected", flag, value.c_str());
  if (!files.emplace(value.substr(0, equals), value.substr(equals + 1)).second)
    fail(kUsage, "%s %s is given twice", flag, value.substr(0, equals).c_str());
}

void set_shuffle(Options& o, Value value) {
  o.shuffles = true;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), o.shuffle_seed);
  if (!value.empty() && (error != std::errc() || *end != '\0'))
    fail(kUsage, "--shuffle %s: an integer from 0 to 2^64 - 1 is expected", value.c_str());
}

void set_seed(Options& o, Value value) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), o.seed);
  if (error != std::errc() || *end != '\0')
    fail(kUsage, "--random-inputs %s: an integer from 0 to 2^64 - 1 is expected", value.c_str());
  o.random_inputs = true;
}

void set_stall(Options& o, Value value) {
  const size_t colon = value.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == value.size())
    fail(kUsage, "--stall %s: RANK:STEP is expected", value.c_str());
  o.stall_rank = whole("--stall", value.substr(0, colon), 0, 1 << 20);
  o.stall_step = value.substr(colon + 1);
}

void set_serve(Options& o, Value value) {
  constexpr std::string_view kUnix = "unix:";
  constexpr size_t kLongestPath = 107;  // of sockaddr_un
  o.serves = true;
  if (value.empty()) return;
  if (!value.starts_with(kUnix) || value.size() == kUnix.size())
    fail(kUsage, "--serve %s: unix:PATH is expected, or nothing for standard input and output", value.c_str());
  o.socket = value.substr(kUnix.size());
  if (o.socket.size() > kLongestPath)
    fail(kUsage, "--serve %s: a socket's path has %zu characters at most", value.c_str(), kLongestPath);
}

constexpr Flag kFlags[] = {
    {"--input", "NAME=FILE",
     "a global tensor as .npy; each rank takes its slice. {i} in FILE is the invocation: 0, 1, ... A state begins so",
     set_input},
    {"--random-inputs", "SEED", "inputs not given are uniform in [-1, 1), integers 0 or 1", set_seed},
    {"--output-dir", "DIR", "write each output of the last invocation to DIR/NAME.npy",
     [](Options& o, Value v) { o.output_dir = v; }},
    {"--iterations", "N", "invocations, one after another (default 1); prints a latency table",
     [](Options& o, Value v) { o.iterations = whole("--iterations", v, 1, 1 << 30), o.is_timed = true; }},
    {"--warmup", "N", "invocations before those; states are then set back",
     [](Options& o, Value v) { o.warmup = whole("--warmup", v, 0, 1 << 30), o.is_timed = true; }},
    {"--overlap", nullptr, "measure how much communication computation hides: times each of them alone, too",
     [](Options& o, Value) { o.measures_overlap = o.is_timed = true; }},
    {"--json", nullptr, "print one JSON object on standard output", [](Options& o, Value) { o.json = true; }},
    {"--threads", "N", "threads of each rank (default: cores / ranks)",
     [](Options& o, Value v) { o.threads = whole("--threads", v, 1, 1024); }},
    {"--bind", nullptr, "host: each thread keeps to a core of its own; the ranks of a machine share its cores in order",
     [](Options& o, Value) { o.binds = true; }},
    {"--arch", "LEVEL", "kernels of this level of CPUs, one that --info lists (default: the highest that this CPU has)",
     [](Options& o, Value v) { o.arch = v; }},
    {"--trace", "FILE", "write a trace of all ranks for Perfetto", [](Options& o, Value v) { o.trace = v; }},
    {"--info", nullptr, "print inputs, outputs, mesh and manifest as JSON", [](Options& o, Value) { o.info = true; }},
    {"--timeout", "SECONDS", "how long a rank waits for another (default 60)",
     [](Options& o, Value v) { o.timeout = number("--timeout", v, 0.001, 1e6); }},
    {"--root", "HOST:PORT",
     "cuda, on several machines: where rank 0 is (default: MASTER_ADDR and MASTER_PORT, or Slurm)",
     [](Options& o, Value v) { o.root = parse_root("--root", v, kUsage).text(); }},
    {"--load-state", "DIR", "states begin as DIR/NAME.npy, by the name of their input (default: from zero)",
     [](Options& o, Value v) { o.load_state = v; }},
    {"--save-state", "DIR", "write the states after the last invocation",
     [](Options& o, Value v) { o.save_state = v; }},
    {"--serve", "[unix:PATH]",
     "answer requests from standard input, or from clients of a Unix socket, until the input or SIGTERM ends it",
     set_serve, true},
    {"--sessions", "N", "--serve: sessions whose states are kept at once (default 256)",
     [](Options& o, Value v) { o.sessions = whole("--sessions", v, 1, 1 << 20); }},
    {"--session-timeout", "SECONDS", "--serve: a session ends that was not used for so long (default: it stays)",
     [](Options& o, Value v) { o.session_timeout = number("--session-timeout", v, 0.001, 1e9); }},
    {"--client-timeout", "SECONDS",
     "--serve: a client is disconnected that was silent for so long (default 600; 0: it stays)",
     [](Options& o, Value v) { o.client_timeout = number("--client-timeout", v, 0, 1e9); }},
    {"--no-generate", nullptr, "of a program that generates: one invocation for each input, as without `generate:`",
     [](Options& o, Value) { o.no_generate = true; }},
    {"--ml-dtypes", nullptr, "write bf16 as numpy.save writes arrays of ml_dtypes ('|V2'), not its bits as uint16",
     [](Options& o, Value) { o.ml_dtypes = true; }},
    {"--weights", "FILE", "the weights, where they are not in the executable (default: weights.bin beside it)",
     [](Options& o, Value v) { o.weights = v; }},
    {"--data", "NAME=FILE",
     "of a program that trains: the samples of an input as .npy, along its first dimension; or one row of tokens",
     [](Options& o, Value v) { add_samples(o.data, "--data", v); }},
    {"--eval-data", "NAME=FILE", "the same of samples on which figures are computed after the last step, as means",
     [](Options& o, Value v) { add_samples(o.eval_data, "--eval-data", v); }},
    {"--eval-every", "N", "--eval-data: and after every N steps",
     [](Options& o, Value v) { o.eval_every = whole("--eval-every", v, 1, 1 << 30); }},
    {"--steps", "N", "steps of the training, those of --resume included (default: one epoch)",
     [](Options& o, Value v) { o.steps = whole("--steps", v, 1, 1 << 30); }},
    {"--epochs", "N", "instead: so often through all samples",
     [](Options& o, Value v) { o.epochs = whole("--epochs", v, 1, 1 << 30); }},
    {"--shuffle", "[SEED]", "samples in another order in each epoch, the same for every number of ranks", set_shuffle,
     true},
    {"--log", "FILE", "loss, rate, time and the like of each step as lines of JSON",
     [](Options& o, Value v) { o.log = v; }},
    {"--checkpoint", "DIR", "write the states after the last step, and after every N with --every",
     [](Options& o, Value v) { o.checkpoint = v; }},
    {"--every", "N", "--checkpoint: steps between two",
     [](Options& o, Value v) { o.every = whole("--every", v, 1, 1 << 30); }},
    {"--keep", "N", "--checkpoint: only so many, the newest (default: all)",
     [](Options& o, Value v) { o.keep = whole("--keep", v, 1, 1 << 30); }},
    {"--resume", "DIR", "go on from a checkpoint, or from the latest in DIR",
     [](Options& o, Value v) { o.resume = v; }},
    {"--check-nan", nullptr,
     "of a program that trains: end with the first step that computes a number which is not finite, by name (slow)",
     [](Options& o, Value) { o.check_nan = true; }},
    {"--check", nullptr,
     "compare all weights with their checksums first (else only slices of up to 1 GiB), and large files between ranks",
     [](Options& o, Value) { o.check = true; }},
    {"--no-graph", nullptr, "cuda: issue every step anew instead of replaying a captured graph",
     [](Options& o, Value) { o.no_graph = true; }},
    {"--link", "BANDWIDTH[,LATENCY]",
     "host: ranks take from each other over links this slow, such as 1GB/s,50us or 10Gbit/s",
     [](Options& o, Value v) { o.link = parse_link(v); }},
    {"--poison", nullptr, "for tests: memory is NaN at the start of each invocation",
     [](Options& o, Value) { o.poison = true; }},
    {"--stall", "RANK:STEP", "for tests: this rank stops in this step", set_stall},
    {"--ranks-as-threads", nullptr, "for tests: ranks are threads of one process",
     [](Options& o, Value) { o.ranks_as_threads = true; }},
    {"--help", nullptr, "this text", [](Options& o, Value) { o.help = true; }},
};

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : kFlags)
    if (name == flag.name) return &flag;
  return nullptr;
}

const Setting* find_setting_flag(std::string_view name) {
  for (const Setting& setting : settings())
    if (name == setting.flag) return &setting;
  return nullptr;
}

[[noreturn]] void fail_for(std::string_view name) {
  std::vector<std::string> names;
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  for (const Setting& setting : settings()) names.emplace_back(setting.flag);
  fail(kUsage, "unknown argument '%s'%s; --help lists what there is", std::string(name).c_str(),
       did_you_mean(name, names).c_str());
}

void set_setting(Options& options, const Setting& setting, Value value) {
  if (value.empty()) fail(kUsage, "%s needs a value: %s", setting.flag, setting.value);
  const double wanted = number(setting.flag, value, setting.low, setting.high);
  check_setting(setting, wanted, kUsage, setting.flag);
  options.settings[setting.port.name] = wanted;
}

void set(Options& options, const Flag& flag, Value value) {
  if (value.empty()) fail(kUsage, "%s needs a value: %s", flag.name, flag.value);
  flag.set(options, value);
}

/// The flag at argv[i], with its value, which may be the next argument; the number of the last one taken.
int take_flag(Options& out, int i, int argc, const char* const* argv) {
  const std::string argument = argv[i] == std::string_view("-h") ? "--help" : argv[i];
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  const Flag* flag = find_flag(name);
  const Setting* setting = find_setting_flag(name);
  if (flag == nullptr && setting == nullptr) fail_for(name);
  if (flag != nullptr && flag->value == nullptr) {
    if (equals != std::string::npos) fail(kUsage, "%s takes no value", flag->name);
    return flag->set(out, ""), i;
  }
  std::string value;
  if (equals != std::string::npos) {
    value = argument.substr(equals + 1);
  } else if (flag != nullptr && flag->may_lack_value && (i + 1 == argc || argv[i + 1][0] == '-')) {
    return flag->set(out, ""), i;
  } else if (i + 1 < argc) {
    value = argv[++i];
  }
  if (flag != nullptr)
    set(out, *flag, value);
  else
    set_setting(out, *setting, value);
  return i;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options out;
  for (int i = 1; i < argc; ++i) i = take_flag(out, i, argc, argv);
  return out;
}

static std::string help_line(const char* flag, const char* value, const char* help) {
  const std::string left = std::string(flag) + (value == nullptr ? "" : std::string(" ") + value);
  return text("  %-24s %s\n", left.c_str(), help);
}

std::string help_text(const char* program) {
  std::string out = text("usage: %s [FLAGS]\n", program);
  for (const Flag& flag : kFlags) out += help_line(flag.name, flag.value, flag.help);
  out += "of a program that generates:\n";
  for (const Setting& setting : settings()) out += help_line(setting.flag, setting.value, setting.help);
  return out +
         "exit: 0 ok, 1 wrong input, 2 usage, 6 environment, 70 a bug of the compiler, 124 a wait timed out, "
         "143 a training that SIGTERM ended\n";
}

}  // namespace weft
