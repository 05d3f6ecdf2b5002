// Targets of the compiler: what it reads, and models under schedules from the file to the emitted text.
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "backend/emit.h"
#include "cli/compile.h"
#include "cli/options.h"
#include "frontend/onnx_reader.h"
#include "frontend/schedule_reader.h"
#include "frontend/tensor_file.h"
#include "ir/base/check.h"
#include "onnx.pb.h"
#include "test/fuzz/model_case.h"
#include "test/fuzz/target.h"

namespace weftc::fuzz {

namespace {

/// A file without a name in any folder, for readers that open paths.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) : descriptor_(memfd_create("case", MFD_CLOEXEC)) {
    WEFT_CHECK(descriptor_ >= 0, "no temporary file");
    WEFT_CHECK(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "it is full");
  }
  ~TemporaryFile() { close(descriptor_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// From the model's file to the emitted text, as `compile` does, but without a C++ compiler.
void compile_case(const Options& options) {
  Diags diags;
  const std::unique_ptr<Compilation> compilation = compile_graph(options, diags);
  if (compilation && compile_plan(*compilation, options, diags)) {
    emit(compilation->plan, diags);
    return;
  }
  WEFT_CHECK(!diags.ok(), "the compiler stopped and said nothing");
}

std::string metadata(const onnx::ModelProto& model, const char* key) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props())
    if (entry.key() == key) return entry.value();
  return "";
}

/// The options in a case's metadata; defaults for bytes that are not a message.
Options options_of(std::string_view bytes) {
  Options options;
  options.quiet = true;
  options.target = host_target({"x86-64-v3"});
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return options;
  if (metadata(model, kTargetKey) == "cuda") options.target = cuda_target({"sm_90"});
  const std::string schedule = metadata(model, kScheduleKey);
  if (!schedule.empty()) options.schedules = {"s.yaml"}, options.schedule_texts = {{"s.yaml", schedule}};
  for (const std::string& flag : split(metadata(model, kDimsKey), ' ')) {
    Diags ignored;
    if (std::optional<DimRequest> dim = parse_dim_option(flag, ignored)) options.dims.push_back(*dim);
  }
  return options;
}

void run_model(std::string_view bytes) {
  const TemporaryFile file(bytes);
  Options options = options_of(bytes);
  options.model = file.path();
  compile_case(options);
}

void run_text(std::string_view bytes) {
  Diags diags;
  read_onnx_source(std::string(bytes), {"m.onnxtxt", {}, {}, {}}, diags);
}

void run_schedule(std::string_view bytes) {
  Diags diags;
  read_schedule_text("s.yaml", std::string(bytes), diags);
}

/// One flag's value for each of the flags that take a small language.
void run_flags(std::string_view bytes) {
  const std::string text(bytes);
  Diags diags;
  parse_dim_option(text, diags);
  parse_shape_option(text, diags);
  parse_bind_option(text, diags);
  parse_mesh_option(text, diags);
  Options options;
  std::string why;
  parse_model_flags(split(text, '\n'), options, why);
}

/// The first byte chooses between the two kinds of files.
void run_tensor_file(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string folder = "/tmp/weft_fuzz." + std::to_string(getpid());
  const std::string path = folder + (bytes[0] % 2 == 0 ? ".npy" : ".pb");
  const TemporaryFile file(bytes.substr(1));
  if (symlink(file.path().c_str(), path.c_str()) != 0) return;
  Diags diags;
  read_tensor_file(path, diags);
  unlink(path.c_str());
}

constexpr FuzzTarget kTargets[] = {
    {"model", "models and schedules, changed as such, from the file to the emitted text", run_model, mutate_model},
    {"model_bytes", "the bytes of .onnx files, the same way", run_model, nullptr},
    {"text", "models in ONNX text syntax, to the imported graph", run_text, nullptr},
    {"schedule", "schedules", run_schedule, nullptr},
    {"flags", "values of --dim, --shape, --bind and --mesh", run_flags, nullptr},
    {"tensor_file", "files of --bind: .npy and TensorProto", run_tensor_file, nullptr},
};

}  // namespace

std::span<const FuzzTarget> compiler_targets() { return {kTargets, std::size(kTargets)}; }

}  // namespace weftc::fuzz
