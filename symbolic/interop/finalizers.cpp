#include "symbolic/interop/finalizers.h"

#include <algorithm>
#include <string_view>

#include "symbolic/interop/deque_access.h"

namespace cdynamo::symbolic {
namespace {

PyObject* class_entry(PyTypeObject* type, const char* name) {
  PyRef text = PyRef::steal(PyUnicode_InternFromString(name));
  return text ? _PyType_Lookup(type, text.get()) : nullptr;
}

// torch.compile notes each module that is made in a weak dictionary of its own, cdynamo what is optimized.
bool is_of_compiler(PyObject* callback) {
  if (!PyFunction_Check(callback)) return false;
  PyObject* name = PyDict_GetItemString(PyFunction_GET_GLOBALS(callback), "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text &&
         (std::string_view(text).starts_with("torch.") || std::string_view(text).starts_with("cdynamo."));
}

// A container of weakref's drops an entry.
bool is_of_container(PyObject* callback) {
  static constexpr const char* kNames[] = {"WeakKeyDictionary.__init__.<locals>.remove",
                                           "WeakValueDictionary.__init__.<locals>.remove",
                                           "WeakSet.__init__.<locals>._remove"};
  if (!PyFunction_Check(callback)) return false;
  PyObject* name = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callback))->co_qualname;
  return std::ranges::any_of(
      kNames, [&](const char* known) { return PyUnicode_CompareWithASCIIString(name, known) == 0; });
}

// A function of C that a module has lives as long as the module.
bool is_of_module(PyObject* object) {
  PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
  return self && PyModule_Check(self);
}

// Tensors are in weak dictionaries of PyTorch's own, and classes in those of ABCs, which look at nothing else.
bool has_callback(PyObject* object, bool containers_count) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_weaklistoffset == 0 || PyType_Check(object) || is_of_module(object)) return false;
  PyObject* first = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset);
  auto* reference = reinterpret_cast<PyWeakReference*>(first);
  for (; reference; reference = reference->wr_next)
    if (reference->wr_callback && !is_of_compiler(reference->wr_callback) &&
        (containers_count || !is_of_container(reference->wr_callback)))
      return !class_entry(type, "__torch_function__");
  return false;
}

// One that waits in a `try` runs its handlers.
bool is_suspended_generator(PyObject* object) {
  if (!PyGen_CheckExact(object)) return false;
  PyRef suspended = PyRef::steal(PyObject_GetAttrString(object, "gi_suspended"));
  PyErr_Clear();
  return suspended.get() == Py_True;
}

constexpr Py_ssize_t kMany = 64;  // of more items the first are looked at

// What is traversed for its items: a container, or an iterator that C has made, over one or over other iterators.
bool has_items(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyObject_IS_GC(object) || !type->tp_traverse || PyGen_CheckExact(object)) return false;
  const auto is_one_of = [type](std::initializer_list<const PyTypeObject*> types) {
    return std::ranges::find(types, type) != types.end();
  };
  if (is_one_of({&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type, deque_type()})) return true;
  const bool is_of_program = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dictoffset != 0;
  return PyIter_Check(object) && !is_of_program;
}

// Of a dict, whoever's it is: one that is laid out in its owner is traversed by that (3.13).
template <typename Test>
bool any_entry(PyObject* dict, const Test& test) {
  PyObject *key, *value;
  Py_ssize_t seen = 0;
  for (Py_ssize_t at = 0; seen < kMany && PyDict_Next(dict, &at, &key, &value); ++seen)
    if (test(key) || test(value)) return true;
  return false;
}

// Whether `test` holds for an item, or for a key.
template <typename Test>
bool any_item(PyObject* object, const Test& test) {
  if (PyDict_CheckExact(object)) return any_entry(object, test);
  if (!has_items(object)) return false;
  struct Visit {
    const Test& test;
    Py_ssize_t left = kMany;
    bool found = false;
  } visit{test};
  const auto look = [](PyObject* item, void* given) {
    auto& visit = *static_cast<Visit*>(given);
    visit.found = visit.test(item);
    return static_cast<int>(visit.found || --visit.left == 0);
  };
  Py_TYPE(object)->tp_traverse(object, look, &visit);
  return visit.found;
}

// Attributes of an instance of a class in Python, what a function's closure and defaults have.
template <typename Test>
bool any_attribute(PyObject* object, const Test& test) {
  if (PyFunction_Check(object)) {
    PyObject* closure = PyFunction_GET_CLOSURE(object);
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* cell = PyTuple_GET_ITEM(closure, i);
      if (PyObject* held = PyCell_GET(cell); held && Py_REFCNT(cell) == 1 && test(held)) return true;
    }
    PyObject *defaults = PyFunction_GET_DEFAULTS(object), *of_keywords = PyFunction_GET_KW_DEFAULTS(object);
    return (defaults && any_item(defaults, test)) || (of_keywords && any_item(of_keywords, test));
  }
  const PyTypeObject* type = Py_TYPE(object);
  const bool has_attributes =
      PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && !PyType_Check(object) &&
      (type->tp_dictoffset != 0 || PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT));
  if (!has_attributes || type->tp_getattro != PyObject_GenericGetAttr) return false;
  // Null where the object has none yet: one made here would be seen (functools.partial looks).
  PyObject** attributes = _PyObject_GetDictPtr(object);
  return attributes && *attributes && any_entry(*attributes, test);
}

// What the object holds, for as long as `test` holds for none of it.
template <typename Test>
bool any_part(PyObject* object, const Test& test) {
  return any_item(object, test) || any_attribute(object, test);
}

// How deep it is looked below the object: through a few containers in each other, and the iterators over them.
constexpr int kContainer = 4, kNested = 2 * kContainer;
int below(PyObject* object, int depth) { return depth - (PyIter_Check(object) ? 1 : kContainer); }

// What dies with it has a callback of the program's. How many hold the part itself is not asked: the capture may.
bool holds_what_calls_back(PyObject* object, int depth) {
  return any_part(object, [left = below(object, depth)](PyObject* part) {
    return has_callback(part, false) ||
           (left >= 0 && Py_REFCNT(part) == 1 && holds_what_calls_back(part, left));
  });
}

bool is_told(PyObject* object, int depth, bool containers_count) {
  if (class_entry(Py_TYPE(object), "__del__") || has_callback(object, containers_count) ||
      is_suspended_generator(object))
    return true;
  const int left = below(object, depth);
  return left >= 0 && any_item(object, [&](PyObject* item) { return is_told(item, left, containers_count); });
}

// Whether one is that dies with the object: an item, or what its attributes alone hold.
bool takes_along_what_is_told(PyObject* object, int depth) {
  if (is_told(object, depth, true)) return true;
  const int left = below(object, depth);
  return left >= 0 && any_part(object, [left](PyObject* part) {
           return Py_REFCNT(part) == 1 && takes_along_what_is_told(part, left);
         });
}

}  // namespace

namespace {

// A WeakMethod's own callback calls the program's, which its closure holds, or None.
bool calls_what_program_gave(PyObject* callback) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callback));
  if (PyUnicode_CompareWithASCIIString(code->co_qualname, "WeakMethod.__new__.<locals>._cb") != 0)
    return false;
  const PyRef names = PyRef::steal(PyCode_GetFreevars(code));
  PyObject* closure = PyFunction_GET_CLOSURE(callback);
  for (Py_ssize_t i = 0; names && closure && i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), "callback") == 0)
      return PyCell_GET(PyTuple_GET_ITEM(closure, i)) != Py_None;
  return false;
}

// A reference with a callback of the program's, which is not called any more once it is gone.
bool is_waiting_reference(PyObject* object) {
  if (!PyWeakref_CheckRef(object)) return false;
  PyObject* callback = reinterpret_cast<PyWeakReference*>(object)->wr_callback;
  if (!callback || PyWeakref_GET_OBJECT(object) == Py_None || is_of_compiler(callback)) return false;
  PyObject* globals = PyFunction_Check(callback) ? PyFunction_GET_GLOBALS(callback) : nullptr;
  PyObject* name = globals ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const bool is_of_library = name && PyUnicode_Check(name) &&
                             (PyUnicode_CompareWithASCIIString(name, "weakref") == 0 ||
                              PyUnicode_CompareWithASCIIString(name, "_weakrefset") == 0);
  return !is_of_library || calls_what_program_gave(callback);
}

}  // namespace

bool runs_code_when_it_dies(PyObject* object) {
  return is_told(object, kNested, true) || is_waiting_reference(object) ||
         holds_what_calls_back(object, kNested);
}
bool runs_code_when_all_of_it_dies(PyObject* object) {
  return takes_along_what_is_told(object, kNested) || is_waiting_reference(object) ||
         holds_what_calls_back(object, kNested);
}
bool runs_other_code_when_it_dies(PyObject* object) {
  return is_told(object, kNested, false) || is_waiting_reference(object) ||
         holds_what_calls_back(object, kNested);
}

}  // namespace cdynamo::symbolic
