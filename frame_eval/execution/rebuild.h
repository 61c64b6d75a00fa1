// Rebuild: makes Python objects from recipes after the graph has run, then replays side effects in order.
//
//   Rebuild rebuild(results, effects);                       // once an entry
//   std::vector<PyRef> objects;
//   rebuild.run(roots, bindings, outputs, objects);          // once a call: objects[i] is what results[i]
//   describes
#pragma once

#include <unordered_map>
#include <vector>

#include "frame_eval/execution/compiled_graph.h"

namespace cdynamo::frame_eval {

// The guards hold and a source that a recipe loads from leads nowhere: what the capture looked at is not all guarded.
// Nothing has run yet.
struct MissingSource {
  std::string name;
};

class Rebuild {
 public:
  Rebuild(std::vector<symbolic::RecipePtr> results, std::vector<symbolic::Effect> effects,
          std::shared_ptr<graph::SymContext> sym);

  // Before the graph runs, which may let other threads and Python code in: what comes from the call's sources, and constants, one for
  // each step. Throws MissingSource.
  void read_sources(const symbolic::Roots& roots, std::vector<PyRef>& made) const;
  // After it. False with a Python error set. A null result is an empty stack slot.
  bool run(std::vector<PyRef> made, const Bindings& bindings, const std::vector<PyRef>& outputs,
           std::vector<PyRef>& results) const;

  // The form that each output of the graph is asked for in.
  std::vector<OutputForm> output_forms(size_t num_outputs) const;
  // The one output that is the whole result, or -1: then `run` need not be called.
  int single_output() const { return single_output_; }

 private:
  struct Step {
    const symbolic::Recipe* recipe;
    std::vector<int> items;  // steps that make the recipe's items
    int fills = -1;          // >= 0: the container made by that step gets its items now
  };
  int add(const symbolic::RecipePtr& recipe);
  PyRef make(const Step& step, const Bindings& bindings, const std::vector<PyRef>& outputs,
             const std::vector<PyRef>& made) const;
  bool fill(const Step& step, PyObject* container, const std::vector<PyRef>& made) const;
  bool apply(const symbolic::Effect& effect, PyObject* target, PyObject* key, PyObject* value) const;

  struct EffectSteps {
    int target, key, value;
  };
  std::vector<symbolic::RecipePtr> results_;
  std::vector<symbolic::Effect> effects_;
  std::shared_ptr<graph::SymContext> sym_;
  std::vector<Step> steps_;  // items come before what holds them, but for containers that hold themselves
  std::unordered_map<const symbolic::Recipe*, int> step_of_;  // while steps_ are made
  std::vector<int> result_steps_;
  std::vector<EffectSteps> effect_steps_;
  int single_output_ = -1;
};

}  // namespace cdynamo::frame_eval
