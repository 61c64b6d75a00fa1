// The states of NumPy's generators of random numbers (numpy.random.Generator and RandomState), which their draws change. A bit
// generator's is copied as it lies in memory behind its C interface (bitgen_t in numpy/random/bitgen.h), and what RandomState adds, the
// second of two normal numbers, as it lies in the object: to ask MT19937 for its state takes as long as a thousand draws.
#pragma once

#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// A Generator or RandomState itself, over one of NumPy's own bit generators, whose states lie in memory as they are known to.
bool is_numpy_generator(PyObject* object);
// Two generators may share one. Null with an error.
PyRef bit_generator_of(PyObject* generator);
// Another one in the same state; null with an error.
PyRef copy_of_bit_generator(PyObject* bits);
PyRef copy_of_numpy_generator(PyObject* generator, PyObject* bits);  // over `bits`

class NumpyGeneratorState {
 public:
  explicit NumpyGeneratorState(PyObject* generator);
  PyObject* generator() const { return generator_.get(); }
  void put_back() const;

 private:
  PyRef generator_, bits_;
  std::vector<char> memory_;
};

}  // namespace cdynamo::symbolic
