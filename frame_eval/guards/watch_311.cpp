// Watch on 3.11: versions, compared one by one.
#include <vector>

#include "frame_eval/guards/watch.h"
#include "frame_eval/guards/watch_function.h"

#if PY_VERSION_HEX < 0x030C0000

namespace cdynamo::frame_eval {

using symbolic::PyRef;

struct Watch::State {
  struct Dict {
    PyRef object;
    uint64_t version;
  };
  struct Type {
    PyRef object;
    unsigned version;
  };
  std::vector<Dict> dicts;
  std::vector<Type> types;
  std::vector<FunctionStamp> functions;
  mutable bool changed = false;

  bool compare() const {
    for (const Dict& dict : dicts) {
      if (cdynamo_dict_version(dict.object.get()) != dict.version || Py_REFCNT(dict.object.get()) == 1)
        return false;
    }
    for (const Type& type : types) {
      if (reinterpret_cast<PyTypeObject*>(type.object.get())->tp_version_tag != type.version) return false;
    }
    for (const FunctionStamp& function : functions) {
      if (!function.unchanged()) return false;
    }
    return true;
  }
};

Watch::Watch() : state_(std::make_unique<State>()) {}
Watch::~Watch() = default;
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&&) noexcept = default;

bool Watch::add_dict(PyObject* dict) {
  if (!PyDict_Check(dict)) return false;
  state_->dicts.push_back({PyRef::borrow(dict), cdynamo_dict_version(dict)});
  return true;
}

bool Watch::add_type(PyTypeObject* type) {
  const unsigned version = type_version(type);
  if (!version) return false;
  state_->types.push_back({PyRef::borrow(reinterpret_cast<PyObject*>(type)), version});
  return true;
}

bool Watch::add_function(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  state_->functions.emplace_back(function);
  return true;
}

bool Watch::unchanged() const {
  if (!state_->changed) state_->changed = !state_->compare();
  return !state_->changed;
}

unsigned type_version(PyTypeObject* type) {
  // A lookup of an attribute through the type cache gives the type a tag.
  static PyObject* name = PyUnicode_InternFromString("__class__");
  if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) _PyType_Lookup(type, name);
  return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
}

}  // namespace cdynamo::frame_eval

#endif
