// Numbers of tensors as Python's: x.item(), int(x), float(x). A float stays a 0-dim value of the graph, an int becomes a size symbol
// that the graph reads when it runs (core.read_int). What Python does with them is a node or an expression; what cannot be
// either, such as a branch, breaks the graph there.
#pragma once

#include "symbolic/tensors/array_value.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

// `what` names the call where the graph breaks: tensors of several elements, of bools; backends in Python.
ValuePtr read_item(Executor& ex, const ArrayValue& tensor, const char* what);
ValuePtr read_int(Executor& ex, const ArrayValue& tensor, const char* what);
ValuePtr read_float(Executor& ex, const ArrayValue& tensor, const char* what);
// A 0-dim tensor of PyTorch's that needs no gradient, or an integer of NumPy's: PyTorch's parser takes it for a number.
bool is_readable_number(const ArrayValue& tensor);
// Of a tensor of ints: what x[:n] and the like take.
ValuePtr read_index(Executor& ex, const ArrayValue& tensor, const char* what);
ValuePtr read_bool(Executor& ex, const ArrayValue& tensor, const char* what);
// Of one bool that constants alone decide.
std::optional<bool> known_truth(Executor& ex, const ArrayValue& tensor);
// tolist(): lists in lists of the numbers, of a few.
ValuePtr read_list(Executor& ex, const ArrayValue& tensor, const char* what);

// A method of an array's or a tensor's that takes no arguments and reads a number.
template <ValuePtr (*kRead)(Executor&, const ArrayValue&, const char*), const char* const& kName>
ValuePtr number_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, kName, args);
  if (!args.positional.empty()) break_graph("CD0406", kName);
  return kRead(ex, static_cast<const ArrayValue&>(*self), kName);
}

// An int or a float of the graph's as a plain 0-dim value; null: it is none. Within a recorded call.
graph::Value* graph_number(Executor& ex, const ValuePtr& number);

// The symbol, not less than `min`, whose value a 0-dim int64 or float64 is.
graph::Sym read_data_symbol(Executor& ex, graph::Value* element, int64_t min);

// While one lives no gradient flows into what is appended.
class WithoutGradient {
 public:
  explicit WithoutGradient(Executor& ex) : capture_(tensor_capture(ex)), before_(capture_.grad_mode) {
    capture_.grad_mode = false;
  }
  ~WithoutGradient() { capture_.grad_mode = before_; }
  WithoutGradient(const WithoutGradient&) = delete;

 private:
  TensorCapture& capture_;
  bool before_;
};

}  // namespace cdynamo::symbolic
