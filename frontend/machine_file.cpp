// A machine file names figures like --ceiling does, and lists levels of the network from inner to outer.
#include "frontend/machine_file.h"

#include <cstdlib>

#include "frontend/mapped_file.h"
#include "frontend/yaml_values.h"
#include "ir/base/quantity.h"
#include "ir/target.h"

namespace weftc {

namespace {

constexpr int64_t kMostRanks = 1 << 16;

struct CurveWord {
  const char* name;
  OpKind kind;
};
constexpr CurveWord kCurves[] = {
    {"all-reduce", OpKind::AllReduce}, {"reduce-scatter", OpKind::ReduceScatter}, {"all-gather", OpKind::AllGather},
    {"all-to-all", OpKind::AllToAll},  {"broadcast", OpKind::Broadcast},          {"reduce", OpKind::Reduce},
    {"transfer", OpKind::Transfer},
};

class MachineReader {
 public:
  explicit MachineReader(Diags& diags) : values_(diags) {}

  Machine read(const YamlNode& root);

 private:
  using Node = const YamlNode&;

  double quantity(Node node, const std::string& what, Quantity kind, bool may_be_zero = false);
  void target(Node node);
  void archs(Node node);
  void rank(Node node);
  void nccl(Node node);
  void calibration(Node node, const std::string& what, Calibration& factors);
  void level(Node node);
  void curves(Node node, OpKind kind, NetworkLevel& level);
  void points(Node node, TimeCurve& curve);
  void check_archs();
  void check_levels();
  Diags& diags() { return values_.diags(); }

  YamlValues values_;
  Machine machine_;
  Loc ranks_loc_;
  std::vector<std::pair<std::string, Loc>> archs_;
  struct Place {
    Loc level, ranks, link;
    bool has_latency = false, has_link = false;
  };
  std::vector<Place> places_;     // by level
  std::optional<double> scalar_;  // as given
};

/// A positive figure, or zero where allowed; 1 after reporting.
double MachineReader::quantity(Node node, const std::string& what, Quantity kind, bool may_be_zero) {
  const std::optional<std::string> text = values_.word(node, what);
  if (!text) return 1;
  const std::optional<double> value = parse_quantity(*text, kind);
  if (value && (*value > 0 || may_be_zero)) return *value;
  diags().error("machine-quantity", node.loc, "{} must be {}{}, not '{}'", what, example_of(kind),
                may_be_zero ? "" : ", above zero", printable(*text));
  return 1;
}

void MachineReader::target(Node node) {
  machine_.is_device = values_.choice(node, "target", {"host", "cuda"}).value_or(0) == 1;
}

void MachineReader::archs(Node node) {
  if (!values_.is_list(node, "archs")) return;
  for (const YamlNode& item : node.items)
    if (const auto arch = values_.word(item, "an entry of archs")) archs_.emplace_back(*arch, item.loc);
  if (node.items.empty()) diags().error("machine-archs", node.loc, "archs is an empty list");
}

/// Checks for sm_70 and above, or a level of host CPUs.
void MachineReader::check_archs() {
  for (const auto& [arch, loc] : archs_) {
    const bool is_device = arch.starts_with("sm_") && std::atoi(arch.c_str() + 3) >= 70;
    if (machine_.is_device && !is_device)
      diags().error("machine-arch", loc, "an arch of cuda is sm_70, sm_80, sm_90 or the like, not '{}'",
                    printable(arch));
    if (!machine_.is_device && !find_host_arch(arch))
      diags().error("machine-host-arch", loc, "an arch of host is one of {}, not '{}'{}", join(host_arch_names(), ", "),
                    printable(arch), did_you_mean(arch, host_arch_names()));
    machine_.archs.push_back(arch);
  }
}

void MachineReader::rank(Node node) {
  Ceilings& c = machine_.ceilings;
  const auto rate = [&](const char* name, double& into) {
    return YamlValues::Key{name, [&, name](Node n) { into = quantity(n, name, Quantity::Operations); }, true};
  };
  values_.keys(node, "rank",
               {rate("f32", c.f32),
                rate("f64", c.f64),
                rate("f16", c.f16),
                {"memory", [&](Node n) { c.memory = quantity(n, "memory", Quantity::ByteRate); }, true},
                {"capacity", [&](Node n) { machine_.memory = values_.bytes(n, "capacity").value_or(1); }, true},
                {"step", [&](Node n) { c.step = quantity(n, "step", Quantity::Seconds, true); }, true},
                {"function", [&](Node n) { c.function = values_.number(n, "function", 1, 1e6).value_or(1); }, true},
                {"chunked", [&](Node n) { c.chunked = values_.number(n, "chunked", 1e-3, 1).value_or(1); }},
                {"scalar", [&](Node n) { scalar_ = quantity(n, "scalar", Quantity::Operations); }}});
}

void MachineReader::calibration(Node node, const std::string& what, Calibration& factors) {
  const auto factor = [&](const char* name, double& into) {
    return YamlValues::Key{name, [&, name](Node n) { into = values_.number(n, name, 0.01, 100).value_or(1); }};
  };
  values_.keys(node, what, {factor("latency", factors.latency), factor("bandwidth", factors.bandwidth)});
}

void MachineReader::nccl(Node node) {
  machine_.uses_nccl = true;
  const auto protocol = [&](const char* name, Protocol of) {
    return YamlValues::Key{name,
                           [this, name, of](Node n) { calibration(n, name, machine_.nccl[static_cast<size_t>(of)]); }};
  };
  values_.keys(node, "nccl",
               {{"cpu",
                 [&](Node n) {
                   machine_.has_amd_host = values_.choice(n, "cpu", {"intel", "amd"}).value_or(0) == 1;
                 },
                 true},
                protocol("LL", Protocol::LL),
                protocol("LL128", Protocol::LL128),
                protocol("Simple", Protocol::Simple)});
}

/// [[4B, 3us], [1MiB, 90us]]: bytes that a rank sends, and the time.
void MachineReader::points(Node node, TimeCurve& curve) {
  if (!values_.is_list(node, "a curve")) return;
  for (const YamlNode& pair : node.items) {
    if (!values_.is_list(pair, "a point of a curve")) continue;
    if (pair.items.size() != 2) {
      diags().error("machine-point", pair.loc, "a point of a curve is a size and a time, such as [64KiB, 20us]");
      continue;
    }
    const int64_t size = values_.bytes(pair.items[0], "the size", 0).value_or(1);
    const TimeCurve::Point point = {static_cast<double>(size), quantity(pair.items[1], "the time", Quantity::Seconds)};
    if (!curve.points.empty() && point.bytes <= curve.points.back().bytes)
      diags().error("machine-curve-order", pair.loc, "sizes of a curve ascend: this one is not above the one before");
    curve.points.push_back(point);
  }
  if (node.items.empty()) diags().error("machine-curve", node.loc, "a curve has at least one point");
}

void MachineReader::curves(Node node, OpKind kind, NetworkLevel& level) {
  values_.names(node, curve_word(kind), [&](const std::string&, Node key, Node value) {
    TimeCurve curve;
    curve.kind = kind;
    curve.ranks = static_cast<int>(values_.integer(key, "the ranks of a curve", 2, kMostRanks).value_or(2));
    points(value, curve);
    level.curves.push_back(std::move(curve));
  });
}

void MachineReader::level(Node node) {
  NetworkLevel made;
  Place place{node.loc, node.loc, node.loc};
  std::vector<YamlValues::Key> keys = {
      {"name", [&](Node n) { made.name = values_.word(n, "the name of a level").value_or(""); }, true},
      {"ranks",
       [&](Node n) {
         made.ranks = static_cast<int>(values_.integer(n, "the ranks of a level", 2, kMostRanks).value_or(2));
         place.ranks = n.loc;
       },
       true},
      {"bandwidth", [&](Node n) { made.bandwidth = quantity(n, "bandwidth", Quantity::ByteRate); }, true},
      {"latency",
       [&](Node n) {
         made.latency = quantity(n, "latency", Quantity::Seconds, true);
         place.has_latency = true;
       }},
      {"link",
       [&](Node n) {
         made.link = static_cast<Link>(values_.choice(n, "link", {"nvlink", "pcie", "network"}).value_or(2));
         place.link = n.loc, place.has_link = true;
       }},
      {"multicast", [&](Node n) {
         made.multicast = values_.choice(n, "multicast", {"false", "true"}).value_or(0) == 1;
       }}};
  for (const CurveWord& word : kCurves)
    keys.push_back({word.name, [this, &made, kind = word.kind](Node n) { curves(n, kind, made); }});
  values_.keys(node, "a level of the network", keys);
  machine_.levels.push_back(std::move(made));
  places_.push_back(place);
}

/// Checks that units consist of whole units of the next inner level, and that the last one is the machine.
void MachineReader::check_levels() {
  int inner = 1;
  bool has_network = false;
  for (size_t l = 0; l < machine_.levels.size(); ++l) {
    const NetworkLevel& level = machine_.levels[l];
    if (level.ranks % inner != 0 || level.ranks == inner)
      diags().error("machine-ranks", places_[l].ranks,
                    "level '{}' joins {} ranks, which is no multiple of the {} below it", printable(level.name),
                    level.ranks, inner);
    inner = level.ranks;
    if (machine_.uses_nccl ? !places_[l].has_link : !places_[l].has_latency)
      diags().error("machine-level", places_[l].level, "level '{}' needs the key '{}'", printable(level.name),
                    machine_.uses_nccl ? "link" : "latency");
    if (has_network && level.link != Link::Network)
      diags().error("machine-link", places_[l].link, "level '{}' lies outside of a network, and cannot be {}",
                    printable(level.name), level.link == Link::NvLink ? "nvlink" : "pcie");
    has_network |= level.link == Link::Network;
  }
  if (inner != machine_.ranks)
    diags().error("machine-size", ranks_loc_, "the machine has {} ranks, and its network joins {}", machine_.ranks,
                  inner);
}

Machine MachineReader::read(const YamlNode& root) {
  values_.keys(
      root, "a machine",
      {{"machine", [this](Node n) { machine_.ceilings.machine = values_.word(n, "machine").value_or(""); }, true},
       {"target", [this](Node n) { target(n); }, true},
       {"archs", [this](Node n) { archs(n); }, true},
       {"ranks",
        [this](Node n) {
          machine_.ranks = static_cast<int>(values_.integer(n, "ranks", 1, kMostRanks).value_or(1));
          ranks_loc_ = n.loc;
        },
        true},
       {"rank", [this](Node n) { rank(n); }, true},
       {"nccl", [this](Node n) { nccl(n); }},
       {"network",
        [this](Node n) {
          if (!values_.is_list(n, "network")) return;
          for (const YamlNode& item : n.items) level(item);
        },
        true}});
  if (!diags().ok()) return {};
  check_archs();
  check_levels();
  // A lane of a device does a multiplication with its addition a clock.
  if (scalar_ || machine_.is_device) machine_.ceilings.scalar = scalar_.value_or(machine_.ceilings.f32 / 2);
  if (!machine_.levels.empty()) {
    machine_.ceilings.link = machine_.levels.front().bandwidth;
    machine_.ceilings.latency = machine_.levels.front().latency;
  }
  return std::move(machine_);
}

}  // namespace

std::string curve_word(OpKind kind) {
  for (const CurveWord& word : kCurves)
    if (word.kind == kind) return word.name;
  return "";
}

std::optional<Machine> read_machine_text(const std::string& name, const std::string& text, Diags& diags) {
  const int errors = diags.errors();
  const std::optional<YamlNode> root = read_yaml(name, text, diags);
  if (!root) return {};
  if (root->is(YamlNode::Kind::Null)) {
    diags.error("machine-nothing", Loc::in_file(name), "the machine file is empty");
    return {};
  }
  Machine machine = MachineReader(diags).read(*root);
  if (diags.errors() != errors) return {};
  return machine;
}

std::optional<Machine> read_machine(const std::string& path, Diags& diags) {
  const MappedFile file = map_file(path);
  if (file.error.empty())
    return read_machine_text(path, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, diags);
  diags.error("machine-file", Loc::in_file(path), "the machine cannot be read: {}", file.error);
  return {};
}

}  // namespace weftc
