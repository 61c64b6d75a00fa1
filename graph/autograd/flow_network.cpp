#include "graph/autograd/flow_network.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace cdynamo::graph {

void FlowNetwork::connect(int from, int to, double capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

std::vector<bool> FlowNetwork::cut(int source, int sink) {
  while (find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (const double flow = push(source, sink, kInfinity))
      if (flow == kInfinity) return {};
  }
  std::vector<bool> side(edges_of_.size());
  for (size_t i = 0; i < side.size(); ++i) side[i] = level_[i] >= 0;
  return side;
}

// Sums of doubles leave crumbs behind.
bool FlowNetwork::has_room(const Edge& edge) { return edge.room > 1e-6; }

bool FlowNetwork::find_levels(int source, int sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::queue<int> queue({source});
  while (!queue.empty()) {
    const int at = queue.front();
    queue.pop();
    for (int e : edges_of_[at]) {
      if (!has_room(edges_[e]) || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[at] + 1;
      queue.push(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

// One augmenting path, walked with a stack of its own: graphs are deeper than call stacks.
double FlowNetwork::push(int source, int sink, double limit) {
  std::vector<int> path;  // edges
  int at = source;
  while (at != sink) {
    size_t& next = next_[at];
    while (next < edges_of_[at].size()) {
      const Edge& edge = edges_[edges_of_[at][next]];
      if (has_room(edge) && level_[edge.to] == level_[at] + 1) break;
      ++next;
    }
    if (next < edges_of_[at].size()) {
      path.push_back(edges_of_[at][next]);
      at = edges_[path.back()].to;
    } else if (path.empty()) {
      return 0;
    } else {
      at = edges_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[at];
    }
  }
  for (int e : path) limit = std::min(limit, edges_[e].room);
  if (limit == kInfinity) return limit;
  for (int e : path) {
    edges_[e].room -= limit;
    edges_[e ^ 1].room += limit;
  }
  return limit;
}

}  // namespace cdynamo::graph
