// GuardTrace: the tree of guards as its last walk found it, written down as lists. Where the objects are the ones that
// were seen then, a call compares pointers and dict versions in a row instead of looking up names; at the first
// surprise the tree is walked again, which decides.
//
// First come the steps that find the objects. Each relies on those before it for one thing only: that the object it looks at is
// alive. So an object that was freed, and another one in its place, cannot be mistaken for it: a dict's version is never
// used twice, and what has no version is checked for its contents. Then what is asked of the objects, kind by kind, and last
// what needs the tree.
#pragma once

#include <cstdint>
#include <vector>

#include "frame_eval/guards/guard_node.h"

namespace cdynamo::frame_eval {

struct TraceStep {
  enum Kind : uint8_t {
    kRoot,      // the root `node` still is `object`
    kClassIs,   // object's class is `expected`, which the steps that follow look at
    kInstance,  // object's __dict__, which `place` points to, is `expected`
    kDict,      // the dict's version is `version`, else what was looked up in it is looked up again;
                // `index`: it had a version when this was written
    kAlive,     // the constant `object` is still there
    kClass,     // the class `object` is still there, and its version is `index`
  };
  Kind kind;
  int index = -1;
  PyObject* object = nullptr;
  union {
    uint64_t version = 0;
    void* expected;
  };
  union {
    GuardNode* node = nullptr;  // kDict: the dict's own node, or null
    PyObject* const* place;     // kInstance; kAlive, kClass: ConstantRef::place()
  };
  GuardNode* owner = nullptr;  // kDict: the object whose __dict__ it is, or null
};

struct GuardTrace {
  struct TypeCheck {
    PyObject* object;
    PyObject* const* type;  // ConstantRef::place()
  };
  struct DictLength {
    PyObject* dict;
    Py_ssize_t length;
  };
  struct Tensor {
    PyObject* object;
    int check;  // tensor guard
  };
  struct OfTree {
    enum Kind : uint8_t {
      kLeaf,     // leaf `leaf` of `node`
      kKnown,    // the subtree of `node`, which is `object`, is walked
      kSubtree,  // likewise, but first `node` is looked up in `object`, its parent (null for roots)
    };
    Kind kind;
    PyObject* object;
    GuardNode* node;
    size_t leaf = 0;
  };

  std::vector<TraceStep> steps;
  std::vector<TypeCheck> types;
  std::vector<DictLength> lengths;
  std::vector<Tensor> tensors;
  std::vector<PyObject*> inputs, slots;  // Bindings, as far as they are known
  std::vector<OfTree> rest;

  // Objects that change with every call are not worth writing down anew each time: the pause doubles.
  void drop() {
    clear();
    pause = pause < 512 ? 2 * pause + 1 : pause;
    wait = pause;
  }
  void clear() {
    steps.clear();
    types.clear();
    lengths.clear();
    tensors.clear();
    rest.clear();
    is_written = false;
  }
  bool is_due() { return wait == 0 || --wait == 0; }

  bool is_written = false;
  int wait = 0, pause = 0;
};

}  // namespace cdynamo::frame_eval
