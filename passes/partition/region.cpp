// Regions: costs, choices and times of some nodes while the others keep their choices.
#include "passes/partition/region.h"

#include <algorithm>

namespace weftc {

namespace {

/// Sums of changes become sums up to each time.
template <class T>
void accumulate(std::vector<T>& values) {
  for (size_t t = 1; t < values.size(); ++t) values[t] += values[t - 1];
}

}  // namespace

Assignment::Assignment(const SearchGraph& graph, std::vector<int> made)
    : choices(std::move(made)), slack(graph.room), cost(graph.cost_of(choices)) {
  std::vector<int64_t> usage(slack.size() + 1, 0);
  for (int i = 0; i < graph.size(); ++i)
    for (const UsageLease& lease : graph.leases[i]) {
      usage[lease.first] += lease.usage[choices[i]];
      usage[lease.last] -= lease.usage[choices[i]];
    }
  accumulate(usage);
  for (size_t t = 0; t < slack.size(); ++t) slack[t] -= usage[t];
}

void Assignment::change(const SearchGraph& graph, const std::vector<int>& nodes, const std::vector<int>& to) {
  std::vector<int> changed;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (choices[nodes[n]] != to[n]) changed.push_back(nodes[n]);
  std::sort(changed.begin(), changed.end());
  // Before and after, but never between: a mixture may have forbidden pairs, which would cost digits.
  const auto cost_around = [&] {
    double sum = 0;
    for (const int node : changed) {
      sum += graph.costs[node][choices[node]];
      for (const SearchGraph::Neighbour& next : graph.neighbours[node])
        if (next.node > node || !std::binary_search(changed.begin(), changed.end(), next.node))
          sum += graph.edge_cost(next, choices[node], choices[next.node]);
    }
    return sum;
  };
  cost -= cost_around();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const int node = nodes[n], from = choices[node];
    for (const UsageLease& lease : graph.leases[node]) {
      const int64_t less = lease.usage[from] - lease.usage[to[n]];
      for (int t = lease.first; t < lease.last && less != 0; ++t) slack[t] += less;
    }
    choices[node] = to[n];
  }
  cost += cost_around();
}

int64_t Assignment::excess() const {
  int64_t sum = 0;
  for (const int64_t left : slack) sum += std::max<int64_t>(0, -left);
  return sum;
}

Region::Region(const SearchGraph& graph, const Assignment& assignment, std::vector<int> members,
               std::vector<int>& place)
    : nodes(std::move(members)), graph_(graph) {
  for (int i = 0; i < size(); ++i) place[nodes[i]] = i;
  edges_of.resize(nodes.size());
  for (int i = 0; i < size(); ++i)
    for (const SearchGraph::Neighbour& next : graph.neighbours[nodes[i]])
      if (place[next.node] > i) {
        edges_of[i].push_back(static_cast<int>(edges.size()));
        edges_of[place[next.node]].push_back(static_cast<int>(edges.size()));
        edges.push_back({i, place[next.node], {}});
        edges.back().costs.push_back(next.edge);  // until choices are known
      }
  find_choices(assignment, place);
  for (Edge& edge : edges) {
    const int id = static_cast<int>(edge.costs[0]);
    const SearchGraph::Neighbour to{nodes[edge.b], id, graph.edges[id].b != nodes[edge.b]};
    edge.costs.clear();
    for (const int x : choices[edge.a])
      for (const int y : choices[edge.b]) edge.costs.push_back(graph.edge_cost(to, x, y));
  }
  make_consistent();
  find_times(assignment);
  for (const int node : nodes) place[node] = -1;
}

void Region::find_choices(const Assignment& assignment, const std::vector<int>& place) {
  choices.resize(nodes.size());
  costs.resize(nodes.size());
  for (int i = 0; i < size(); ++i)
    for (int x = 0; x < graph_.choice_count(nodes[i]); ++x) {
      double cost = graph_.costs[nodes[i]][x];
      for (const SearchGraph::Neighbour& next : graph_.neighbours[nodes[i]])
        if (place[next.node] < 0) cost += graph_.edge_cost(next, x, assignment.choices[next.node]);
      if (cost >= SearchGraph::kForbidden) continue;
      choices[i].push_back(x);
      costs[i].push_back(cost);
    }
}

/// Removes choices that are compatible with no choice of a neighbour.
void Region::make_consistent() {
  std::vector<std::vector<char>> kept(nodes.size());
  std::vector<int> queue;
  for (int i = 0; i < size(); ++i) kept[i].assign(choices[i].size(), 1), queue.push_back(i);
  std::vector<char> is_queued(nodes.size(), 1);
  while (!queue.empty()) {
    const int i = queue.back();
    queue.pop_back();
    is_queued[i] = 0;
    for (const int id : edges_of[i]) {
      const Edge& edge = edges[id];
      const int other = edge.a == i ? edge.b : edge.a;
      const size_t columns = choices[edge.b].size();
      const auto goes_with = [&](size_t y) {
        for (size_t x = 0; x < kept[i].size(); ++x)
          if (kept[i][x] && edge.costs[edge.a == i ? x * columns + y : y * columns + x] < SearchGraph::kForbidden)
            return true;
        return false;
      };
      for (size_t y = 0; y < kept[other].size(); ++y) {
        if (!kept[other][y] || goes_with(y)) continue;
        kept[other][y] = 0;
        if (!is_queued[other]) queue.push_back(other);
        is_queued[other] = 1;
      }
    }
  }
  for (Edge& edge : edges) {
    size_t from = 0, to = 0;
    for (const char x : kept[edge.a])
      for (const char y : kept[edge.b]) {
        if (x && y) edge.costs[to++] = edge.costs[from];
        ++from;
      }
    edge.costs.resize(to);
  }
  for (int i = 0; i < size(); ++i) {
    size_t to = 0;
    for (size_t x = 0; x < kept[i].size(); ++x)
      if (kept[i][x]) choices[i][to] = choices[i][x], costs[i][to++] = costs[i][x];
    choices[i].resize(to);
    costs[i].resize(to);
  }
}

void Region::find_times(const Assignment& assignment) {
  leases_.resize(nodes.size());
  std::vector<int> begins;
  for (const int node : nodes)
    for (const UsageLease& lease : graph_.leases[node]) begins.push_back(lease.first), begins.push_back(lease.last);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  if (begins.empty()) return;
  const auto number = [&](int time) {
    return static_cast<int>(std::lower_bound(begins.begin(), begins.end(), time) - begins.begin());
  };
  for (int i = 0; i < size(); ++i)
    for (const UsageLease& lease : graph_.leases[nodes[i]]) {
      UsageLease mine{number(lease.first), number(lease.last), {}};
      for (const int x : choices[i]) mine.usage.push_back(lease.usage[x]);
      leases_[i].push_back(std::move(mine));
    }
  for (size_t k = 0; k + 1 < begins.size(); ++k) {
    const auto from = assignment.slack.begin() + begins[k], to = assignment.slack.begin() + begins[k + 1];
    const auto tightest = std::min_element(from, to);
    times.push_back({static_cast<double>(*tightest), begins[k], begins[k + 1],
                     static_cast<int>(tightest - assignment.slack.begin())});
  }
  std::vector<double> usage(begins.size(), 0);
  for (const int node : nodes)
    for (const UsageLease& lease : graph_.leases[node]) {
      const auto used = static_cast<double>(lease.usage[assignment.choices[node]]);
      usage[number(lease.first)] += used;
      usage[number(lease.last)] -= used;
    }
  accumulate(usage);
  for (size_t k = 0; k < times.size(); ++k) times[k].room += usage[k];
  drop_times_with_room();
}

void Region::drop_times_with_room() {
  std::vector<double> most(times.size() + 1, 0);
  for (const std::vector<UsageLease>& of_node : leases_)
    for (const UsageLease& lease : of_node) {
      const auto usage = static_cast<double>(*std::max_element(lease.usage.begin(), lease.usage.end()));
      most[lease.first] += usage;
      most[lease.last] -= usage;
    }
  accumulate(most);
  std::vector<int> number(times.size() + 1, 0);
  int count = 0;
  for (size_t k = 0; k < times.size(); ++k) {
    number[k] = count;
    if (most[k] > times[k].room) times[count++] = times[k];
  }
  number.back() = count;
  times.resize(count);
  for (std::vector<UsageLease>& of_node : leases_) {
    for (UsageLease& lease : of_node) lease.first = number[lease.first], lease.last = number[lease.last];
    std::erase_if(of_node, [](const UsageLease& lease) { return lease.first == lease.last; });
  }
}

double Region::work() const {
  constexpr double kOfNode = 2000, kOfChoice = 20, kOfEntry = 10;
  double work = kOfNode * size();
  for (int i = 0; i < size(); ++i)
    work += kOfChoice * static_cast<double>(graph_.costs[nodes[i]].size() * graph_.neighbours[nodes[i]].size());
  for (const Edge& edge : edges) work += kOfEntry * static_cast<double>(edge.costs.size());
  return work;
}

bool Region::is_impossible() const {
  return std::any_of(choices.begin(), choices.end(), [](const auto& of_node) { return of_node.empty(); });
}

double Region::cost_of(const std::vector<int>& picks) const {
  double cost = 0;
  for (int i = 0; i < size(); ++i) cost += costs[i][picks[i]];
  for (const Edge& edge : edges) cost += edge.costs[picks[edge.a] * choices[edge.b].size() + picks[edge.b]];
  return cost;
}

void Region::usage_of(const std::vector<int>& picks, std::vector<double>& usage) const {
  usage.assign(times.size() + 1, 0);
  for (int i = 0; i < size(); ++i)
    for (const UsageLease& lease : leases_[i]) {
      const auto used = static_cast<double>(lease.usage[picks[i]]);
      usage[lease.first] += used;
      usage[lease.last] -= used;
    }
  accumulate(usage);
}

void Region::add_prices(const std::vector<double>& prices, std::vector<std::vector<double>>& priced) const {
  std::vector<double> until(times.size() + 1, 0);  // the sum of prices before each time
  for (size_t k = 0; k < times.size(); ++k) until[k + 1] = until[k] + prices[k];
  for (int i = 0; i < size(); ++i) {
    std::copy(costs[i].begin(), costs[i].end(), priced[i].begin());
    for (const UsageLease& lease : leases_[i]) {
      const double price = until[lease.last] - until[lease.first];
      if (price == 0) continue;
      for (size_t x = 0; x < lease.usage.size(); ++x) priced[i][x] += price * static_cast<double>(lease.usage[x]);
    }
  }
}

std::vector<int> Region::present_picks(const Assignment& assignment) const {
  std::vector<int> picks;
  for (int i = 0; i < size(); ++i) {
    const auto at = std::lower_bound(choices[i].begin(), choices[i].end(), assignment.choices[nodes[i]]);
    picks.push_back(static_cast<int>(at - choices[i].begin()));
  }
  return picks;
}

std::vector<int> Region::choices_of(const std::vector<int>& picks) const {
  std::vector<int> result;
  for (int i = 0; i < size(); ++i) result.push_back(choices[i][picks[i]]);
  return result;
}

}  // namespace weftc
