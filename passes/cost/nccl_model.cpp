// NCCL expects of an algorithm with a protocol a time of latency + bytes / bandwidth, and takes the fastest. Its
// constants and formulas are here as of NCCL 2.27 (src/graph/tuning.cc; src/tuning in later versions):
//
//   ring      each rank hands pieces to the next one: 2 (n - 1) steps of an all-reduce, n - 1 of its halves
//   tree      all-reduce: up and down a chain in each node and a tree of the nodes
//   NVLS      all-reduce: the switch adds up and spreads; NVLSTree: that in each node, and a tree of the nodes
//
// A protocol is how the arrival of data is signalled: LL has a flag beside every 4 bytes, LL128 one in 128 bytes,
// Simple one after a whole piece. Left out: CollNet (switches of the network that add up), PAT (all-gather with one
// rank a node, near the ring with LL), symmetric memory.
#include "passes/cost/nccl_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace weftc {

namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9;

/// Kinds of GPU that NCCL tells apart.
enum GpuKind : uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

GpuKind gpu_of(const Machine& machine) {
  int level = 0;
  for (const std::string& arch : machine.archs) level = std::max(level, std::atoi(arch.c_str() + 3));
  return level >= 100 ? kBlackwell : level >= 90 ? kHopper : level >= 80 ? kAmpere : kVolta;
}

/// The group as NCCL sees it: the ranks in each node, and the nodes.
struct Topology {
  int ranks, nodes, in_node;
  const NetworkLevel* inside;   // null: one rank a node
  const NetworkLevel* between;  // null: one node
  GpuKind gpu;

  /// NCCL has constants for one node, for two, and for more.
  int scale() const { return nodes == 1 ? 0 : nodes == 2 ? 1 : 2; }
  bool has_nvlink() const { return inside && inside->link == Link::NvLink; }
  /// GB/s that pass each rank of a ring. A ring leaves a node once, by the network cards of all its ranks.
  double bus() const {
    double slowest = HUGE_VAL;
    if (inside) slowest = inside->bandwidth;
    if (between) slowest = std::min(slowest, between->bandwidth * in_node);
    constexpr double kMostOfAmpere = 235;  // NCCL 2.12
    return gpu == kAmpere ? std::min(slowest / kGiga, kMostOfAmpere) : slowest / kGiga;
  }
};

/// The innermost level one unit of which has all of `count` ranks of the group.
const NetworkLevel* joining_level(const Machine& machine, const RankGroup& group, int count, bool of_network) {
  for (size_t l = 0; l < machine.levels.size(); ++l)
    if ((machine.levels[l].link == Link::Network) == of_network && group.within[l] >= count) return &machine.levels[l];
  return nullptr;
}

Topology topology_of(const Machine& machine, const RankGroup& group) {
  int in_node = 1;
  for (size_t l = 0; l < machine.levels.size(); ++l)
    if (machine.levels[l].link != Link::Network) in_node = group.within[l];
  const int nodes = (group.ranks + in_node - 1) / in_node;
  return {group.ranks,
          nodes,
          in_node,
          in_node > 1 ? joining_level(machine, group, in_node, false) : nullptr,
          nodes > 1 ? joining_level(machine, group, group.ranks, true) : nullptr,
          gpu_of(machine)};
}

/// Microseconds by protocol.
using Times = std::array<double, 3>;
constexpr Times kTreeBase = {6.8, 14.0, 8.4}, kRingBase = {6.6, 14.0, 8.4};
// By Link.
constexpr Times kTreeHop[] = {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};
constexpr Times kRingHop[] = {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};
constexpr double kMulticast = 25, kMulticastHop = 20.9;

const Times& hop_of(const Times (&hops)[3], Link link) { return hops[static_cast<size_t>(link)]; }

// GB/s, by scale(). For LL on one node, by kind of GPU; across nodes, by the host's processor.
constexpr double kMostOfLL[] = {39.0, 87.7, 141.0, 282.0};
constexpr double kMostOfLLAcross[2][3] = {{0, 39.0, 20.4}, {0, 22.5, 19.0}};
// For each channel of a tree and of NVLSTree.
constexpr double kMostOfTree[4][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};
constexpr double kMostOfMulticastTree[4][3] = {{}, {}, {0, 57.7, 45.5}, {0, 96.0, 43.8}};
constexpr double kMulticastPart[] = {0, 0, 0.85, 0.74};
// GB/s of one channel: NCCL makes as many as the links carry.
constexpr double kChannel = 20;

/// The part of its bandwidth that a tree reaches, by protocol and for 64, 128, ... bytes; all of it for more.
constexpr double kTreePart[3][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

double tree_part(Protocol protocol, int64_t bytes) {
  const int doublings = std::bit_width(static_cast<uint64_t>(bytes) >> 6) - 1;
  return doublings < 0 || doublings >= 24 ? 1 : kTreePart[static_cast<size_t>(protocol)][doublings];
}

/// The times of one collective, by algorithm and protocol.
class NcclModel {
 public:
  NcclModel(const Machine& machine, const RankGroup& group)
      : machine_(machine), to_(topology_of(machine, group)), bus_(to_.bus()) {}

  double seconds(OpKind kind, int64_t before, int64_t after) const {
    double best = HUGE_VAL;
    for (const Protocol protocol : {Protocol::LL, Protocol::LL128, Protocol::Simple}) {
      if (protocol == Protocol::LL128 && !has_ll128()) continue;
      best = std::min(best, of_protocol(kind, protocol, before, after));
    }
    if (kind == OpKind::AllReduce && has_multicast()) best = std::min(best, multicast(before));
    return best * kMicro;
  }

 private:
  /// Where a flag and its 120 bytes arrive together: over NVLink, on the GPUs of data centres.
  bool has_ll128() const {
    const bool known = to_.gpu != kAmpere || std::ranges::find(machine_.archs, "sm_80") != machine_.archs.end();
    return known && (!to_.inside || to_.has_nvlink());
  }
  bool has_multicast() const { return to_.inside && to_.inside->multicast && kMulticastPart[to_.gpu] > 0; }

  double of_protocol(OpKind kind, Protocol protocol, int64_t before, int64_t after) const {
    switch (kind) {
      case OpKind::AllReduce:
        return std::min(ring(kind, protocol, before, 2 * (to_.ranks - 1)), tree(protocol, before));
      case OpKind::ReduceScatter:
        return ring(kind, protocol, before, to_.ranks - 1);
      case OpKind::AllGather:
        return ring(kind, protocol, after, to_.ranks - 1);
      case OpKind::Broadcast:
        return ring(kind, protocol, after, to_.ranks);
      case OpKind::Reduce:
        return ring(kind, protocol, before, to_.ranks);
      default:
        return direct(protocol, kind == OpKind::Transfer ? 1 : to_.ranks, kind == OpKind::Transfer ? after : before);
    }
  }

  double limited(Protocol protocol, double bus) const {
    const double most = to_.nodes == 1 ? kMostOfLL[to_.gpu] : kMostOfLLAcross[machine_.has_amd_host][to_.scale()];
    return protocol == Protocol::LL ? std::min(most, bus * 0.5) : protocol == Protocol::LL128 ? bus * 0.92 : bus;
  }

  double total(Protocol protocol, double latency, double bytes, double bandwidth) const {
    const Calibration& measured = machine_.nccl[static_cast<size_t>(protocol)];
    return latency * measured.latency + bytes / (1e3 * bandwidth * measured.bandwidth);
  }

  double ring(OpKind kind, Protocol protocol, int64_t bytes, int steps) const {
    const double bandwidth = limited(protocol, bus_) * to_.ranks / steps;
    return total(protocol, ring_latency(kind, protocol, bytes, steps), static_cast<double>(bytes), bandwidth);
  }

  double ring_latency(OpKind kind, Protocol protocol, int64_t bytes, int steps) const {
    const auto p = static_cast<size_t>(protocol);
    const double base = kRingBase[p];
    const bool all_give = kind != OpKind::Broadcast && kind != OpKind::Reduce;
    const double between = !to_.between ? 0 : hop_of(to_.inside ? kRingHop : kTreeHop, to_.between->link)[p];
    if (!all_give) return base + chain_latency(protocol, steps);
    // Across nodes the hosts post each step to the network cards.
    const double posted = !to_.between ? 0 : (machine_.has_amd_host ? 2 : 1) * (protocol == Protocol::Simple ? 3 : 1);
    const double inside = std::max(posted, to_.inside ? hop_of(kRingHop, to_.inside->link)[p] : 0);
    const int across = (kind == OpKind::AllReduce ? 2 : 1) * (to_.nodes - 1);
    const double latency = base + (steps - across) * inside + across * between;
    const bool is_long = static_cast<double>(bytes) / (channels() * to_.ranks) >= 64;
    const bool is_plateau = to_.between && kind == OpKind::AllReduce && protocol == Protocol::Simple && is_long;
    return is_plateau ? latency * (to_.gpu == kVolta ? 1.9 : 1.4) : latency;
  }

  /// From the root to the last rank. Through switches of NVLink all channels leave in the same direction.
  double chain_latency(Protocol protocol, int steps) const {
    const Link link = to_.between ? to_.between->link : to_.inside->link;
    const auto p = static_cast<size_t>(protocol);
    if (link == Link::NvLink) return hop_of(kRingHop, link)[p];
    return steps * hop_of(protocol == Protocol::Simple ? kTreeHop : kRingHop, link)[p];
  }

  double channels() const { return std::max(1.0, std::round(bus_ / kChannel)); }
  int depth() const { return std::bit_width(static_cast<unsigned>(to_.nodes)) - 1; }

  double tree(Protocol protocol, int64_t bytes) const {
    const auto p = static_cast<size_t>(protocol);
    double bus = std::min(bus_ * 0.92, channels() * kMostOfTree[to_.gpu][to_.scale()]);
    if (protocol == Protocol::LL) bus = std::min(bus / 3.8, limited(protocol, HUGE_VAL));
    if (protocol == Protocol::LL128) bus *= to_.nodes == 1 ? 7.0 / 9 : 120.0 / 128;
    const double inside = to_.inside ? hop_of(kTreeHop, to_.inside->link)[p] : 0;
    const double between = to_.between ? hop_of(kTreeHop, to_.between->link)[p] : 0;
    const double latency = kTreeBase[p] + 2 * ((to_.in_node - 1) * inside + depth() * between);
    return total(protocol, latency, static_cast<double>(bytes), bus / 2 * tree_part(protocol, bytes));
  }

  /// NVLS and NVLSTree. Each rank of a node is the head of a channel. The channel's rate is a multiple of 10 GB/s, the
  /// first that NCCL's search finds.
  double multicast(int64_t bytes) const {
    const double heads = to_.in_node;
    const double most = to_.gpu == kBlackwell ? 90 : 60;
    const double rate = std::min(most, std::floor(to_.inside->bandwidth / kGiga / heads / 10) * 10);
    double channel = 2 * rate * kMulticastPart[to_.gpu] * (heads - 1) / heads;
    if (to_.between)
      channel = std::min({channel, to_.between->bandwidth / kGiga * (to_.nodes == 2 ? 2 : 1),
                          kMostOfMulticastTree[to_.gpu][to_.scale()]});
    const double bandwidth = channel * heads * to_.ranks / (2 * (to_.ranks - 1));
    const double latency = kMulticast + 2 * depth() * kMulticastHop;
    return total(Protocol::Simple, latency, static_cast<double>(bytes), bandwidth);
  }

  /// Messages of one rank to `peers`, each in a part of `bytes`, including itself if there are several. Messages inside
  /// the node run in parallel with those that leave it by the rank's card.
  double direct(Protocol protocol, int peers, int64_t bytes) const {
    const double part = static_cast<double>(bytes) / peers;
    const bool is_one = peers == 1;
    const auto microseconds = [&](const NetworkLevel* level, int messages) {
      if (!level || messages == 0) return 0.0;
      const double latency =
          kRingBase[static_cast<size_t>(protocol)] + hop_of(kRingHop, level->link)[static_cast<size_t>(protocol)];
      return total(protocol, latency, part * messages, limited(protocol, level->bandwidth / kGiga));
    };
    const int near = is_one ? (to_.nodes == 1 ? 1 : 0) : to_.in_node - 1;
    return std::max(microseconds(to_.inside, near), microseconds(to_.between, is_one ? 1 - near : peers - to_.in_node));
  }

  const Machine& machine_;
  const Topology to_;
  const double bus_;  // GB/s
};

}  // namespace

double nccl_seconds(const Machine& machine, OpKind kind, int64_t before, int64_t after, const RankGroup& group) {
  return NcclModel(machine, group).seconds(kind, before, after);
}

}  // namespace weftc
