// CompiledGraph: a captured graph in the form that is called, whatever backend made it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frame_eval/guards/guard_tree.h"
#include "frame_eval/hook/config.h"
#include "frame_eval/reports/events.h"
#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

// What an output of the graph is to Python.
enum class OutputForm : uint8_t { kUnused, kTorchTensor, kNumpyArray, kNumpyScalar, kPythonScalar };

// Thrown by CompiledGraph::run: an operator failed before anything was written. Python runs the call again, and
// raises the error where the program may catch it.
struct RunInPython {
  std::string why = {};
  bool unexpected_number = false;  // one that the graph read from a tensor is none that was compiled for
};

// Thrown by compile_with_callable: the calls are as deep as they may be.
struct StackIsFull {};

class CompiledGraph {
 public:
  virtual ~CompiledGraph() = default;
  // Fills one new reference for each output of the captured graph, and the symbols that the graph reads from tensors. False with
  // a Python error set.
  virtual bool run(Bindings& bindings, std::vector<PyRef>& outputs) = 0;
  // A run has shown that the graph is not what the program computes: it is to be captured again.
  bool stale = false;
};

// prepare -> lower -> link, all in this process. Throws graph::Unsupported, graph::InternalError.
std::unique_ptr<CompiledGraph> compile_native(const symbolic::CaptureResult& capture,
                                              std::vector<OutputForm> forms, Mode mode, NativeReport& report);

// The graph is described to Python, which gives back a callable on the input objects. `globals`: the function's.
// Throws graph::Unsupported, graph::InternalError, PythonError (BackendCompilerFailed), StackIsFull.
std::unique_ptr<CompiledGraph> compile_with_callable(const symbolic::CaptureResult& capture,
                                                     const Config& config, const Bindings& example,
                                                     PyObject* globals, std::vector<OutputForm> forms);

}  // namespace cdynamo::frame_eval
