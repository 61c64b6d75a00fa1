// Operands of a library call whose sizes change from call to call, and the sizes of its results as expressions of theirs: what
// python/cdynamo/_sized_calls.py asks and tells.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

class OperandSizes {
 public:
  OperandSizes() = default;  // of operands whose sizes are those of this call
  // `are_known`: none changes, or an operand is not of a form that a call takes.
  OperandSizes(Executor& ex, std::span<graph::Value* const> operands);
  bool are_known() const { return variables_.empty(); }
  // Sizes that are equal in this call are taken to be so in every call, which is guarded: an operator may want them equal. False: all
  // differ.
  bool take_equal_sizes(Executor& ex) const;
  // One for each operand: a tuple of sizes, each an int or (index of a size that changes,), and a tuple of strides, each (factor, dims by
  // whose sizes it is multiplied).
  const std::vector<std::pair<PyRef, PyRef>>& forms() const { return forms_; }
  PyRef hints() const;  // a tuple: the sizes that change, as they are in this call
  // The type of a result, whose sizes are (constant, coefficients, half): the sizes that change are multiplied by the coefficients, and
  // half is None or (index, added), which adds half of the sum, rounded down.
  void read(PyObject* sizes, PyObject* order, graph::TensorType& type) const;

 private:
  PyRef size_form(const graph::Sym& size);
  PyRef layout_form(const graph::TensorType& type,
                    const std::vector<int64_t>& order) const;  // null: it has none
  bool add(const graph::TensorType& type);

  const graph::SymContext* context_ = nullptr;
  std::vector<graph::Sym> variables_;
  std::vector<std::pair<PyRef, PyRef>> forms_;
};

}  // namespace cdynamo::symbolic
