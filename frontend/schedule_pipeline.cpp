// The `pipeline:` section of a schedule: stages, micro-batches, and the order in which stages take them.
#include <set>

#include "frontend/schedule_sections.h"
#include "ir/base/contains.h"

namespace weftc {

static void read_stage(YamlValues& values, const std::string& name, const YamlNode& key, const YamlNode& value,
                       PipelineRequest& to) {
  StageRequest stage{name, "", {}, key.loc};
  const std::string what = "stage '" + printable(name) + "'";
  const auto place = [&](const YamlNode& node) {
    stage.place = values.word(node, "the place of " + what).value_or("");
  };
  const auto nodes = [&](const YamlNode& node) { stage.nodes = read_selectors(values, node, "the nodes of " + what); };
  values.keys(value, what, {{"place", place, true}, {"nodes", nodes, true}});
  to.stages.push_back(std::move(stage));
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

static void read_order(YamlValues& values, const YamlNode& node, PipelineRequest& to) {
  using Order = PipelineRequest::Order;
  if (node.is(YamlNode::Kind::List)) {
    to.order = Order::Table;
    for (const YamlNode& item : node.items) read_order_entry(values, item, to);
    return;
  }
  const auto index = values.choice(node, "order", {"gpipe", "1f1b", "search"});
  to.order = std::vector{Order::GPipe, Order::OneFOneB, Order::Search}[index.value_or(0)];
}

PipelineRequest read_pipeline(YamlValues& values, const YamlNode& node) {
  PipelineRequest request;
  request.loc = request.micro_batches_loc = request.order_loc = node.loc;
  for (const auto& [key, value] : node.entries) {
    if (key.text == "micro_batches") request.micro_batches_loc = key.loc;
    if (key.text == "order") request.order_loc = key.loc;
  }
  const auto stages = [&](const YamlNode& map) {
    values.names(map, "stages", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
      read_stage(values, name, key, value, request);
    });
    if (map.is(YamlNode::Kind::Map) && map.entries.empty())
      values.diags().error("pipeline-empty", map.loc, "a pipeline has at least one stage");
  };
  const auto micro_batches = [&](const YamlNode& number) {
    request.micro_batches = static_cast<int>(values.integer(number, "micro_batches", 1, kMostChunks).value_or(1));
  };
  values.keys(node, "pipeline",
              {{"stages", stages, true}, {"micro_batches", micro_batches, true}, {"order", [&](const YamlNode& value) {
                                                                                    read_order(values, value, request);
                                                                                  }}});
  return request;
}

static void check_stages(const Schedule& schedule, Diags& diags) {
  std::vector<std::string> known;
  for (const PlaceRequest& place : schedule.places) known.push_back(place.name);
  if (!schedule.mesh.empty() || known.empty()) known.push_back("all");
  for (const StageRequest& stage : schedule.pipeline->stages)
    if (!stage.place.empty() && !contains(known, stage.place))
      diags.error("unknown-place", stage.loc, "stage '{}' is at the unknown place '{}'{}", printable(stage.name),
                  printable(stage.place), did_you_mean(stage.place, known));
}

static void check_table(const PipelineRequest& pipeline, Diags& diags) {
  std::vector<std::string> known;
  for (const StageRequest& stage : pipeline.stages) known.push_back(stage.name);
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
  for (const std::string& stage : known)
    for (int micro_batch = 0; micro_batch < pipeline.micro_batches; ++micro_batch)
      if (!seen.contains({stage, micro_batch})) {
        diags.error("order-entry-missing", pipeline.order_loc, "the order lacks [{}, {}]", printable(stage),
                    micro_batch);
        break;  // the first one of each stage says enough
      }
}

void check_pipeline(const Schedule& schedule, Diags& diags) {
  check_stages(schedule, diags);
  if (schedule.pipeline->order == PipelineRequest::Order::Table) check_table(*schedule.pipeline, diags);
}

}  // namespace weftc
