// The nodes of a GuardTree: how a child object is reached from its parent's, and what is checked of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frame_eval/guards/class_contents.h"
#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

using symbolic::ConstantRef;
using symbolic::GuardKind;
using symbolic::PyRef;
using symbolic::SourceKind;
using symbolic::SourcePtr;

struct Leaf {
  GuardKind kind;
  ConstantRef object;
  int index = -1;
  int tensor_check = -1;              // kTensor: index in GuardTree::tensor_checks_
  int other_slot = -1;                // kSameObject, kDistinctObjects: slot of the other object
  Py_hash_t hash = 0;                 // kKeyAbsent, kAttributeAbsent: of `object`
  mutable unsigned type_version = 0;  // kTypeUnchanged: with which it was checked last; 0: the class has none
  mutable PyRef cache_token;          // kNotSubclass: abc.get_cache_token() when it was checked last
  std::shared_ptr<const ClassContents> contents;  // kTypeUnchanged: where the version alone says too little
  PyRef defaults, kwdefaults;           // kFunctionCode, kSameDefaults: as they were, compared by identity
  Py_ssize_t num_defaults = -1;         // kFunctionCode: how many; -1: it has none
  bool has_kwdefaults = false;          // likewise
  vectorcallfunc vectorcall = nullptr;  // likewise
  std::string why;
};

struct GuardNode {
  SourcePtr source;
  Py_hash_t key_hash = 0;  // of the source's key: a key's own __hash__ (an enum member's) may be Python code
  std::vector<Leaf> leaves;
  std::vector<std::unique_ptr<GuardNode>> children;
  std::vector<int> inputs;   // graph inputs that this object is
  std::vector<int> symbols;  // size symbols whose value this int is
  int slot = -1;             // where leaves of other nodes find this object

  // A dict whose version is that of the last successful check still holds the same objects under the same
  // keys: its leaves hold, children are not looked up again, and of these only `unsettled` ones are visited.
  PyObject* seen = nullptr;   // identity only
  uint64_t seen_version = 0;  // 0: not known
  PyObject* found =
      nullptr;  // what the parent's accessor gave last; alive while the parent dict is unchanged
  std::vector<GuardNode*> unsettled;
  int changes = 0;  // roots: how often it was another object than the trace had
};

// A number that Python computes from others, once the tree has been walked.
struct ComputedNode {
  GuardNode node;
  std::vector<int> slots;  // of the operands; -1: an expression of symbols, or a constant

  // Null, without an error: it cannot be computed. `symbols`: the values of size symbols.
  PyRef compute(const std::vector<PyObject*>& objects, const graph::SymContext* sym,
                const int64_t* symbols) const;
};

// True when an object that is still the same one cannot fail the node's checks.
bool is_settled(const GuardNode& node);

// The child's object, given its parent's (null for roots). Borrowed, or owned through `owner`. Null: the path
// is broken; no Python error is left set.
PyObject* access(const GuardNode& node, PyObject* parent, const symbolic::Roots& roots, PyRef& owner);

// The hash of a key, once and for all.
Py_hash_t hash_of(PyObject* key);

// The object's __dict__, null where it has none.
PyObject* instance_dict(PyObject* object);

// The leaf says that a dict has no such key, and so it is.
bool is_absent(const Leaf& leaf, PyObject* dict);
// One leaf that needs neither tensors nor other nodes. No Python error is left set.
bool check_leaf(const Leaf& leaf, PyObject* object);

// "is True", "type is Linear", "f32[8, s0]": a guard as the log prints it, without its source.
std::string guard_text(const symbolic::Guard& guard);

// "self.training was True, is False"
std::string explain_leaf(const Leaf& leaf, const symbolic::Source& source, PyObject* object);

}  // namespace cdynamo::frame_eval
