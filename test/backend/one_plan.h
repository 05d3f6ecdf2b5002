// Plans made by hand: each case is a small graph that becomes one kernel and one step of one program, which is built
// once, run once, and compared with the reference evaluation case by case.
#pragma once
#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "backend/toolchain.h"
#include "frontend/tensor_file.h"
#include "ir/builder.h"
#include "ir/evaluate/evaluate.h"
#include "ir/op_def.h"
#include "passes/strategy/strategy_rules.h"
#include "weft_build_config.h"

namespace weftc::test {

/// One kernel: a graph, the values of its inputs, and which of them are weights.
struct KernelCase {
  std::string name;
  Module module;
  std::vector<Tensor> inputs;
  std::vector<bool> is_weight;
  double tolerance = 2e-6;
  std::vector<Tensor> expected;  // of each output; empty: what the reference evaluation gives

  explicit KernelCase(std::string case_name) : name(std::move(case_name)) {
    module.name = "cases";
    module.places = {{"all", {0}, {}}};
  }
  ValueId parameter(const std::string& value, Tensor tensor, bool weight = false) {
    const OpId id = module.graph.add({.kind = OpKind::Input,
                                      .inputs = {},
                                      .results = {{tensor.dtype, shape_of(tensor.dims), {}}},
                                      .attrs = {},
                                      .regions = {},
                                      .place = PlaceId{0},
                                      .name = value,
                                      .origins = {},
                                      .transform = {},
                                      .result_names = {value}});
    inputs.push_back(std::move(tensor));
    is_weight.push_back(weight);
    return module.graph.result(id);
  }
  ValueId reals(const std::string& value, const Dims& dims, DType dtype = DType::F32, double low = -1,
                double high = 1) {
    return parameter(value, random_reals(dims, dtype, low, high));
  }
  ValueId ints(const std::string& value, const Dims& dims, int64_t low, int64_t high, DType dtype = DType::I64) {
    Tensor tensor(dtype, dims);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.put_int(i, low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)));
    return parameter(value, std::move(tensor));
  }
  ValueId weight(const std::string& value, const Dims& dims) {
    return parameter(value, random_reals(dims, DType::F32, -1, 1), true);
  }
  ValueId op(OpKind kind, std::vector<ValueId> operands, Attrs attrs = {}) {
    Op like{};
    like.name = name, like.place = PlaceId{0};
    return Builder(module, module.graph, {}, like).op(kind, std::move(operands), std::move(attrs));
  }
  ValueId constant(double value, DType dtype = DType::F32) {
    Op like{};
    like.name = name, like.place = PlaceId{0};
    return Builder(module, module.graph, {}, like).constant(Tensor::scalar(dtype, value));
  }
  void output(ValueId value, const std::string& result = "y") { module.graph.add_output(value, result); }

 private:
  Tensor random_reals(const Dims& dims, DType dtype, double low, double high) {
    Tensor tensor(dtype, dims);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.put(i, round_to(dtype, low + (high - low) * static_cast<double>(random_()) / 4294967296.0));
    return tensor;
  }
  std::mt19937 random_{7};
};

inline void write_npy(const std::string& path, const Tensor& tensor) {
  Diags diags;
  REQUIRE(weftc::write_npy(path, tensor, diags));
}

/// The elements; dtype and dims are those expected.
inline Tensor read_npy(const std::string& path, DType dtype, const Dims& dims) {
  Diags diags;
  std::optional<Tensor> tensor = read_tensor_file(path, diags);
  if (!tensor || !read_as(*tensor, dtype) || tensor->dims != dims) return Tensor(dtype, {0});
  return *tensor;
}

struct PlanOfCases {
  Plan plan;
  Constants constants;
  std::vector<std::pair<std::string, Tensor>> files;    // port name and value
  std::vector<std::pair<size_t, std::string>> results;  // case, port name
};

inline int64_t aligned(int64_t bytes) { return (bytes + kBufferAlign - 1) / kBufferAlign * kBufferAlign; }

inline BufferId add_buffer(Plan& plan, const std::string& name, const TensorType& type) {
  Buffer buffer{name, type, {}, PlaceId{0}, 0, 1, false, Life::Run, {}, {}};
  buffer.bytes = std::max<int64_t>(kBufferAlign, aligned(type.count() * dtype_bytes(type.dtype)));
  Program& program = plan.programs[0];
  program.positions.push_back({Position::Kind::EndOf, {}, program.own_bytes});
  program.own_bytes += buffer.bytes;
  plan.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(plan.buffers.size() - 1)};
}

inline WeightId add_weight(PlanOfCases& made, const std::string& name, const KernelCase& from, size_t input,
                           const TensorType& type, const Storage& storage) {
  Plan& plan = made.plan;
  Weight weight{name, made.constants.add(name, from.inputs[input]), type, PlaceId{0}, storage, 0, plan.segments[0].end,
                0};
  weight.bytes = storage.elements(type.dims()) * dtype_bytes(type.dtype);
  plan.segments[0].end = weight.offset + aligned(weight.bytes);
  plan.weights.push_back(std::move(weight));
  return {static_cast<uint32_t>(plan.weights.size() - 1)};
}

/// The category by which a kernel's file is named.
inline Category category_of(const Graph& body) {
  Category found = Category::Pointwise;
  for (OpId id : body.order()) {
    const Category c = category(body.op(id));
    if (c == Category::Contraction || c == Category::Scan) return c;
    if (c == Category::Reduction || (c == Category::Index && found != Category::Reduction)) found = c;
  }
  return found;
}

inline void add_case(PlanOfCases& made, KernelCase& from, size_t number) {
  Plan& plan = made.plan;
  const Graph& graph = from.module.graph;
  Kernel kernel;
  kernel.name = from.name;
  kernel.body = graph;
  kernel.category = category_of(graph);
  kernel.place = PlaceId{0};
  // One Constants for the plan: the bodies' literals are added to it.
  for (OpId id : graph.order())
    if (graph.op(id).kind == OpKind::Constant)
      kernel.body.edit(id).set(
          "value", made.constants.add(from.name, from.module.constants.tensor(graph.op(id).constant("value"))));
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    kernel.parameters.push_back({value.name, value.type, {}, false, bool(from.is_weight[i]), {}});
  }
  for (const Graph::Output& output : graph.outputs())
    kernel.parameters.push_back({output.name, graph.type(output.value), {}, false, false, {}});
  set_strategy(kernel, choose_strategy({KernelBody(kernel, 0), made.constants, plan.target}).strategy);
  LaunchStep launch{KernelId{static_cast<uint32_t>(plan.kernels.size())}, {}, {}};
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    const std::string port = from.name + "." + value.name;
    if (from.is_weight[i]) {
      launch.operands.push_back({{}, add_weight(made, port, from, i, value.type, kernel.parameters[i].storage)});
      continue;
    }
    const BufferId buffer = add_buffer(plan, port, value.type);
    launch.operands.push_back({buffer, {}});
    plan.inputs.push_back({port, value.type, {}, PlaceId{0}, buffer});
    made.files.emplace_back(port, from.inputs[i]);
  }
  for (const Graph::Output& output : graph.outputs()) {
    const std::string port = from.name + "." + output.name;
    const TensorType& type = graph.type(output.value);
    const BufferId buffer = add_buffer(plan, port, type);
    launch.operands.push_back({buffer, {}});
    plan.outputs.push_back({port, type, {}, PlaceId{0}, buffer});
    made.results.emplace_back(number, port);
  }
  Step step;
  step.name = from.name;
  step.what = std::move(launch);
  plan.blocks[0].steps.push_back(std::move(step));
  plan.kernels.push_back(std::move(kernel));
}

inline std::unique_ptr<PlanOfCases> plan_of(std::vector<KernelCase>& cases) {
  auto made = std::make_unique<PlanOfCases>();
  Plan& plan = made->plan;
  plan.name = "cases";
  plan.places = {{"all", {0}, {}}};
  plan.streams = {"compute"};
  plan.blocks = {{"run", PlaceId{0}, {}}};
  plan.order = {{0, 0}};
  plan.programs = {{{0}, {}, 0, 0}};
  plan.segments = {{PlaceId{0}, {}, 0}};
  for (size_t c = 0; c < cases.size(); ++c) add_case(*made, cases[c], c);
  if (plan.weights.empty()) plan.segments.clear();
  plan.constants = &made->constants;
  return made;
}

/// A folder of its own, removed at the end of scope.
struct TestFolder {
  std::string path;
  TestFolder() {
    char name[] = "/tmp/weft_backend_test_XXXXXX";
    path = mkdtemp(name) ? name : "";
  }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

inline BuildOptions build_options(const std::string& folder, const std::string& output) {
  namespace fs = std::filesystem;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  return {.work_dir = folder + "/sources",
          .output = output,
          .runtime_dir = (here / WEFT_BUILD_RUNTIME_DIR).string(),
          .runtime_library = (here / WEFT_BUILD_LIBRARY_DIR / "libweft_runtime.a").string(),
          .compiler = "g++",
          .toolkit = "",
          .jobs = 2,
          .progress = false};
}

inline std::vector<Tensor> expected_outputs(KernelCase& of) {
  if (!of.expected.empty()) return of.expected;
  EvalResult reference = evaluate(of.module, of.inputs);
  REQUIRE(reference.error.empty());
  return std::move(reference.outputs);
}

inline void compare_case(KernelCase& expected, const PlanOfCases& made, size_t number, const std::string& folder) {
  const std::vector<Tensor> wanted = expected_outputs(expected);
  size_t output = 0;
  for (const auto& [c, port] : made.results) {
    if (c != number) continue;
    const Tensor& want = wanted[output++];
    std::string file = port;
    for (char& c : file)
      if (!isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
    const Tensor got = read_npy(folder + "/out/" + file + ".npy", want.dtype, want.dims);
    INFO(port);
    CHECK(relative_error(got, want) <= expected.tolerance);
  }
}

/// The exit code; names in the arguments never meet a shell.
inline int run_command(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ)) return -1;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Builds one program of all cases, runs it, and checks every output of every case.
inline void check_cases(std::vector<KernelCase> cases) {
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Diags diags;
  const std::vector<SourceFile> files = emit(made->plan, diags);
  INFO(diags.text());
  REQUIRE(diags.ok());
  const TestFolder folder;
  const std::string program = folder.path + "/cases";
  const BuildResult built = build_executable({&made->plan}, files, build_options(folder.path, program), diags);
  INFO(diags.text());
  REQUIRE(built == BuildResult::Built);
  std::vector<std::string> command = {program, "--output-dir", folder.path + "/out"};
  for (const auto& [port, tensor] : made->files) {
    const std::string file = folder.path + "/" + std::to_string(command.size()) + ".npy";
    write_npy(file, tensor);
    command.insert(command.end(), {"--input", port + "=" + file});
  }
  REQUIRE(run_command(command) == 0);
  for (size_t c = 0; c < cases.size(); ++c) compare_case(cases[c], *made, c, folder.path);
}

}  // namespace weftc::test
