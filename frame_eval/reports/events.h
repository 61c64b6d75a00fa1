// What happened at each compile, for logs, explain() and reports. A listener in Python gets one dict an
// event.
#pragma once

#include <string>

#include "frame_eval/guards/guard_tree.h"
#include "lowering/compile.h"

namespace cdynamo::symbolic {
class LibraryCalls;
}

namespace cdynamo::frame_eval {

// What the native backend tells of one compile. It is that compile's own: describing a graph calls Python, and other
// threads compile meanwhile.
struct NativeReport {
  lowering::CompileReport lowering;
  PyRef stages;  // a list of (name, description) of the graphs on the way; null where nobody listens

  // "joint", "forward", "backward"; nothing where nobody listens. Throws PythonError.
  void note_stage(const char* name, const graph::Graph& core, const symbolic::LibraryCalls* library);
};

struct CompileEvent {
  PyCodeObject* code = nullptr;
  std::string name;      // "Net (model.py:12)": what the user knows it by
  bool is_root = false;  // it is what was optimized
  symbolic::CaptureResult* capture = nullptr;
  const NativeReport* report = nullptr;  // null: no graph, or not the native backend's
  const GuardTree* guards = nullptr;
  double seconds = 0;
};

// "model.py:12"
std::string place(PyCodeObject* code);
// "forward (model.py:12)"
std::string where(PyCodeObject* code);
// The report of one graph break, as the user reads it.
std::string break_report(const symbolic::BreakRecord& record);

// dis's listing of a code object, for the log topic "bytecode".
std::string disassembly(PyObject* code);

void report_compile(const CompileEvent& event);
bool stages_are_noted();
// Null: nobody listens.
void set_compile_listener(PyRef listener);

}  // namespace cdynamo::frame_eval
