// The form of profiles. Files may come from elsewhere: every value is checked, and refused at its position.
#include "cli/profile_file.h"

#include <set>

#include "cli/json.h"
#include "cli/json_events.h"
#include "cli/json_tree.h"
#include "cli/process.h"

namespace weftc {

namespace {

using Kind = JsonNode::Kind;

constexpr int64_t kProfileVersion = 1;
constexpr int64_t kMostProfileRanks = 1 << 16, kMostProfileRuns = 1 << 20;
// Sums over many micro-batches fit into 64 bits.
constexpr int64_t kLongestBlockTime = 1'000'000'000'000, kMostBlockMemory = int64_t{1} << 48;

class ProfileReader {
 public:
  ProfileReader(const std::string& file, const std::string& text, Diags& diags)
      : file_(file), text_(text), diags_(diags) {}

  std::optional<Profile> read(const JsonNode& root) {
    const int errors = diags_.errors();
    const int64_t version = integer(root, "weft_profile", INT64_MIN, INT64_MAX);
    if (diags_.errors() > errors) return {};
    if (version != kProfileVersion) {
      diags_.error("profile-version", place(*root.find("weft_profile")), "profiles of version {} are read, not of {}",
                   kProfileVersion, version);
      return {};
    }
    Profile profile = {.file = file_,
                       .machine = string(root, "machine"),
                       .model = string(root, "model"),
                       .stages = string(root, "stages"),
                       .ranks = static_cast<int>(integer(root, "ranks", 1, kMostProfileRanks)),
                       .threads = static_cast<int>(integer(root, "threads", 1, kMostProfileRanks)),
                       .cores = static_cast<int>(integer(root, "cores", 1, kMostProfileRanks)),
                       .peak_memory = integer(root, "peak_memory", 0, kMostBlockMemory),
                       .blocks = {},
                       .transfers = {}};
    for (const JsonNode& node : list(root, "blocks")) profile.blocks.push_back(read_block(node));
    for (const JsonNode& node : list(root, "transfers")) profile.transfers.push_back(read_transfer(node));
    return diags_.errors() > errors ? std::nullopt : std::optional(std::move(profile));
  }

 private:
  Loc place(const JsonNode& node) const { return json_place(file_, text_, node.at); }
  void complain(const JsonNode& node, const std::string& why) { diags_.error("profile-form", place(node), "{}", why); }

  /// A member of the kind; null after reporting.
  const JsonNode* member(const JsonNode& node, const char* name, Kind kind, const std::string& kind_name) {
    const JsonNode* const found = node.find(name);
    if (found && found->is(kind)) return found;
    complain(found ? *found : node, format(found ? "'{}' is {}" : "'{}' is missing: {}", name, kind_name));
    return nullptr;
  }
  std::string string(const JsonNode& node, const char* name) {
    const JsonNode* const found = member(node, name, Kind::String, "a string");
    return found ? found->text : "";
  }
  int64_t integer(const JsonNode& node, const char* name, int64_t least, int64_t most) {
    const std::string wanted = least == INT64_MIN ? "an integer" : format("an integer from {} to {}", least, most);
    const JsonNode* const found = member(node, name, Kind::Integer, wanted);
    if (found && (found->integer < least || found->integer > most))
      complain(*found, format("'{}' is {}", name, wanted));
    return found ? found->integer : least;
  }
  std::vector<JsonNode> list(const JsonNode& node, const char* name) {
    const JsonNode* const found = member(node, name, Kind::List, "a list");
    return found ? found->items : std::vector<JsonNode>{};
  }

  BlockTime read_block(const JsonNode& node) {
    BlockTime block = {.name = string(node, "name"),
                       .ranks = {},
                       .runs = static_cast<int>(integer(node, "runs", 1, kMostProfileRuns)),
                       .time = integer(node, "time_ns", 1, kLongestBlockTime),
                       .memory = integer(node, "memory", -kMostBlockMemory, kMostBlockMemory)};
    for (const JsonNode& rank : list(node, "ranks")) {
      if (!rank.is(Kind::Integer) || rank.integer < 0 || rank.integer >= kMostProfileRanks)
        complain(rank, "'ranks' holds numbers of ranks");
      else
        block.ranks.push_back(static_cast<int>(rank.integer));
    }
    if (!names_.insert(block.name).second) complain(node, format("block '{}' is there twice", block.name));
    return block;
  }

  TransferTime read_transfer(const JsonNode& node) {
    const TransferTime transfer = {.from = string(node, "from"),
                                   .to = string(node, "to"),
                                   .bytes = integer(node, "bytes", 0, kMostBlockMemory),
                                   .time = integer(node, "time_ns", 1, kLongestBlockTime)};
    if (!ends_.insert({transfer.from, transfer.to}).second)
      complain(node, format("the transfer from '{}' to '{}' is there twice", transfer.from, transfer.to));
    return transfer;
  }

  const std::string& file_;
  const std::string& text_;
  Diags& diags_;
  std::set<std::string> names_;
  std::set<std::pair<std::string, std::string>> ends_;
};

std::string block_json(const BlockTime& block) {
  std::vector<std::string> ranks;
  for (const int rank : block.ranks) ranks.push_back(std::to_string(rank));
  return json_object({{"name", json_string(block.name)},
                      {"ranks", json_list(ranks)},
                      {"runs", std::to_string(block.runs)},
                      {"time_ns", std::to_string(block.time)},
                      {"memory", std::to_string(block.memory)}});
}

std::string transfer_json(const TransferTime& transfer) {
  return json_object({{"from", json_string(transfer.from)},
                      {"to", json_string(transfer.to)},
                      {"bytes", std::to_string(transfer.bytes)},
                      {"time_ns", std::to_string(transfer.time)}});
}

std::string field(const char* name, int64_t value) { return format("\"{}\": {}", name, value); }

}  // namespace

std::string profile_json(const Profile& profile) {
  std::vector<std::string> blocks, transfers;
  for (const BlockTime& block : profile.blocks) blocks.push_back(block_json(block));
  for (const TransferTime& transfer : profile.transfers) transfers.push_back(transfer_json(transfer));
  return "{" +
         join({field("weft_profile", kProfileVersion), "\"machine\": " + json_string(profile.machine),
               "\"model\": " + json_string(profile.model), "\"stages\": " + json_string(profile.stages),
               field("ranks", profile.ranks), field("threads", profile.threads), field("cores", profile.cores),
               field("peak_memory", profile.peak_memory), "\"blocks\": " + json_lines(blocks),
               "\"transfers\": " + json_lines(transfers)},
              ",\n ") +
         "}\n";
}

std::optional<Profile> parse_profile(const std::string& file, const std::string& text, Diags& diags) {
  const std::optional<JsonNode> root = read_json_tree(file, text, diags);
  return root ? ProfileReader(file, text, diags).read(*root) : std::nullopt;
}

std::optional<Profile> read_profile(const std::string& file, Diags& diags) {
  const std::optional<std::string> text = read_file(file);
  if (text) return parse_profile(file, *text, diags);
  diags.error("profile-file", Loc::in_file(file), "the profile cannot be read");
  return {};
}

}  // namespace weftc
