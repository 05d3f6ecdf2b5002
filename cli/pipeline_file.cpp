// Reads pipeline problems, and reports errors at the value.
#include "cli/pipeline_file.h"

#include <algorithm>
#include <map>

#include "cli/json_events.h"
#include "cli/json_tree.h"
#include "passes/pipelining/faults.h"

namespace weftc {

namespace {

using Kind = JsonNode::Kind;

// A search keeps a distance for each two blocks. Sums of times and of memory over many micro-batches fit into 64 bits.
constexpr size_t kMostBlocks = 320;
constexpr int64_t kMostDevices = 4096, kLongestTime = 1'000'000'000'000, kLongestTimes = 100'000'000'000'000;
constexpr int64_t kMostMemory = int64_t{1} << 48;

class ProblemReader {
 public:
  ProblemReader(const std::string& file, const std::string& text, Diags& diags)
      : file_(file), text_(text), diags_(diags) {}

  std::vector<PipelineCase> read(const JsonNode& root) {
    std::vector<PipelineCase> cases;
    const JsonNode* const list = root.find("cases");
    if (!list || !list->is(Kind::List)) {
      complain(root,
               "an object with a list 'cases' is expected (pipelines), or one whose first key is 'problem', with "
               "'nodes', 'edges' and 'usage_limit' inside of it (a partition)");
      return cases;
    }
    if (list->items.empty()) complain(*list, "there is no case");
    for (const JsonNode& node : list->items) cases.push_back(read_case(node));
    return cases;
  }

 private:
  Loc place(const JsonNode& node) const { return json_place(file_, text_, node.at); }
  void complain(const JsonNode& node, const std::string& why) { diags_.error("problem-form", place(node), "{}", why); }

  /// A member of the kind; null after reporting.
  const JsonNode* member(const JsonNode& node, const char* name, Kind kind, const char* kind_name) {
    const JsonNode* const found = node.find(name);
    if (found && found->is(kind)) return found;
    complain(found ? *found : node, format(found ? "'{}' is {}" : "'{}' is missing: {}", name, kind_name));
    return nullptr;
  }
  std::optional<int64_t> integer(const JsonNode& node, const char* name, int64_t least, int64_t most) {
    if (node.is(Kind::Integer) && node.integer >= least && node.integer <= most) return node.integer;
    complain(node, format("'{}' is an integer from {} to {}", name, least, most));
    return {};
  }
  int64_t integer_member(const JsonNode& node, const char* name, int64_t least, int64_t most) {
    const JsonNode* const found = node.find(name);
    if (!found) complain(node, format("'{}' is missing: an integer from {} to {}", name, least, most));
    return found ? integer(*found, name, least, most).value_or(least) : least;
  }

  PipelineCase read_case(const JsonNode& node) {
    PipelineCase result;
    result.loc = place(node);
    if (const JsonNode* const name = member(node, "name", Kind::String, "a string")) result.name = name->text;
    const int64_t devices = integer_member(node, "num_devices", 1, kMostDevices);
    read_limits(node, static_cast<size_t>(devices), result.problem);
    const JsonNode* const blocks = member(node, "blocks", Kind::List, "a list of blocks");
    if (!blocks) return result;
    if (blocks->items.empty()) complain(*blocks, "there is no block");
    if (blocks->items.size() > kMostBlocks) {
      diags_.error("problem-size-unsupported", place(*blocks), "there are {} blocks; up to {} are solved",
                   blocks->items.size(), kMostBlocks);
      return result;
    }
    for (const JsonNode& block : blocks->items) read_block(block, devices, result);
    read_predecessors(*blocks, result);
    check_sums(*blocks, result.problem);
    return result;
  }

  /// One limit for all devices, one for each, or none.
  void read_limits(const JsonNode& node, size_t devices, PipelineProblem& problem) {
    problem.limits.assign(devices, kNoLimit);
    const JsonNode* const limit = node.find("memory_limit");
    if (!limit || limit->is(Kind::Null)) return;
    if (limit->is(Kind::List) && limit->items.size() != devices) {
      complain(*limit, format("there are {} limits for {} devices", limit->items.size(), devices));
      return;
    }
    for (size_t i = 0; i < devices; ++i) {
      const JsonNode& one = limit->is(Kind::List) ? limit->items[i] : *limit;
      const std::optional<int64_t> value = integer(one, "memory_limit", 0, INT64_MAX);
      if (!value) return;
      problem.limits[i] = *value >= kMostMemory ? kNoLimit : *value;
    }
  }

  void read_block(const JsonNode& node, int64_t devices, PipelineCase& result) {
    PipelineBlock block;
    result.ids.push_back(integer_member(node, "id", 0, INT32_MAX));
    if (std::count(result.ids.begin(), result.ids.end(), result.ids.back()) > 1)
      complain(node, format("there are two blocks {}", result.ids.back()));
    block.time = integer_member(node, "time", 1, kLongestTime);
    block.memory = integer_member(node, "memory", -kMostMemory, kMostMemory);
    if (const JsonNode* const list = member(node, "devices", Kind::List, "a list of devices")) {
      if (list->items.empty()) complain(*list, "a block has at least one device");
      for (const JsonNode& item : list->items) {
        const std::optional<int64_t> value = integer(item, "devices", 0, devices - 1);
        if (!value) continue;
        const int device = static_cast<int>(*value);
        if (std::count(block.devices.begin(), block.devices.end(), device) > 0)
          complain(item, format("device {} is named before", device));
        block.devices.push_back(device);
      }
    }
    result.problem.blocks.push_back(std::move(block));
    result.block_locs.push_back(place(node));
  }

  void read_predecessors(const JsonNode& blocks, PipelineCase& result) {
    std::map<int64_t, int> by_id;
    for (size_t i = 0; i < result.ids.size(); ++i) by_id.insert({result.ids[i], static_cast<int>(i)});
    for (size_t i = 0; i < blocks.items.size(); ++i) {
      const JsonNode* const list = member(blocks.items[i], "deps", Kind::List, "a list of blocks");
      if (!list) continue;
      for (const JsonNode& item : list->items) {
        const auto found = item.is(Kind::Integer) ? by_id.find(item.integer) : by_id.end();
        if (found == by_id.end())
          complain(item, "'deps' names no block of this case");
        else
          result.problem.blocks[i].after.push_back(found->second);
      }
    }
  }

  void check_sums(const JsonNode& blocks, const PipelineProblem& problem) {
    int64_t times = 0, memory = 0;
    for (const PipelineBlock& block : problem.blocks) times += block.time, memory += std::max<int64_t>(0, block.memory);
    if (times > kLongestTimes) complain(blocks, format("the times of all blocks are over {} together", kLongestTimes));
    if (memory > kMostMemory) complain(blocks, format("all blocks take over {} of memory together", kMostMemory));
  }

  const std::string& file_;
  const std::string& text_;
  Diags& diags_;
};

}  // namespace

std::optional<std::vector<PipelineCase>> read_pipelines(const std::string& file, const std::string& text,
                                                        Diags& diags) {
  const std::optional<JsonNode> root = read_json_tree(file, text, diags);
  if (!root) return {};
  const int errors = diags.errors();
  std::vector<PipelineCase> cases = ProblemReader(file, text, diags).read(*root);
  if (diags.errors() > errors) return {};
  return cases;
}

void report_faults(const PipelineCase& problem, Diags& diags) {
  for (const PipelineFault& fault : faults_of(problem.problem)) {
    const auto block = static_cast<size_t>(std::max(fault.block, 0));
    const Loc& loc = fault.block < 0 ? problem.loc : problem.block_locs[block];
    const int64_t id = problem.ids[block];
    const std::string name = printable(problem.name);
    switch (fault.kind) {
      case PipelineFault::Kind::Cycle:
        diags.error("problem-cycle", loc, "'{}': block {} waits for itself through its 'deps'", name, id);
        break;
      case PipelineFault::Kind::Freed:
        diags.error("problem-freed", loc,
                    "'{}': block {} may give memory back on device {} that no block before it took", name, id,
                    fault.device);
        break;
      case PipelineFault::Kind::Kept:
        diags.error("problem-kept", loc,
                    "'{}': no block after block {} gives back all the memory that it takes on device {}", name, id,
                    fault.device);
        break;
      case PipelineFault::Kind::Memory:
        if (fault.block >= 0)
          diags.error(
              "problem-memory", loc,
              "'{}': device {} needs at least {} of memory in any order of one micro-batch's blocks; its limit is {}",
              name, fault.device, fault.least, problem.problem.limits[static_cast<size_t>(fault.device)]);
        else
          diags.error(
              "problem-memory", loc,
              "'{}': no order of one micro-batch's blocks keeps all limits of memory, though each device alone has one",
              name);
        break;
      case PipelineFault::Kind::Undecided:
        diags.error("problem-order-unsupported", loc,
                    "'{}': whether an order of one micro-batch's blocks keeps the limits takes too long to find out",
                    name);
        break;
    }
  }
}

}  // namespace weftc
