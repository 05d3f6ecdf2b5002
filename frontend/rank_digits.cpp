// Finds the digit of a rank's position that gives its shard. Devices 0 to 3 with shards 0 0 1 1 have digit (p div 2)
// mod 2, with shards 0 1 0 1 digit p mod 2. Shards 0 1 1 0 have no digit and are refused.
#include "frontend/rank_digits.h"

#include <algorithm>

namespace weftc {

namespace {

/// The devices of an entry of a spec: one device, or the group with that key.
std::vector<int64_t> group_of(const OnnxSharding& sharding, int64_t device) {
  const auto group = sharding.groups.find(device);
  return group == sharding.groups.end() ? std::vector<int64_t>{device} : group->second;
}

/// The sharded dims, outer first, without strides; dims with one shard are left out. False after reporting.
bool read_axes(const OnnxSharding& sharding, const Loc& loc, std::vector<ShardDigit>& digits, Diags& diags) {
  std::set<int64_t> seen;
  for (const OnnxShardedAxis& axis : sharding.axes) {
    if (!seen.insert(axis.axis).second || axis.axis < INT32_MIN || axis.axis > INT32_MAX) {
      diags.error("annotation-axis", loc, "the spec of '{}' names axis {} twice, or it is no axis",
                  printable(sharding.tensor), axis.axis);
      return false;
    }
    int64_t parts = 1;
    for (size_t i = 0; i < axis.parts.size(); ++i) {
      const auto [extent, shards] = axis.parts[i];
      const bool inner = i + 1 < axis.parts.size();  // outer parts count in blocks of the inner ones
      if (shards < 1 || shards > (1 << 16) || (inner && (extent < 1 || extent % shards))) {
        diags.error("annotation-shards", loc,
                    "axis {} of '{}' is cut into {} shards{}: expected 1 or more, and of fused dims all but the last "
                    "with a fixed length that they divide",
                    axis.axis, printable(sharding.tensor), shards,
                    inner ? format(" of {} elements", extent) : std::string());
        return false;
      }
      if (shards > 1) digits.push_back({static_cast<int>(axis.axis), parts, shards, 0});
      parts = shards > 1 ? std::max<int64_t>(1, extent / shards) : parts * std::max<int64_t>(1, extent);
    }
  }
  return true;
}

/// The shard of each rank. Nothing after reporting.
std::optional<std::vector<int64_t>> shards_of(const OnnxSharding& sharding, const std::vector<int>& ranks,
                                              int64_t shards, const Loc& loc, Diags& diags) {
  const auto devices = static_cast<int64_t>(sharding.devices.size());
  if (shards > 1 && devices != shards) {
    diags.error("annotation-devices", loc, "'{}' has {} shards, but its spec lists {} devices",
                printable(sharding.tensor), shards, devices);
    return {};
  }
  std::vector<int64_t> shard(ranks.size(), -1);
  for (int64_t k = 0; k < devices; ++k)
    for (const int64_t device : group_of(sharding, sharding.devices[static_cast<size_t>(k)])) {
      const auto at = std::find(ranks.begin(), ranks.end(), static_cast<int>(device));
      int64_t& mine = shard[static_cast<size_t>(at - ranks.begin())];
      if (mine >= 0 && mine != k && shards > 1) {
        diags.error("annotation-device-twice", loc, "device {} has two shards of '{}'", device,
                    printable(sharding.tensor));
        return {};
      }
      mine = shards > 1 ? k : 0;
    }
  for (size_t p = 0; p < ranks.size(); ++p)
    if (shard[p] < 0) {
      diags.error("annotation-device-missing", loc,
                  "device {} has no shard of '{}', but other tensors of the same stage are on it", ranks[p],
                  printable(sharding.tensor));
      return {};
    }
  return shard;
}

/// Number of consecutive ranks with the same value of a digit that counts up periodically; 0 if it does not.
int64_t stride_of(const std::vector<int64_t>& values, int64_t size) {
  const auto first = std::find(values.begin(), values.end(), int64_t{1});
  const auto stride = static_cast<int64_t>(first - values.begin());
  if (first == values.end() || stride == 0 || static_cast<int64_t>(values.size()) % (stride * size)) return 0;
  for (size_t p = 0; p < values.size(); ++p)
    if (values[p] != static_cast<int64_t>(p) / stride % size) return 0;
  return stride;
}

}  // namespace

bool collect_devices(const OnnxSharding& sharding, int64_t devices, const Loc& loc, std::set<int>& ranks,
                     Diags& diags) {
  for (const int64_t listed : sharding.devices)
    for (const int64_t device : group_of(sharding, listed)) {
      if (device < 0 || device >= devices) {
        diags.error("annotation-device", loc, "the spec of '{}' names device {}, the configuration has 0 to {}",
                    printable(sharding.tensor), device, devices - 1);
        return false;
      }
      ranks.insert(static_cast<int>(device));
    }
  return true;
}

std::optional<std::vector<ShardDigit>> shard_digits(const OnnxSharding& sharding, const std::vector<int>& ranks,
                                                    const Loc& loc, Diags& diags) {
  std::vector<ShardDigit> digits;
  if (!read_axes(sharding, loc, digits, diags)) return {};
  int64_t shards = 1;
  for (const ShardDigit& digit : digits) shards = std::min<int64_t>(shards * digit.size, 1 << 20);
  const std::optional<std::vector<int64_t>> shard = shards_of(sharding, ranks, shards, loc, diags);
  if (!shard) return {};
  int64_t inside = 1;  // shards of the inner digits
  for (size_t i = digits.size(); i-- > 0;) {
    std::vector<int64_t> values;
    for (const int64_t s : *shard) values.push_back(s / inside % digits[i].size);
    digits[i].stride = stride_of(values, digits[i].size);
    if (digits[i].stride == 0) {
      diags.error("annotation-order-unsupported", loc,
                  "the {} shards of axis {} of '{}' do not lie on the devices in rising order, evenly: ranks of a mesh "
                  "count up; number the devices otherwise",
                  digits[i].size, digits[i].dim, printable(sharding.tensor));
      return {};
    }
    inside *= digits[i].size;
  }
  return digits;
}

std::optional<Mesh> mesh_of(std::set<int64_t> cuts, int64_t ranks, const Mesh& given) {
  std::set<int64_t> known = {1};
  if (!given.empty()) {
    for (auto axis = given.rbegin(); axis != given.rend(); ++axis) known.insert(*known.rbegin() * axis->size);
    return std::includes(known.begin(), known.end(), cuts.begin(), cuts.end()) ? std::optional(given) : std::nullopt;
  }
  cuts.insert({1, ranks});
  Mesh mesh;
  for (auto cut = std::next(cuts.begin()); cut != cuts.end(); ++cut) {
    if (*cut % *std::prev(cut)) return {};
    mesh.insert(mesh.begin(), {"", static_cast<int>(*cut / *std::prev(cut))});
  }
  if (mesh.empty()) mesh.push_back({"", 1});
  for (size_t a = 0; a < mesh.size(); ++a) mesh[a].name = "d" + std::to_string(a);
  return mesh;
}

bool axis_requests(const std::vector<ShardDigit>& digits, const Mesh& mesh, const Loc& loc,
                   std::vector<AxisRequest>& axes, Diags& diags) {
  std::vector<bool> used(mesh.size());
  std::map<int, size_t> last;  // axis of the mesh that has sliced a dim so far
  for (const ShardDigit& digit : digits) {
    AxisRequest request;
    request.dim = digit.dim, request.parts = digit.parts, request.loc = loc;
    int64_t stride = mesh_size(mesh);
    for (size_t a = 0; a < mesh.size(); ++a) {
      stride /= mesh[a].size;
      if (mesh[a].size == 1 || stride < digit.stride || stride >= digit.stride * digit.size) continue;
      const auto [outer, first] = last.emplace(digit.dim, a);
      if ((!first && a < outer->second) || used[a]) {
        diags.error("annotation-nesting-unsupported", loc,
                    "axis {} is cut by devices far apart inside of shards of devices side by side: shards of one axis "
                    "nest in the order of the devices",
                    digit.dim);
        return false;
      }
      outer->second = a;
      used[a] = true;
      request.axes.push_back(mesh[a].name);
    }
    axes.push_back(std::move(request));
  }
  for (size_t a = 0; a < mesh.size(); ++a)
    if (!used[a] && mesh[a].size > 1) {
      AxisRequest whole;
      whole.axes = {mesh[a].name}, whole.replicated = true, whole.loc = loc;
      axes.push_back(std::move(whole));
    }
  return true;
}

}  // namespace weftc
