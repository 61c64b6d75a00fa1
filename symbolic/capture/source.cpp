#include "symbolic/capture/source.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/interop/complex_access.h"
#include "symbolic/interop/context_access.h"
#include "symbolic/interop/decimal_access.h"
#include "symbolic/interop/deque_access.h"
#include "symbolic/interop/iterator_access.h"
#include "symbolic/interop/proxied_mapping.h"
#include "symbolic/interop/shown.h"
#include "symbolic/interop/subclasses.h"
#include "symbolic/interop/weak_elements.h"
#include "symbolic/interop/weak_reference_access.h"

namespace cdynamo::symbolic {

namespace {

std::string text_of(PyObject* object) {
  PyRef text = PyRef::steal(PyObject_Str(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) {
    PyErr_Clear();
    return "?";
  }
  return utf8;
}

// Constants are named by what they are, never by a repr that may run the user's code.
std::string constant_name(PyObject* object) {
  if (!object) return "<an object that is gone>";
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name) return name;
    PyErr_Clear();
  }
  if (PyFunction_Check(object)) return text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object)) return shown_repr(object);
  return absl::StrCat("<", Py_TYPE(object)->tp_name, ">");
}

std::string key_name(const Source& source) {
  return PyUnicode_CheckExact(source.key.get()) || PyLong_CheckExact(source.key.get())
             ? shown_repr(source.key.get())
             : constant_name(stood_for(source.key.get()));
}

bool same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (is_weak_element(a)) return stood_for(a) && stood_for(a) == stood_for(b);
  if (PyUnicode_CheckExact(a)) return PyUnicode_Compare(a, b) == 0;
  if (PyLong_CheckExact(a)) {
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }
  return false;
}

size_t hash_key_object(PyObject* key) {
  if (!key) return 0;
  if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || is_weak_element(key))
    return static_cast<size_t>(PyObject_Hash(key));
  return std::hash<const void*>()(key);
}

PyRef quiet(PyObject* new_reference) {
  if (!new_reference) PyErr_Clear();
  return PyRef::steal(new_reference);
}

// dict items, of a subclass's instance those of its underlying storage.
PyRef dict_get(PyObject* dict, PyObject* key) {
  if (!dict || !PyDict_Check(dict) || !key || !(key = stood_for(key))) return {};
  PyObject* item = PyDict_GetItemWithError(dict, key);
  if (!item) PyErr_Clear();
  return PyRef::borrow(item);
}

PyRef dict_entry(PyObject* dict, Py_ssize_t index, bool want_key) {
  if (!PyDict_Check(dict)) return {};
  Py_ssize_t position = 0, at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (at++ == index) return PyRef::borrow(want_key ? key : value);
  return {};
}

PyRef instance_dict(PyObject* object) {
  if (PyModule_Check(object)) return PyRef::borrow(PyModule_GetDict(object));
  if (PyType_Check(object)) return {};
  return quiet(PyObject_GenericGetDict(object, nullptr));
}

PyRef sequence_item(PyObject* object, Py_ssize_t index) {
  if (PyTuple_Check(object)) {
    return index < PyTuple_GET_SIZE(object) ? PyRef::borrow(PyTuple_GET_ITEM(object, index)) : PyRef();
  }
  if (PyList_Check(object))
    return index < PyList_GET_SIZE(object) ? PyRef::borrow(PyList_GET_ITEM(object, index)) : PyRef();
  return is_deque(object) ? deque_item(object, index) : PyRef();
}

PyRef module_global(PyObject* namespace_, PyObject* key) {
  return dict_get(PyModule_Check(namespace_) ? PyModule_GetDict(namespace_) : namespace_, key);
}

PyRef follow_root(const Source& source, const Roots& roots) {
  switch (source.kind) {
    case SourceKind::kArgument:
      return source.index >= 0 && source.index < roots.num_arguments
                 ? PyRef::borrow(roots.arguments[source.index])
                 : PyRef();
    case SourceKind::kFunction: return PyRef::borrow(roots.function);
    case SourceKind::kGlobal:
      return source.key ? dict_get(roots.globals, source.key.get()) : PyRef::borrow(roots.globals);
    case SourceKind::kBuiltin: return dict_get(roots.builtins, source.key.get());
    case SourceKind::kClosure:
    case SourceKind::kClosureCell: {
      if (!roots.closure || source.index >= PyTuple_GET_SIZE(roots.closure)) return {};
      PyObject* cell = PyTuple_GET_ITEM(roots.closure, source.index);
      return PyRef::borrow(source.kind == SourceKind::kClosure ? PyCell_GET(cell) : cell);
    }
    case SourceKind::kConstant: return PyRef::borrow(source.object.get());
    case SourceKind::kHandled: {
      PyRef handled = PyRef::steal(PyErr_GetHandledException());
      return handled ? std::move(handled) : PyRef::borrow(Py_None);
    }
    default: return {};
  }
}

PyRef follow_edge(const Source& source, PyObject* base) {
  switch (source.kind) {
    case SourceKind::kModuleGlobal: return module_global(base, source.key.get());
    case SourceKind::kInstanceDict: return instance_dict(base);
    case SourceKind::kAttribute: return quiet(PyObject_GetAttr(base, source.key.get()));
    case SourceKind::kItem:
      return source.key ? dict_get(base, source.key.get()) : sequence_item(base, source.index);
    case SourceKind::kDictValueAt: return dict_entry(base, source.index, false);
    case SourceKind::kDictKeyAt: return dict_entry(base, source.index, true);
    case SourceKind::kType: return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(base)));
    case SourceKind::kMethodSelf:
      return PyMethod_Check(base) ? PyRef::borrow(PyMethod_GET_SELF(base)) : PyRef();
    case SourceKind::kMethodFunction:
      return PyMethod_Check(base) ? PyRef::borrow(PyMethod_GET_FUNCTION(base)) : PyRef();
    case SourceKind::kCellContents: return PyCell_Check(base) ? PyRef::borrow(PyCell_GET(base)) : PyRef();
    case SourceKind::kUpcoming: return upcoming_item(base, source.index);
    case SourceKind::kUpcomingCount: return upcoming_count(base);
    case SourceKind::kIteratorPart: return iterator_part(base, source.index);
    case SourceKind::kContextValue: return context_value(base);
    case SourceKind::kWeakReference: return weak_reference(base);
    case SourceKind::kReferent: return referent(base);
    case SourceKind::kProxied: return proxied_mapping(base);
    case SourceKind::kSubclasses: return PyType_Check(base) ? subclasses(base) : PyRef();
    case SourceKind::kRealView: return real_view(base);
    case SourceKind::kHeld: return held_result(base, source.key.get());
    case SourceKind::kCacheRules: return cache_rules(base);
    case SourceKind::kCacheIsFull: return cache_is_full(base, source.index);
    case SourceKind::kDecimalRules: return decimal_rules(base);
    default: return {};
  }
}

// Of a long way (through a linked list) the root and the last steps are named.
std::string name_within(const Source& source, int steps) {
  const SourcePtr& base = source.base;
  if (base && steps == 0) {
    const Source* root = &source;
    while (root->base) root = root->base.get();
    return name_within(*root, 1) + "...";
  }
  const auto base_name = [&] { return name_within(*base, steps - 1); };
  const auto key = [&] { return text_of(source.key.get()); };
  switch (source.kind) {
    case SourceKind::kArgument:
      return source.label.empty() ? absl::StrCat("argument ", source.index) : source.label;
    case SourceKind::kFunction: return "<function>";
    case SourceKind::kGlobal: return source.key ? key() : "globals()";
    case SourceKind::kBuiltin: return key();
    case SourceKind::kModuleGlobal:
      return base->kind == SourceKind::kConstant && base->object.get() && PyModule_Check(base->object.get())
                 ? absl::StrCat(base_name(), ".", key())
                 : key();
    case SourceKind::kClosure:
    case SourceKind::kClosureCell:
      return source.label.empty() ? absl::StrCat("closure variable ", source.index) : source.label;
    case SourceKind::kInstanceDict: return base_name() + ".__dict__";
    case SourceKind::kAttribute: return absl::StrCat(base_name(), ".", key());
    case SourceKind::kItem:
      // An instance-dict item is what the user writes as an attribute.
      if (base->kind == SourceKind::kInstanceDict && source.key && PyUnicode_CheckExact(source.key.get()))
        return absl::StrCat(name_within(*base->base, std::max(steps - 2, 0)), ".", key());
      return absl::StrCat(base_name(), "[", source.key ? key_name(source) : absl::StrCat(source.index), "]");
    case SourceKind::kDictValueAt:
      return absl::StrCat("list(", base_name(), ".values())[", source.index, "]");
    case SourceKind::kDictKeyAt: return absl::StrCat("list(", base_name(), ")[", source.index, "]");
    case SourceKind::kType: return absl::StrCat("type(", base_name(), ")");
    case SourceKind::kMethodSelf: return base_name() + ".__self__";
    case SourceKind::kMethodFunction: return base_name() + ".__func__";
    case SourceKind::kCellContents: return base_name() + ".cell_contents";
    case SourceKind::kUpcoming:
      return absl::StrCat("next(", base_name(), ")",
                          source.index == 0 ? "" : absl::StrCat(" #", source.index));
    case SourceKind::kUpcomingCount: return absl::StrCat("the items left in ", base_name());
    case SourceKind::kIteratorPart: return absl::StrCat(base_name(), ".__reduce__()[1][", source.index, "]");
    case SourceKind::kContextValue: return base_name() + ".get()";
    case SourceKind::kWeakReference: return absl::StrCat("weakref.ref(", base_name(), ")");
    case SourceKind::kReferent: return base_name() + "()";
    case SourceKind::kProxied: return base_name();
    case SourceKind::kSubclasses: return base_name() + ".__subclasses__()";
    case SourceKind::kRealView: return absl::StrCat("torch.view_as_real(", base_name(), ")");
    case SourceKind::kHeld: return absl::StrCat("what ", base_name(), " holds of ", key());
    case SourceKind::kCacheRules: return base_name() + ".cache_parameters()";
    case SourceKind::kCacheIsFull:
      return absl::StrCat("whether ", base_name(), " is full with ", source.index, " more");
    case SourceKind::kDecimalRules: return base_name();
    case SourceKind::kConstant: return constant_name(source.object.get());
    case SourceKind::kHandled: return "the exception that the caller handles";
    case SourceKind::kComputed: return source.computation->name();
  }
  return "?";
}

}  // namespace

std::string Source::name() const {
  constexpr int kNamedSteps = 40;
  return name_within(*this, kNamedSteps);
}

bool same_source(const Source& a, const Source& b) {
  const Source *x = &a, *y = &b;
  while (x != y) {
    if (x->kind != y->kind || x->index != y->index || x->object.get() != y->object.get()) return false;
    if (!same_key(x->key.get(), y->key.get()) || !x->base != !y->base) return false;
    if (!same_computation(x->computation.get(), y->computation.get())) return false;
    if (!x->base) return true;
    x = x->base.get();
    y = y->base.get();
  }
  return true;
}

size_t hash_source(const Source& source) {
  size_t hash = 0;
  for (const Source* at = &source; at; at = at->base.get()) {
    hash = hash * 31 + static_cast<size_t>(at->kind) * 0x9E3779B97F4A7C15ull +
           static_cast<size_t>(at->index + 1);
    hash = hash * 31 + hash_key_object(at->key.get());
    hash = hash * 31 + std::hash<const void*>()(at->object.get());
    hash = hash * 31 + hash_computation(at->computation.get());
  }
  return hash;
}

PyRef follow(const Source& source, const Roots& roots) {
  std::vector<const Source*> steps;
  const Source* root = &source;
  for (; root->base; root = root->base.get()) steps.push_back(root);
  PyRef object = follow_root(*root, roots);
  for (auto step = steps.rbegin(); object && step != steps.rend(); ++step)
    object = follow_edge(**step, object.get());
  return object;
}

}  // namespace cdynamo::symbolic
