// What functools.lru_cache makes of a function (Modules/_functoolsmodule.c), looked at without a call, which would count.
#pragma once

#include <utility>
#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

bool is_cached_function(PyObject* object);

// Under what the cache holds the result of a call (lru_cache_make_key). `keywords`: a dict.
PyRef cache_key(PyObject* function, PyObject* positional, PyObject* keywords);
// The result that is held under `key`; nothing_held() where there is none. Null, without an error, where `function` is no such function.
PyRef held_result(PyObject* function, PyObject* key);
PyObject* nothing_held();  // borrowed; no program's result is this object

bool holds_nothing_ever(PyObject* function);  // maxsize=0
// What it holds next, or after `more` other results, drops one.
bool is_full(PyObject* function, Py_ssize_t more = 0);
// The same of what may be no such function, as guards ask it: null, without an error, for any other object. cache_rules() says by a
// small integer whether it tells arguments by their types, and whether it holds anything ever.
PyRef cache_is_full(PyObject* function, Py_ssize_t more);
PyRef cache_rules(PyObject* function);

// Calls that a capture makes so that their results are held. The compiled code makes each of them once more, which counts as none. Where
// it is not used after all, its caches are again as they were: the program may not come to these calls, or look at its caches before.
class CacheFills {
 public:
  CacheFills() = default;
  CacheFills(const CacheFills&) = delete;
  ~CacheFills();
  // One of the functions that are called, by the program or by each other.
  void add_function(PyObject* function);
  // False: Python has raised an error.
  bool call(PyObject* function, const PyRef& key, PyObject* positional, PyObject* keywords);
  // Whether the result of such a call was held before, for a capture that was used, and was dropped again.
  static bool was_dropped(PyObject* function, const PyRef& key);
  void keep();

 private:
  struct Function {
    PyRef object;
    Py_ssize_t hits = 0, misses = 0;  // that the calls have added
    std::vector<PyRef> links;         // of what it held before, the latest last
  };
  std::vector<Function> functions_;
  std::vector<std::pair<PyRef, PyRef>> filled_;  // functions and keys
};

}  // namespace cdynamo::symbolic
