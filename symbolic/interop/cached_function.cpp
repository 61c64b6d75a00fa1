#include "symbolic/interop/cached_function.h"

#include <string_view>

namespace cdynamo::symbolic {
namespace {

// lru_list_elem and lru_cache_object: the same in 3.11, 3.12 and 3.13.
struct Link {
  PyObject_HEAD Link *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
struct CachedFunction {
  Link root;
  void* call;
  int typed;
  PyObject* cache;  // key to Link; to the result itself where maxsize is None
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;  // -1: None
  Py_ssize_t misses;
  PyObject* keyword_mark;
};

CachedFunction& cached_function_of(PyObject* function) {
  return *reinterpret_cast<CachedFunction*>(function);
}

}  // namespace

bool is_cached_function(PyObject* object) {
  return std::string_view(Py_TYPE(object)->tp_name) == "functools._lru_cache_wrapper";
}

PyRef cache_key(PyObject* function, PyObject* positional, PyObject* keywords) {
  const CachedFunction& cached = cached_function_of(function);
  const bool has_keywords = PyDict_GET_SIZE(keywords) > 0;
  if (!cached.typed && !has_keywords) {
    PyObject* first = PyTuple_GET_SIZE(positional) == 1 ? PyTuple_GET_ITEM(positional, 0) : nullptr;
    const bool is_short = first && (PyUnicode_CheckExact(first) || PyLong_CheckExact(first));
    return PyRef::borrow(is_short ? first : positional);
  }
  const PyRef parts = PyRef::steal(PySequence_List(positional));
  const auto add = [&](PyObject* part) { return PyList_Append(parts.get(), part) == 0; };
  const auto type_of = [](PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)); };
  bool made = parts && (!has_keywords || add(cached.keyword_mark));
  PyObject *name, *value;
  for (Py_ssize_t at = 0; made && PyDict_Next(keywords, &at, &name, &value);) made = add(name) && add(value);
  for (Py_ssize_t i = 0; made && cached.typed && i < PyTuple_GET_SIZE(positional); ++i)
    made = add(type_of(PyTuple_GET_ITEM(positional, i)));
  for (Py_ssize_t at = 0; made && cached.typed && PyDict_Next(keywords, &at, &name, &value);)
    made = add(type_of(value));
  return PyRef::steal(made ? PyList_AsTuple(parts.get()) : nullptr);
}

PyRef held_result(PyObject* function, PyObject* key) {
  if (!is_cached_function(function)) return {};
  const CachedFunction& cached = cached_function_of(function);
  PyObject* held = PyDict_GetItemWithError(cached.cache, key);
  if (!held) PyErr_Clear();
  if (held && cached.maxsize >= 0) held = reinterpret_cast<Link*>(held)->result;
  return PyRef::borrow(held ? held : nothing_held());
}

PyObject* nothing_held() {
  static PyObject* nothing = nullptr;
  if (!nothing) nothing = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return nothing;
}

bool holds_nothing_ever(PyObject* function) { return cached_function_of(function).maxsize == 0; }
bool is_full(PyObject* function) {
  const CachedFunction& cached = cached_function_of(function);
  return cached.maxsize >= 0 && PyDict_GET_SIZE(cached.cache) >= cached.maxsize;
}
void count_one_hit_less(PyObject* function) { --cached_function_of(function).hits; }

}  // namespace cdynamo::symbolic
