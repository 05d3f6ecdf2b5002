// Mini-bucket elimination.
#include "passes/partition/mini_buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace weftc {

EliminationOrder elimination_order(const Region& region, double most_entries) {
  EliminationOrder order;
  const int count = region.size();
  std::vector<std::vector<int>> around(count);
  for (const Region::Edge& edge : region.edges) around[edge.a].push_back(edge.b), around[edge.b].push_back(edge.a);
  for (std::vector<int>& nodes : around) std::sort(nodes.begin(), nodes.end());
  const auto weight = [&](int node) {
    double sum = std::log(region.choice_count(node));
    for (const int other : around[node]) sum += std::log(region.choice_count(other)) + 1e-3;
    return sum;
  };
  std::set<std::pair<double, int>> queue;
  std::vector<double> weights(count);
  for (int i = 0; i < count; ++i) queue.insert({weights[i] = weight(i), i});
  while (!queue.empty()) {
    const auto [least, node] = *queue.begin();
    queue.erase(queue.begin());
    order.nodes.push_back(node);
    order.all += std::exp(least) * static_cast<double>(around[node].size() + 1);
    order.largest = std::max(order.largest, std::exp(least) / region.choice_count(node));
    const bool is_divided = least > std::log(most_entries) + 12;
    for (const int next : around[node]) {
      std::vector<int> joined;
      if (is_divided)
        joined = around[next];
      else
        std::set_union(around[next].begin(), around[next].end(), around[node].begin(), around[node].end(),
                       std::back_inserter(joined));
      std::erase_if(joined, [&](int other) { return other == node || other == next; });
      around[next] = std::move(joined);
    }
    for (const int next : around[node]) {
      queue.erase({weights[next], next});
      queue.insert({weights[next] = weight(next), next});
    }
  }
  return order;
}

MiniBuckets::MiniBuckets(const Region& region, double most_entries)
    : region_(region), position_(region.nodes.size(), 0), costs_(region.costs) {
  const std::vector<int> order = elimination_order(region, most_entries).nodes;
  buckets_.resize(order.size());
  for (int at = 0; at < size(); ++at) position_[order[at]] = at;
  transposed_.reserve(region.edges.size());  // tables point into it
  for (int at = 0; at < size(); ++at) {
    Bucket& bucket = buckets_[at];
    bucket.node = order[at];
    bucket.tables.push_back(table_of(costs_[bucket.node].data(), {bucket.node}));
    for (const int id : region.edges_of[bucket.node]) {
      const Region::Edge& edge = region.edges[id];
      const int other = edge.a == bucket.node ? edge.b : edge.a;
      if (position_[other] < at) continue;
      if (edge.a == bucket.node) {
        bucket.tables.push_back(table_of(edge.costs.data(), {edge.a, edge.b}));
        continue;
      }
      std::vector<double> turned;
      const int rows = region.choice_count(edge.a), columns = region.choice_count(edge.b);
      for (int y = 0; y < columns; ++y)
        for (int x = 0; x < rows; ++x) turned.push_back(edge.costs[static_cast<size_t>(x) * columns + y]);
      transposed_.push_back(std::move(turned));
      bucket.tables.push_back(table_of(transposed_.back().data(), {edge.b, edge.a}));
    }
  }
  for (Bucket& bucket : buckets_) make_groups(bucket, most_entries);
  first_use_.assign(region.nodes.size(), size());
  for (int at = size() - 1; at >= 0; --at)
    for (const Table& table : buckets_[at].tables)
      for (const int node : table.nodes)
        if (node != buckets_[at].node) first_use_[node] = at;
}

MiniBuckets::Table MiniBuckets::table_of(const double* costs, std::vector<int> nodes) const {
  Table table{costs, std::move(nodes), {}};
  table.strides.resize(table.nodes.size());
  size_t stride = 1;
  for (size_t d = table.nodes.size(); d-- > 0; stride *= region_.choices[table.nodes[d]].size())
    table.strides[d] = stride;
  return table;
}

/// Each table goes into the first group that stays small enough, large tables first.
void MiniBuckets::make_groups(Bucket& bucket, double most_entries) {
  const auto entries = [&](const std::vector<int>& nodes) {
    double product = 1;
    for (const int node : nodes) product *= region_.choice_count(node);
    return product;
  };
  const auto is_before = [&](int p, int q) { return position_[p] < position_[q]; };
  std::vector<int> by_size(bucket.tables.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int p, int q) { return entries(bucket.tables[p].nodes) > entries(bucket.tables[q].nodes); });
  std::vector<std::vector<int>> nodes, tables;
  for (const int t : by_size) {
    const std::vector<int>& mine = bucket.tables[t].nodes;
    size_t at = 0;
    std::vector<int> joined;
    for (; at < nodes.size(); ++at) {
      joined.clear();
      std::set_union(nodes[at].begin(), nodes[at].end(), mine.begin(), mine.end(), std::back_inserter(joined),
                     is_before);
      if (joined.size() == nodes[at].size() || entries(joined) <= most_entries) break;
    }
    if (at == nodes.size()) nodes.emplace_back(), tables.emplace_back(), joined = mine;
    nodes[at] = joined;
    tables[at].push_back(t);
  }
  bucket.groups.reserve(nodes.size());
  for (size_t at = 0; at < nodes.size(); ++at) add_group(bucket, nodes[at], tables[at]);
}

void MiniBuckets::add_group(Bucket& bucket, const std::vector<int>& nodes, const std::vector<int>& tables) {
  Group& group = bucket.groups.emplace_back();
  group.nodes.assign(nodes.begin() + 1, nodes.end());
  size_t entries = 1;
  for (const int node : group.nodes) {
    group.counts.push_back(region_.choice_count(node));
    entries *= region_.choices[node].size();
  }
  group.message.resize(entries);
  group.shift.assign(region_.choices[bucket.node].size(), 0);
  for (const int t : tables) {
    const Table& table = bucket.tables[t];
    Term term{table.costs, table.strides[0], std::vector<size_t>(group.nodes.size(), 0)};
    size_t at = 0;
    for (size_t d = 1; d < table.nodes.size(); ++d) {
      while (group.nodes[at] != table.nodes[d]) ++at;
      term.strides[at] = table.strides[d];
    }
    group.terms.push_back(std::move(term));
  }
  group.terms.push_back({group.shift.data(), 1, std::vector<size_t>(group.nodes.size(), 0)});
  if (!group.nodes.empty())
    buckets_[position_[group.nodes[0]]].tables.push_back(table_of(group.message.data(), group.nodes));
}

template <class Visit>
void MiniBuckets::sweep(const Group& group, int choices, Visit visit) {
  const int outer = static_cast<int>(group.counts.size()) - 1;  // the last node of the message is the inner loop
  const size_t inner = outer < 0 ? 1 : group.counts[outer];
  row_.resize(inner);
  double* const row = row_.data();
  std::vector<int> at(std::max(outer, 0), 0);
  std::vector<const double*> costs;
  for (const Term& term : group.terms) costs.push_back(term.costs);
  for (size_t place = 0; place < group.message.size(); place += inner) {
    for (int x = 0; x < choices; ++x) {
      double constant = 0;
      std::fill(row, row + inner, 0.0);
      for (size_t t = 0; t < costs.size(); ++t) {
        const double* const from = costs[t] + x * group.terms[t].node_stride;
        if (outer < 0 || group.terms[t].strides[outer] == 0)
          constant += *from;
        else
          for (size_t y = 0; y < inner; ++y) row[y] += from[y];
      }
      for (size_t y = 0; y < inner; ++y) row[y] += constant;
      visit(x, row, inner, place);
    }
    for (int d = outer - 1; d >= 0; --d) {
      const bool is_next = ++at[d] < group.counts[d];
      const size_t back = is_next ? 0 : static_cast<size_t>(group.counts[d]);
      for (size_t t = 0; t < costs.size(); ++t) {
        costs[t] += group.terms[t].strides[d];
        costs[t] -= back * group.terms[t].strides[d];
      }
      if (is_next) break;
      at[d] = 0;
    }
  }
}

void MiniBuckets::shift_costs(Bucket& bucket) {
  const int count = region_.choice_count(bucket.node);
  std::vector<std::vector<double>> least;  // by group and choice
  for (Group& group : bucket.groups) {
    std::fill(group.shift.begin(), group.shift.end(), 0.0);
    std::vector<double>& mine = least.emplace_back(count, std::numeric_limits<double>::infinity());
    sweep(group, count, [&](int x, const double* row, size_t inner, size_t) {
      mine[x] = std::min(mine[x], *std::min_element(row, row + inner));
    });
  }
  for (int x = 0; x < count; ++x) {
    double sum = 0, most = 0;
    for (const std::vector<double>& of_group : least) sum += of_group[x], most = std::max(most, of_group[x]);
    if (most >= SearchGraph::kForbidden / 2) continue;  // it is no choice; and large numbers would lose digits
    for (size_t g = 0; g < least.size(); ++g)
      bucket.groups[g].shift[x] = sum / static_cast<double>(least.size()) - least[g][x];
  }
}

double MiniBuckets::bound(const std::vector<std::vector<double>>& costs, SearchBudget& budget) {
  for (size_t i = 0; i < costs.size(); ++i) std::copy(costs[i].begin(), costs[i].end(), costs_[i].begin());
  double sum = 0;
  for (Bucket& bucket : buckets_) {
    if (budget.is_over()) return -std::numeric_limits<double>::infinity();
    if (bucket.groups.size() > 1) shift_costs(bucket);
    for (Group& group : bucket.groups) {
      budget.spend(work_of(bucket, group));
      double* const message = group.message.data();
      sweep(group, region_.choice_count(bucket.node), [&](int x, const double* row, size_t inner, size_t place) {
        double* const to = message + place;
        if (x == 0)
          std::copy(row, row + inner, to);
        else
          for (size_t y = 0; y < inner; ++y) to[y] = row[y] < to[y] ? row[y] : to[y];
      });
      if (group.nodes.empty()) sum += group.message[0];
    }
  }
  return sum;
}

double MiniBuckets::work_of(const Bucket& bucket, const Group& group) const {
  const double passes = bucket.groups.size() > 1 ? 2 : 1;
  return passes * static_cast<double>(group.message.size() * group.terms.size()) * region_.choice_count(bucket.node);
}

uint16_t MiniBuckets::cheapest(int bucket) const {
  const std::vector<double>& costs = costs_[buckets_[bucket].node];
  return static_cast<uint16_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

void MiniBuckets::add_changes(int at, const std::vector<uint16_t>& picks, std::vector<double>& values) const {
  const Bucket& bucket = buckets_[at];
  double before = 0;
  for (const Group& group : bucket.groups) {
    size_t place = 0;
    for (size_t d = 0; d < group.nodes.size(); ++d) place = place * group.counts[d] + picks[group.nodes[d]];
    before += group.message[place];
  }
  for (double& value : values) value -= before;
  for (const Table& table : bucket.tables) {
    const double* from = table.costs;
    for (size_t d = 1; d < table.nodes.size(); ++d) from += table.strides[d] * picks[table.nodes[d]];
    for (size_t x = 0; x < values.size(); ++x) values[x] += from[x * table.strides[0]];
  }
}

}  // namespace weftc
