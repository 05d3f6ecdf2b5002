// `weft trace`: what was measured, shown as `weft explain` shows what it predicts.
#include <cstdio>

#include "cli/commands.h"
#include "cli/page.h"
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

}  // namespace

int run_trace(const Options& options) {
  Diags diags;
  const std::optional<Trace> trace = read_traces(options.traces, diags);
  if (!trace) return finish(diags);
  std::optional<Timeline> timeline = chosen(*trace, options, diags);
  if (!timeline) return finish(diags);
  std::vector<std::string> names;
  for (const std::string& file : options.traces) names.push_back(file.substr(file.rfind('/') + 1));
  timeline->title = join(names, ", ");
  timeline->notes.push_back(
      "a step counts without the time in which it waited for signals, and on the host for other ranks to come");
  if (options.json)
    std::printf("%s\n", timeline_json(*timeline).c_str());
  else
    std::printf("%s", timeline_text(*timeline).c_str());
  if (!options.page.empty()) write_page(options.page, timeline_page(*timeline), diags);
  return finish(diags);
}

}  // namespace weftc
