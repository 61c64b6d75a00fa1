#include "symbolic/entry/root_frame.h"

#include <string_view>

#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

SourcePtr root_source(SourceKind kind, int index, std::string label) {
  auto source = std::make_shared<Source>();
  source->kind = kind;
  source->index = index;
  source->label = std::move(label);
  return source;
}

// Fills the root frame's argument slots with sources, which are wrapped when an instruction looks at them.
class RootBinder {
 public:
  RootBinder(Executor& ex, SymbolicFrame& frame, const CaptureRequest& request)
      : ex_(ex), frame_(frame), request_(request), code_(request.code), parameters_(request.code) {}

  // False: the arguments do not fit, and Python says so.
  bool bind() {
    if (request_.bound) {
      for (int i = 0; i < parameters_.total(); ++i)
        if (request_.roots.arguments[i]) set(i, argument(i, i));
      return true;
    }
    return bind_positional() && bind_keywords() && bind_defaults();
  }

 private:
  SourcePtr argument(int index, int slot) {
    // What a resume function hands on is known by the name that it has there (frame_eval/resume/entered_code.h).
    std::string_view name = slot >= 0 ? frame_.slot_name(slot) : "";
    while (name.starts_with(".inner.")) name.remove_prefix(std::string_view(".inner.").size());
    return root_source(SourceKind::kArgument, index, std::string(name));
  }
  void set(int slot, SourcePtr source) { frame_.pending[slot] = std::move(source); }
  ValuePtr wrapped(const SourcePtr& source) {
    return ex_.wrap(follow(*source, request_.roots).get(), source);
  }
  int named() const { return parameters_.positional + parameters_.keyword_only; }

  bool bind_positional() {
    int given = static_cast<int>(request_.num_positional), fit = std::min(given, parameters_.positional);
    for (int i = 0; i < fit; ++i) set(i, argument(i, i));
    if (!parameters_.var_positional) return given == fit;
    std::vector<ValuePtr> rest;
    for (int i = fit; i < given; ++i) {
      SourcePtr source =
          root_source(SourceKind::kArgument, i,
                      std::string(frame_.slot_name(named())) + "[" + std::to_string(i - fit) + "]");
      rest.push_back(wrapped(source));
    }
    frame_.locals[named()] = make_tuple(ex_, std::move(rest));
    return true;
  }

  bool bind_keywords() {
    std::vector<std::pair<ValuePtr, ValuePtr>> rest;
    Py_ssize_t count = request_.kwnames ? PyTuple_GET_SIZE(request_.kwnames) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* name = PyTuple_GET_ITEM(request_.kwnames, i);
      int index = static_cast<int>(request_.num_positional + i), slot = -1;
      for (int p = code_->co_posonlyargcount; p < named() && slot < 0; ++p)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(code_->co_localsplusnames, p), name) == 0) slot = p;
      if (slot >= 0) {
        if (frame_.is_bound(slot)) return false;
        set(slot, argument(index, slot));
      } else if (parameters_.var_keyword) {
        rest.emplace_back(ex_.constant(PyRef::borrow(name)),
                          wrapped(root_source(SourceKind::kArgument, index, PyUnicode_AsUTF8(name))));
      } else {
        return false;
      }
    }
    if (parameters_.var_keyword) frame_.locals[parameters_.total() - 1] = make_dict(ex_, rest);
    return true;
  }

  bool bind_defaults() {
    PyObject* function = request_.roots.function;
    bool real = function && PyFunction_Check(function);
    PyObject* defaults = real ? PyFunction_GET_DEFAULTS(function) : nullptr;
    PyObject* keyword_defaults = real ? PyFunction_GET_KW_DEFAULTS(function) : nullptr;
    Py_ssize_t num_defaults = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    SourcePtr root = root_source(SourceKind::kFunction, -1, "");
    for (int slot = 0; slot < named(); ++slot) {
      if (frame_.is_bound(slot)) continue;
      Py_ssize_t at = slot - (parameters_.positional - num_defaults);
      PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, slot);
      if (slot < parameters_.positional && at >= 0)
        set(slot, index_source(attribute_source(root, interned("__defaults__")), at));
      else if (slot >= parameters_.positional && keyword_defaults &&
               PyDict_GetItemWithError(keyword_defaults, name))
        set(slot, key_source(attribute_source(root, interned("__kwdefaults__")), name));
      else
        return false;
    }
    return true;
  }

  Executor& ex_;
  SymbolicFrame& frame_;
  const CaptureRequest& request_;
  PyCodeObject* code_;
  Parameters parameters_;
};

void bind_closure(Executor& ex, SymbolicFrame& frame, const Roots& roots) {
  if (!roots.closure) return;
  PyCodeObject* code = frame.code->object();
  int first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(roots.closure); ++i)
    frame.closure.push_back(ex.wrap(PyTuple_GET_ITEM(roots.closure, i),
                                    root_source(SourceKind::kClosureCell, static_cast<int>(i),
                                                frame.slot_name(first + static_cast<int>(i)))));
}

}  // namespace

bool bind_root_frame(Executor& ex, SymbolicFrame& frame, const CaptureRequest& request) {
  bind_closure(ex, frame, request.roots);
  return RootBinder(ex, frame, request).bind();
}

}  // namespace cdynamo::symbolic
