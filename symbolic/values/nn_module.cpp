// torch.nn.Module's own __getattr__ and __call__. Both are Python and would be inlined rightly; a model of
// twelve layers asks for them thousands of times, so the answer is read off the module's dicts, under the
// same guards.
#include <string_view>

#include "symbolic/capture/executor.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// A function that torch's module.py defines under this name: not one that a program has put in its place.
bool is_modules_own(PyObject* function, std::string_view qualified_name) {
  if (!PyFunction_Check(function)) return false;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_qualname;
  if (qualified_name != PyUnicode_AsUTF8(name)) return false;
  PyObject* module = PyFunction_GetModule(function);
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "torch.nn.modules.module") == 0;
}

// The last function that was found to be the module's own: mostly there is one.
bool is_own_cached(PyObject* function, std::string_view name, PyObject** cache) {
  if (function == *cache) return true;
  if (!is_modules_own(function, name)) return false;
  Py_XSETREF(*cache, Py_NewRef(function));
  return true;
}

bool is_empty(Executor& ex, const ValuePtr& dict) {
  return dict && dict_in(dict) && dict_in(dict)->size(ex) == 0;
}

// The module's own dict of hooks. Most models have none: then its length is all that is guarded.
bool has_no_hooks(Executor& ex, UserObjectValue& self, DictValue& attributes, const char* name) {
  PyObject* live = attributes.real_object();
  PyObject* dict = live && !attributes.changed() ? PyDict_GetItemWithError(live, interned(name)) : nullptr;
  if (!dict || !PyDict_Check(dict) || PyDict_GET_SIZE(dict) != 0 || attributes.is_touched(interned(name)))
    return is_empty(ex, self.generic_attribute(ex, interned(name)));
  add_guard(ex, GuardKind::kLength, key_source(attributes.source, interned(name)), nullptr, 0);
  return true;
}

// A dict of hooks of all modules, kept in torch.nn.modules.module; null: it is not there.
ValuePtr global_hooks(Executor& ex, PyObject* function, const char* name) {
  PyObject* globals = PyFunction_GetGlobals(function);
  PyObject* dict = PyDict_GetItemWithError(globals, interned(name));
  if (!dict) return nullptr;
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::kModuleGlobal;
  source->base = constant_source(globals);
  source->key = PyRef::borrow(interned(name));
  return ex.wrap(dict, source);
}

}  // namespace

// Module.__getattr__: _parameters, _buffers, _modules in this order.
ValuePtr module_attribute(Executor& ex, UserObjectValue& self, PyObject* getattr, PyObject* name) {
  static PyObject* own = nullptr;
  if (!is_own_cached(getattr, "Module.__getattr__", &own)) return nullptr;
  DictValue* attributes = self.instance_dict(ex);
  if (!attributes) return nullptr;
  for (const char* group : {"_parameters", "_buffers", "_modules"}) {
    ValuePtr dict = attributes->lookup_string(ex, interned(group));
    if (!dict) continue;
    DictValue* members = dict_in(dict);
    if (!members) return nullptr;
    if (ValuePtr member = members->lookup_string(ex, name)) return member;
  }
  return nullptr;
}

// Module._wrapped_call_impl and _call_impl without hooks: forward.
ValuePtr module_forward(Executor& ex, UserObjectValue& self, PyObject* call) {
  static PyObject* own = nullptr;
  if (!is_own_cached(call, "Module._wrapped_call_impl", &own)) return nullptr;
  PyObject* call_impl = lookup_type(ex, self.type(), interned("_call_impl"));
  if (!call_impl || !is_modules_own(call_impl, "Module._call_impl")) return nullptr;
  ValuePtr compiled = self.generic_attribute(ex, interned("_compiled_call_impl"));
  if (!compiled || !is_none(compiled)) return nullptr;
  DictValue* attributes = self.instance_dict(ex);
  if (!attributes) return nullptr;
  for (const char* name : {"_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"})
    if (!has_no_hooks(ex, self, *attributes, name)) return nullptr;
  for (const char* name : {"_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks",
                           "_global_forward_pre_hooks"})
    if (!is_empty(ex, global_hooks(ex, call, name))) return nullptr;
  ex.uses_torch();  // whether torch.jit.trace is running is part of torch's state
  return self.get_attribute(ex, interned("forward"));
}

}  // namespace cdynamo::symbolic
