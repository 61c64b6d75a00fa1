#include "frame_eval/reports/events.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "frame_eval/reports/graph_description.h"
#include "graph/passes.h"
#include "symbolic/interop/logs.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::log_enabled;
using symbolic::Topic;

PyObject* listener = nullptr;  // owned; Python objects may not be destroyed after the interpreter

const char* utf8(PyObject* text) {
  const char* result = text ? PyUnicode_AsUTF8(text) : nullptr;
  if (!result) PyErr_Clear();
  return result ? result : "?";
}

bool put(PyObject* dict, const char* key, PyRef value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

PyRef text(const std::string& value) {
  return PyRef::steal(PyUnicode_DecodeUTF8(value.data(), value.size(), "replace"));
}

PyRef break_dict(const symbolic::BreakRecord& record) {
  PyRef dict = PyRef::steal(PyDict_New());
  put(dict.get(), "id", text(record.id));
  put(dict.get(), "what", text(record.what));
  put(dict.get(), "why", text(record.why));
  put(dict.get(), "instead", text(record.instead));
  put(dict.get(), "report", text(break_report(record)));
  PyRef stack = PyRef::steal(PyList_New(0));
  for (const symbolic::UserFrame& frame : record.stack) {
    PyRef item = PyRef::steal(
        Py_BuildValue("(siss)", frame.file.c_str(), frame.line, frame.function.c_str(), frame.text.c_str()));
    if (item) PyList_Append(stack.get(), item.get());
  }
  put(dict.get(), "stack", stack);
  return dict;
}

PyRef event_dict(const CompileEvent& event) {
  static const char* ends[] = {"return", "break", "skip"};
  PyRef dict = PyRef::steal(PyDict_New());
  const symbolic::CaptureResult& capture = *event.capture;
  put(dict.get(), "where", text(event.name));
  put(dict.get(), "code", PyRef::borrow(reinterpret_cast<PyObject*>(event.code)));
  put(dict.get(), "end", text(ends[static_cast<int>(capture.end)]));
  put(dict.get(), "skip_reason", text(capture.skip_reason));
  put(dict.get(), "seconds", PyRef::steal(PyFloat_FromDouble(event.seconds)));
  put(dict.get(), "nodes", PyRef::steal(PyLong_FromSize_t(capture.graph ? capture.graph->nodes.size() : 0)));
  put(dict.get(), "graph", text(capture.graph ? graph::print_readable(*capture.graph) : ""));
  put(dict.get(), "dot", text(capture.graph ? graph::to_dot(*capture.graph) : ""));
  put(dict.get(), "guards", text(event.guards ? event.guards->str() : ""));
  PyRef breaks = PyRef::steal(PyList_New(0));
  for (const symbolic::BreakRecord& record : capture.breaks)
    PyList_Append(breaks.get(), break_dict(record).get());
  put(dict.get(), "breaks", breaks);
  put(dict.get(), "kernels",
      PyRef::steal(PyLong_FromLong(event.report ? event.report->lowering.kernels : 0)));
  put(dict.get(), "library_calls",
      PyRef::steal(PyLong_FromLong(event.report ? event.report->lowering.library_calls : 0)));
  put(dict.get(), "stages",
      event.report && event.report->stages ? event.report->stages : PyRef::steal(PyList_New(0)));
  put(dict.get(), "fusion", text(event.report ? event.report->lowering.fusion : ""));
  return dict;
}

}  // namespace

std::string place(PyCodeObject* code) {
  const std::string file = std::filesystem::path(utf8(code->co_filename)).filename();
  return absl::StrCat(file, ":", code->co_firstlineno);
}

std::string where(PyCodeObject* code) { return absl::StrCat(utf8(code->co_name), " (", place(code), ")"); }

std::string break_report(const symbolic::BreakRecord& record) {
  std::string report = "graph break " + record.id + ": " + record.what + "\n";
  // Lines of a recursion are said three times, as in Python's tracebacks.
  constexpr int kSaid = 3;
  for (auto frame = record.stack.begin(); frame != record.stack.end();) {
    const auto other =
        std::find_if(frame, record.stack.end(), [&](const auto& next) { return next != *frame; });
    const int turns = static_cast<int>(other - frame), said = std::min(turns, kSaid);
    for (int turn = 0; turn < said; ++turn) {
      report += absl::StrCat("  at ", frame->file, ":", frame->line, " in ", frame->function, "\n");
      if (!frame->text.empty()) report += "       " + frame->text + "\n";
    }
    if (turns > said) report += absl::StrCat("  [the same ", turns - said, " times more]\n");
    frame = other;
  }
  if (!record.why.empty()) report += "  why: " + record.why + "\n";
  if (!record.instead.empty()) report += "  instead: " + record.instead + "\n";
  return report;
}

std::string disassembly(PyObject* code) {
  PyRef dis = PyRef::steal(PyImport_ImportModule("dis"));
  PyRef bytecode = dis ? PyRef::steal(PyObject_CallMethod(dis.get(), "Bytecode", "O", code)) : PyRef();
  PyRef listing = bytecode ? PyRef::steal(PyObject_CallMethod(bytecode.get(), "dis", nullptr)) : PyRef();
  if (!listing) PyErr_Clear();
  return listing ? utf8(listing.get()) : "";
}

void report_compile(const CompileEvent& event) {
  const symbolic::CaptureResult& capture = *event.capture;
  // A helper that is left to Python is nothing that a user has asked about.
  const bool is_told = event.is_root || capture.end != symbolic::End::kSkipFrame || !capture.breaks.empty();
  if (log_enabled(Topic::kBytecode)) {
    static const char* ends[] = {"all of it is captured", "captured up to a graph break", "runs in Python"};
    log(Topic::kBytecode, event.name + ": " + ends[static_cast<int>(capture.end)] + "\n" +
                              disassembly(reinterpret_cast<PyObject*>(event.code)));
  }
  if (log_enabled(Topic::kGraph) && capture.graph)
    log(Topic::kGraph, event.name + "\n" + graph::print_readable(*capture.graph));
  if (log_enabled(Topic::kGuards) && event.guards)
    log(Topic::kGuards, event.name + "\n" + event.guards->str());
  if (log_enabled(Topic::kGraphBreaks)) {
    for (const symbolic::BreakRecord& record : capture.breaks) log(Topic::kGraphBreaks, break_report(record));
    if (capture.end == symbolic::End::kSkipFrame && capture.breaks.empty() && is_told)
      log(Topic::kGraphBreaks, event.name + " runs in Python: " + capture.skip_reason);
  }
  if (log_enabled(Topic::kPerf))
    log(Topic::kPerf, event.name + ": compiled in " + std::to_string(event.seconds * 1e3) + " ms");
  if (!listener || !is_told) return;
  PyRef dict = event_dict(event);
  PyRef held = PyRef::borrow(listener);
  PyRef done = dict ? PyRef::steal(PyObject_CallOneArg(held.get(), dict.get())) : PyRef();
  if (!done) PyErr_WriteUnraisable(held.get());
}

bool stages_are_noted() { return listener != nullptr; }

void NativeReport::note_stage(const char* name, const graph::Graph& core,
                              const symbolic::LibraryCalls* library) {
  if (!listener) return;
  if (!stages) stages = symbolic::checked(PyList_New(0));
  PyRef description = describe_core(core, library);
  append(stages, symbolic::checked(Py_BuildValue("(sO)", name, description.get())));
}

void set_compile_listener(PyRef new_listener) {
  PyRef old = PyRef::steal(listener);
  listener = new_listener.release();
}

}  // namespace cdynamo::frame_eval
