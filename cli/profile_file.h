// The file of times that `weft profile` has measured. `explain`, `tune` and `compile` read it with --profile.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

/// One run of a block on the slowest of its ranks, without waiting and without transfers from other places.
struct BlockTime {
  std::string name;        // as in tables of an order; for a block that runs once, the Plan's
  std::vector<int> ranks;  // of its place
  int runs = 1;            // in an iteration
  int64_t time = 0;        // nanoseconds
  int64_t memory = 0;      // bytes of a micro-batch that it leaves to later blocks, minus those that it frees
};

/// A transfer from a block to a block of another place, for one micro-batch.
struct TransferTime {
  std::string from, to;
  int64_t bytes = 0;
  int64_t time = 0;  // nanoseconds
};

struct Profile {
  std::string file;     // as the user named it
  std::string machine;  // its processor
  std::string model;    // fingerprint of inputs, outputs and nodes
  std::string stages;   // fingerprint of the places of nodes and the number of micro-batches
  int ranks = 1, threads = 1, cores = 1;
  int64_t peak_memory = 0;  // bytes of the fullest rank
  std::vector<BlockTime> blocks;
  std::vector<TransferTime> transfers;
  bool shares_cores() const { return ranks * threads > cores; }
};

std::string profile_json(const Profile& profile);

/// Parses the text of that file. Returns nullopt after reporting errors.
std::optional<Profile> parse_profile(const std::string& file, const std::string& text, Diags& diags);
std::optional<Profile> read_profile(const std::string& file, Diags& diags);

}  // namespace weftc
