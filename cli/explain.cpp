// `weft explain`: the compiler's decisions for a model and a schedule, and their origins.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/json.h"
#include "cli/layers.h"
#include "cli/memory_text.h"
#include "cli/order_text.h"
#include "cli/page.h"
#include "cli/profile_use.h"
#include "cli/stored_weights.h"
#include "cli/table.h"
#include "cli/timeline.h"
#include "cli/timeline_page.h"
#include "ir/exchange_types.h"
#include "ir/local_op.h"
#include "ir/text/plan_text.h"
#include "passes/cost/cost_model.h"
#include "passes/layout/reshard.h"
#include "passes/proof/bit_equality.h"
#include "passes/select.h"

namespace weftc {

namespace {

/// Calls visit(graph, op) for every op, also inside regions.
void walk(const Graph& graph, const std::function<void(const Graph&, const Op&)>& visit) {
  for (const OpId id : graph.order()) {
    visit(graph, graph.op(id));
    for (const Graph& region : graph.op(id).regions) walk(region, visit);
  }
}

std::string loc_text(const Loc& loc) {
  return loc.kind == Loc::Kind::Text ? format("{}:{}:{}", printable(loc.file), loc.line, loc.column) : "";
}

struct ValueRow {
  std::string name, type, layout, made_by;
  bool replicated;
};

/// Every value of the scheduled graph with its layout, those of regions too.
std::vector<ValueRow> value_rows(const Module& module) {
  std::vector<ValueRow> rows;
  walk(module.graph, [&](const Graph& graph, const Op& op) {
    // The parameters of a region have the layouts of its operands.
    if (&graph != &module.graph && op.kind == OpKind::Input) return;
    for (const ValueId id : op.outputs) {
      const TensorType& type = graph.type(id);
      const Mesh mesh = module.mesh(graph, place_of(graph, id));
      rows.push_back({graph.value(id).name, type_text({type.dtype, type.shape, {}}, mesh),
                      layout_text(type.layout, mesh), op_def(op).name, type.layout.is_replicated()});
    }
  });
  return rows;
}

void print_values(const std::vector<ValueRow>& rows) {
  TableRows cells;
  for (const ValueRow& row : rows)
    if (!row.replicated) cells.push_back({printable(row.name), row.type, row.layout, row.made_by});
  std::printf("layouts: %zu values, %zu replicated; the others:\n%s", rows.size(), rows.size() - cells.size(),
              table_text(fold_layers(cells, {0})).c_str());
}

struct CollectiveRow {
  std::string name, what, from, to, because;
  int64_t bytes = 0;  // that a rank sends in one invocation
};

std::string what_text(const Op& op, const Mesh& mesh) {
  std::vector<std::string> axes;
  if (const AttrValue* list = op.find("axes"))
    for (const int64_t axis : std::get<std::vector<int64_t>>(*list))
      axes.push_back(mesh[static_cast<size_t>(axis)].name);
  std::string text = op_def(op).name;
  if (const AttrValue* reduce = op.find("reduce")) text += " " + std::get<std::string>(*reduce);
  return axes.empty() ? text : text + " over " + join(axes, ", ");
}

/// Why the collective is there: the transform that made it, else its producer and the ops that read it.
std::string because_text(const Module& module, const Graph& graph, const Op& op) {
  if (op.transform) {
    const Transform& transform = module.transforms[op.transform.index];
    const std::string where = loc_text(transform.loc);
    return transform.text + (where.empty() ? "" : " (" + where + ")");
  }
  std::set<std::string> readers;
  for (const Use& use : graph.value(op.outputs[0]).uses)
    readers.insert(use.op ? printable(node_name(module, graph.op(use.op))) : "an output of the graph");
  std::vector<std::string> names(readers.begin(), readers.end());
  if (names.size() > 3) names = {names[0], names[1], format("{} more", names.size() - 2)};
  return format("'{}' for {}", printable(node_name(module, graph.producer_op(op.inputs[0]))), join(names, ", "));
}

/// Every collective with the bytes that a rank sends: chunks of a loop add up.
std::vector<CollectiveRow> collective_rows(const Module& module) {
  std::vector<CollectiveRow> rows;
  walk(module.graph, [&](const Graph& graph, const Op& op) {
    if (category(op) != Category::Collective) return;
    const Mesh mesh = module.mesh(graph, op.place);
    const TensorType& from = graph.type(op.inputs[0]);
    const TensorType& to = graph.type(op.outputs[0]);
    const Mesh source_mesh = module.mesh(graph, place_of(graph, op.inputs[0]));
    CollectiveRow row{op.name,
                      what_text(op, mesh),
                      layout_text(from.layout, source_mesh),
                      layout_text(to.layout, mesh),
                      because_text(module, graph, op),
                      0};
    int64_t trips = 1;
    for (const MeshAxis& axis : graph.time_axes) trips *= axis.size;
    row.bytes =
        trips * bytes_sent(op.kind, local_bytes(from, source_mesh), local_bytes(to, mesh), group_size(op, mesh));
    rows.push_back(std::move(row));
  });
  return rows;
}

void print_collectives(const std::vector<CollectiveRow>& rows) {
  TableRows cells;
  int64_t bytes = 0;
  for (const CollectiveRow& row : rows) {
    cells.push_back({printable(row.name), row.what, row.from + " -> " + row.to, bytes_text(row.bytes), row.because});
    bytes += row.bytes;
  }
  std::printf("collectives: %zu, a rank sends %s in an invocation\n%s", rows.size(), bytes_text(bytes).c_str(),
              table_text(fold_layers(cells, {0, 4})).c_str());
}

/// True if any sum, maximum ... is put together from parts of ranks or chunks.
bool cuts_reductions(const Module& module) {
  bool cut = false;
  walk(module.graph, [&](const Graph& graph, const Op& op) {
    for (const ValueId id : op.outputs) cut |= graph.type(id).layout.has(AxisState::Kind::P);
  });
  return cut;
}

/// Why results may differ from one rank's in their last bits; "" if they are bit-equal.
std::string why_bits_differ(const Module& scheduled, const Compilation& c, const Options& options) {
  if (c.plan.world == 1 && scheduled.transforms.empty() && c.schedule.kernels.empty()) return "";
  if (cuts_reductions(scheduled)) return "a reduction is cut by ranks or chunks";
  Diags ignored;  // a model that brings its own collectives does not compile for one rank
  const std::unique_ptr<Compilation> one =
      c.schedule.per_rank ? nullptr : compile_graph_for_one_rank(options, ignored, c);
  if (!one || !compile_plan(*one, options, ignored)) return "the model is not one for one rank";
  return why_bits_differ(c.plan, one->plan);
}

/// A kernel as explain shows it; JSON has all cells.
struct KernelRow {
  std::string name, category, strategy, why, pin, ops, nodes, transform;
  size_t users;
  int64_t bytes;  // read and written by one launch
};

/// The nodes that a kernel computes, at most six names.
std::string nodes_of(const Plan& plan, const Kernel& kernel) {
  std::vector<std::string> nodes;
  for (const OriginId id : kernel.origins) nodes.push_back(printable(plan.origins[id.index].name));
  return few_of(nodes, 6);
}

KernelRow kernel_row(const Plan& plan, const Kernel& kernel) {
  std::vector<std::string> ops;
  for (OpId id = kernel.body.first(); id; id = kernel.body.next(id))
    if (category(kernel.body.op(id)) != Category::Source) ops.push_back(op_def(kernel.body.op(id)).name);
  const int64_t bytes = moved_bytes(kernel);
  return {kernel.name,
          category_name(kernel.category),
          strategies_text(kernel),
          reason_text(kernel.strategy),
          pinned_at(kernel),
          join(ops, " "),
          nodes_of(plan, kernel),
          kernel.transform,
          kernel.users.size(),
          bytes};
}

void print_kernels(const Plan& plan) {
  TableRows cells;
  int64_t bytes = 0;
  for (const Kernel& kernel : plan.kernels) {
    const KernelRow row = kernel_row(plan, kernel);
    bytes += row.bytes * static_cast<int64_t>(row.users);
    const std::string pinned = row.pin.empty() ? "" : format(", pinned ({})", row.pin);
    cells.push_back({row.name, row.strategy + pinned, format("x{}", row.users), bytes_text(row.bytes),
                     row.nodes + (row.transform.empty() ? "" : "; " + row.transform)});
  }
  std::printf("kernels: %zu, they move %s on a rank in an invocation\n%s", plan.kernels.size(),
              bytes_text(bytes).c_str(), table_text(cells).c_str());
}

/// Launches of kernels that bring an image into another order before they read it.
size_t transposition_count(const Plan& plan) {
  size_t count = 0;
  for (const Kernel& kernel : plan.kernels)
    if (copies_image(kernel.strategy).value_or(false)) count += kernel.users.size();
  return count;
}

/// Remarks: notes of the passes, the number of copies of shared weights, and why kernels run as plain loops.
std::vector<std::string> remarks_of(const Compilation& c) {
  std::vector<std::string> remarks = c.module.remarks;
  for (std::string& remark : stored_weights_remarks(c.plan)) remarks.push_back(std::move(remark));
  for (const Kernel& kernel : c.plan.kernels)
    if (const std::string why = reason_text(kernel.strategy); !why.empty())
      remarks.push_back(format("kernel '{}' runs as plain loops: {}", kernel.name, why));
  return remarks;
}

/// Counts steps and waits by stream, those inside of steps too.
void count_steps(const std::vector<Step>& steps, std::vector<std::pair<int, int>>& counts) {
  for (const Step& step : steps) {
    auto& [number, waits] = counts[static_cast<size_t>(step.stream)];
    ++number;
    waits += static_cast<int>(step.waits.size());
    if (const auto* loop = std::get_if<ForStep>(&step.what)) count_steps(loop->body, counts);
    if (const auto* loop = std::get_if<LoopStep>(&step.what)) count_steps(loop->body, counts);
    if (const auto* branch = std::get_if<IfStep>(&step.what)) {
      count_steps(branch->then_body, counts);
      count_steps(branch->else_body, counts);
    }
  }
}

std::vector<std::pair<int, int>> stream_counts(const Plan& plan) {
  std::vector<std::pair<int, int>> counts(plan.streams.size());
  for (const Block& block : plan.blocks) count_steps(block.steps, counts);
  return counts;
}

void print_streams(const Plan& plan) {
  std::vector<std::string> parts;
  const auto counts = stream_counts(plan);
  for (size_t s = 0; s < counts.size(); ++s)
    parts.push_back(format("{} ({} steps, {} waits)", plan.streams[s], counts[s].first, counts[s].second));
  std::printf("streams: %s\n", join(parts, ", ").c_str());
  if (plan.order.size() > 1) {
    std::vector<std::string> order;
    for (const OrderedBlock& entry : plan.order)
      order.push_back(format("{} {}", plan.blocks[static_cast<size_t>(entry.block)].name, entry.micro_batch));
    std::printf("order of blocks and micro-batches: %s\n", join(order, ", ").c_str());
  }
}

/// The table reproduces the order that was found.
void print_found_order(const Compilation& c) {
  if (!c.measured.empty()) std::printf("%s\n", printable(c.measured).c_str());
  if (!c.order) return;
  std::printf("searched order: %s\n", c.order->facts.front().c_str());
  for (size_t f = 1; f < c.order->facts.size(); ++f) std::printf("  %s\n", printable(c.order->facts[f]).c_str());
  std::printf("  order: %s\n", printable(table_text(c.order->table)).c_str());
}

/// Where the next value of a state is written: "in place", or "copied: WHY".
std::string update_text(const Plan& plan, const StateSlot& state) {
  if (!state.buffer) return "not read";
  if (state.in_place) return "in place";
  return format("copied, {} an iteration: {}", bytes_text(plan.buffer(state.buffer).bytes), state.why_copied);
}

void print_states(const Plan& plan) {
  if (plan.states.empty()) return;
  TableRows cells;
  for (const StateSlot& state : plan.states)
    cells.push_back({printable(state.input), printable(state.output), printable(update_text(plan, state))});
  std::printf("states: %zu\n%s", plan.states.size(), table_text(fold_layers(cells, {0, 1, 2})).c_str());
}

void print_places(const Plan& plan) {
  std::printf("%s: %d rank%s\n", plan.name.c_str(), plan.world, plan.world == 1 ? "" : "s");
  for (const Place& place : plan.places) {
    std::vector<std::string> axes, ranks;
    for (const MeshAxis& axis : place.mesh) axes.push_back(format("{}: {}", axis.name, axis.size));
    for (const int rank : place.ranks) ranks.push_back(std::to_string(rank));
    if (!axes.empty())
      std::printf("  place %s: ranks [%s], {%s}\n", place.name.c_str(), join(ranks, ", ").c_str(),
                  join(axes, ", ").c_str());
  }
}

/// The predicted timeline, and the order of a pipeline.
struct PredictedTimes {
  Timeline timeline;
  std::optional<OrderPicture> order;  // of a pipeline
  const char* order_source;           // of its times
};

std::string page_of(const PredictedTimes& prediction) {
  std::vector<OrderChart> orders;
  if (prediction.order)
    orders.push_back({"Order of the pipeline",
                      "Each block starts as soon as its ranks are free and what it reads has come.",
                      *prediction.order});
  return timeline_page(prediction.timeline, orders);
}

void print_text(const Module& scheduled, const Compilation& c, const std::string& why,
                const PredictedTimes& prediction) {
  print_places(c.plan);
  if (c.plan.world > 1 || !scheduled.transforms.empty()) {
    print_collectives(collective_rows(scheduled));
    print_values(value_rows(scheduled));
    if (why.empty())
      std::printf("results are bit-equal to one rank's\n");
    else
      std::printf("results may differ from one rank's by rounding: %s\n", printable(why).c_str());
  }
  print_kernels(c.plan);
  std::printf("transpositions inserted where storages differ: %zu\n", transposition_count(c.plan));
  print_streams(c.plan);
  print_found_order(c);
  std::printf("%s", memory_text(c.plan).c_str());
  if (c.recomputation) std::printf("%s", c.recomputation->text().c_str());
  print_states(c.plan);
  if (prediction.order) std::printf("%s", order_text(*prediction.order, prediction.order_source).c_str());
  std::printf("%s", timeline_text(prediction.timeline).c_str());
  TableRows remarks;
  for (const std::string& remark : remarks_of(c)) remarks.push_back({printable(remark)});
  if (!remarks.empty()) std::printf("choices and near misses:\n");
  for (const std::vector<std::string>& row : fold_layers(remarks, {0}))
    std::printf("  %s\n", (row[0] + (row.size() > 1 && !row[1].empty() ? " (" + row[1] + ")" : "")).c_str());
}

void print_json(const Module& scheduled, const Compilation& c, const std::string& why,
                const PredictedTimes& prediction) {
  std::vector<std::string> values, collectives, kernels, streams, states;
  for (const StateSlot& state : c.plan.states)
    states.push_back(json_object({{"input", json_string(state.input)},
                                  {"output", json_string(state.output)},
                                  {"in_place", state.in_place ? "true" : "false"},
                                  {"why", json_string(state.why_copied)}}));
  for (const ValueRow& row : value_rows(scheduled))
    values.push_back(json_object({{"name", json_string(row.name)},
                                  {"type", json_string(row.type)},
                                  {"layout", json_string(row.layout)},
                                  {"op", json_string(row.made_by)}}));
  for (const CollectiveRow& row : collective_rows(scheduled))
    collectives.push_back(json_object({{"name", json_string(row.name)},
                                       {"what", json_string(row.what)},
                                       {"from", json_string(row.from)},
                                       {"to", json_string(row.to)},
                                       {"bytes", std::to_string(row.bytes)},
                                       {"because", json_string(row.because)}}));
  for (const Kernel& kernel : c.plan.kernels) {
    const KernelRow row = kernel_row(c.plan, kernel);
    kernels.push_back(json_object({{"name", json_string(row.name)},
                                   {"category", json_string(row.category)},
                                   {"strategy", json_string(row.strategy)},
                                   {"why", json_string(row.why)},
                                   {"pinned", json_string(row.pin)},
                                   {"ops", json_string(row.ops)},
                                   {"nodes", json_string(row.nodes)},
                                   {"transform", json_string(row.transform)},
                                   {"launches", std::to_string(row.users)},
                                   {"bytes", std::to_string(row.bytes)},
                                   {"weight_bytes", std::to_string(moved_weight_bytes(kernel))},
                                   {"operations", shortest(contraction_operations(c.module, kernel))}}));
  }
  const auto counts = stream_counts(c.plan);
  for (size_t s = 0; s < counts.size(); ++s)
    streams.push_back(json_object({{"name", json_string(c.plan.streams[s])},
                                   {"steps", std::to_string(counts[s].first)},
                                   {"waits", std::to_string(counts[s].second)}}));
  std::printf(
      "{\"name\": %s, \"ranks\": %d, \"bit_equal\": %s, \"weight_bytes\": %ld, \"transpositions\": %zu,\n"
      " \"values\": %s,\n",
      json_string(c.plan.name).c_str(), c.plan.world, why.empty() ? "true" : "false",
      static_cast<long>(weight_bytes(c.plan)), transposition_count(c.plan), json_lines(values).c_str());
  std::printf(
      " \"collectives\": %s,\n \"kernels\": %s,\n \"streams\": %s,\n \"memory\": %s,\n \"recompute\": %s,\n "
      "\"states\": %s,\n"
      " \"pipeline\": %s,\n \"timeline\": %s,\n \"remarks\": %s}\n",
      json_lines(collectives).c_str(), json_lines(kernels).c_str(), json_list(streams).c_str(),
      memory_json(c.plan).c_str(), c.recomputation ? c.recomputation->json().c_str() : "null",
      json_lines(states).c_str(), prediction.order ? order_json(*prediction.order).c_str() : "null",
      timeline_json(prediction.timeline).c_str(), json_strings(remarks_of(c)).c_str());
}

}  // namespace

int run_explain(const Options& options) {
  Diags diags;
  // Fusion hides values inside kernels, so values of the schedule are read before it.
  Options until_scheduled = options;
  until_scheduled.stop_after = "apply-transforms";
  const std::unique_ptr<Compilation> scheduled = compile_graph(until_scheduled, diags);
  if (!scheduled) return finish(diags);
  if (options.names) {
    const SelectableNames names(scheduled->module, scheduled->module.graph, scheduled->schedule.aliases);
    for (const std::string& name : names.all()) std::printf("%s\n", printable(name).c_str());
    return finish(diags);
  }
  Diags whole;
  const std::unique_ptr<Compilation> compiled = compile_graph_on(*scheduled, options, whole);
  if (!compiled || !compile_plan(*compiled, options, whole)) return finish(whole);
  if (!add_measured_times(*compiled, options, whole)) return finish(whole);
  const PredictedTimes prediction = {predicted_timeline(*compiled), predicted_order(*compiled, options, whole),
                                     options.profile.empty() ? "predicted" : "of measured times"};
  const std::string why = why_bits_differ(scheduled->module, *compiled, options);
  if (options.json)
    print_json(scheduled->module, *compiled, why, prediction);
  else
    print_text(scheduled->module, *compiled, why, prediction);
  if (!options.page.empty()) write_page(options.page, page_of(prediction), whole);
  return finish(whole);
}

}  // namespace weftc
