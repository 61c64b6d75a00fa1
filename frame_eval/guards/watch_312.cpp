// Watch on 3.12 and later: one dict watcher and one type watcher for all, and a registry of who wants to
// know.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "frame_eval/guards/watch.h"
#include "frame_eval/guards/watch_function.h"

#if PY_VERSION_HEX >= 0x030C0000

namespace cdynamo::frame_eval {

using symbolic::PyRef;

struct Watch::State {
  bool changed = false;
  std::vector<PyObject*>
      dicts;  // not owned, and not to be looked into: the registry knows which of them live
  std::vector<PyRef> types;
  std::vector<FunctionStamp> functions;
};

namespace {

// For each watched dict and class, the states that it is part of.
using Registry = std::unordered_map<PyObject*, std::vector<Watch::State*>>;
Registry& registry() {
  static auto* instance = new Registry();  // watchers may be called until the interpreter's end
  return *instance;
}

// Marks what `object` is part of as changed and forgets it. False: nobody watched it.
bool note_change(PyObject* object) {
  const auto found = registry().find(object);
  if (found == registry().end()) return false;
  for (Watch::State* state : found->second) state->changed = true;
  registry().erase(found);
  return true;
}

int dict_watcher();

int on_dict_event(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  if (note_change(dict) && event != PyDict_EVENT_DEALLOCATED) PyDict_Unwatch(dict_watcher(), dict);
  return 0;
}

int on_type_event(PyTypeObject* type) {
  note_change(reinterpret_cast<PyObject*>(type));
  return 0;
}

// -1: CPython has no room for one more watcher.
int without_error(int watcher) {
  if (watcher < 0) PyErr_Clear();
  return watcher;
}
int dict_watcher() {
  static const int id = without_error(PyDict_AddWatcher(on_dict_event));
  return id;
}
int type_watcher() {
  static const int id = without_error(PyType_AddWatcher(on_type_event));
  return id;
}

// True if nobody else watches the object, which is still alive, any more.
bool leave(PyObject* object, Watch::State* state) {
  const auto found = registry().find(object);
  if (found == registry().end()) return false;
  std::erase(found->second, state);
  if (!found->second.empty()) return false;
  registry().erase(found);
  return true;
}

void enter(PyObject* object, Watch::State* state) {
  std::vector<Watch::State*>& states = registry()[object];
  if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
}

void release(Watch::State* state) {
  if (!state) return;
  for (PyObject* dict : state->dicts) {
    if (leave(dict, state)) without_error(PyDict_Unwatch(dict_watcher(), dict));
  }
  for (const PyRef& type : state->types) {
    if (leave(type.get(), state)) without_error(PyType_Unwatch(type_watcher(), type.get()));
  }
}

}  // namespace

Watch::Watch() : state_(std::make_unique<State>()) {}
Watch::~Watch() { release(state_.get()); }
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    release(state_.get());
    state_ = std::move(other.state_);
  }
  return *this;
}

bool Watch::add_dict(PyObject* dict) {
  if (!PyDict_Check(dict) || !cdynamo_dict_is_watchable(dict) || dict_watcher() < 0) return false;
  if (without_error(PyDict_Watch(dict_watcher(), dict)) < 0) return false;
  enter(dict, state_.get());
  state_->dicts.push_back(dict);
  return true;
}

bool Watch::add_type(PyTypeObject* type) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  // Without a version tag, changes of the type are not told.
  if (type_watcher() < 0 || !type_version(type)) return false;
  if (without_error(PyType_Watch(type_watcher(), object)) < 0) return false;
  enter(object, state_.get());
  state_->types.push_back(PyRef::borrow(object));
  return true;
}

bool Watch::add_function(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  state_->functions.emplace_back(function);
  return true;
}

bool Watch::unchanged() const {
  if (state_->changed) return false;
  for (const FunctionStamp& function : state_->functions) {
    if (!function.unchanged()) {
      state_->changed = true;
      return false;
    }
  }
  return true;
}

unsigned type_version(PyTypeObject* type) {
  return PyUnstable_Type_AssignVersionTag(type) ? type->tp_version_tag : 0;
}

}  // namespace cdynamo::frame_eval

#endif
