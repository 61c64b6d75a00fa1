#include "symbolic/interop/generator_state.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {
namespace {

constexpr Py_ssize_t kWords = 624;
// Of _random.Random: the head of an object, the index and the words.
constexpr size_t kObjectBytes = (sizeof(PyObject) + 625 * sizeof(uint32_t) + 7) / 8 * 8;

// What getstate() of _random.Random tells is what lies in memory: the words, then the index.
bool lies_as_known(PyObject* generator, const char* memory) {
  if (static_cast<size_t>(Py_TYPE(generator)->tp_base->tp_basicsize) != kObjectBytes) return false;
  PyObject* getstate = library_object("_random", "Random.getstate");
  PyRef state = getstate ? PyRef::steal(PyObject_CallOneArg(getstate, generator)) : PyRef();
  if (!state || !PyTuple_Check(state.get()) || PyTuple_GET_SIZE(state.get()) != kWords + 1) {
    PyErr_Clear();
    return false;
  }
  for (Py_ssize_t i = 0; i <= kWords; ++i) {
    uint32_t word;
    std::memcpy(&word, memory + (i == kWords ? 0 : i + 1) * sizeof(word), sizeof(word));
    if (PyLong_AsUnsignedLong(PyTuple_GET_ITEM(state.get(), i)) != word) return PyErr_Clear(), false;
  }
  return true;
}

}  // namespace

char* GeneratorState::memory_of(PyObject* generator) {
  return reinterpret_cast<char*>(generator) + sizeof(PyObject);
}

bool is_random_generator(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  if (std::string_view(type->tp_name) != "Random" ||
      as_object(Py_TYPE(object)) != library_object("random", "Random"))
    return false;
  static const bool is_known = lies_as_known(object, GeneratorState::memory_of(object));
  return is_known;
}

GeneratorState::GeneratorState(PyObject* generator)
    : generator_(PyRef::borrow(generator)),
      gauss_next_(PyRef::steal(PyObject_GetAttr(generator, interned("gauss_next")))) {
  PyErr_Clear();
  std::memcpy(memory_.data(), memory_of(generator), kBytes);
}

void GeneratorState::copy_to(PyObject* generator) const {
  std::memcpy(memory_of(generator), memory_.data(), kBytes);
  if (gauss_next_ && PyObject_SetAttr(generator, interned("gauss_next"), gauss_next_.get()) < 0)
    PyErr_Clear();
}

PyRef GeneratorState::new_generator() const {
  PyRef made = PyRef::steal(PyObject_CallNoArgs(as_object(Py_TYPE(generator_.get()))));
  if (made) copy_to(made.get());
  return made;
}

bool GeneratorStates::save(PyObject* generator) {
  const auto is_its = [&](const auto& state) { return state.generator() == generator; };
  if (std::ranges::any_of(states_, is_its) || std::ranges::any_of(numpy_states_, is_its)) return true;
  if (is_random_generator(generator))
    states_.emplace_back(generator);
  else if (is_numpy_generator(generator))
    numpy_states_.emplace_back(generator);
  else
    return false;
  return true;
}

void GeneratorStates::put_back() {
  for (const GeneratorState& state : states_) state.put_back();
  // Of generators that share a bit generator the first one has saved it before the others drew.
  for (auto state = numpy_states_.rbegin(); state != numpy_states_.rend(); ++state) state->put_back();
  clear();
}

}  // namespace cdynamo::symbolic
