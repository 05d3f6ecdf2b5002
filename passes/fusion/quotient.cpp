// Merges groups and keeps an order of them up to date (D. Pearce and P. Kelly, "A dynamic topological sort algorithm
// for directed acyclic graphs", 2006). A merge walks only the groups between the two in that order.
//
//   order  a x b, edges a -> x, x -> b:  merging a and b is refused;   without x -> b: order becomes {a b} x
#include "passes/fusion/quotient.h"

#include <algorithm>

namespace weftc {

Quotient::Quotient(int count)
    : parent_(count), place_(count), successors_(count), predecessors_(count), seen_(count, 0) {
  for (int i = 0; i < count; ++i) parent_[i] = place_[i] = i;
}

int Quotient::group(int node) const {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

void Quotient::add_edge(int from, int to) {
  if (from == to) return;
  successors_[from].push_back(to);
  predecessors_[to].push_back(from);
}

/// Neighbours as groups, each once.
void Quotient::compact(std::vector<int>& neighbours, int self) {
  for (int& n : neighbours) n = group(n);
  std::sort(neighbours.begin(), neighbours.end());
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  std::erase(neighbours, self);
}

/// Collects the successors of `from` that precede `to` in the order; true if one of them leads to `to`.
bool Quotient::reaches(int from, int to, std::vector<int>& forward) {
  ++round_;
  std::vector<int> left;
  compact(successors_[from], from);
  for (int n : successors_[from])
    if (n != to && place_[n] < place_[to]) left.push_back(n), seen_[n] = round_;
  while (!left.empty()) {
    const int at = left.back();
    left.pop_back();
    forward.push_back(at);
    compact(successors_[at], at);
    for (int n : successors_[at]) {
      if (n == to) return true;
      if (seen_[n] == round_ || place_[n] > place_[to]) continue;
      seen_[n] = round_;
      left.push_back(n);
    }
  }
  return false;
}

/// Groups from which `to` can be reached, as far as they come after position `lowest` in the order.
void Quotient::reaching(int to, int lowest, std::vector<int>& backward) {
  ++round_;
  std::vector<int> left{to};
  seen_[to] = round_;
  while (!left.empty()) {
    const int at = left.back();
    left.pop_back();
    compact(predecessors_[at], at);
    for (int n : predecessors_[at]) {
      if (seen_[n] == round_ || place_[n] <= lowest) continue;
      seen_[n] = round_;
      backward.push_back(n);
      left.push_back(n);
    }
  }
}

bool Quotient::merge(int a, int b) {
  a = group(a), b = group(b);
  if (a == b) return true;
  if (place_[a] > place_[b]) std::swap(a, b);
  std::vector<int> forward, backward;
  if (reaches(a, b, forward)) return false;
  reaching(b, place_[a], backward);
  const auto by_place = [&](int x, int y) { return place_[x] < place_[y]; };
  std::sort(forward.begin(), forward.end(), by_place);
  std::sort(backward.begin(), backward.end(), by_place);
  // The predecessors of b, then the joined group, then the successors of a, at the positions that they had.
  std::vector<int> order = backward, places;
  order.push_back(b);
  order.insert(order.end(), forward.begin(), forward.end());
  places.push_back(place_[a]);
  for (int n : order) places.push_back(place_[n]);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = places[i];
  parent_[a] = b;
  for (auto* lists : {&successors_, &predecessors_}) {
    auto &from = (*lists)[a], &to = (*lists)[b];
    if (from.size() > to.size()) std::swap(from, to);
    to.insert(to.end(), from.begin(), from.end());
    from = {};
  }
  return true;
}

}  // namespace weftc
