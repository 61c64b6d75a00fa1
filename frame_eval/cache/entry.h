// Entry: what one capture was compiled to, and for which calls it stands.
#pragma once

#include <memory>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/execution/rebuild.h"
#include "frame_eval/hook/owned_arguments.h"

namespace cdynamo::frame_eval {

class Continuation;
class Owner;
using OwnerPtr = std::shared_ptr<Owner>;

// Of two tuples of keywords; null is none.
bool same_names(PyObject* a, PyObject* b);

// How a call passes its arguments: entries fit calls of one such form.
struct ArgumentForm {
  Py_ssize_t num_positional = 0;
  PyRef kwnames;       // tuple or null
  bool bound = false;  // the arguments are a frame's slots

  bool is(Py_ssize_t positional, PyObject* names, bool are_bound) const {
    return num_positional == positional && bound == are_bound &&
           (kwnames.get() == names || same_names(kwnames.get(), names));
  }
  bool is(const ArgumentForm& other) const {
    return is(other.num_positional, other.kwnames.get(), other.bound);
  }
};

// One compiled way through a function: to its end, or to a graph break and on in Python. An entry that ends
// in kSkipFrame only says that such calls run in Python.
struct Entry {
  Entry(const symbolic::CaptureResult& capture, const symbolic::Roots& roots);
  ~Entry();

  // The function's result; a new reference, null with a Python error.
  // `owned` is dropped before Python goes on after a graph break; `owner` compiles what it meets there.
  PyRef run(Owner& owner, const symbolic::Roots& roots, Bindings& bindings, OwnedArguments owned);

  ArgumentForm form;
  symbolic::End end;
  GuardTree guards;
  Rebuild rebuild;
  std::unique_ptr<CompiledGraph> graph;        // null: nothing to compute
  std::unique_ptr<Continuation> continuation;  // kBreak
  size_t num_outputs = 0;
  // What the capture has had caches hold: kept once a call has come to its end, undone where Python runs the first one.
  std::shared_ptr<symbolic::CacheFills> cache_fills;
  double gain = 0, cost = 0;  // of a call (frame_yield.h)
  bool callees_too = false;   // kSkipFrame: kSkipFrameAndCallees
  // Inputs of the graph that are no arguments: what holds them may let go of them while the graph runs, in another
  // thread or in Python code that the graph calls.
  std::vector<int> inputs_to_hold;
};

}  // namespace cdynamo::frame_eval
