// A network whose edges have capacities, and its minimum cut, by Dinic's method.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace cdynamo::graph {

constexpr double kInfinity = std::numeric_limits<double>::infinity();  // of what is never cut

class FlowNetwork {
 public:
  explicit FlowNetwork(int nodes) : edges_of_(nodes) {}

  void connect(int from, int to, double capacity);
  // The nodes on the source's side of a minimum cut; empty where no cut is finite.
  std::vector<bool> cut(int source, int sink);

 private:
  struct Edge {
    int to;
    double room;
  };
  static bool has_room(const Edge& edge);
  bool find_levels(int source, int sink);
  double push(int source, int sink, double limit);

  std::vector<Edge> edges_;  // e ^ 1 is the reverse of e
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace cdynamo::graph
