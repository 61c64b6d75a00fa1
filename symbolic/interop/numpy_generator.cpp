#include "symbolic/interop/numpy_generator.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "symbolic/interop/interruption.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::symbolic {
namespace {

// ---- where a state lies

struct Span {
  char* data;
  size_t bytes;
};

// A bit generator's state is a struct that begins with pointers to parts of it.
struct BitsRow {
  const char* type;
  std::array<size_t, 2> pointed;  // bytes behind each pointer; 0: there is none
  size_t bytes;                   // of the struct after these
};
// pcg64.h, sfc64.h, mt19937.h, philox.h of NumPy.
constexpr BitsRow kBits[] = {
    {"numpy.random._pcg64.PCG64", {32}, 8},
    {"numpy.random._pcg64.PCG64DXSM", {32}, 8},
    {"numpy.random._mt19937.MT19937", {}, 625 * sizeof(uint32_t)},
    {"numpy.random._sfc64.SFC64", {}, 40},
    {"numpy.random._philox.Philox", {32, 16}, 48},
};
constexpr size_t kNumBits = std::size(kBits);

// Of the class itself, which is looked up once. `known`: the place for it.
bool is_instance(PyObject* object, PyObject*& known, const char* path) {
  PyTypeObject* type = Py_TYPE(object);
  if (!known && std::string_view(type->tp_name) == path) known = loaded_object(path).release();
  return reinterpret_cast<PyObject*>(type) == known;
}

const BitsRow* row_of(PyObject* bits) {
  static std::array<PyObject*, kNumBits> known = {};
  for (size_t i = 0; i < kNumBits; ++i)
    if (is_instance(bits, known[i], kBits[i].type)) return &kBits[i];
  return nullptr;
}

bool is_random_state(PyObject* generator) {
  static PyObject* known = nullptr;
  return is_instance(generator, known, "numpy.random.mtrand.RandomState");
}

bool is_generator(PyObject* object) {
  static PyObject* known = nullptr;
  return is_instance(object, known, "numpy.random._generator.Generator");
}

// The first field of its bitgen_t; null with an error.
char* state_behind(PyObject* bits) {
  const PyRef capsule = PyRef::steal(PyObject_GetAttr(bits, interned("capsule")));
  auto* interface = capsule ? PyCapsule_GetPointer(capsule.get(), "BitGenerator") : nullptr;
  return interface ? *static_cast<char**>(interface) : nullptr;
}

using Spans = std::array<Span, 4>;
// Empty ones with an error.
Spans spans_of_bits(PyObject* bits, const BitsRow& row) {
  Spans spans = {};
  char* state = state_behind(bits);
  if (!state) return spans;
  for (size_t i = 0; i < row.pointed.size() && row.pointed[i]; ++i) {
    std::memcpy(&spans[i].data, state, sizeof(char*));
    spans[i].bytes = row.pointed[i];
    state += sizeof(char*);
  }
  spans[2] = {state, row.bytes};
  return spans;
}

// aug_bitgen_t in a RandomState: a pointer to the bitgen_t that is in the same object, then whether there is a number and that number.
Span number_of_random_state(PyObject* generator, PyObject* bits) {
  constexpr size_t kWord = sizeof(char*);
  char *begin = reinterpret_cast<char*>(generator), *state = state_behind(bits);
  const size_t size = Py_TYPE(generator)->tp_basicsize;
  for (size_t at = sizeof(PyObject); state && at + 3 * kWord <= size; at += kWord) {
    char *interface, *behind;
    std::memcpy(&interface, begin + at, kWord);
    if (interface < begin + sizeof(PyObject) || interface + kWord > begin + size) continue;
    std::memcpy(&behind, interface, kWord);
    if (behind == state) return {begin + at + kWord, 2 * kWord};
  }
  return {};
}

Spans spans_of(PyObject* generator, PyObject* bits) {
  const BitsRow* row = bits ? row_of(bits) : nullptr;
  Spans spans = row ? spans_of_bits(bits, *row) : Spans{};
  if (is_random_state(generator)) spans[3] = number_of_random_state(generator, bits);
  return spans;
}

void copy_spans(const Spans& from, const Spans& to) {
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].data && to[i].data) std::memcpy(to[i].data, from[i].data, from[i].bytes);
}

// One with half of a number left over, as 32 bits of 64.
PyRef other_bit_generator(PyTypeObject* type) {
  PyRef made = PyRef::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
  PyObject* generator_type = library_object("numpy.random", "Generator");
  const PyRef generator =
      made && generator_type ? PyRef::steal(PyObject_CallOneArg(generator_type, made.get())) : PyRef();
  if (!generator) return {};
  const PyRef drawn = PyRef::steal(PyObject_CallMethod(generator.get(), "integers", "iiOO", 0, 10, Py_None,
                                                       library_object("numpy", "uint32")));
  return drawn ? std::move(made) : PyRef();
}

// NumPy holds a bit generator's lock, and not the GIL, while it fills an array.
class HeldLock {
 public:
  explicit HeldLock(PyObject* bits) : lock_(PyRef::steal(PyObject_GetAttr(bits, interned("lock")))) {
    const PyRef acquired =
        lock_ ? PyRef::steal(PyObject_CallMethodNoArgs(lock_.get(), interned("acquire"))) : PyRef();
    if (!acquired) lock_ = {}, note_error();
  }
  ~HeldLock() {
    if (lock_ && !PyRef::steal(PyObject_CallMethodNoArgs(lock_.get(), interned("release")))) note_error();
  }
  HeldLock(const HeldLock&) = delete;

 private:
  // Signals are handled while a thread waits.
  static void note_error() {
    if (PyErr_ExceptionMatches(PyExc_Exception))
      PyErr_Clear();
    else
      interrupt_later();
  }
  PyRef lock_;
};

// ---- whether it does

// Asked once a process for each kind, of a copy that was in another state before: what Python tells of the two is the same.
bool says_python(PythonSide check, PyObject* original, const PyRef& copy) {
  const PyRef same =
      PyRef::steal(PyObject_CallFunctionObjArgs(python_side(check), original, copy.get(), nullptr));
  const bool holds = same.get() == Py_True;
  PyErr_Clear();
  return holds;
}

bool lie_as_known(PyObject* bits, const BitsRow& row) {
  enum : uint8_t { kUnknown, kNo, kYes };
  static std::array<uint8_t, kNumBits> known = {};
  uint8_t& answer = known[&row - kBits];
  if (answer == kUnknown) {
    const PyRef copy = copy_of_bit_generator(bits);
    PyErr_Clear();
    answer = copy && says_python(PythonSide::kSameBits, bits, copy) ? kYes : kNo;
  }
  return answer == kYes;
}

bool number_lies_as_known(PyObject* generator, PyObject* bits) {
  static const bool is_known = [&] {
    const PyRef other_bits = copy_of_bit_generator(bits);
    const PyRef other = other_bits ? copy_of_numpy_generator(generator, other_bits.get()) : PyRef();
    // The second one of two numbers is left over.
    const PyRef drawn =
        other ? PyRef::steal(PyObject_CallMethod(other.get(), "standard_normal", nullptr)) : PyRef();
    if (drawn) copy_spans(spans_of(generator, bits), spans_of(other.get(), other_bits.get()));
    PyErr_Clear();
    return drawn && says_python(PythonSide::kSameRandomState, generator, other);
  }();
  return is_known;
}

}  // namespace

bool is_numpy_generator(PyObject* object) {
  const bool is_legacy = is_random_state(object);
  if (!is_legacy && !is_generator(object)) return false;
  const PyRef bits = bit_generator_of(object);
  const BitsRow* row = bits ? row_of(bits.get()) : nullptr;
  PyErr_Clear();
  return row && lie_as_known(bits.get(), *row) && (!is_legacy || number_lies_as_known(object, bits.get()));
}

PyRef bit_generator_of(PyObject* generator) {
  return PyRef::steal(PyObject_GetAttr(generator, interned("_bit_generator")));
}

PyRef copy_of_bit_generator(PyObject* bits) {
  const BitsRow* row = row_of(bits);
  PyRef made = row ? other_bit_generator(Py_TYPE(bits)) : PyRef();
  if (made) copy_spans(spans_of_bits(bits, *row), spans_of_bits(made.get(), *row));
  return PyErr_Occurred() ? PyRef() : std::move(made);
}

PyRef copy_of_numpy_generator(PyObject* generator, PyObject* bits) {
  PyRef made = PyRef::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(generator)), bits));
  if (!made || !is_random_state(generator)) return made;
  const PyRef own = bit_generator_of(generator);
  if (!own) return {};
  const Span from = number_of_random_state(generator, own.get()),
             to = number_of_random_state(made.get(), bits);
  if (from.data && to.data) std::memcpy(to.data, from.data, from.bytes);
  return PyErr_Occurred() ? PyRef() : std::move(made);
}

NumpyGeneratorState::NumpyGeneratorState(PyObject* generator)
    : generator_(PyRef::borrow(generator)), bits_(bit_generator_of(generator)) {
  const Spans spans = spans_of(generator, bits_.get());
  size_t bytes = 0;
  for (const Span& span : spans) bytes += span.bytes;
  memory_.reserve(bytes);
  for (const Span& span : spans) memory_.insert(memory_.end(), span.data, span.data + span.bytes);
  PyErr_Clear();
}

void NumpyGeneratorState::put_back() const {
  const HeldLock lock(bits_.get());
  const char* saved = memory_.data();
  for (const Span& span : spans_of(generator_.get(), bits_.get())) {
    if (span.data) std::memcpy(span.data, saved, span.bytes);
    saved += span.bytes;
  }
}

}  // namespace cdynamo::symbolic
