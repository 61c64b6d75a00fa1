// TrainingFunction: a core graph compiled for training. Its forward runs at once, its backward when PyTorch's
// engine asks for gradients; a backward is compiled for each set of cotangents and wanted gradients. Where
// the engine builds a graph of the backward (create_graph=True) the gradients are a TrainingFunction in turn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "frame_eval/execution/autograd_node.h"
#include "graph/autograd/eager_graph.h"
#include "graph/autograd/training.h"
#include "lowering/compile.h"

namespace cdynamo::frame_eval {

// How a core graph becomes an executable; reports what was compiled.
using CompileFn = std::function<std::shared_ptr<runtime::Executable>(const char* name, const graph::Graph&)>;

class TrainingFunction : public std::enable_shared_from_this<TrainingFunction> {
 public:
  // Compiles the forward, and the backward of all gradients. `input_has_history`: as in graph::Training; `output_freed`: of what
  // is differentiable, see graph::freed_outputs. Throws graph::Unsupported.
  static std::shared_ptr<TrainingFunction> make(std::unique_ptr<graph::Graph> function,
                                                std::vector<bool> input_wanted,
                                                std::vector<bool> output_differentiable,
                                                std::vector<bool> input_has_history,
                                                const graph::PartitionOptions& options, CompileFn compile,
                                                const std::vector<bool>& output_freed = {});

  using Mask = std::vector<bool>;

  const graph::Training& plan() const { return plan_; }
  // Gives the function's outputs first, then what its backward reads.
  const std::shared_ptr<runtime::Executable>& forward() const { return forward_; }

  // Inputs that the forward writes to and that its results depend on: higher derivatives read what was there
  // before.
  const std::vector<int>& overwritten() const { return overwritten_; }

  // `fresh`: a tensor for each output of the forward, which has run. Those that are differentiable become
  // results of autograd nodes: one for each of the function's histories. `inputs`: for those that are overwritten, tensors that have the content of
  // before. False with a Python error set.
  bool attach(PyObject* const* inputs, const std::vector<int64_t>& symbols, std::vector<PyRef>& fresh);

  // What the backward has to know of the forward's call.
  struct ForwardCall {
    std::vector<int64_t> symbols;
    bool is_packed =
        false;  // hooks of saved tensors have it: PyTorch's own, which may give them back with other strides
    std::vector<int64_t> versions;  // of the inputs; -1: checked by PyTorch, with the saved tensors
    // Where there are several groups of outputs: which of them a backward has been to, and what was saved, for the
    // others (PyTorch frees what its node has saved after each backward), with the versions that it had then.
    Mask freed;
    PyRef rest;
    std::vector<int64_t> rest_versions;
    // Where there are several outputs: the versions of what was saved, for backwards that read only some of it.
    std::vector<int64_t> saved_versions;
    Mask
        stale;  // of what was saved: written to since, as the last backward that read only some of it has found
  };
  // Called by the node of this history. `needed`: needed_gradients, empty with a Python error set.
  PyRef backward(int history, PyObject* node, const std::vector<bool>& needed, ForwardCall& forward,
                 PyObject* const* cotangents, Py_ssize_t count);

 private:
  // What one autograd node stands for.
  struct NodePart {
    graph::History history;
    std::vector<int> saved;  // of Training::saved
    Mask saves_input;        // by input of the function
    Mask elsewhere;          // by group of outputs: none of them is this node's
    bool is_one_group = false, saves_nothing = false;
    bool frees_nothing = false;  // eager's graph has nothing to free; what this one reads is kept
  };
  struct CompiledBackward {
    graph::Backward plan;
    std::shared_ptr<runtime::Executable> executable;
    Mask reads;               // by saved value
    bool may_repeat = false;  // it reads nothing, and eager saves nothing on this way
    size_t num_guards = 0;    // of the sizes' context: those it may rely on
  };
  struct GradientGraph {
    std::shared_ptr<TrainingFunction> function;
    std::vector<int> draws, outputs;  // as in graph::GradientFunction
    std::vector<bool> reads;
    size_t num_guards = 0;
  };
  struct Cotangents {
    Mask defined;                // by output of the function
    std::vector<PyRef> tensors;  // the defined ones, in the layout that the backward expects
    bool are_plain = true;       // strided CPU tensors, which compiled code reads
  };

  CompiledBackward& backward_of(const Mask& cotangents, const Mask& gradients);
  CompiledBackward& backward_for(const NodePart& part, const Mask& cotangents, const Mask& gradients,
                                 const std::vector<int64_t>& symbols);
  void make_parts();
  // `kept`: what its node keeps of the inputs.
  bool attach_part(int part, PyObject* const* inputs, const PyRef& kept, const std::vector<int64_t>& symbols,
                   std::vector<PyRef>& fresh);
  // The node of the results whose history is freed.
  bool attach_freed(PyObject* const* inputs, std::vector<PyRef>& fresh) const;
  bool read_cotangents(const NodePart& part, PyObject* const* cotangents, Py_ssize_t count,
                       const std::vector<int64_t>& symbols, Cotangents& result) const;
  Mask wanted_gradients(const NodePart& part, const std::vector<bool>& needed) const;
  PyRef run(const NodePart& part, CompiledBackward& compiled, PyRef saved, const Cotangents& cotangents,
            const std::vector<int64_t>& symbols) const;
  // The same by PyTorch's operators, one by one, where a cotangent is no plain tensor (torch.vmap, batched
  // gradients).
  PyRef run_in_python(const NodePart& part, PyObject* node, PyObject* saved, const Mask& gradients,
                      const Cotangents& cotangents, const ForwardCall& forward);
  // The same as a differentiable function of the inputs and the cotangents.
  PyRef run_differentiably(const NodePart& part, PyObject* node, PyObject* saved, const Mask& gradients,
                           const Cotangents& cotangents, const ForwardCall& forward);
  bool read_inputs_again(PyObject* node, PyObject* saved, const std::vector<int>& draws,
                         const std::vector<bool>& reads, const Cotangents& cotangents,
                         const ForwardCall& forward, std::vector<PyRef>& inputs) const;
  // `reads`: by saved value, or null where all of the node's are read. A tuple of the node's.
  PyRef read_saved(const NodePart& part, PyObject* node, ForwardCall& forward, const Mask* reads) const;
  // The node's saved tensors as hooks give them back, with the strides that they had.
  PyRef unpacked(const NodePart& part, PyRef saved, const std::vector<int64_t>& symbols) const;
  PyRef read_saved_in_part(const NodePart& part, PyObject* node, ForwardCall& forward,
                           const Mask& reads) const;
  // A tuple of all saved values, from those of the node; `filler` in place of others, or of all where `saved` is null:
  // they are not read.
  PyRef all_saved(const NodePart& part, PyObject* saved, PyObject* filler) const;
  bool release(const NodePart& part, PyObject* node, PyObject* saved, ForwardCall& forward,
               const Mask& cotangents) const;
  bool keep_rest(PyObject* saved, ForwardCall& forward) const;
  bool keep_all(const NodePart& part, PyObject* node, ForwardCall& forward) const;
  PyRef passed_by(const NodePart& part, PyObject* node, ForwardCall& forward) const;
  PyRef gradient_tuple(const NodePart& part, const std::vector<int>& inputs, PyObject* const* tensors) const;
  GradientGraph& gradient_graph(const Mask& cotangents, const Mask& gradients,
                                const std::vector<int64_t>& symbols);
  // Runs the forward on tensors of the expected layouts; results are attached.
  bool call(const std::vector<PyObject*>& inputs, const std::vector<int64_t>& symbols,
            std::vector<PyRef>& outputs);
  std::string failed_guard(size_t num_guards, const std::vector<int64_t>& symbols) const;
  void check_guards(size_t num_guards, const std::vector<int64_t>& symbols) const;

  graph::Training plan_;
  graph::PartitionOptions options_;
  CompileFn compile_;
  std::shared_ptr<runtime::Executable> forward_;
  std::vector<NodePart> parts_;
  graph::History freed_;  // what a backward within the function has freed: nothing is saved for it
  std::vector<int> overwritten_;
  std::vector<int> group_of_output_;
  size_t known_guards_ = 0;  // that a call of the forward has been checked by
  std::map<std::pair<Mask, Mask>, CompiledBackward> backwards_;
  std::map<std::pair<Mask, Mask>, GradientGraph> gradient_graphs_;
};

}  // namespace cdynamo::frame_eval
