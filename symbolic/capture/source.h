// Source: how a Python object is reached from the roots of a call. Guards follow it, recipes load from it,
// logs print it.
//
//   self.layers[0].weight   =   Item(Attr(Attr(Argument 0, "layers") …
//
// Following a source runs no Python code of the user: attributes are instance-dict items, slots and C
// getters; what a property or __getattr__ computes is captured by inlining it instead.
#pragma once

#include <memory>
#include <string>

#include "symbolic/capture/computation.h"
#include "symbolic/interop/constant_ref.h"

namespace cdynamo::symbolic {

enum class SourceKind : uint8_t {
  kArgument,      // index: position in the call's arguments (positional ones, then keyword values)
  kFunction,      // the function object that is called
  kGlobal,        // globals[key] of the root function; without a key: the dict itself
  kBuiltin,       // builtins[key]
  kModuleGlobal,  // base (a module or a function's globals dict, as a kConstant): base.__dict__[key], for
                  // inlined functions
  kClosure,       // contents of the root function's closure cell `index`
  kClosureCell,   // the cell itself
  kInstanceDict,  // base.__dict__ (the dict itself, without creating one where the type has none)
  kAttribute,     // getattr(base, key) through a slot or a C getter that runs no Python
  kItem,  // base[index] of a list or tuple; key set: base[key] of a dict; of a subclass's instance: of its
          // underlying storage
  kDictValueAt,     // the value of the index-th entry of a dict, in insertion order
  kDictKeyAt,       // the key of the index-th entry
  kType,            // type(base)
  kMethodSelf,      // base.__self__ of a bound method
  kMethodFunction,  // base.__func__
  kCellContents,    // base is a cell
  kConstant,        // an object known since capture; needs no guard
  kUpcoming,  // what an iterator of CPython's gives after `index` other items (interop/iterator_access.h)
  kUpcomingCount,  // how many items it has left
  kIteratorPart,   // what it is made of
  kContextValue,   // what base, a ContextVar, has in the thread's context; Token.MISSING: nothing
  kWeakReference,  // weakref.ref(base), the one without a callback
  kReferent,       // base(), of a weakref.ref: None where it is dead
  kProxied,        // what base, a mappingproxy, shows (interop/proxied_mapping.h)
  kSubclasses,     // type.__subclasses__(base), a new list (interop/subclasses.h)
  kRealView,       // real_view(base), of a complex tensor or array (interop/complex_access.h)
  kHandled,        // the exception that the thread handles where the call is made; None: it handles none
  kHeld,        // what base, a function under functools.lru_cache, holds under `key`; nothing_held(): nothing
  kCacheRules,  // how it holds results: cache_rules() (interop/cached_function.h)
  kCacheIsFull,  // whether it drops a result once it holds `index` others more
  kDecimalRules,  // by what base, a context of decimal, rounds and raises, as a text (interop/decimal_access.h)
  kComputed,      // a number that Python computes from others: only guards and graph inputs name one
};

struct Source;
using SourcePtr = std::shared_ptr<const Source>;

struct Source {
  SourceKind kind;
  SourcePtr base;
  int index = -1;
  PyRef key;           // str for attributes and globals; any hashable constant for dict items
  ConstantRef object;  // kConstant
  std::string label;   // kArgument: the parameter's name, for logs
  std::shared_ptr<const Computation> computation;  // kComputed

  std::string name() const;  // as the user would write it: "self.layers[0].weight"
};

// Structural equality and hash, so that one object has one source and guards are not repeated.
bool same_source(const Source& a, const Source& b);
size_t hash_source(const Source& source);

// The object that the source names, given the roots; a new reference, or null without an error where the path
// is broken.
struct Roots {
  PyObject* const* arguments = nullptr;
  Py_ssize_t num_arguments = 0;
  PyObject* function = nullptr;  // may be null (module code)
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  PyObject* closure = nullptr;  // tuple of cells or null
};
PyRef follow(const Source& source, const Roots& roots);

}  // namespace cdynamo::symbolic
