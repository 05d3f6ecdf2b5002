// Converts ONNX's device annotations (IR 11: node device configurations with sharding specs and stages) into entries of
// a schedule. An annotation lists, tensor by tensor, the device of each shard, while a schedule names mesh axes. So the
// devices of a stage are read as ranks of a mesh in counting order, and a spec's shards as digits of a rank's number:
//
//   w [1: 4] on devices [0, 1, 2, 3]    ->    mesh {d0: 4}, shard: {w: {d0: 1}}
//
// Specs that do not count in this way are refused; nothing is approximated.
#include "frontend/device_annotations.h"

#include <algorithm>
#include <set>

#include "frontend/onnx_ops.h"
#include "frontend/rank_digits.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

constexpr int64_t kMostDevices = 1 << 16;

/// One node's spec of one tensor: as written, as digits of the ranks, and as axes of the stage's mesh.
struct ShardingNote {
  const OnnxSharding* sharding;
  Loc loc;
  bool made;  // the node's result, else an operand
  std::vector<ShardDigit> digits;
  std::vector<AxisRequest> axes;
};

/// The nodes of one stage, or all annotated nodes.
struct StageReadings {
  std::optional<int64_t> stage;
  std::string place;
  std::vector<int> ranks;
  std::vector<const OnnxNode*> nodes;
  std::vector<ShardingNote> readings;
  Mesh mesh;
};

/// True if two specs give the same layout.
bool same_axes(const std::vector<AxisRequest>& x, const std::vector<AxisRequest>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const AxisRequest& a, const AxisRequest& b) {
    return a.axes == b.axes && a.replicated == b.replicated && a.dim == b.dim && a.parts == b.parts;
  });
}

class AnnotationReader {
 public:
  AnnotationReader(const OnnxModel& model, Schedule& schedule, Diags& diags)
      : model_(model), schedule_(schedule), diags_(diags) {}

  bool run() {
    const int errors = diags_.errors();
    if (schedule_.annotations == "none" || !choose()) return diags_.errors() == errors;
    collect();
    if (stages_.empty() || diags_.errors() != errors || !check_conflicts()) return diags_.errors() == errors;
    for (StageReadings& stage : stages_)
      if (!place(stage)) return false;
    if (stages_.front().stage)
      make_pipeline();
    else
      schedule_.mesh = stages_.front().mesh;
    make_entries();
    return diags_.errors() == errors;
  }

 private:
  template <class... Arguments>
  bool fail(const char* id, const Loc& loc, std::string_view pattern, const Arguments&... arguments) {
    diags_.error(id, loc, pattern, arguments...);
    return false;
  }
  Loc file() const { return Loc::in_file(model_.file); }

  bool choose();
  void collect();
  void collect_node(const OnnxNode& node, int index, const OnnxNodeDevices& devices);
  StageReadings& stage_of(std::optional<int64_t> stage);
  bool check_conflicts();
  bool place(StageReadings& stage);
  bool find_ranks(StageReadings& stage);
  void make_pipeline();
  void make_entries();
  void add_entries(const StageReadings& stage, const std::string& tensor);
  void add_entry(const std::string& target, bool use, const ShardingNote& reading);
  std::string name_in(const StageReadings& stage, const std::string& tensor) const;

  const OnnxModel& model_;
  Schedule& schedule_;
  Diags& diags_;
  const OnnxConfiguration* chosen_ = nullptr;
  std::vector<StageReadings> stages_;         // ascending
  std::map<std::string, std::string> place_;  // of a tensor: where it is produced, or read first
  std::set<std::string> produced_;
};

/// Finds the configuration to use: the schedule's choice, or the only one that nodes are annotated for. False if there
/// is nothing to read, or after reporting.
bool AnnotationReader::choose() {
  std::set<std::string> named;
  for (const OnnxNode& node : model_.graph.nodes)
    for (const OnnxNodeDevices& devices : node.devices) named.insert(devices.configuration);
  std::vector<std::string> known;
  for (const OnnxConfiguration& c : model_.configurations) known.push_back(c.name);
  std::string wanted = schedule_.annotations;
  if (!wanted.empty() && !contains(known, wanted))
    return fail("unknown-configuration", schedule_.annotations_loc, "the model has no device configuration '{}'{}",
                printable(wanted), did_you_mean(wanted, known));
  if (wanted.empty() && named.size() > 1)
    return fail("several-configurations", file(),
                "the nodes are annotated for the device configurations '{}': choose one by `annotations: NAME` in the "
                "schedule, or `none`",
                printable(join(std::vector<std::string>(named.begin(), named.end()), "', '")));
  if (wanted.empty() && named.empty()) return false;
  if (wanted.empty()) wanted = *named.begin();
  for (const OnnxConfiguration& c : model_.configurations)
    if (c.name == wanted) chosen_ = &c;
  if (!chosen_)
    return fail("unknown-configuration", file(),
                "nodes are annotated for device configuration '{}', which is not the model's", printable(wanted));
  if (chosen_->devices < 1 || chosen_->devices > kMostDevices)
    return fail("configuration-devices", file(), "device configuration '{}' has {} devices, expected 1 to {}",
                printable(wanted), chosen_->devices, kMostDevices);
  return true;
}

/// The stage of that number, inserted in ascending order. Nodes without a stage share one entry.
StageReadings& AnnotationReader::stage_of(std::optional<int64_t> stage) {
  auto at = std::find_if(stages_.begin(), stages_.end(), [&](const StageReadings& s) { return s.stage >= stage; });
  if (at == stages_.end() || at->stage != stage) {
    at = stages_.insert(at, StageReadings{});
    at->stage = stage;
    at->place = stage ? "stage" + std::to_string(*stage) : "";
  }
  return *at;
}

/// Records the specs of a node; a spec must be for one of its own operands or results.
void AnnotationReader::collect_node(const OnnxNode& node, int index, const OnnxNodeDevices& devices) {
  const Loc loc = model_.loc(node, index);
  StageReadings& stage = stage_of(devices.stage);
  stage.nodes.push_back(&node);
  for (const OnnxSharding& sharding : devices.shardings) {
    const bool made = contains(node.outputs, sharding.tensor);
    const bool read = contains(node.inputs, sharding.tensor);
    if (!made && !read)
      fail("annotation-tensor", loc, "a sharding spec of this node is for '{}', which it neither reads nor makes",
           printable(sharding.tensor));
    else if (sharding.tensor.find_first_of("*{") != std::string::npos)
      fail("annotation-name-unsupported", loc, "'{}' has a character that selects several names in a schedule",
           printable(sharding.tensor));
    else
      stage.readings.push_back({&sharding, loc, made, {}, {}});
  }
}

/// Collects the specs of all nodes of the chosen configuration. Annotations inside subgraphs are refused.
void AnnotationReader::collect() {
  int index = 0;
  for (const OnnxNode& node : model_.graph.nodes) {
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& inner : attr.graphs)
        for (const OnnxNode& n : inner.nodes)
          if (!n.devices.empty())
            fail("annotation-subgraph-unsupported", model_.loc(node, index),
                 "'{}' in a subgraph of this node is annotated: layouts inside follow from those outside",
                 printable(shown_name(n)));
    for (const OnnxNodeDevices& devices : node.devices)
      if (devices.configuration == chosen_->name && !is_constant_node(node)) collect_node(node, index, devices);
    ++index;
  }
  // If no node has a stage, all annotated nodes are in one place. If some have one, every annotated node needs one.
  if (stages_.size() > 1 && !stages_.front().stage)
    fail("annotation-stage-missing", file(), "node '{}' is annotated without a pipeline stage, but others have one",
         printable(shown_name(*stages_.front().nodes.front())));
}

/// Reports schedule entries that the annotations also give: mesh, places and stages have one source.
bool AnnotationReader::check_conflicts() {
  const bool staged = stages_.front().stage.has_value();
  const char* hint = "say `annotations: none`, or leave it out of the schedule";
  if (schedule_.per_rank)
    return fail("annotation-view", file(),
                "the model's annotations are for one tensor on all devices, but the schedule says "
                "`view: per-rank`: {}",
                hint);
  if (!schedule_.places.empty())
    return fail("annotation-places", schedule_.places.front().loc,
                "the model's annotations say what runs where, and so do these places: {}", hint);
  if (staged && schedule_.pipeline)
    return fail("annotation-pipeline", schedule_.pipeline->loc,
                "the model's annotations have pipeline stages, and so has the schedule: {}", hint);
  if (schedule_.mesh.empty()) return true;
  if (staged)
    return fail("annotation-mesh", Loc::in_file(schedule_.file),
                "the model's annotations have pipeline stages on devices of their own, and the schedule has a mesh: {}",
                hint);
  if (mesh_size(schedule_.mesh) != chosen_->devices)
    return fail("annotation-mesh", Loc::in_file(schedule_.file),
                "the mesh has {} ranks, but the model's device configuration '{}' has {} devices: {}",
                mesh_size(schedule_.mesh), printable(chosen_->name), chosen_->devices, hint);
  return true;
}

/// The devices of a stage are those of its specs; without specs, each stage has one device.
bool AnnotationReader::find_ranks(StageReadings& stage) {
  std::set<int> ranks;
  for (const ShardingNote& reading : stage.readings)
    if (!collect_devices(*reading.sharding, chosen_->devices, reading.loc, ranks, diags_)) return false;
  if (!stage.stage)
    for (int rank = 0; rank < chosen_->devices; ++rank) ranks.insert(rank);
  const bool one_each = chosen_->devices == static_cast<int64_t>(stages_.size());
  if (ranks.empty() && !one_each)
    return fail("annotation-stage-devices", file(), "no sharding spec says on which of the {} devices stage {} runs",
                chosen_->devices, *stage.stage);
  if (ranks.empty()) ranks.insert(static_cast<int>(&stage - stages_.data()));
  stage.ranks.assign(ranks.begin(), ranks.end());
  return true;
}

/// Builds the mesh of a stage: every stride and period of its digits must be a boundary between axes.
bool AnnotationReader::place(StageReadings& stage) {
  if (!find_ranks(stage)) return false;
  std::set<int64_t> cuts;
  for (ShardingNote& reading : stage.readings) {
    std::optional<std::vector<ShardDigit>> digits = shard_digits(*reading.sharding, stage.ranks, reading.loc, diags_);
    if (!digits) return false;
    reading.digits = std::move(*digits);
    for (const ShardDigit& digit : reading.digits) cuts.insert({digit.stride, digit.stride * digit.size});
  }
  const std::optional<Mesh> mesh = mesh_of(cuts, static_cast<int64_t>(stage.ranks.size()), schedule_.mesh);
  if (!mesh)
    return fail("annotation-mesh-shape", file(),
                "the shards of '{}' and of others cut the {} devices in ways that no mesh of ranks has{}",
                stage.readings.empty() ? "" : printable(stage.readings.front().sharding->tensor), stage.ranks.size(),
                schedule_.mesh.empty() ? "" : " with the axes of the schedule's mesh");
  stage.mesh = *mesh;
  for (ShardingNote& reading : stage.readings)
    if (!axis_requests(reading.digits, stage.mesh, reading.loc, reading.axes, diags_)) return false;
  return true;
}

/// Each stage becomes a place with its devices, and a stage with its nodes.
void AnnotationReader::make_pipeline() {
  PipelineRequest pipeline;
  pipeline.loc = pipeline.micro_batches_loc = pipeline.order_loc = file();
  for (const StageReadings& stage : stages_) {
    schedule_.places.push_back({stage.place, stage.ranks, stage.mesh, file()});
    StageRequest request{stage.place, stage.place, {}, file()};
    for (const OnnxNode* node : stage.nodes) request.nodes.push_back({Selector::Kind::Name, shown_name(*node), file()});
    pipeline.stages.push_back(std::move(request));
  }
  schedule_.pipeline = std::move(pipeline);
}

/// A value that another stage produces, or reads first, arrives under a name of its own.
std::string AnnotationReader::name_in(const StageReadings& stage, const std::string& tensor) const {
  const auto home = place_.find(tensor);
  return home == place_.end() || home->second == stage.place ? tensor : tensor + ".to." + stage.place;
}

/// Writes the `shard` entries, after finding the place in which each tensor is produced, or read first.
void AnnotationReader::make_entries() {
  std::map<const OnnxNode*, std::string> place_of;
  for (const StageReadings& stage : stages_)
    for (const OnnxNode* node : stage.nodes) place_of[node] = stage.place;
  for (const OnnxNode& node : model_.graph.nodes) {
    const auto place = place_of.find(&node);
    if (place == place_of.end()) continue;
    for (const std::string& input : node.inputs) place_.emplace(input, place->second);
    for (const std::string& output : node.outputs) place_[output] = place->second, produced_.insert(output);
  }
  for (const StageReadings& stage : stages_) {
    std::set<std::string> tensors;
    for (const ShardingNote& reading : stage.readings)
      if (tensors.insert(reading.sharding->tensor).second) add_entries(stage, reading.sharding->tensor);
  }
}

/// Adds one entry for the value as its producer makes it, and a `.use` entry if the stage's readers need another
/// layout.
void AnnotationReader::add_entries(const StageReadings& stage, const std::string& tensor) {
  const ShardingNote *made = nullptr, *read = nullptr;
  for (const ShardingNote& reading : stage.readings) {
    if (reading.sharding->tensor != tensor) continue;
    const ShardingNote*& first = reading.made ? made : read;
    if (first && !same_axes(first->axes, reading.axes)) {
      diags_
          .error("annotation-readers-unsupported", reading.loc,
                 "this node reads '{}' in another layout than a node before: all readers in one stage get the same",
                 printable(tensor))
          .note(first->loc, "the other one");
      return;
    }
    first = &reading;
  }
  const std::string name = name_in(stage, tensor);
  if (made) add_entry(name, false, *made);
  if (read && !made) add_entry(name, false, *read);
  if (read && made && !same_axes(made->axes, read->axes)) add_entry(name, true, *read);
}

/// Adds an entry unless the schedule has the same one; a different one is an error.
void AnnotationReader::add_entry(const std::string& target, bool use, const ShardingNote& reading) {
  if (reading.axes.empty()) return;  // one rank
  for (const ShardEntry& entry : schedule_.shard) {
    if (entry.target.text != target || entry.use != use) continue;
    if (!same_axes(entry.axes, reading.axes))
      diags_
          .error(
              "annotation-shard", entry.target.loc,
              "'{}' has another layout here than in the model's annotations: say `annotations: none`, or leave it out",
              printable(target))
          .note(reading.loc, "annotated here");
    return;
  }
  schedule_.shard.push_back({{Selector::Kind::Name, target, reading.loc}, use, reading.axes});
}

}  // namespace

bool read_annotations(const OnnxModel& model, Schedule& schedule, Diags& diags) {
  return AnnotationReader(model, schedule, diags).run();
}

}  // namespace weftc
