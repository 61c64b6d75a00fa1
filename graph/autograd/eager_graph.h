// What PyTorch's own autograd graph of a function would be like: which of its parts hang together, what they save,
// what they have seen. The autograd node of a compiled function behaves as that graph would.
#pragma once

#include <vector>

#include "graph/autograd/training.h"

namespace cdynamo::graph {

// By value id of the function: does a gradient flow through it to an input?
std::vector<bool> differentiated_values(const Training& training);

// By output: a number that outputs share whose gradients meet on their way in something that saves a tensor; -1 for those
// that have none, and whose gradients meet no such thing. In eager each such group can be freed by a backward of its own;
// where nothing is saved any number of backwards may run.
std::vector<int> output_groups(const Training& training);

// Would eager's operators save no tensor either? Their backward may run any number of times.
bool saves_nothing(const Training& training);

// Inputs that the function writes to and that a differentiable output depends on: what higher derivatives read
// is what was there before.
std::vector<int> overwritten_inputs(const Training& training);

}  // namespace cdynamo::graph
