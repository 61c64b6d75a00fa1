// What of a function a Watch compares: the same in all versions.
#pragma once

#include <Python.h>

#include "frame_eval/hook/frame.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

// Holds what it compares, so that no address is used anew meanwhile.
struct FunctionStamp {
  explicit FunctionStamp(PyObject* function)
      : function(symbolic::PyRef::borrow(function)),
        code(symbolic::PyRef::borrow(PyFunction_GET_CODE(function))),
        defaults(symbolic::PyRef::borrow(PyFunction_GET_DEFAULTS(function))),
        keyword_defaults(symbolic::PyRef::borrow(PyFunction_GET_KW_DEFAULTS(function))),
        keyword_version(keyword_defaults ? cdynamo_dict_version(keyword_defaults.get()) : 0) {}

  bool unchanged() const {
    PyObject* f = function.get();
    return PyFunction_GET_CODE(f) == code.get() && PyFunction_GET_DEFAULTS(f) == defaults.get() &&
           PyFunction_GET_KW_DEFAULTS(f) == keyword_defaults.get() &&
           (!keyword_defaults || cdynamo_dict_version(keyword_defaults.get()) == keyword_version);
  }

  symbolic::PyRef function, code, defaults, keyword_defaults;
  uint64_t keyword_version;
};

}  // namespace cdynamo::frame_eval
