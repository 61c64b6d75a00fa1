#include "symbolic/interop/abstract_class.h"

#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {

PyRef abc_cache_token() {
  PyObject* get_cache_token = library_object("_abc", "get_cache_token");
  PyRef token = PyRef::steal(get_cache_token ? PyObject_CallNoArgs(get_cache_token) : nullptr);
  if (!token) PyErr_Clear();
  return token;
}

}  // namespace cdynamo::symbolic
