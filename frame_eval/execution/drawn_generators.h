// The generators of PyTorch's that a graph draws from: what Python is to draw again, where it makes the call after all, is drawn by
// generators in the state that they were in.
#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/types.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

using symbolic::PyRef;

class DrawnGenerators {
 public:
  DrawnGenerators() = default;
  explicit DrawnGenerators(const graph::Graph& graph);  // captured or core
  bool empty() const { return devices_.empty() && inputs_.empty(); }

  // Their states; put_back() may be called several times.
  class Saved {
   public:
    void put_back() const;

   private:
    friend DrawnGenerators;
    std::vector<std::pair<PyRef, PyRef>> states_;  // of each generator
  };
  Saved save(const std::vector<PyObject*>& inputs) const;  // the graph's

 private:
  std::vector<runtime::Device> devices_;  // whose own generators draw
  std::vector<int> inputs_;               // of the graph
};

}  // namespace cdynamo::frame_eval
