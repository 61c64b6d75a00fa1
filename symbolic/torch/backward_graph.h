// What is computed from gradients, as a graph of its own: an argument of core.function (graph/core.h), which
// stands for the backward of a Function and for hooks of tensors.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace cdynamo::symbolic {

// A core.function that is a Function of the user, whose results have their history from it, and no hook.
bool is_function_of_user(const graph::Node& node);

// A value that stands for the gradient of `of`; of no graph's nodes or inputs.
graph::Value* new_grad_output(graph::Graph& graph, const graph::Value* of);

struct BackwardGraph {
  std::shared_ptr<const graph::Graph> graph;  // inputs: the grad_outputs, `saved`, then the results
  std::vector<graph::Value*> saved;           // what it reads of the outer graph
};

struct BackwardValues {
  const std::vector<graph::Value*>&grad_outputs, &results, &gradients;
};

// Takes the nodes from the `begin`-th on out of `outer`. Breaks the graph where they call a library.
BackwardGraph take_backward(graph::Graph& outer, size_t begin, const BackwardValues& values, int user_call);
// The same of the nodes [begin, end).
BackwardGraph take_nodes(graph::Graph& outer, size_t begin, size_t end, const BackwardValues& values,
                         int user_call);

}  // namespace cdynamo::symbolic
