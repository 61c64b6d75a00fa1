#include "symbolic/interop/written_names.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace cdynamo::symbolic {
namespace {

// By address, and names that are interned, which live on here. Another class that comes to the place of one that has died is
// guarded name by name, too.
absl::flat_hash_map<PyTypeObject*, absl::flat_hash_set<PyObject*>>& written_names() {
  static auto& names = *new absl::flat_hash_map<PyTypeObject*, absl::flat_hash_set<PyObject*>>();
  return names;
}

}  // namespace

void note_written_name(PyTypeObject* type, PyObject* name) {
  PyObject* interned = Py_NewRef(name);
  PyUnicode_InternInPlace(&interned);
  if (!written_names()[type].insert(interned).second) Py_DECREF(interned);
}

bool is_written_name(PyTypeObject* type, PyObject* name) {
  const auto found = written_names().find(type);
  return found != written_names().end() && found->second.contains(name);
}

bool has_written_names(PyTypeObject* type) { return written_names().contains(type); }

}  // namespace cdynamo::symbolic
