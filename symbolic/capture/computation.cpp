#include "symbolic/capture/computation.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "symbolic/capture/source.h"
#include "symbolic/interop/interruption.h"
#include "symbolic/interop/shown.h"

namespace cdynamo::symbolic {
namespace {

bool is_number(PyObject* object) { return PyFloat_CheckExact(object) || PyLong_CheckExact(object); }

// Floats bit by bit: -0.0 is another one than 0.0.
bool same_number(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b) || !is_number(a)) return false;
  if (PyFloat_CheckExact(a))
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(a)) == std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(b));
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool same_operand(const Computation::Operand& a, const Computation::Operand& b) {
  if (!a.source != !b.source || !(a.integer == b.integer) || a.integers != b.integers) return false;
  return a.source ? same_source(*a.source, *b.source) : same_number(a.constant.get(), b.constant.get());
}

bool same_keywords(const Computation& a, const Computation& b) {
  if (!a.keywords || !b.keywords) return !a.keywords && !b.keywords;
  const int equal = PyObject_RichCompareBool(a.keywords.get(), b.keywords.get(), Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

}  // namespace

std::string Computation::name() const {
  PyRef name = PyRef::steal(PyObject_GetAttrString(function.get(), "__name__"));
  const char* utf8 = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  const auto add = [](std::string* text, const Operand& operand) {
    const auto add_integer = [](std::string* to, const graph::Sym& integer) { *to += integer.str(); };
    absl::StrAppend(text, operand.source              ? operand.source->name()
                          : operand.constant          ? shown_repr(operand.constant.get())
                          : !operand.integers.empty() ? absl::StrJoin(operand.integers, ", ", add_integer)
                                                      : operand.integer.str());
  };
  if (draw < 0) return absl::StrCat(utf8 ? utf8 : "?", "(", absl::StrJoin(operands, ", ", add), ")");
  // Without a generator it makes one.
  const bool has_generator = !operands.empty() && operands[0].source;
  const auto arguments = std::vector(operands.begin() + has_generator, operands.end());
  return absl::StrCat(has_generator ? operands[0].source->name() + "." : "", utf8 ? utf8 : "?", "(",
                      absl::StrJoin(arguments, ", ", add), ") #", draw);
}

PyRef Computation::call(PyObject* const* numbers) const {
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_generator = draw >= 0 && i == 0;
    const bool is_number_operand =
        !operands[i].constant && !operands[i].is_object && operands[i].integers.empty();
    if (is_number_operand && !is_generator && !is_number(numbers[i])) return {};
  }
  const size_t named = keywords ? PyTuple_GET_SIZE(keywords.get()) : 0;
  PyRef number =
      PyRef::steal(PyObject_Vectorcall(function.get(), numbers, operands.size() - named, keywords.get()));
  if (number) return number;
  // Methods of random.Random are Python, in which signals are handled.
  if (PyErr_ExceptionMatches(PyExc_Exception))
    PyErr_Clear();
  else
    interrupt_later();
  return {};
}

bool same_computation(const Computation* a, const Computation* b) {
  if (a == b) return true;
  return a && b && a->draw == b->draw && a->function.get() == b->function.get() && same_keywords(*a, *b) &&
         std::ranges::equal(a->operands, b->operands, same_operand);
}

size_t hash_computation(const Computation* computation) {
  if (!computation) return 0;
  size_t hash = absl::HashOf(computation->function.get(), computation->operands.size(), computation->draw);
  for (const Computation::Operand& operand : computation->operands)
    if (operand.source) hash = absl::HashOf(hash, hash_source(*operand.source));
  return hash;
}

}  // namespace cdynamo::symbolic
