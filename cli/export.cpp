// `weft export`: a trained model as ONNX, which is the imported file with other values of its initialisers.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/checksum.h"
#include "cli/commands.h"
#include "cli/comparison.h"
#include "frontend/mapped_file.h"
#include "frontend/onnx_load.h"
#include "frontend/onnx_proto.h"
#include "frontend/tensor_file.h"
#include "frontend/tied_copies.h"

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

constexpr const char* kStateFile = "state.json";

/// Reports files whose bytes differ from the checksums in state.json. Checkpoints of older programs have no checksums.
void check_sums(const std::string& folder, Diags& diags) {
  const std::string path = folder + "/" + kStateFile;
  const auto report = [&](const std::string& file) {
    diags.error("export-damaged", Loc::in_file(file),
                "its bytes are not those that were written, by their checksum: the checkpoint is damaged");
  };
  const MappedFile state = map_file(path);
  const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
  const size_t end = text.rfind(", \"checksum\": ");
  if (end == std::string_view::npos && text.find("\"checksums\": ") == std::string_view::npos) return;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (end == std::string_view::npos || !json.is_object() || !json.contains("checksums") ||
      json["checksum"] != crc32c(0, text.data(), end))
    return report(path);
  for (const auto& [name, sum] : json["checksums"].items()) {
    const std::string file = folder + "/" + name;
    const MappedFile mapped = map_file(file);
    if (!mapped.error.empty() || sum != crc32c(0, mapped.bytes.data(), mapped.bytes.size())) report(file);
  }
}

/// Values of a checkpoint for a model's initialisers.
class Checkpoint {
 public:
  /// `suffix` is appended to an initialiser's name to get the state's name.
  Checkpoint(const std::string& given, std::string suffix, Diags& diags)
      : folder_(checkpoint_of(given)), suffix_(std::move(suffix)), diags_(diags) {}

  const std::string& folder() const { return folder_; }
  int count() const { return count_; }
  bool has_what_is_wanted() const { return wanted_ > 0; }

  /// The training's value of an initialiser. An initialiser that is a copy of a parameter gets the parameter's value.
  std::optional<std::vector<std::byte>> bytes_of(const OnnxTensor& initialiser, const OnnxModel& model,
                                                 const std::vector<TiedCopy>& ties) {
    const auto tie = std::ranges::find(ties, initialiser.name, &TiedCopy::copy);
    std::optional<std::vector<std::byte>> own = bytes_of(initialiser);
    if (own || tie == ties.end()) return own;
    const auto original = std::ranges::find(model.graph.initialisers, tie->original, &OnnxTensor::name);
    const std::optional<std::vector<std::byte>> bytes = bytes_of(*original);
    if (!bytes) return {};
    const DType dtype = *dtype_of_element_type(original->element_type);
    return bytes_of_copy(*tie, *bytes, original->dims, static_cast<size_t>(dtype_bytes(dtype)));
  }

 private:
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
  else if (!is_there(checkpoint.folder() + "/" + kStateFile))
    diags.error("export-checkpoint", Loc::in_file(options.checkpoint),
                "there is no checkpoint, which has a state.json");
  else
    check_sums(checkpoint.folder(), diags);
  if (!diags.ok()) return finish(diags);
  std::optional<OnnxModel> model = load_model(options.model, diags);
  if (!model) return finish(diags);
  const std::vector<TiedCopy> ties = find_tied_copies(*model);
  const auto bytes_of = [&](const OnnxTensor& initialiser) { return checkpoint.bytes_of(initialiser, *model, ties); };
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
