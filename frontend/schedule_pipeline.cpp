// The `pipeline:` section of a schedule: stages, micro-batches, and their order.
#include <set>

#include "frontend/schedule_sections.h"
#include "ir/base/contains.h"

namespace weftc {

static constexpr int kMostStages = 1024, kMostPeriods = 8, kMostSeconds = 3600;

/// Selectors, or "rest".
static void read_nodes(YamlValues& values, const YamlNode& node, const std::string& what, StageRequest& stage) {
  stage.has_rest = node.is(YamlNode::Kind::Scalar) && node.text == "rest";
  if (!stage.has_rest) stage.nodes = read_selectors(values, node, "the nodes of " + what);
}

/// `a: {place: P, nodes: [...]}`, or the nodes alone.
static void read_stage(YamlValues& values, const std::string& name, const YamlNode& key, const YamlNode& value,
                       PipelineRequest& to) {
  StageRequest stage{name, "", {}, key.loc};
  const std::string what = "stage '" + printable(name) + "'";
  const auto place = [&](const YamlNode& node) {
    stage.place = values.word(node, "the place of " + what).value_or("");
  };
  const auto nodes = [&](const YamlNode& node) { read_nodes(values, node, what, stage); };
  if (value.is(YamlNode::Kind::Map))
    values.keys(value, what, {{"place", place}, {"nodes", nodes, true}});
  else
    nodes(value);
  to.stages.push_back(std::move(stage));
}

static void read_stages(YamlValues& values, const YamlNode& node, PipelineRequest& to) {
  to.cuts = node.is(YamlNode::Kind::Scalar);
  if (to.cuts) {
    const int count = static_cast<int>(values.integer(node, "the number of stages", 1, kMostStages).value_or(1));
    for (int s = 0; s < count; ++s) to.stages.push_back({"stage" + std::to_string(s), "", {}, node.loc});
    return;
  }
  values.names(node, "stages", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
    read_stage(values, name, key, value, to);
  });
  if (node.is(YamlNode::Kind::Map) && node.entries.empty())
    values.diags().error("pipeline-empty", node.loc, "a pipeline has at least one stage");
}

static void read_order_entry(YamlValues& values, const YamlNode& node, PipelineRequest& to) {
  if (!node.is(YamlNode::Kind::List) || node.items.size() != 2) {
    values.diags().error("pipeline-entry", node.loc, "each entry of the order is [stage, micro-batch]");
    return;
  }
  const auto stage = values.word(node.items[0], "the stage");
  const auto micro_batch = values.integer(node.items[1], "the micro-batch", 0, kMostChunks - 1);
  if (stage && micro_batch) to.table.push_back({*stage, static_cast<int>(*micro_batch), node.loc});
}

static void read_search(YamlValues& values, const YamlNode& node, PipelineRequest& to) {
  to.order = PipelineRequest::Order::Search;
  const auto periods = [&](const YamlNode& n) {
    to.search.periods = static_cast<int>(values.integer(n, "periods", 1, kMostPeriods).value_or(1));
  };
  const auto memory = [&](const YamlNode& n) { to.search.memory = values.bytes(n, "memory"); };
  const auto seconds = [&](const YamlNode& n) {
    to.search.seconds = static_cast<int>(values.integer(n, "seconds", 1, kMostSeconds).value_or(1));
  };
  values.keys(node, "search", {{"periods", periods}, {"memory", memory}, {"seconds", seconds}});
}

static void read_order(YamlValues& values, const YamlNode& node, PipelineRequest& to) {
  using Order = PipelineRequest::Order;
  if (node.is(YamlNode::Kind::List)) {
    to.order = Order::Table;
    for (const YamlNode& item : node.items) read_order_entry(values, item, to);
    return;
  }
  if (node.is(YamlNode::Kind::Map)) {
    values.keys(node, "order", {{"search", [&](const YamlNode& n) { read_search(values, n, to); }, true}});
    return;
  }
  std::vector<std::string> names;
  for (const PipelineOrder order : kPipelineOrders) names.emplace_back(name_of(order));
  names.emplace_back("search");
  const size_t chosen = values.choice(node, "order", names).value_or(0);
  if (chosen == std::size(kPipelineOrders)) {
    to.order = Order::Search;
  } else {
    to.named = kPipelineOrders[chosen];
    to.splits_backward |= splits_backward(to.named);
  }
}

PipelineRequest read_pipeline(YamlValues& values, const YamlNode& node) {
  PipelineRequest request;
  request.loc = request.micro_batches_loc = request.order_loc = node.loc;
  for (const auto& [key, value] : node.entries) {
    if (key.text == "micro_batches") request.micro_batches_loc = key.loc;
    if (key.text == "order") request.order_loc = key.loc;
  }
  const auto micro_batches = [&](const YamlNode& number) {
    request.micro_batches = static_cast<int>(values.integer(number, "micro_batches", 1, kMostChunks).value_or(1));
  };
  const auto backward = [&](const YamlNode& n) {
    request.splits_backward |= values.choice(n, "backward", {"whole", "split"}).value_or(0) == 1;
  };
  values.keys(node, "pipeline",
              {{"stages", [&](const YamlNode& n) { read_stages(values, n, request); }, true},
               {"micro_batches", micro_batches, true},
               {"order", [&](const YamlNode& n) { read_order(values, n, request); }},
               {"backward", backward}});
  return request;
}

/// Either stages name existing places, or no stage names one.
static void check_stages(const Schedule& schedule, Diags& diags) {
  std::vector<std::string> known;
  for (const PlaceRequest& place : schedule.places) known.push_back(place.name);
  if (known.empty()) known.push_back("all");
  const StageRequest *rest = nullptr, *placed = nullptr;
  for (const StageRequest& stage : schedule.pipeline->stages) {
    if (!stage.place.empty()) placed = &stage;
    if (stage.has_rest && rest)
      diags.error("stages-rest", stage.loc, "the stages '{}' and '{}' cannot both have the rest", printable(rest->name),
                  printable(stage.name));
    if (stage.has_rest) rest = &stage;
  }
  for (const StageRequest& stage : schedule.pipeline->stages) {
    const bool is_own = stage.place.empty() && schedule.places.empty();
    if (is_own && placed)
      diags.error("stage-place", stage.loc,
                  "stage '{}' has no place, but stage '{}' has one: places are those of all "
                  "stages, or of none",
                  printable(stage.name), printable(placed->name));
    else if (!is_own && !contains(known, place_of(stage)))
      diags.error("unknown-place", stage.loc, "stage '{}' is at the unknown place '{}'{}", printable(stage.name),
                  printable(place_of(stage)), did_you_mean(place_of(stage), known));
  }
}

/// Names allowed in a table: stages; in a training, the parts of each stage.
static std::vector<std::string> names_in_table(const PipelineRequest& pipeline, bool is_training) {
  std::vector<const char*> parts{is_training ? ".forward" : ""};
  if (is_training) parts.push_back(".backward");
  if (is_training && pipeline.splits_backward) parts.push_back(".weight");
  std::vector<std::string> names;
  for (const StageRequest& stage : pipeline.stages)
    for (const char* part : parts) names.push_back(stage.name + part);
  return names;
}

/// The parts of a backward pass, and whether all are listed, are known only with the model.
static void check_table(const PipelineRequest& pipeline, bool is_training, Diags& diags) {
  const std::vector<std::string> known = names_in_table(pipeline, is_training);
  std::set<std::pair<std::string, int>> seen;
  for (const OrderEntry& entry : pipeline.table) {
    const std::string stage = printable(entry.stage);
    if (!contains(known, entry.stage))
      diags.error("unknown-stage", entry.loc, "no stage is named '{}'{}", stage, did_you_mean(entry.stage, known));
    else if (entry.micro_batch >= pipeline.micro_batches)
      diags.error("order-micro-batch", entry.loc, "micro-batch {} of {} is out of range", entry.micro_batch,
                  pipeline.micro_batches);
    else if (!seen.insert({entry.stage, entry.micro_batch}).second)
      diags.error("order-repeated", entry.loc, "[{}, {}] is listed twice", stage, entry.micro_batch);
  }
  if (is_training) return;
  for (const std::string& stage : known)
    for (int micro_batch = 0; micro_batch < pipeline.micro_batches; ++micro_batch)
      if (!seen.contains({stage, micro_batch})) {
        diags.error("order-entry-missing", pipeline.order_loc, "the order lacks [{}, {}]", printable(stage),
                    micro_batch);
        break;  // one message for each stage is enough
      }
}

void check_pipeline(const Schedule& schedule, Diags& diags) {
  check_stages(schedule, diags);
  if (schedule.pipeline->order == PipelineRequest::Order::Table)
    check_table(*schedule.pipeline, schedule.train.has_value(), diags);
  if (schedule.train && schedule.train->accumulate > 1)
    diags.error(
        "pipeline-accumulate", schedule.train->accumulate_loc,
        "under 'pipeline' a step adds up its micro-batches, whose number is 'micro_batches': leave 'accumulate' "
        "out");
}

}  // namespace weftc
