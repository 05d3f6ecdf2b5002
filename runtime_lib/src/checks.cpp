// Checks of a command line against the program: inputs that do not exist or are missing, files whose shapes do
// not fit, lengths that contradict each other, and places that cannot be written. A user learns of them before
// any rank starts, and not when the results have been computed and cannot be written.
#include "checks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "lengths.h"
#include "nearest.h"
#include "npy.h"
#include "sampling.h"
#include "text_ports.h"

namespace weft {

std::string file_name(const std::string& name) {
  std::string out = name;
  for (char& c : out)
    if (!isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return out;
}

std::string input_file(std::string pattern, int invocation) {
  for (size_t at; (at = pattern.find("{i}")) != std::string::npos;) pattern.replace(at, 3, std::to_string(invocation));
  return pattern;
}

std::string state_file(const std::string& folder, const char* name) { return folder + "/" + file_name(name) + ".npy"; }

std::string first_file_of_state(const Options& options, const char* name) {
  if (const auto given = options.inputs.find(name); given != options.inputs.end()) return given->second;
  return options.load_state.empty() ? "" : state_file(options.load_state, name);
}

void make_folder(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && errno != EISDIR)
      fail(kWrongInput, "cannot make the folder %s: %s", part.c_str(), strerror(errno));
    if (slash == std::string::npos) return;
  }
}

/// Whether a dimension may be so long.
static bool takes(const Bound* bound, int64_t extent, int64_t length) {
  if (bound == nullptr) return length == extent;
  if (bound->values.empty()) return length >= 0 && length <= extent;
  return std::find(bound->values.begin(), bound->values.end(), length) != bound->values.end();
}

/// "8", "<=8", "(1 or 8)".
static std::string extent_text(const Bound* bound, int64_t extent) {
  if (bound == nullptr) return std::to_string(extent);
  if (bound->values.empty()) return "<=" + std::to_string(extent);
  std::string out;
  for (const int64_t length : bound->values) out += (out.empty() ? "(" : " or ") + std::to_string(length);
  return out + ")";
}

/// The bound of dimension `d` of the port's file; null of a fixed one.
static const Bound* bound_in_file(const Port& port, size_t d) {
  const size_t leading = file_shape(port).size() - size_t(port.shape.ndim);
  for (const Bound& each : port.layout.bounds)
    if (size_t(each.dim) + leading == d) return &each;
  return nullptr;
}

std::string port_shape_text(const Port& port) {
  const std::vector<int64_t> shape = file_shape(port);
  std::string out;
  for (size_t d = 0; d < shape.size(); ++d) out += (d == 0 ? "" : "x") + extent_text(bound_in_file(port, d), shape[d]);
  return out.empty() ? "scalar" : out;
}

void check_shape(const Port& port, const std::vector<int64_t>& shape, const std::string& file) {
  const std::vector<int64_t> wanted = file_shape(port);
  bool fits = shape.size() == wanted.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d) fits = takes(bound_in_file(port, d), wanted[d], shape[d]);
  if (!fits)
    fail(kWrongInput, "%s: shape %s; '%s' is %s", file.c_str(), shape_text(shape).c_str(), port.name,
         port_shape_text(port).c_str());
}

std::vector<int64_t> lengths_of(const Port& port, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  const size_t leading = shape.size() - size_t(port.shape.ndim);
  for (const Bound& bound : port.layout.bounds) out.push_back(shape[size_t(bound.dim) + leading]);
  return out;
}

namespace {

// The inputs that a user must give: those that are not states, and are not fed by a generation.
std::vector<const Port*> plain_inputs(const Executable& executable) {
  std::vector<const Port*> ports = distinct_ports(executable, &Program::inputs);
  std::erase_if(ports, [&](const Port* port) {
    return is_state_input(executable, port->name) || is_fed(executable, port->name);
  });
  return ports;
}

void check_inputs(const Executable& executable, const Options& options) {
  const std::vector<const Port*> ports = plain_inputs(executable);
  std::vector<std::string> names;
  for (const Port* port : distinct_ports(executable, &Program::inputs)) names.emplace_back(port->name);
  for (const auto& [name, file] : options.inputs) {
    if (is_state_input(executable, name.c_str()) && file.find("{i}") != std::string::npos)
      fail(kWrongInput, "--input %s=%s: '%s' is a state, which is given once, before the first invocation",
           name.c_str(), file.c_str(), name.c_str());
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.empty()) fail(kWrongInput, "there is no input '%s': the program has none", name.c_str());
    fail(kWrongInput, "there is no input '%s'%s; there are: %s", name.c_str(), did_you_mean(name, names).c_str(),
         list_text(names).c_str());
  }
  for (const Port* port : ports)
    if (!options.serves && !options.random_inputs && !options.inputs.contains(port->name) && !options.trains())
      fail(kWrongInput, "input '%s' (%s, %s) is missing: --input %s=FILE.npy, or --random-inputs SEED", port->name,
           dtype_name(port->dtype), port_shape_text(*port).c_str(), port->name);
}

void check_stall(const Executable& executable, const Options& options) {
  if (options.stall_rank >= executable.world)
    fail(kUsage, "--stall %d:%s: there is no rank %d; the program has %d, counted from 0", options.stall_rank,
         options.stall_step.c_str(), options.stall_rank, executable.world);
}

void check_states(const Executable& executable, const Options& options) {
  if (!options.load_state.empty()) {
    struct stat status = {};
    const char* folder = options.load_state.c_str();
    if (stat(folder, &status) != 0) fail(kWrongInput, "--load-state %s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) fail(kWrongInput, "--load-state %s: not a folder", folder);
  }
  if (!executable.states.empty()) return;
  for (const auto& [flag, value] :
       {std::pair{"--load-state", &options.load_state}, {"--save-state", &options.save_state}})
    if (!value->empty()) fail(kUsage, "%s %s: the program has no states", flag, value->c_str());
}

// Makes the folder if it is missing, and fails if it cannot be written.
void check_folder(const char* flag, const std::string& folder) {
  if (folder.empty()) return;
  make_folder(folder);
  struct stat status = {};
  if (stat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
    errno = ENOTDIR;
  else if (access(folder.c_str(), W_OK) == 0)
    return;
  fail(kWrongInput, "%s %s: cannot write there: %s", flag, folder.c_str(), strerror(errno));
}

/// Fails where the file cannot be written, before the ranks start.
void check_written_file(const char* flag, const std::string& file) {
  if (file.empty()) return;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  struct stat status = {};
  const bool is_there = stat(file.c_str(), &status) == 0;
  const bool is_special = is_there && !S_ISREG(status.st_mode);  // written directly, others beside their place
  if (is_there && S_ISDIR(status.st_mode))
    errno = EISDIR;
  else if (access(is_special ? file.c_str() : folder.c_str(), W_OK) == 0)
    return;
  fail(kWrongInput, "%s %s: cannot write there: %s", flag, file.c_str(), strerror(errno));
}

/// Two ports with different names may still end up in the same file, because some characters become '_' there.
void check_file_names(const Executable& executable, std::span<const Port> Program::*ports, bool only_states) {
  std::map<std::string, const char*> taken;
  for (const Port* port : distinct_ports(executable, ports)) {
    if (only_states && !is_state_input(executable, port->name)) continue;
    const auto [other, is_new] = taken.emplace(file_name(port->name), port->name);
    if (!is_new)
      fail(kWrongInput, "'%s' and '%s' would both be the file %s.npy: rename one of them in the model", other->second,
           port->name, other->first.c_str());
  }
}

/// The prompt of a generation, and settings of a program that has one.
void check_generation(const Executable& executable, const Options& options) {
  for (const auto& [name, value] : options.settings)
    if (executable.generation == nullptr) fail(kUsage, "%s: this program does not generate", find_setting(name)->flag);
  if (executable.generation == nullptr) return;
  if (options.measures_overlap) fail(kUsage, "--overlap times invocations, not generations: --no-generate");
  const char* tokens = executable.generation->tokens;
  for (const auto& [name, file] : options.inputs)
    if (name != tokens && is_fed(executable, name.c_str()))
      fail(kUsage, "--input %s=%s: '%s' is fed by the generation; only '%s', the prompt, is given", name.c_str(),
           file.c_str(), name.c_str(), tokens);
  if (options.serves) return;
  const TextPorts ports(executable);
  if (!options.inputs.contains(tokens))
    fail(kWrongInput, "the prompt is missing: --input %s=FILE.npy (%s, %s)", tokens, dtype_name(ports.prompt.dtype),
         port_shape_text(ports.prompt).c_str());
  const std::string file = input_file(options.inputs.at(tokens), 0);
  check_shape(ports.prompt, NpyFile(file, ports.prompt.dtype).shape(), file);
}

/// Where a tensor comes from: a file, or if `file` is empty, `text` says which start value it has.
struct Source {
  std::string file, text;
};

Source source_of(const Executable& executable, const Options& options, const Port& port) {
  const std::string name = "'" + std::string(port.name) + "'";
  if (!is_state_input(executable, port.name)) {
    const auto given = options.inputs.find(port.name);
    if (given == options.inputs.end()) return {"", "input " + name};
    return {input_file(given->second, 0), "input " + name};
  }
  const std::string file = first_file_of_state(options, port.name);
  if (!file.empty()) return {file, "state " + name};
  return {"", "state " + name + " at its start"};
}

/// -1 if other tensors determine the length.
std::vector<int64_t> first_lengths(const Executable& executable, const Source& source, const Port& port) {
  if (!source.file.empty()) {
    const NpyFile npy(source.file, port.dtype);
    check_shape(port, npy.shape(), source.file);
    return lengths_of(port, npy.shape());
  }
  if (!is_state_input(executable, port.name)) return std::vector<int64_t>(port.layout.bounds.size(), -1);
  return port.layout.initial < 0 ? lengths_at_start(executable, port) : lengths_of(port, file_shape(port));
}

/// The files exist, fit their ports, and agree about the dims that they share.
void check_tensors(const Executable& executable, const Options& options) {
  LengthClaims claims(executable);
  for (const Port* port : distinct_ports(executable, &Program::inputs)) {
    if (is_fed(executable, port->name)) continue;
    const Source source = source_of(executable, options, *port);
    const std::vector<int64_t> lengths = first_lengths(executable, source, *port);
    const std::string text = source.file.empty() ? source.text : source.file + " (" + source.text + ")";
    for (size_t b = 0; b < lengths.size(); ++b) claims.add(port->layout.bounds[b], lengths[b], text);
  }
}

/// Computation and communication can only be timed alone if they have different streams; and as half an
/// invocation computes nothing of use, results cannot be asked for at the same time.
void check_overlap(const Executable& executable, const Options& options) {
  if (!options.measures_overlap) return;
  for (const char* flag : {"--output-dir", "--save-state"})
    if (!(flag == std::string_view("--output-dir") ? options.output_dir : options.save_state).empty())
      fail(kUsage, "--overlap only measures: %s cannot be given with it", flag);
  if (!kWindowsInWorld) fail(kUsage, "--overlap: only host programs can time computation and communication alone");
  for (const Program& program : executable.programs) {
    const auto parallel =
        std::count_if(program.streams.begin(), program.streams.end(), [](auto& s) { return s.parallel; });
    if (parallel > 0 && parallel < std::ssize(program.streams)) return;
  }
  fail(kUsage, "--overlap: this program has no stream beside that of its computation; the schedule overlaps nothing");
}

/// A server's inputs come with its requests, and its outputs are its answers.
void check_serve(const Executable& executable, const Options& options) {
  if (!options.serves) return;
  const std::pair<const char*, bool> others[] = {{"--random-inputs", options.random_inputs},
                                                 {"--output-dir", !options.output_dir.empty()},
                                                 {"--save-state", !options.save_state.empty()},
                                                 {"--iterations and --warmup", options.is_timed},
                                                 {"--json", options.json},
                                                 {"--trace", !options.trace.empty()}};
  for (const auto& [flag, is_given] : others)
    if (is_given) fail(kUsage, "--serve: %s cannot be given with it", flag);
  for (const auto& [name, file] : options.inputs)
    if (!is_state_input(executable, name.c_str()))
      fail(kUsage, "--serve: '%s' comes with each request, not by --input; only states begin as --input says",
           name.c_str());
}

void check_link(const Options& options) {
  if (options.link.is_limited() && !kWindowsInWorld)
    fail(kUsage, "--link: only host programs whose ranks share memory can be slowed");
}

}  // namespace

void check_options(const Executable& executable, const Options& options) {
  check_stall(executable, options);
  check_overlap(executable, options);
  check_link(options);
  check_serve(executable, options);
  check_states(executable, options);
  check_inputs(executable, options);
  check_generation(executable, options);
  check_tensors(executable, options);
  if (!options.output_dir.empty() && executable.generation == nullptr)
    check_file_names(executable, &Program::outputs, false);
  if (!options.save_state.empty() || !options.load_state.empty()) check_file_names(executable, &Program::inputs, true);
  check_folder("--output-dir", options.output_dir);
  check_folder("--save-state", options.save_state);
  check_folder("--checkpoint", options.checkpoint);
  check_written_file("--trace", options.trace);
  check_written_file("--log", options.log);
}

}  // namespace weft
