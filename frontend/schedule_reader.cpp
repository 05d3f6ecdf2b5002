// One handler a key of the schedule. Handlers report errors and continue, so that all errors of a file are reported at
// once. Keys that other keys refer to (mesh, places) are read first, in any order in the file.
#include "frontend/schedule_reader.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "frontend/mapped_file.h"
#include "frontend/onnx_options.h"
#include "frontend/schedule_sections.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

constexpr int64_t kMostRanks = 1 << 16;

class ScheduleReader {
 public:
  explicit ScheduleReader(Diags& diags) : values_(diags) {}
  Schedule read(const std::string& file, const YamlNode& root);

 private:
  void mesh(const YamlNode& node, const std::string& what, Mesh& mesh);
  void places(const YamlNode& node);
  void place(const std::string& name, const YamlNode& key, const YamlNode& value);
  void check_places();
  void dims(const YamlNode& node);
  bool dim_text(const YamlNode& node, DimRequest& request);

  void shard(const YamlNode& node);
  void shard_entry(const std::string& name, const YamlNode& key, const YamlNode& value);
  std::optional<AxisRequest> axis(const YamlNode& key, const YamlNode& value);
  bool axis_names(const YamlNode& key, AxisRequest& request);
  void check_axis(const std::string& name, const Loc& loc);

  void states(const YamlNode& node);

  Diags& diags() { return values_.diags(); }

  YamlValues values_;
  Schedule schedule_;
};

void ScheduleReader::mesh(const YamlNode& node, const std::string& what, Mesh& mesh) {
  int64_t ranks = 1;
  values_.names(node, what, [&](const std::string& name, const YamlNode&, const YamlNode& value) {
    const auto size = values_.integer(value, "the size of axis '" + printable(name) + "'", 1, kMostRanks);
    if (!size) return;
    mesh.push_back({name, static_cast<int>(*size)});
    if (ranks <= kMostRanks && (ranks *= *size) > kMostRanks)
      diags().error("mesh-size", value.loc, "{} has more than {} ranks", what, kMostRanks);
  });
}

void ScheduleReader::place(const std::string& name, const YamlNode& key, const YamlNode& value) {
  PlaceRequest place{name, {}, {}, key.loc};
  const std::string what = "place '" + printable(name) + "'";
  bool read = false;
  const auto ranks = [&](const YamlNode& list) {
    if (!values_.is_list(list, "the ranks of " + what)) return;
    const auto numbers = values_.integers(list, "the ranks of " + what, 0, kMostRanks - 1);
    if (!numbers) return;
    place.ranks.assign(numbers->begin(), numbers->end());
    read = true;
    const std::set<int64_t> distinct(numbers->begin(), numbers->end());
    if (distinct.size() != numbers->size()) diags().error("place-ranks", list.loc, "{} lists a rank twice", what);
  };
  const auto axes = [&](const YamlNode& map) { mesh(map, "the mesh of " + what, place.mesh); };
  const int errors = diags().errors();
  values_.keys(value, what, {{"ranks", ranks, true}, {"mesh", axes}});
  if (read && diags().errors() == errors && mesh_size(place.mesh) != static_cast<int>(place.ranks.size()))
    diags().error("place-mesh", value.loc, "{} has {} ranks, but its mesh has {}", what, place.ranks.size(),
                  mesh_size(place.mesh));
  schedule_.places.push_back(std::move(place));
}

void ScheduleReader::places(const YamlNode& node) {
  values_.names(node, "places", [this](const std::string& name, const YamlNode& key, const YamlNode& value) {
    place(name, key, value);
  });
}

/// Checks that every rank of the world is in some place: others would run nothing.
void ScheduleReader::check_places() {
  std::set<int> ranks;
  for (const PlaceRequest& place : schedule_.places) ranks.insert(place.ranks.begin(), place.ranks.end());
  if (ranks.empty() || *ranks.rbegin() + 1 == static_cast<int>(ranks.size())) return;
  int missing = 0;
  while (ranks.contains(missing)) ++missing;
  diags().error("place-rank-missing", schedule_.places.front().loc, "rank {} is in no place, but rank {} is", missing,
                *ranks.rbegin());
}

/// Parses "<=64", "<=64,1024" and "1,128", as for --dim; false for other texts.
bool ScheduleReader::dim_text(const YamlNode& node, DimRequest& request) {
  if (!node.is(YamlNode::Kind::Scalar)) return false;
  request.bounded = node.text.starts_with("<=");
  const std::string what = (request.bounded ? "the bound of dim '" : "dim '") + printable(request.name) + "'";
  for (const std::string& part : weftc::split(std::string_view(node.text).substr(request.bounded ? 2 : 0), ',')) {
    YamlNode number = node;
    number.quoted = false;
    number.text = trim(part);
    const auto value = values_.integer(number, what, request.bounded ? 1 : 0, INT64_MAX);
    if (!value) break;
    request.values.push_back(*value);
  }
  return true;
}

void ScheduleReader::dims(const YamlNode& node) {
  values_.names(node, "dims", [this](const std::string& name, const YamlNode& key, const YamlNode& value) {
    DimRequest request{name, {}, false, key.loc};
    if (!dim_text(value, request))
      if (const auto numbers = values_.integers(value, "dim '" + printable(name) + "'", 0, INT64_MAX))
        request.values = *numbers;
    const std::string problem = values_problem(request);
    if (!problem.empty()) diags().error("dim-values", value.loc, "dim '{}' {}", printable(name), problem);
    schedule_.dims.push_back(std::move(request));
  });
}

bool ScheduleReader::axis_names(const YamlNode& key, AxisRequest& request) {
  if (key.quoted && key.text.size() > 2 && key.text.front() == '[' && key.text.back() == ']') {
    for (const std::string& name : weftc::split(std::string_view(key.text).substr(1, key.text.size() - 2), ','))
      request.axes.emplace_back(trim(name));
    return true;
  }
  if (!key.is(YamlNode::Kind::List)) {
    const auto name = values_.word(key, "a mesh axis");
    if (name) request.axes = {*name};
    return name.has_value();
  }
  for (const YamlNode& item : key.items)
    if (const auto name = values_.word(item, "a mesh axis")) request.axes.push_back(*name);
  if (key.items.empty()) diags().error("shard-axes", key.loc, "a product of axes names at least one");
  return !key.items.empty() && request.axes.size() == key.items.size();
}

/// Parses `1`, `R` or `{dim: 1, parts: 3}` of an axis.
std::optional<AxisRequest> ScheduleReader::axis(const YamlNode& key, const YamlNode& value) {
  AxisRequest request;
  request.loc = key.loc;
  if (!axis_names(key, request)) return {};
  for (const std::string& name : request.axes) check_axis(name, key.loc);
  const std::string what = "the layout on '" + printable(join(request.axes, ", ")) + "'";
  const int errors = diags().errors();
  if (value.is(YamlNode::Kind::Map)) {
    const auto parts = [&](const YamlNode& node) {
      request.parts = values_.integer(node, "parts", 1, INT32_MAX).value_or(1);
    };
    values_.keys(
        value, what,
        {{"dim", [&](const YamlNode& node) { request.dim = read_dim(values_, node, "dim"); }, true}, {"parts", parts}});
  } else if (value.is(YamlNode::Kind::Scalar) && value.text == "R") {
    request.replicated = true;
  } else if (value.is(YamlNode::Kind::Scalar) && !value.text.empty() &&
             (value.text[0] == '-' || (value.text[0] >= '0' && value.text[0] <= '9'))) {
    request.dim = read_dim(values_, value, what);
  } else {
    diags().error("shard-layout", value.loc, "{} must be a dimension such as 1, R or {dim: 1, parts: 3}", what);
  }
  if (diags().errors() != errors) return {};
  return request;
}

void ScheduleReader::check_axis(const std::string& name, const Loc& loc) {
  std::vector<std::string> known;
  for (const MeshAxis& axis : schedule_.mesh) known.push_back(axis.name);
  for (const PlaceRequest& place : schedule_.places)
    for (const MeshAxis& axis : place.mesh) known.push_back(axis.name);
  if (contains(known, name)) return;
  diags().error("unknown-mesh-axis", loc, "unknown mesh axis '{}'{}", printable(name),
                known.empty() ? ": the schedule has neither mesh nor places" : did_you_mean(name, known));
}

void ScheduleReader::shard_entry(const std::string& name, const YamlNode& key, const YamlNode& value) {
  ShardEntry entry;
  entry.use = name.ends_with(".use") && name.size() > 4;
  entry.target = selector_of(entry.use ? name.substr(0, name.size() - 4) : name, key.loc);
  if (!values_.is_map(value, "the layout of '" + printable(name) + "'")) return;
  std::set<std::string> axes;
  for (const auto& [axis_key, axis_value] : value.entries) {
    std::optional<AxisRequest> request = axis(axis_key, axis_value);
    if (!request) continue;
    for (const std::string& axis_name : request->axes)
      if (!axes.insert(axis_name).second)
        diags().error("shard-axis-repeated", axis_key.loc, "axis '{}' is named twice for '{}'", printable(axis_name),
                      printable(name));
    entry.axes.push_back(std::move(*request));
  }
  schedule_.shard.push_back(std::move(entry));
}

void ScheduleReader::shard(const YamlNode& node) {
  if (!values_.is_map(node, "shard")) return;
  for (const auto& [key, value] : node.entries)
    if (const auto name = read_name(values_, key, "a key of shard")) shard_entry(*name, key, value);
}

void ScheduleReader::states(const YamlNode& node) {
  std::set<std::string> outputs;
  values_.names(node, "state", [&](const std::string& input, const YamlNode& key, const YamlNode& value) {
    const auto output = values_.word(value, "the output of state '" + printable(input) + "'");
    if (!output) return;
    if (!outputs.insert(*output).second)
      diags().error("state-output-repeated", value.loc, "output '{}' is the next value of two states",
                    printable(*output));
    schedule_.states.push_back({input, *output, key.loc});
  });
}

Schedule ScheduleReader::read(const std::string& file, const YamlNode& root) {
  schedule_.file = file;
  const YamlNode *mesh_node = nullptr, *places_node = nullptr, *shard_node = nullptr;
  // Shard and pipeline refer to axes and places, which may come later in the file.
  for (const auto& [key, value] : root.entries) {
    if (key.text == "mesh") mesh_node = &value;
    if (key.text == "places") places_node = &value;
    if (key.text == "shard") shard_node = &value;
  }
  if (mesh_node) mesh(*mesh_node, "mesh", schedule_.mesh);
  if (places_node) places(*places_node);
  if (mesh_node && places_node)
    diags()
        .error("mesh-and-places", places_node->loc, "a schedule has either mesh or places")
        .note(mesh_node->loc, "the mesh");
  check_places();
  if (shard_node) shard(*shard_node);
  const auto done = [](const YamlNode&) {};
  const auto memory = [this](const YamlNode& node) {
    const auto limit = [this](const YamlNode& n) {
      schedule_.memory_limit = values_.bytes(n, "limit");
      schedule_.memory_loc = n.loc;
    };
    values_.keys(node, "memory", {{"limit", limit, true}});
  };
  values_.keys(
      root, "a schedule",
      {{"weft", [this](const YamlNode& n) { values_.integer(n, "the version of the schedule (weft)", 1, 1); }, true},
       {"mesh", done},
       {"places", done},
       {"dims", [this](const YamlNode& n) { dims(n); }},
       {"shard", done},
       {"transform", [this](const YamlNode& n) { schedule_.transforms = read_transforms(values_, n); }},
       {"state", [this](const YamlNode& n) { states(n); }},
       {"generate", [this](const YamlNode& n) { schedule_.generate = read_generate(values_, n); }},
       {"train", [this](const YamlNode& n) { schedule_.train = read_train(values_, n); }},
       {"pipeline", [this](const YamlNode& n) { schedule_.pipeline = read_pipeline(values_, n); }},
       {"view",
        [this](const YamlNode& n) {
          schedule_.per_rank = values_.choice(n, "view", {"global", "per-rank"}) == size_t{1};
        }},
       {"annotations",
        [this](const YamlNode& n) {
          schedule_.annotations = values_.word(n, "annotations").value_or("");
          schedule_.annotations_loc = n.loc;
        }},
       {"seed", [this](const YamlNode& n) { schedule_.seed = values_.integer(n, "seed", 0, UINT32_MAX).value_or(0); }},
       {"memory", memory},
       {"precision", [this](const YamlNode& n) { schedule_.precision = read_precision(values_, n); }},
       {"kernels", [this](const YamlNode& n) { schedule_.kernels = read_kernels(values_, n); }}});
  if (schedule_.pipeline) check_pipeline(schedule_, diags());
  return std::move(schedule_);
}

}  // namespace

std::optional<MeshAxis> parse_mesh_option(const std::string& text, Diags& diags) {
  const size_t equals = text.find('=');
  MeshAxis axis{text.substr(0, equals), 0};
  if (equals != std::string::npos) {
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + equals + 1, last, axis.size);
    if (error == std::errc() && end == last && axis.size >= 1 && axis.size <= kMostRanks && !axis.name.empty())
      return axis;
  }
  diags.error("mesh-option", {}, "--mesh takes AXIS=4, a number of ranks up to {}, not '{}'", kMostRanks,
              printable(text));
  return {};
}

void resize_mesh(Schedule& schedule, const std::vector<MeshAxis>& sizes, Diags& diags) {
  std::vector<std::string> known;
  for (const MeshAxis& axis : schedule.mesh) known.push_back(axis.name);
  for (const MeshAxis& wanted : sizes) {
    const Loc loc = Loc::in_file(format("--mesh {}={}", wanted.name, wanted.size));
    const auto axis = std::find(known.begin(), known.end(), wanted.name);
    if (known.empty())
      diags.error("mesh-option-no-mesh", loc, "{} has no mesh whose axes could have other sizes", schedule.file);
    else if (axis == known.end())
      diags.error("unknown-mesh-axis", loc, "{} has no mesh axis '{}'{}", schedule.file, printable(wanted.name),
                  did_you_mean(wanted.name, known));
    else
      schedule.mesh[static_cast<size_t>(axis - known.begin())].size = wanted.size;
  }
  int64_t ranks = 1;
  for (const MeshAxis& axis : schedule.mesh) ranks = std::min(ranks * axis.size, kMostRanks + 1);
  if (ranks > kMostRanks)
    diags.error("mesh-size", Loc::in_file(schedule.file), "mesh has more than {} ranks", kMostRanks);
}

std::optional<Schedule> read_schedule_text(const std::string& name, const std::string& text, Diags& diags) {
  const int errors = diags.errors();
  std::optional<YamlNode> root = read_yaml(name, text, diags);
  if (!root) return {};
  if (root->is(YamlNode::Kind::Null)) {
    // An empty file has no position to point at.
    diags.error("schedule-nothing", Loc::in_file(name), "the schedule is empty; it needs at least 'weft: 1'");
    return {};
  }
  Schedule schedule = ScheduleReader(diags).read(name, *root);
  if (diags.errors() != errors) return {};
  return schedule;
}

std::optional<Schedule> read_schedule(const std::string& path, Diags& diags) {
  const MappedFile file = map_file(path);
  if (file.error.empty())
    return read_schedule_text(path, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, diags);
  diags.error("schedule-file", Loc::in_file(path), "the schedule cannot be read: {}", file.error);
  return {};
}

}  // namespace weftc
