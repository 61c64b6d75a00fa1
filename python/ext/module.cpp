// cdynamo._C: the extension's entry point. Arguments are checked in Python (cdynamo/_api.py); what comes here
// is right.

#include <Python.h>

#include "frame_eval/cache/owner.h"
#include "frame_eval/call/optimized.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/reports/events.h"
#include "graph/op.h"
#include "lowering/gpu/warm_up.h"
#include "symbolic/interop/counters.h"
#include "symbolic/interop/logs.h"
#include "symbolic/interop/python_side.h"
#ifdef CDYNAMO_TEST_HOOKS
#include "tests/ext/methods.h"
#endif

namespace {

namespace fe = cdynamo::frame_eval;
namespace graph = cdynamo::graph;
namespace sym = cdynamo::symbolic;
using sym::PyRef;

constexpr const char* kConfigCapsule = "cdynamo.config";

void free_config(PyObject* capsule) {
  delete static_cast<fe::ConfigPtr*>(PyCapsule_GetPointer(capsule, kConfigCapsule));
}

// make_config(backend_kind, backend_callable, fullgraph, dynamic, static, evicts, shared, mode) -> capsule
PyObject* make_config(PyObject*, PyObject* args) {
  int kind, fullgraph, dynamic, is_static, evicts, shared, mode;
  PyObject* callable;
  if (!PyArg_ParseTuple(args, "iOpppppi", &kind, &callable, &fullgraph, &dynamic, &is_static, &evicts,
                        &shared, &mode))
    return nullptr;
  auto config = std::make_shared<fe::Config>();
  config->backend = static_cast<fe::BackendKind>(kind);
  config->mode = static_cast<fe::Mode>(mode);
  if (callable != Py_None) config->backend_callable = PyRef::borrow(callable);
  config->fullgraph = fullgraph;
  config->dynamic = dynamic;
  config->is_static = is_static;
  config->evicts = evicts;
  config->shared = shared;
  return PyCapsule_New(new fe::ConfigPtr(std::move(config)), kConfigCapsule, free_config);
}

// make_owner(config, name) -> Owner
PyObject* make_owner(PyObject*, PyObject* args) {
  PyObject* capsule;
  const char* name;
  if (!PyArg_ParseTuple(args, "O!s", &PyCapsule_Type, &capsule, &name)) return nullptr;
  auto* config = static_cast<fe::ConfigPtr*>(PyCapsule_GetPointer(capsule, kConfigCapsule));
  return config ? fe::make_owner(*config, name).release() : nullptr;
}

// make_optimized(function, owner) -> OptimizedFunction
PyObject* make_optimized(PyObject*, PyObject* args) {
  PyObject *function, *owner;
  if (!PyArg_ParseTuple(args, "O!O", &PyFunction_Type, &function, &owner)) return nullptr;
  return fe::make_optimized_function(function, owner).release();
}

// set_owner_slot(optimized_function, member_descriptor)
PyObject* set_owner_slot(PyObject*, PyObject* args) {
  PyObject *optimized, *slot;
  if (!PyArg_ParseTuple(args, "OO", &optimized, &slot) || !fe::set_owner_slot(optimized, slot))
    return nullptr;
  Py_RETURN_NONE;
}

PyObject* counters(PyObject*, PyObject*) {
  PyRef dict = PyRef::steal(PyDict_New());
  if (!dict) return nullptr;
  auto put = [&](const char* name, int64_t value) {
    PyRef number = PyRef::steal(PyLong_FromLongLong(value));
    if (number) PyDict_SetItemString(dict.get(), name, number.get());
  };
#define CDYNAMO_COUNTER(name) put(#name, sym::counters().name.load());
  CDYNAMO_COUNTERS(CDYNAMO_COUNTER)
#undef CDYNAMO_COUNTER
  return PyErr_Occurred() ? nullptr : dict.release();
}

PyObject* reset(PyObject*, PyObject*) {
  fe::reset_all_caches();
  Py_RETURN_NONE;
}

PyObject* set_config(PyObject*, PyObject* args) {
  const char* name;
  double number;
  if (!PyArg_ParseTuple(args, "sd", &name, &number)) return nullptr;
  const int value = static_cast<int>(number);
  fe::GlobalConfig& config = fe::global_config();
  const std::string key = name;
  if (key == "recompile_limit")
    config.recompile_limit = value;
  else if (key == "suppress_errors")
    config.suppress_errors = value;
  else if (key == "keep_empty_graphs")
    config.keep_empty_graphs = value;
  else if (key == "disk_cache")
    config.disk_cache = value;
  else if (key == "debug")
    config.debug = value;
  else if (key == "memory_budget")
    config.memory_budget = number;
  else if (key == "compile_seconds")
    config.compile_seconds = number;
  else if (key == "stance")
    config.stance = static_cast<int>(value);
  else
    return PyErr_Format(PyExc_KeyError, "no setting '%s'", name);
  Py_RETURN_NONE;
}

PyObject* topics(PyObject*, PyObject*) {
  PyRef list = PyRef::steal(PyList_New(0));
#define CDYNAMO_TOPIC(id, name, doc)                                      \
  {                                                                       \
    PyRef row = PyRef::steal(Py_BuildValue("(ss)", name, doc));           \
    if (!row || PyList_Append(list.get(), row.get()) < 0) return nullptr; \
  }
  CDYNAMO_TOPICS(CDYNAMO_TOPIC)
#undef CDYNAMO_TOPIC
  return list.release();
}

PyObject* set_log(PyObject*, PyObject* args) {
  const char* name;
  int enabled;
  if (!PyArg_ParseTuple(args, "sp", &name, &enabled)) return nullptr;
  for (int i = 0; i < static_cast<int>(sym::Topic::kCount); ++i)
    if (std::string(name) == sym::topic_name(static_cast<sym::Topic>(i))) {
      sym::set_log_enabled(static_cast<sym::Topic>(i), enabled);
      Py_RETURN_NONE;
    }
  return PyErr_Format(PyExc_ValueError, "no log topic '%s'", name);
}

PyObject* set_listener(PyObject*, PyObject* listener) {
  fe::set_compile_listener(listener == Py_None ? PyRef() : PyRef::borrow(listener));
  Py_RETURN_NONE;
}

bool to_strings(PyObject* sequence, std::vector<std::string>& strings) {
  PyRef list = PyRef::steal(PySequence_List(sequence));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PyList_GET_ITEM(list.get(), i));
    if (!text) return false;
    strings.emplace_back(text);
  }
  return true;
}

PyObject* set_code_folders(PyObject*, PyObject* args) {
  PyObject *skipped, *kept, *plain, *libraries;
  fe::CodeFolders names;
  if (!PyArg_ParseTuple(args, "OOOO", &skipped, &kept, &plain, &libraries)) return nullptr;
  if (!to_strings(skipped, names.skipped) || !to_strings(kept, names.kept) ||
      !to_strings(plain, names.skipped_with_callees) || !to_strings(libraries, names.libraries))
    return nullptr;
  fe::set_code_folders(std::move(names));
  Py_RETURN_NONE;
}

// The operator table, for tests: a list of (name, has a derivative, schemas). An entry without tensors among
// its parameters, or called through the framework, has none.
PyObject* operators(PyObject*, PyObject*) {
  PyRef list = PyRef::steal(PyList_New(0));
  for (const graph::OpDef* op : graph::all_ops()) {
    PyRef schemas = PyRef::steal(PyList_New(0));
    bool takes_tensors = false;
    for (const graph::Schema& schema : op->parsed) {
      PyRef text = PyRef::steal(PyUnicode_FromStringAndSize(schema.text.data(), schema.text.size()));
      if (!text || PyList_Append(schemas.get(), text.get()) < 0) return nullptr;
      for (const graph::Param& param : schema.params)
        takes_tensors |=
            param.kind == graph::ParamKind::kTensor || param.kind == graph::ParamKind::kTensorList;
    }
    const bool has_derivative = op->differentiable && takes_tensors && op->family != graph::Family::kLibrary;
    PyRef row = PyRef::steal(Py_BuildValue("(sOO)", std::string(op->name).c_str(),
                                           has_derivative ? Py_True : Py_False, schemas.get()));
    if (!row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

// connect(): finds what the compiled part uses of the package's Python. Called at the end of its import.
PyObject* connect(PyObject*, PyObject*) {
  if (sym::connect_python_side() < 0) return nullptr;
  Py_RETURN_NONE;
}

// eager_form(name) -> (parameters, expression), or None where a core operator has no form of its own in PyTorch.
PyObject* eager_form(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  const graph::OpDef* op = graph::find_op(text);
  if (!op || op->core.eager.empty() || op->core.eager == graph::kNoEager) Py_RETURN_NONE;
  const std::vector<graph::Param>& params = op->parsed.at(0).params;
  PyRef names = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(params.size())));
  for (size_t i = 0; names && i < params.size(); ++i) {
    PyObject* param = PyUnicode_FromString(params[i].name.c_str());
    if (!param) return nullptr;
    PyTuple_SET_ITEM(names.get(), i, param);
  }
  if (!names) return nullptr;
  return Py_BuildValue("(Os)", names.get(), std::string(op->core.eager).c_str());
}

// warm_up_gpu(device index)
PyObject* warm_up_gpu(PyObject*, PyObject* index) {
  const long device = PyLong_AsLong(index);
  if (device == -1 && PyErr_Occurred()) return nullptr;
  Py_BEGIN_ALLOW_THREADS;
  cdynamo::lowering::warm_up_gpu(static_cast<int>(device));
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* finish_warm_up(PyObject*, PyObject*) {
  Py_BEGIN_ALLOW_THREADS;
  cdynamo::lowering::finish_warm_up();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"_operators", operators, METH_NOARGS, nullptr},
    {"eager_form", eager_form, METH_O, nullptr},
    {"make_config", make_config, METH_VARARGS, nullptr},
    {"make_owner", make_owner, METH_VARARGS, nullptr},
    {"make_optimized", make_optimized, METH_VARARGS, nullptr},
    {"set_owner_slot", set_owner_slot, METH_VARARGS, nullptr},
    {"counters", counters, METH_NOARGS, nullptr},
    {"reset", reset, METH_NOARGS, nullptr},
    {"set_config", set_config, METH_VARARGS, nullptr},
    {"topics", topics, METH_NOARGS, nullptr},
    {"set_log", set_log, METH_VARARGS, nullptr},
    {"set_listener", set_listener, METH_O, nullptr},
    {"connect", connect, METH_NOARGS, nullptr},
    {"set_code_folders", set_code_folders, METH_VARARGS, nullptr},
    {"warm_up_gpu", warm_up_gpu, METH_O, nullptr},
    {"finish_warm_up", finish_warm_up, METH_NOARGS, nullptr},
    {},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "cdynamo._C",
    "cdynamo's compiled part",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
  PyRef module = PyRef::steal(PyModule_Create(&definition));
  if (!module || fe::add_optimized_function_type(module.get()) < 0) return nullptr;
#ifdef CDYNAMO_TEST_HOOKS
  if (PyModule_AddFunctions(module.get(), cdynamo::test_hooks::methods()) < 0) return nullptr;
#endif
  return module.release();
}
