// `weft trace`: shows measurements as `weft explain` shows predictions.
#include <cstdio>
#include <set>

#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/json.h"
#include "cli/measured_order.h"
#include "cli/order_text.h"
#include "cli/page.h"
#include "cli/timeline.h"
#include "cli/timeline_page.h"
#include "cli/timeline_text.h"
#include "cli/trace_file.h"

namespace weftc {

namespace {

/// The timeline of the iteration that --iteration asks for; nothing after reporting.
std::optional<Timeline> chosen(const Trace& trace, const Options& options, Diags& diags) {
  const int count = static_cast<int>(trace.iterations.size());
  if (options.iteration == "all") {
    Timeline all = trace.all;
    all.source = format("measured, {} iterations", count);
    return all;
  }
  const bool is_median = options.iteration == "median";
  const int number = is_median ? median_iteration(trace) : std::stoi(options.iteration);
  if (!trace.iterations.contains(number)) {
    diags.error("trace-iteration", Loc::in_file(options.traces[0]), "there is no iteration {}; there are {} to {}",
                number, trace.iterations.begin()->first, trace.iterations.rbegin()->first);
    return {};
  }
  Timeline one = iteration_of(trace, number);
  one.source = format("measured, iteration {} of {}{}", number, count, is_median ? ", of median length" : "");
  return one;
}

/// The order of the iteration that is shown; for all, the iteration of median length.
std::optional<OrderPicture> measured(const Trace& trace, const Options& options) {
  const bool is_number = options.iteration != "median" && options.iteration != "all";
  return measured_order(trace, is_number ? std::stoi(options.iteration) : median_iteration(trace));
}

bool has_same_blocks(const OrderPicture& a, const OrderPicture& b) {
  const auto names_of = [](const OrderPicture& picture) {
    std::set<std::string> names;
    for (const PictureBlock& block : picture.blocks) names.insert(block.name);
    return names;
  };
  return names_of(a) == names_of(b) && a.micro_batches == b.micro_batches && a.lanes.size() == b.lanes.size();
}

/// The order that --model and --schedule say; nothing without them, and after reporting.
std::optional<OrderPicture> predicted(const Options& options, const std::optional<OrderPicture>& measured,
                                      Diags& diags) {
  if (options.model.empty()) return {};
  const std::unique_ptr<Compilation> c = compile_graph(options, diags);
  if (!c || !compile_plan(*c, options, diags)) return {};
  std::optional<OrderPicture> order = predicted_order(*c, options, diags);
  if (order && measured && has_same_blocks(*order, *measured)) return order;
  diags.error("trace-order", Loc::in_file(options.traces[0]), "this is no trace of the pipeline of {}{}",
              printable(options.model), options.schedules.empty() ? "" : " under " + printable(options.schedules[0]));
  return {};
}

/// The measured order, and the predicted one.
struct Orders {
  std::optional<OrderPicture> measured, predicted;
  std::optional<double> bubble;  // the median of all iterations

  std::string bubble_text() const {
    std::string text = format("bubble {} in the median of all iterations", share_text(*bubble));
    return predicted ? text + format(", predicted {}", share_text(predicted->bubble())) : text;
  }
  std::string text() const {
    if (!measured) return "";
    std::string text = order_text(*measured, "measured");
    if (predicted) text += order_text(*predicted, "predicted");
    return text + bubble_text() + "\n";
  }
  std::string json() const {
    if (!measured) return "null";
    return json_object({{"bubble", shortest(*bubble)},
                        {"measured", order_json(*measured)},
                        {"predicted", predicted ? order_json(*predicted) : "null"}});
  }
  std::vector<OrderChart> charts() const {
    std::vector<OrderChart> charts;
    if (measured) charts.push_back({"Order of the pipeline, measured", bubble_text(), *measured});
    if (predicted) charts.push_back({"Order of the pipeline, predicted", "On a time scale of its own.", *predicted});
    return charts;
  }
};

}  // namespace

int run_trace(const Options& options) {
  Diags diags;
  const std::optional<Trace> trace = read_traces(options.traces, diags);
  if (!trace) return finish(diags);
  std::optional<Timeline> timeline = chosen(*trace, options, diags);
  if (!timeline) return finish(diags);
  Orders orders = {measured(*trace, options), {}, measured_bubble(*trace)};
  orders.predicted = predicted(options, orders.measured, diags);
  if (!diags.ok()) return finish(diags);
  std::vector<std::string> names;
  for (const std::string& file : options.traces) names.push_back(file.substr(file.rfind('/') + 1));
  timeline->title = join(names, ", ");
  timeline->notes.push_back(
      "a step counts without the time in which it waited for signals, and on the host for other ranks to come");
  if (options.json)
    std::printf("%s\n", timeline_json(*timeline, {{"pipeline", orders.json()}}).c_str());
  else
    std::printf("%s%s", orders.text().c_str(), timeline_text(*timeline).c_str());
  if (!options.page.empty()) write_page(options.page, timeline_page(*timeline, orders.charts()), diags);
  return finish(diags);
}

}  // namespace weftc
