// A machine for ranks, as plain data: the capabilities of one rank, the number of ranks, and the network between them.
// Machine files (samples/machines) are read into it, and the cost model reads it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/op_kind.h"

namespace weftc {

/// Peak figures of one rank's machine: operations, bytes and seconds.
struct Ceilings {
  std::string machine;  // the machine that has these figures
  double f32 = 0;       // operations a second on f32 and on whole numbers; everything but products
  double f64 = 0;       // on f64
  double f16 = 0;       // products of f16 and bf16
  double memory = 0;    // bytes a second, read and written together
  double link = 0;      // bytes a second that a rank sends; it receives as many
  double latency = 0;   // seconds for ranks to meet
  double step = 0;      // seconds of an empty step
  double function = 0;  // exp, tanh and the like count as this many operations
  double chunked = 1;   // the share of the machine that the one kernel of a loop over chunks gets
  double scalar = 3e9;  // clock cycles a second, those of all lanes of a device together
};

/// How ranks of one level reach each other. NCCL has latencies for each.
enum class Link : uint8_t { NvLink, Pcie, Network };

/// Measured times of one kind of collective.
struct TimeCurve {
  struct Point {
    double bytes = 0;  // bytes that a rank sends
    double seconds = 0;
  };
  OpKind kind = OpKind::AllReduce;
  int ranks = 2;
  std::vector<Point> points;  // ascending by bytes, at least one
};

/// One level of the network: a core's neighbours, a node, a rack. It consists of units of equally many ranks.
struct NetworkLevel {
  std::string name;
  int ranks = 1;                  // in one unit: a multiple of those of the next inner level
  Link link = Link::Network;      // Machine::uses_nccl
  double bandwidth = 0;           // bytes a second that each rank sends, and receives, while all ranks do
  double latency = 0;             // seconds for ranks to meet; not with NCCL, which has its own
  bool multicast = false;         // the switch reduces and multicasts (NVLink SHARP)
  std::vector<TimeCurve> curves;  // without any: latency + bytes / bandwidth
};

/// Protocols of NCCL.
enum class Protocol : uint8_t { LL, LL128, Simple };
/// Factors between measured times and NCCL's own model of a protocol.
struct Calibration {
  double latency = 1, bandwidth = 1;
};

struct Machine {
  Ceilings ceilings;               // of one rank; link and latency are those of the innermost level
  bool is_device = false;          // the target cuda; else host
  std::vector<std::string> archs;  // as in Target
  int64_t memory = 0;              // bytes of one rank; 0: not known
  int ranks = 1;
  bool uses_nccl = false;             // times follow NCCL's model, else each level's figures
  bool has_amd_host = false;          // NCCL: processes run on AMD processors, else on Intel's
  std::vector<NetworkLevel> levels;   // from inner to outer, the last joins all ranks; if empty, the ceilings apply
  std::array<Calibration, 3> nccl{};  // by Protocol

  const std::string& name() const { return ceilings.machine; }
};

/// Ranks that exchange data, from the network's point of view.
struct RankGroup {
  int ranks = 1;
  std::vector<int> within;  // by level of the machine: the maximum number of them in one unit
};

}  // namespace weftc
