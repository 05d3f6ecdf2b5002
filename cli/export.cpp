// `weft export`: a trained model as ONNX, which is the imported file with other values of its initialisers.
#include <sys/stat.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/comparison.h"
#include "frontend/onnx_proto.h"
#include "frontend/tensor_file.h"

namespace weftc {

namespace {

bool is_there(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0;
}

/// The folder of a checkpoint, or the latest one in it, as --resume takes it.
std::string checkpoint_of(const std::string& given) {
  std::FILE* file = std::fopen((given + "/latest").c_str(), "r");
  char name[256] = "";
  const bool is_named = file && std::fscanf(file, "%255s", name) == 1;
  if (file) std::fclose(file);
  return is_named ? given + "/" + name : given;
}

/// Values of a checkpoint for a model's initialisers.
class Checkpoint {
 public:
  /// `suffix` is what the names of states have behind those of initialisers.
  Checkpoint(const std::string& given, std::string suffix, Diags& diags)
      : folder_(checkpoint_of(given)), suffix_(std::move(suffix)), diags_(diags) {}

  const std::string& folder() const { return folder_; }
  int count() const { return count_; }
  bool has_what_is_wanted() const { return wanted_ > 0; }

  std::optional<std::vector<std::byte>> bytes_of(const OnnxTensor& initialiser) {
    std::string file = format("{}/{}.npy", folder_, output_file_name(initialiser.name + suffix_));
    const bool is_wanted = is_there(file);
    if (!is_wanted)
      file = format("{}/{}.npy", folder_, output_file_name(initialiser.name));  // statistics have no average
    if (!is_there(file)) return {};
    std::optional<Tensor> tensor = read_tensor_file(file, diags_);
    if (!tensor) return {};
    const std::optional<DType> dtype = dtype_of_element_type(initialiser.element_type);
    if (!dtype || tensor->dtype != *dtype || tensor->dims != initialiser.dims) {
      diags_.error("export-shape", Loc::in_file(file), "the checkpoint has {}[{}], initializer '{}' is {}[{}]",
                   dtype_name(tensor->dtype), dims_text(tensor->dims), printable(initialiser.name),
                   element_type_name(initialiser.element_type), dims_text(initialiser.dims));
      return {};
    }
    count_ += 1;
    wanted_ += is_wanted;
    return tensor_to_bytes(*tensor);
  }

 private:
  std::string folder_, suffix_;
  Diags& diags_;
  int count_ = 0, wanted_ = 0;
};

}  // namespace

int run_export(const Options& options) {
  Diags diags;
  Checkpoint checkpoint(options.checkpoint, options.averages ? ".average" : "", diags);
  if (options.model.ends_with(".onnxtxt"))
    diags.error("export-text-unsupported", Loc::in_file(options.model), "a model in ONNX text is not exported");
  else if (!is_there(checkpoint.folder() + "/state.json"))
    diags.error("export-checkpoint", Loc::in_file(options.checkpoint),
                "there is no checkpoint, which has a state.json");
  if (!diags.ok()) return finish(diags);
  const auto bytes_of = [&](const OnnxTensor& initialiser) { return checkpoint.bytes_of(initialiser); };
  if (!write_onnx_with(options.model, bytes_of, options.output, diags)) return finish(diags);
  if (!checkpoint.has_what_is_wanted())
    diags.error("export-nothing", Loc::in_file(checkpoint.folder()),
                "the checkpoint has no {} for any initializer of {}", options.averages ? "average" : "value",
                printable(options.model));
  else
    std::printf("%s: %d trained initializers of %s\n", printable(options.output).c_str(), checkpoint.count(),
                printable(checkpoint.folder()).c_str());
  return finish(diags);
}

}  // namespace weftc
