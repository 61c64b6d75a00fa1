#include "symbolic/interop/shown.h"

#include "absl/strings/str_cat.h"

namespace cdynamo::symbolic {
namespace {

constexpr size_t kMostBits = 1 << 15;

}  // namespace

bool is_long_number(PyObject* object) { return PyLong_Check(object) && _PyLong_NumBits(object) > kMostBits; }

std::string shown_repr(PyObject* object) {
  if (is_long_number(object))
    return absl::StrCat("an int of ", _PyLong_NumBits(object), " bits, ...",
                        absl::Hex(PyLong_AsUnsignedLongLongMask(object), absl::kZeroPad16));
  PyRef text = PyRef::steal(PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "";
}

}  // namespace cdynamo::symbolic
