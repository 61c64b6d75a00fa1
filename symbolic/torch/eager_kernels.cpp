#include "symbolic/torch/eager_kernels.h"

#include <cmath>

#include "graph/op.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::symbolic {
namespace {

// The quotient may leave the range of float32, in which half types are computed: not where the divisor is a number of ordinary size, and not
// in float16. Of float32, whose divisors would have to be as small as its smallest normal numbers, the operator's definition is kept.
bool may_overflow(const BoundCall& call) {
  if (call.args.size() < 2) return false;
  const auto* value = std::get_if<graph::Value*>(&call.args[0]);
  if (!value || !*value || (*value)->type.dtype != runtime::DType::kBF16) return false;
  const auto* divisor = std::get_if<double>(&call.args[1]);
  return std::holds_alternative<graph::Value*>(call.args[1]) || (divisor && std::abs(*divisor) < 1);
}

struct Row {
  std::string_view op;
  PythonSide probe;  // whether the kernel deviates; called once
  bool (*affects)(const BoundCall& call);
};
constexpr Row kEagerKernelRows[] = {
    {"fmod", PythonSide::kFmodOverflows, may_overflow},
    {"remainder", PythonSide::kFmodOverflows, may_overflow},
};

}  // namespace

bool needs_eager_kernel(const graph::OpDef& op, const BoundCall& call) {
  for (const Row& row : kEagerKernelRows)
    if (op.name == row.op && row.affects(call))
      return checked(PyObject_CallNoArgs(python_side(row.probe))).get() == Py_True;
  return false;
}

}  // namespace cdynamo::symbolic
