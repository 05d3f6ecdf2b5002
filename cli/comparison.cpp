// Runs an executable on tensors in files and compares the files that it writes. One metric serves everywhere:
// the largest difference over the largest expected element (relative_error of ir/tensor.h).
#include "cli/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/options.h"
#include "cli/process.h"
#include "frontend/tensor_file.h"
#include "ir/plan_walk.h"
#include "ir/string_table.h"

namespace weftc {

namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The path FOLDER/KIND_N.npy or .pb, whichever exists, or "".
std::string data_file(const std::string& folder, const char* kind, size_t number) {
  for (const char* ending : {".npy", ".pb"}) {
    const std::string path = format("{}/{}_{}{}", folder, kind, number, ending);
    if (exists(path)) return path;
  }
  return "";
}

/// The tensors of a file of a sequence or optional, under the names that the executable has for them.
void read_elements(const std::string& path, const ModelSummary::Port& port, std::map<std::string, Tensor>& tensors,
                   std::vector<ElementsRequest>& elements, Diags& diags) {
  std::optional<std::vector<Tensor>> read = read_tensors_file(path, port.form, diags);
  if (!read) return;
  // A file does not tell an optional without an element from one with a sequence of none.
  const bool is_absent = port.form.is_optional && read->empty();
  elements.push_back({port.name, {}, is_absent});
  if (port.form.is_sequence && !is_absent) elements.back().elements = static_cast<int64_t>(read->size());
  for (size_t k = 0; k < read->size(); ++k)
    tensors.emplace(port.form.is_sequence ? format("{}.{}", port.name, k) : port.name, std::move((*read)[k]));
}

/// Reads what belongs to each input or output; reports every file that is missing.
bool read_files(const std::string& folder, const char* kind, const std::vector<ModelSummary::Port>& ports,
                std::map<std::string, Tensor>& tensors, std::vector<ElementsRequest>& elements, Diags& diags) {
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string path = data_file(folder, kind, i);
    if (path.empty())
      diags.error("data-file", Loc::in_file(folder), "no file {}_{}.npy or .pb for '{}'", kind, i,
                  printable(ports[i].name));
    else if (!ports[i].form.is_tensor())
      read_elements(path, ports[i], tensors, elements, diags);
    else if (std::optional<Tensor> tensor = read_tensor_file(path, diags))
      tensors.emplace(ports[i].name, std::move(*tensor));
  }
  return diags.ok();
}

/// splitmix64: a well mixed number for each (seed, position).
uint64_t mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

/// Writes the files that the program reads, and appends the arguments that name them.
bool write_inputs(std::vector<std::string>& command, const Plan& plan, const KnownData& data, const std::string& folder,
                  std::string& why) {
  Diags diags;
  std::vector<std::string> states;
  for (const StateSlot& state : plan.states) states.push_back(state.input);
  std::vector<std::string> done;
  bool any_state = false;
  for (const Port& port : plan.inputs) {
    const auto tensor = data.inputs.find(port.name);
    if (tensor == data.inputs.end() || std::find(done.begin(), done.end(), port.name) != done.end()) continue;
    done.push_back(port.name);
    const bool is_state = std::find(states.begin(), states.end(), port.name) != states.end();
    // States are found by their names, inputs by the command line.
    const std::string path = is_state ? format("{}/state/{}.npy", folder, output_file_name(port.name))
                                      : format("{}/input_{}.npy", folder, done.size());
    write_file(path, "");
    if (!write_npy(path, tensor->second, diags)) break;
    any_state |= is_state;
    if (!is_state) command.insert(command.end(), {"--input", port.name + "=" + path});
  }
  if (any_state) command.insert(command.end(), {"--load-state", folder + "/state"});
  if (!diags.ok()) why = diags.all().front().message;
  return diags.ok();
}

/// Integers are finite.
bool is_finite(const Tensor& tensor, int64_t i) { return !tensor.is_real() || std::isfinite(tensor.real[i]); }

/// True for elements that no tolerance makes equal: NaN or infinity on one side only, integers that differ.
bool are_apart(const Tensor& a, const Tensor& b, int64_t i) {
  if (!a.is_real()) return a.integers[i] != b.integers[i];
  if (is_finite(a, i) && is_finite(b, i)) return false;
  return std::isnan(a.real[i]) ? !std::isnan(b.real[i]) : a.real[i] != b.real[i];
}

/// The first element that no tolerance makes equal, else the one that differs most.
int64_t worst_element(const Tensor& a, const Tensor& b) {
  int64_t worst = 0;
  double most = -1;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (are_apart(a, b, i)) return i;
    const double difference = is_finite(a, i) && is_finite(b, i) ? std::fabs(a.at(i) - b.at(i)) : 0;
    if (difference > most) worst = i, most = difference;
  }
  return worst;
}

std::string element_text(const Tensor& tensor, int64_t i) {
  if (tensor.dtype == DType::String) return quote(string_of(tensor.integers[i]));
  if (!tensor.is_real()) return std::to_string(tensor.integers[i]);
  if (std::isnan(tensor.real[i])) return "nan";  // without its sign
  char text[32];
  std::snprintf(text, sizeof text, "%.8g", tensor.real[i]);
  return text;
}

/// "at [1,3] it is nan, expected 0.5"
std::string where_text(const Tensor& result, const Tensor& expected, int64_t i) {
  std::vector<std::string> index;
  for (int64_t rest = i, d = static_cast<int64_t>(result.dims.size()); d-- > 0; rest /= result.dims[d])
    index.insert(index.begin(), std::to_string(rest % result.dims[d]));
  return format("at [{}] it is {}, expected {}", join(index, ","), element_text(result, i), element_text(expected, i));
}

/// The text of a difference: its position, and both elements.
std::string difference_text(const std::string& name, const Tensor& result, const Tensor& expected, double error) {
  const int64_t worst = worst_element(result, expected);
  const std::string where = where_text(result, expected, worst), output = format("output '{}'", printable(name));
  if (!are_apart(result, expected, worst))
    return format("{} differs: relative error {}, most {}", output, error_text(error), where);
  int64_t count = 0;
  for (int64_t i = 0; i < result.size(); ++i) count += are_apart(result, expected, i);
  return format("{} {}: {}, the first of {} such elements of {}", output,
                result.is_real() ? "cannot be compared" : "differs", where, count, result.size());
}

std::string type_of(const Tensor& tensor) { return format("{}[{}]", dtype_name(tensor.dtype), dims_text(tensor.dims)); }

}  // namespace

std::optional<KnownData> read_known_data(const std::string& folder, const ModelSummary& model, Diags& diags) {
  KnownData data;
  std::vector<ElementsRequest> of_outputs;
  if (!read_files(folder, "input", model.inputs, data.inputs, data.elements, diags)) return {};
  if (!read_files(folder, "output", model.outputs, data.outputs, of_outputs, diags)) return {};
  return data;
}

std::string known_input_file(const std::string& folder, size_t number) { return data_file(folder, "input", number); }

Tensor seeded_tensor(const std::string& name, DType dtype, const Dims& dims, uint64_t seed) {
  Tensor tensor(dtype, dims);
  uint64_t key = mixed(seed);
  for (const char c : name) key = mixed(key ^ static_cast<unsigned char>(c));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const uint64_t bits = mixed(key + static_cast<uint64_t>(i));
    if (dtype == DType::String)
      tensor.put_int(i, string_id(bits >> 63 ? "1" : "0"));
    else if (tensor.is_real())
      tensor.put(i, round_to(dtype, static_cast<double>(bits >> 40) * 0x1p-23 - 1.0));
    else
      tensor.put_int(i, static_cast<int64_t>(bits >> 63));
  }
  return tensor;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::F64:
      return 1e-4;
    case DType::F16:
      return 5e-3;
    case DType::BF16:
      return 2e-2;
    default:
      return 0;
  }
}

/// The tolerance of the coarsest type that occurs anywhere in the graph.
static double coarsest_tolerance(const Graph& graph) {
  double coarsest = 0;
  for (OpId id = graph.first(); id; id = graph.next(id)) {
    const Op& op = graph.op(id);
    for (const Graph& region : op.regions) coarsest = std::max(coarsest, coarsest_tolerance(region));
    for (const ValueId v : op.outputs) coarsest = std::max(coarsest, tolerance_of(graph.type(v).dtype));
  }
  return coarsest;
}

double tolerance_of(const Options& options, const Graph& graph) {
  return options.tolerance.value_or(coarsest_tolerance(graph));
}

Comparison compare(const std::string& name, Tensor result, const Tensor& expected, double tolerance) {
  read_as(result, expected.dtype);
  Comparison comparison;
  if (result.dtype != expected.dtype || result.dims != expected.dims) {
    comparison.error = HUGE_VAL;
    comparison.detail = format("output '{}' is {}, expected {}", printable(name), type_of(result), type_of(expected));
  } else {
    comparison.error = relative_error(result, expected);
    const double limit = is_float(expected.dtype) ? tolerance : 0;
    if (!(comparison.error <= limit)) comparison.detail = difference_text(name, result, expected, comparison.error);
  }
  if (!comparison.detail.empty()) comparison.exit_code = kMismatch;
  return comparison;
}

Comparison run_on(std::vector<std::string> command, const Plan& plan, const KnownData& data, const std::string& folder,
                  double seconds) {
  Comparison failure;
  if (!write_inputs(command, plan, data, folder, failure.detail)) {
    failure.exit_code = 1;
    return failure;
  }
  // Memory that a kernel reads before it is written may happen to hold the right numbers.
  command.insert(command.end(), {"--output-dir", folder + "/out", "--poison", "--no-generate"});
  if (data.iterations > 1) command.insert(command.end(), {"--iterations", std::to_string(data.iterations)});
  const Finished finished = run_program(command, seconds);
  if (finished.exit_code == 0) return failure;
  failure.exit_code = finished.exit_code;
  failure.detail = format("the program: {}: {}", ending_text(finished), trim(finished.err));
  return failure;
}

Comparison compare_output(const Plan& plan, const std::string& name, Tensor expected, double tolerance,
                          const std::string& folder) {
  if (const Port* port = find_port(plan.outputs, name)) read_as(expected, port->type.dtype);
  Diags diags;
  const std::optional<Tensor> result = read_tensor_file(format("{}/out/{}.npy", folder, output_file_name(name)), diags);
  if (!result) return {kMismatch, HUGE_VAL, diags.all().front().message};
  return compare(name, *result, expected, tolerance);
}

Comparison run_and_compare(const std::vector<std::string>& command, const Plan& plan, const KnownData& data,
                           double tolerance, const std::string& folder, double seconds) {
  Comparison all = run_on(command, plan, data, folder, seconds);
  if (all.exit_code != 0) return all;
  for (const Port& port : plan.outputs)
    if (!data.outputs.contains(port.name))
      return {kMismatch, HUGE_VAL, format("output '{}' is not expected", printable(port.name))};
  for (const auto& [name, expected] : data.outputs) {
    const Comparison one = compare_output(plan, name, expected, tolerance, folder);
    all.error = std::max(all.error, one.error);
    if (all.detail.empty()) all.detail = one.detail;
    all.exit_code = std::max(all.exit_code, one.exit_code);
  }
  return all;
}

std::string error_text(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", error);
  return std::isinf(error) ? "not comparable" : error == 0 ? "0" : text;
}

std::string output_file_name(const std::string& name) {
  std::string file = name;
  for (char& c : file) {
    const bool kept =
        (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '.' || c == '_' || c == '-';
    if (!kept) c = '_';
  }
  return file;
}

}  // namespace weftc
