#include "runtime/library/library.h"

namespace cdynamo::runtime {

bool library_callback(const LibraryArgs& args, RunError* error) {
  if (!args.callbacks || !args.callbacks->call) {
    *error = {RunError::kRuntimeError,
              "this graph calls an operator of the framework, and the caller gave no way to do so"};
    return false;
  }
  auto* outputs = const_cast<TensorView*>(args.operands + args.num_inputs);
  if (args.callbacks->call(args.callbacks->context, args.user_call, args.operands, args.num_inputs, outputs,
                           args.num_operands - args.num_inputs, args.brought))
    return true;
  *error = {RunError::kPythonError, "an operator of the framework failed"};
  return false;
}

}  // namespace cdynamo::runtime
