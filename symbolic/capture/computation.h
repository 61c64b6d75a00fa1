// Computation: a number that changes from call to call, as a C function of other numbers: 0.9 ** step, math.cos(angle),
// rate < 0.1. Python itself computes it at each call, so that its rounding, its errors and its types are Python's. Sources of the
// kind kComputed name one; guards and the graph's inputs refer to them. What a method of a generator of random numbers draws is one as
// well: a number, or NumPy's array of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/sizes/sym.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

struct Source;

struct Computation {
  // One of: the number that a source names, an expression of sizes and ints, a tuple of these, an object known since capture.
  struct Operand {
    std::shared_ptr<const Source> source;
    graph::Sym integer;
    PyRef constant;
    std::vector<graph::Sym> integers = {};
    bool is_object = false;  // an array or a scalar of NumPy's, as guards of the source say
  };

  static constexpr int kMostSteps = 64;  // they are computed at each call
  static constexpr size_t kMostOperands = 8;

  PyRef function;  // of C, and pure: it is called with exact ints and floats alone
  std::vector<Operand> operands;
  PyRef keywords;  // a tuple: the names of the last operands; null: they have none
  int steps = 1;   // calls, those of the operands included
  // >= 0: `function` is a method of the first operand, a generator, which draws the number; or it makes one (numpy.random.default_rng).
  // The draws of a call are counted from 0, and made in this order.
  int draw = -1;
  bool is_random = false;  // it is a draw, or computed of one

  std::string name() const;  // "pow(0.9, step)"
  // The number; null without an error where an operand is no exact int or float, or Python refuses it.
  PyRef call(PyObject* const* numbers) const;
};

// Structural equality and hash, as of sources.
bool same_computation(const Computation* a, const Computation* b);
size_t hash_computation(const Computation* computation);

}  // namespace cdynamo::symbolic
