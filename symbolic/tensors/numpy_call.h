// A call of NumPy's library (a _numpy_library.NumpyCall) as it is made while a graph runs, without Python code between the graph and
// the function: of the usual arguments, which are operands and constants.
//
//   if (call->run(inputs, outputs) == NumpyCall::Outcome::kOther) ...  // Python makes it, and says what is wrong
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/types.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// A NumPy array over memory that it does not own; of no memory, of its own. Null with a Python error set.
PyRef array_over(const runtime::TensorView& view);

class NumpyCall {
 public:
  // Null: the object in Python is no such call, or its arguments are to be decoded.
  static std::unique_ptr<NumpyCall> of(PyObject* call);

  // kOther: what the function gave is not what the graph says, and nothing has been written.
  enum class Outcome { kWritten, kRaised, kOther };
  Outcome run(std::span<const runtime::TensorView> inputs,
              std::span<const runtime::TensorView> outputs) const;

 private:
  // What the program has where the graph has an array: the array, NumPy's scalar, Python's number.
  enum class Form : uint8_t { kArray, kScalar, kNumber };
  struct Operand {
    Form form;
    bool is_complex;  // the graph has its pairs
  };
  struct Argument {
    int operand;  // -1: a constant
    PyRef constant;
  };
  static PyRef given(const Operand& operand, const runtime::TensorView& view);

  PyRef function_, keywords_;  // keywords: null where there are none
  PyRef error_state_,
      no_errors_;  // NumPy's context variable, and what it is while the function runs; null: NumPy 1
  bool checks_strides_ =
      false;  // sizes change from call to call: results may lie otherwise than the graph says
  std::vector<Operand> operands_;
  std::vector<Argument> arguments_;
};

}  // namespace cdynamo::symbolic
