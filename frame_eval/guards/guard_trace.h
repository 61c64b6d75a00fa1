// GuardTrace: the tree of guards as its last walk found it, written down as one list. Where the objects are the
// ones that were seen then, a call compares pointers and dict versions in a row instead of looking up names; at the
// first surprise the tree is walked again, which decides.
//
// Each step relies on those before it for one thing only: that the object it looks at is alive. So an object that was
// freed, and another one in its place, cannot be mistaken for it: a dict's version is never used twice, and what has no
// version is checked for its contents.
#pragma once

#include <cstdint>
#include <vector>

#include "frame_eval/guards/guard_node.h"

namespace cdynamo::frame_eval {

struct TraceStep {
  enum Kind : uint8_t {
    kRoot,      // the root `node` still is `object`
    kType,      // object's class is what stands at `place`
    kClassIs,   // object's class is `expected`, which the steps that follow look at
    kInstance,  // object's __dict__ is `expected`
    kDict,      // the dict's version is `version`, else what was looked up in it is looked up again;
                // `index`: it had a version when this was written
    kAlive,     // the constant `object` is still there
    kClass,     // the class `object` is still there, and its version is `index`
    kLength,    // its length is `index`
    kLeaf,      // leaf `index` of `node`
    kTensor,    // tensor guard `index`
    kBind,      // the inputs and the slot of `node` are `object`
    kKnown,     // the subtree of `node`, which is `object`, is walked
    kSubtree,   // likewise, but first `node` is looked up in `object`, its parent (null for roots)
  };
  Kind kind;
  int index = -1;
  PyObject* object = nullptr;
  union {
    uint64_t version = 0;
    void* expected;
    PyObject* const* place;  // ConstantRef::place()
  };
  GuardNode* node = nullptr;   // kDict: the dict's own node, or null
  GuardNode* owner = nullptr;  // kDict: the object whose __dict__ it is, or null
};

struct GuardTrace {
  std::vector<TraceStep> steps;

  // Objects that change with every call are not worth writing down anew each time: the pause doubles.
  void drop() {
    steps.clear();
    pause = pause < 512 ? 2 * pause + 1 : pause;
    wait = pause;
  }
  bool is_due() { return wait == 0 || --wait == 0; }

  int wait = 0, pause = 0;
};

}  // namespace cdynamo::frame_eval
