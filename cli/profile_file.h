// What `weft profile` has measured, as a file: `explain`, `tune` and `compile` read it with --profile.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diag.h"

namespace weftc {

/// One run of a block on the slowest of its ranks, without waiting and without what comes from other places.
struct BlockTime {
  std::string name;        // as tables of an order have it; of a block that runs once, the Plan's
  std::vector<int> ranks;  // of its place
  int runs = 1;            // in an iteration
  int64_t time = 0;        // nanoseconds
  int64_t memory = 0;      // bytes of a micro-batch that it leaves to later blocks, less what it frees
};

/// What a block sends to a block of another place for one micro-batch.
struct TransferTime {
  std::string from, to;
  int64_t bytes = 0;
  int64_t time = 0;  // nanoseconds
};

struct Profile {
  std::string file;     // as the user named it
  std::string machine;  // its processor
  std::string model;    // fingerprints: of inputs, outputs and nodes,
  std::string stages;   // and of which nodes run where for how many micro-batches
  int ranks = 1, threads = 1, cores = 1;
  int64_t peak_memory = 0;  // bytes of the fullest rank
  std::vector<BlockTime> blocks;
  std::vector<TransferTime> transfers;
  bool shares_cores() const { return ranks * threads > cores; }
};

std::string profile_json(const Profile& profile);

/// Nothing after reporting what is wrong with the text of that file.
std::optional<Profile> parse_profile(const std::string& file, const std::string& text, Diags& diags);
std::optional<Profile> read_profile(const std::string& file, Diags& diags);

}  // namespace weftc
