#include "frame_eval/hook/stance.h"

#include <Python.h>

#include <string_view>

#include "frame_eval/hook/config.h"
#include "frame_eval/hook/frame.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::PyRef;

PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }

// The namespace of torch._dynamo.eval_frame; null: it was not imported, so nobody has set a stance of torch's.
PyObject* torch_namespace() {
  static PyObject* found = nullptr;
  static Py_ssize_t num_modules = -1;  // when it was last looked for: importing it adds hundreds
  if (found) return found;
  static PyObject* const modules = Py_NewRef(PyImport_GetModuleDict());
  if (PyDict_GET_SIZE(modules) == num_modules) return nullptr;
  static PyObject* const key = name("torch._dynamo.eval_frame");
  PyObject* module = PyDict_GetItemWithError(modules, key);
  if (!module) PyErr_Clear();
  if (module && PyModule_Check(module)) found = Py_NewRef(PyModule_GetDict(module));
  num_modules = PyDict_GET_SIZE(modules);
  return found;
}

Stance read(PyObject* torch_stance) {
  static constexpr std::string_view kNames[] = {"default", "force_eager", "eager_on_recompile",
                                                "fail_on_recompile", "eager_then_compile"};
  PyRef text = PyRef::steal(PyObject_GetAttrString(torch_stance, "stance"));
  const char* utf8 = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  for (size_t i = 0; utf8 && i < std::size(kNames); ++i)
    if (kNames[i] == utf8) return static_cast<Stance>(i);
  return utf8 && std::string_view(utf8) == "aot_eager_then_compile" ? Stance::kEagerThenCompile
                                                                    : Stance::kDefault;
}

// A stance is an object that never changes; another one is read when it is first seen.
Stance torch_stance() {
  static PyObject* const key = name("_stance");
  static PyObject* seen = nullptr;  // owned
  static Stance stance = Stance::kDefault;
  static uint64_t seen_version = 0;
  PyObject* dict = torch_namespace();
  if (!dict) return Stance::kDefault;
  const uint64_t version = cdynamo_dict_version(dict);
  if (version == seen_version && version) return stance;
  PyObject* now = PyDict_GetItemWithError(dict, key);
  if (!now) {
    PyErr_Clear();
    return Stance::kDefault;
  }
  if (now != seen) {
    stance = read(now);
    PyObject* before = seen;
    seen = Py_NewRef(now);
    Py_XDECREF(before);
  }
  seen_version = version;
  return stance;
}

}  // namespace

Stance current_stance() {
  const auto own = static_cast<Stance>(global_config().stance);
  return own == Stance::kDefault ? torch_stance() : own;
}

}  // namespace cdynamo::frame_eval
