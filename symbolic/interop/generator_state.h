// The state of a random.Random, which its draws change. It is copied as it lies in memory (RandomObject, Modules/_randommodule.c): that
// takes a hundredth of the time of getstate(). Draws that turn out to be in vain are taken back with it, those of NumPy's generators too
// (numpy_generator.h).
#pragma once

#include <array>
#include <vector>

#include "symbolic/interop/numpy_generator.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// An instance of random.Random itself, whose state lies in memory as it is known to.
bool is_random_generator(PyObject* object);

class GeneratorState {
 public:
  explicit GeneratorState(PyObject* generator);
  PyObject* generator() const { return generator_.get(); }
  void put_back() const { copy_to(generator_.get()); }
  PyRef new_generator() const;  // in this state; null with an error

 private:
  static constexpr size_t kBytes = 625 * sizeof(uint32_t);  // the index, and 624 words
  static char* memory_of(PyObject* generator);
  void copy_to(PyObject* generator) const;
  friend bool is_random_generator(PyObject* object);

  PyRef generator_, gauss_next_;
  std::array<char, kBytes> memory_;
};

// Those of the generators that one call draws from, as they were before.
class GeneratorStates {
 public:
  bool save(PyObject* generator);  // the first time that it is named. False: its state is not known
  void put_back();                 // and forgets them
  void clear() {
    if (!states_.empty()) states_.clear();
    if (!numpy_states_.empty()) numpy_states_.clear();
  }

 private:
  std::vector<GeneratorState> states_;
  std::vector<NumpyGeneratorState> numpy_states_;
};

}  // namespace cdynamo::symbolic
