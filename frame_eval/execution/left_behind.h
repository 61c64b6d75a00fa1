// What a graph that Python's calls run leaves behind where one of them fails: the program runs from the beginning then, and finds what
// the graph has written to as it was before.
#pragma once

#include <optional>
#include <vector>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/execution/drawn_generators.h"
#include "graph/graph.h"

namespace cdynamo::frame_eval {

struct LeftBehind {
  struct WrittenInput {
    int input;
    bool changes_history;  // a write is one that autograd records
  };
  std::vector<WrittenInput> written;
  std::vector<int> differentiated;  // inputs whose .grad a backward may add to
  bool may_fail = false;            // by what is not known before it runs

  // Nullopt: that cannot be put back, or copies would be made for errors that nobody expects.
  static std::optional<LeftBehind> of(const graph::Graph& captured);
};

// Inputs, their gradients and generators as they are before a graph runs.
class KeptInputs {
 public:
  // Throws PythonError.
  KeptInputs(const Bindings& bindings, const LeftBehind& left, const DrawnGenerators& generators);
  bool complete() const { return complete_; }  // what has a history is not put back
  void put_back() const;                       // throws PythonError

 private:
  bool keep_content(PyObject* input, bool changes_history);
  bool keep_gradient(PyObject* input, bool may_fail);

  std::vector<std::pair<PyRef, PyRef>> kept_;       // memory, and a copy of it
  std::vector<std::pair<PyRef, PyRef>> gradients_;  // a tensor, and what its .grad was
  DrawnGenerators::Saved states_;
  bool complete_ = true;
};

}  // namespace cdynamo::frame_eval
