// A differentiable function cut in two: the forward graph gives the results and what the backward reads; a
// backward graph, one for each set of cotangents that come in and gradients that are asked for, gives the
// gradients. The function itself is kept: backwards of other sets, and the functions that higher derivatives
// differentiate, are made from it.
//
//   Training training = make_training(prepare(captured, {}, /*for_training=*/true).core, wanted, differentiable);
//   Backward backward = make_backward(training, cotangents, gradients);
#pragma once

#include <memory>
#include <vector>

#include "graph/autograd/partition.h"
#include "graph/passes.h"

namespace cdynamo::graph {

// A value that the backward reads: where it is after the forward has run.
struct SavedValue {
  enum Kind : uint8_t { kInput, kOutput, kExtra } kind = kInput;
  int index =
      -1;  // of the function's inputs; of the forward's outputs (kExtra ones come after the function's)
  Value* value = nullptr;     // of `function`
  bool is_uncounted = false;  // writes to the input or output are not refused (PartitionOptions)
};

struct Training {
  std::unique_ptr<Graph> function;          // a core graph, core.detach included
  std::vector<bool> input_wanted;           // by input: a gradient may be asked for
  std::vector<bool> output_differentiable;  // by output
  std::vector<bool> input_has_history;      // by input, or empty: Value::has_history
  std::unique_ptr<Graph> forward;
  std::vector<SavedValue> saved;
  // A Function of the user whose backward is not linear: eager applies it to the sum of what several gradients
  // ask for, which higher derivatives in parts would not.
  bool once_differentiable = false;
};

// Where the gradient of an input is found after a backward.
struct Gradient {
  enum Kind : uint8_t { kNone, kFresh, kCotangent } kind = kNone;
  int index = -1;  // kFresh: of the backward's outputs; kCotangent: of the function's outputs
  // A view of that, as eager's gradient is one of its own; strides and offset count elements.
  bool is_view = false;
  std::vector<Sym> sizes, strides;
  Sym offset;
};

struct Backward {
  std::unique_ptr<Graph> graph;     // inputs: the saved values, then the cotangents that come in, in order
  std::vector<Gradient> gradients;  // one for each input of the function
};

// `input_wanted`, `output_differentiable`: one for each input and output of the core graph `function`.
// Throws Unsupported where an operator on the way has no derivative.
Training make_training(std::unique_ptr<Graph> function, std::vector<bool> input_wanted,
                       std::vector<bool> output_differentiable, const PartitionOptions& options = {});

// Forward and backward in one, before the cut: the function's outputs, then the gradients that are not null.
// For readers.
std::unique_ptr<Graph> make_joint_graph(const Training& training);

// `cotangents`: by output of the function, which come in; `gradients`: by input, which are asked for.
Backward make_backward(const Training& training, const std::vector<bool>& cotangents,
                       const std::vector<bool>& gradients);

// The gradients as a function of the function's inputs and those cotangents, to be differentiated again: its
// outputs are the gradients that are not null, whose inputs are listed in `outputs`.
struct GradientFunction {
  // Inputs: the function's, the cotangents that come in, and saved values that hold draws of random numbers.
  std::unique_ptr<Graph> graph;
  std::vector<int> draws;    // those, as indices of Training::saved
  std::vector<int> outputs;  // by output: the input of the function whose gradient it is
  std::vector<bool> reads;   // by input of the graph
};
GradientFunction make_gradient_function(const Training& training, const std::vector<bool>& cotangents,
                                        const std::vector<bool>& gradients);

}  // namespace cdynamo::graph
