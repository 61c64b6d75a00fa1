#include "symbolic/interop/cached_function.h"

#include <algorithm>
#include <ranges>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

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
bool is_full(PyObject* function, Py_ssize_t more) {
  const CachedFunction& cached = cached_function_of(function);
  return cached.maxsize >= 0 && PyDict_GET_SIZE(cached.cache) + more >= cached.maxsize;
}

PyRef cache_is_full(PyObject* function, Py_ssize_t more) {
  if (!is_cached_function(function)) return {};
  return PyRef::borrow(is_full(function, more) ? Py_True : Py_False);
}

PyRef cache_rules(PyObject* function) {
  if (!is_cached_function(function)) return {};
  const CachedFunction& cached = cached_function_of(function);
  return PyRef::steal(PyLong_FromLong((cached.typed ? 1 : 0) + (cached.maxsize == 0 ? 2 : 0)));
}

namespace {

// Keys of results that a capture which was used has had held, by their hashes.
struct KeysHeld {
  PyRef function;  // weak: another one may come to stand at its address
  absl::flat_hash_set<Py_hash_t> keys;
};

KeysHeld& keys_held_of(PyObject* function) {
  constexpr size_t kMany = 256;
  static auto* all = new absl::flat_hash_map<PyObject*, KeysHeld>;
  const auto is_gone = [](const auto& entry) {
    return PyWeakref_GET_OBJECT(entry.second.function.get()) == Py_None;
  };
  if (all->size() >= kMany) absl::erase_if(*all, is_gone);
  KeysHeld& held = (*all)[function];
  if (held.function && PyWeakref_GET_OBJECT(held.function.get()) == function) return held;
  held = {.function = PyRef::steal(PyWeakref_NewRef(function, nullptr)), .keys = {}};
  return held;
}

Link* link_of(PyObject* object) { return reinterpret_cast<Link*>(object); }

void append(Link& root, Link* link) {
  Link* last = root.previous;
  last->next = root.previous = link;
  link->previous = last;
  link->next = &root;
}

void detach(Link* link) {
  link->previous->next = link->next;
  link->next->previous = link->previous;
}

void drop(CachedFunction& cached, PyObject* key) {
  const PyRef held = PyRef::borrow(PyDict_GetItemWithError(cached.cache, key));
  if (!held) return PyErr_Clear();
  if (PyDict_DelItem(cached.cache, key) < 0) return PyErr_Clear();
  if (cached.maxsize < 0) return;
  detach(link_of(held.get()));
  Py_DECREF(held.get());  // the list's own reference
}

std::vector<PyRef> links_in_order(CachedFunction& cached) {
  std::vector<PyRef> links;
  if (cached.maxsize < 0) return links;
  for (Link* link = cached.root.next; link != &cached.root; link = link->next)
    links.push_back(PyRef::borrow(reinterpret_cast<PyObject*>(link)));
  return links;
}

// Calls have made some the latest. Left as it is where the cache holds others by now.
void put_in_order(CachedFunction& cached, const std::vector<PyRef>& links) {
  if (PyDict_GET_SIZE(cached.cache) != static_cast<Py_ssize_t>(links.size())) return;
  for (const PyRef& link : links)
    if (PyDict_GetItemWithError(cached.cache, link_of(link.get())->key) != link.get()) return PyErr_Clear();
  for (const PyRef& link : links) {
    detach(link_of(link.get()));
    append(cached.root, link_of(link.get()));
  }
}

}  // namespace

void CacheFills::add_function(PyObject* function) {
  const auto is_it = [function](const Function& known) { return known.object.get() == function; };
  if (std::ranges::any_of(functions_, is_it)) return;
  functions_.push_back(
      {.object = PyRef::borrow(function), .links = links_in_order(cached_function_of(function))});
}

bool CacheFills::call(PyObject* function, const PyRef& key, PyObject* positional, PyObject* keywords) {
  std::vector<std::pair<Py_ssize_t, Py_ssize_t>> before;
  for (const Function& known : functions_) {
    const CachedFunction& cached = cached_function_of(known.object.get());
    before.emplace_back(cached.hits, cached.misses);
  }
  const PyRef result = PyRef::steal(PyObject_Call(function, positional, keywords));
  if (result) {
    --cached_function_of(function).hits;
    filled_.emplace_back(PyRef::borrow(function), key);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    const CachedFunction& cached = cached_function_of(functions_[i].object.get());
    functions_[i].hits += cached.hits - before[i].first;
    functions_[i].misses += cached.misses - before[i].second;
  }
  return static_cast<bool>(result);
}

bool CacheFills::was_dropped(PyObject* function, const PyRef& key) {
  return keys_held_of(function).keys.contains(PyObject_Hash(key.get()));
}

void CacheFills::keep() {
  for (const auto& [function, key] : filled_)
    keys_held_of(function.get()).keys.insert(PyObject_Hash(key.get()));
  filled_.clear();
  functions_.clear();
}

CacheFills::~CacheFills() {
  if (filled_.empty()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  for (const auto& [function, key] : std::views::reverse(filled_))
    drop(cached_function_of(function.get()), key.get());
  for (const Function& known : functions_) {
    CachedFunction& cached = cached_function_of(known.object.get());
    cached.hits -= known.hits;
    cached.misses -= known.misses;
    if (cached.maxsize >= 0) put_in_order(cached, known.links);
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace cdynamo::symbolic
