// What PyTorch's own autograd graph of a function would be like: which of its parts hang together, what they save,
// what they have seen. The autograd node of a compiled function behaves as that graph would.
#pragma once

#include <vector>

#include "graph/autograd/training.h"

namespace cdynamo::graph {

// By value id of the function: does a gradient flow through it to an input?
std::vector<bool> differentiated_values(const Training& training);

// Outputs whose gradients meet on their way, and the inputs that they flow to. Each history is an autograd node of its own:
// the engine goes from a node to all that it has edges to, and calls and frees what stands there. Where they meet in nothing
// but inputs, they share a node if the same of the program's own histories are behind both: no backward goes where it
// should not, and both are computed in one.
struct History {
  std::vector<int> inputs, outputs;
};
// At least one, and no more than 16: what is beyond these shares the last. The first has the outputs whose gradients flow
// nowhere.
std::vector<History> histories(const Training& training);

// By output: a number that outputs share whose gradients meet on their way in something that saves a tensor; -1 for those
// that have none, and whose gradients meet no such thing. In eager each such group can be freed by a backward of its own;
// where nothing is saved any number of backwards may run.
std::vector<int> output_groups(const Training& training);

// Does anything that eager's graph has on the way from these outputs to these inputs save a tensor? Where nothing does, a
// backward goes there any number of times, whatever others have freed. Masks by output and by input.
bool saves_on_the_way(const Training& training, const std::vector<bool>& outputs,
                      const std::vector<bool>& inputs);

// By output, those that are differentiable: each of eager's ways from it to a wanted input comes through one of these calls
// (Node::user_call), whose saved tensors a backward has freed.
std::vector<bool> freed_outputs(const Graph& function, const std::vector<bool>& input_wanted,
                                const std::vector<bool>& output_differentiable,
                                const std::vector<int>& freed_calls);

// Inputs that the function writes to and that a differentiable output depends on: what higher derivatives read
// is what was there before.
std::vector<int> overwritten_inputs(const Training& training);

}  // namespace cdynamo::graph
