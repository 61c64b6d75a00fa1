// Watch: tells in O(1) whether a set of dicts, classes and functions is as it was, so that an unchanged tree
// of modules need not be walked by the guards.
//
//   Watch watch;
//   watch.add_dict(module_dict);             // false: it cannot be watched
//   watch.add_type(type);
//   …
//   if (watch.unchanged()) …                 // nothing was added, removed or replaced, and all of them live
//
// 3.12 and later: CPython's watchers set one flag, so unchanged() reads one bool, and one comparison for each
// function; dicts are not kept alive (the end of a watched dict counts as a change), classes are. 3.11 has no
// watchers: unchanged() compares one version a dict and a class; the dicts are kept alive, and one that
// nobody else holds counts as changed.
//
// A change that replaces a value by the same object may or may not be seen. What the values themselves hold
// is not watched: a nested dict needs to be added for itself; nor is it watched that an object's __dict__ is
// still that dict. Once changed, a Watch stays changed. With the GIL held, as all of CPython's.
#pragma once

#include <Python.h>

#include <memory>

namespace cdynamo::frame_eval {

class Watch {
 public:
  Watch();
  ~Watch();
  Watch(Watch&&) noexcept;
  Watch& operator=(Watch&&) noexcept;

  // All take borrowed references. False (without a Python error): it cannot be watched, and unchanged() does
  // not cover it.
  bool add_dict(PyObject* dict);
  // The class and its bases: any attribute of them.
  bool add_type(PyTypeObject* type);
  // Its code, defaults and keyword defaults.
  bool add_function(PyObject* function);

  bool unchanged() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The class's version tag, assigned where it has none; 0: it cannot have one. It changes with any attribute
// of the class or its bases, and no other class ever has the same.
unsigned type_version(PyTypeObject* type);

}  // namespace cdynamo::frame_eval
