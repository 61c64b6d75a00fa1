// Tensors and arrays as symbolic values: what torch's and NumPy's share. ArrayValue is a Python object whose
// content is a graph value; TensorCapture is what a capture knows of all of them: inputs, storage, grad mode.
#pragma once

#include <array>
#include <climits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "graph/graph.h"
#include "symbolic/capture/executor.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::symbolic {

class ArrayValue : public SymbolicValue {
 public:
  explicit ArrayValue(graph::Value* value, SourcePtr from = nullptr) : value_(value) {
    source = std::move(from);
  }
  graph::Value* value() const { return value_; }
  // Its content is another value from here on: an assignment to `.data`.
  void rebind(graph::Value* value) { value_ = value; }
  const graph::TensorType& array_type() const { return value_->type; }
  int rank() const { return value_->type.rank(); }

  bool is_same_object(const SymbolicValue& other) const override;
  PyRef hash_key(Executor& ex) override;  // tensors are told apart by identity; arrays have no hash
  RecipePtr recipe(Executor& ex) override;

  bool requires_grad() const { return value_->requires_grad; }

  virtual graph::Framework framework() const = 0;
  // One of NumPy's scalars, known only at run time: what x.sum() gives of an array.
  virtual bool is_scalar() const { return false; }

 protected:
  virtual RecipeKind output_kind() const { return RecipeKind::kTensor; }
  // The output of the graph that is the array's content, and what makes the object of it that the program has.
  virtual graph::Value* output(Executor&) { return value_; }
  virtual RecipePtr made_of_output(Executor&, RecipePtr output) { return output; }
  RecipePtr recipe_;

 private:
  graph::Value* value_;
};

// "f32[8, s0]".
std::string type_text(const graph::TensorType& type);

// ---- the capture's state

struct ArrayInput {
  std::shared_ptr<ArrayValue> array;
  SourcePtr source;  // the array's own is null where the call makes it (add_made_input)
  PyRef object;
  TensorInfo info;  // as it was at capture
  bool written = false;
};

// torch.autocast, as the program has set it since capture began.
struct AutocastState {
  struct OfDevice {
    bool enabled = false;
    graph::DType dtype{};
  };
  bool known = false;  // it can be read
  bool cache = false;
  std::array<OfDevice, 2> devices = {};  // by runtime::DeviceType
  bool enabled() const { return devices[0].enabled || devices[1].enabled; }
  void disable() {
    for (OfDevice& device : devices) device.enabled = false;
  }
  int nesting = 0;             // how often it was entered less how often it was left
  bool cache_cleared = false;  // the program left a region that it was called in
};

// Which kernels scaled_dot_product_attention may choose (symbolic/torch/attention_backends.cpp).
struct AttentionBackends {
  struct Flag {
    bool known = false, now = false, before = false;
  };
  std::array<Flag, 5> flags = {};
  std::shared_ptr<SymbolicValue> effect;
  bool are_changed() const;
};

// See symbolic/tensors/possible_alias.h.
struct PossibleAlias {
  const graph::Value *from, *result;
  const char *broken, *what;
  int64_t step;  // of the root frame
};

struct TensorCapture {
  bool has_state = false;
  TorchState state;        // torch's, when capture began to use it
  bool grad_mode = false;  // as the program has set it since
  std::shared_ptr<SymbolicValue> grad_mode_effect;
  // torch.inference_mode, as the program has set it since, and the ids of the values that were made while it was on.
  bool inference_mode = false;
  std::vector<std::pair<int, int>> inference_values;  // from, up to
  std::shared_ptr<SymbolicValue> inference_effect;
  // What the program has set since for functions that make tensors (symbolic/torch/factory_defaults.h).
  struct FactoryDefaults {
    std::vector<ValuePtr> entered;      // torch.device as a context, outermost first
    ValuePtr device;                    // torch.set_default_device; null: not set
    std::optional<graph::DType> dtype;  // torch.set_default_dtype, where it is another than before
    std::shared_ptr<SymbolicValue> effect;
  } factory_defaults;
  // __torch_function__ modes that the program has entered since, outermost first (symbolic/torch/function_modes.h).
  struct FunctionModes {
    std::vector<ValuePtr> entered;
    std::shared_ptr<SymbolicValue> effect;
  } function_modes;
  // Hooks of saved tensors, as the program has entered and disabled them since (symbolic/torch/saved_tensors.cpp).
  struct SavedTensorHooks {
    int entered = 0;
    PyRef disabled;  // the message; null: they are enabled
    std::shared_ptr<SymbolicValue> effect;
  } saved_tensor_hooks;
  // Tensors that captured code has made and that require grad, and the same content without (symbolic/torch/made_leaves.h).
  absl::flat_hash_map<const graph::Value*, graph::Value*> made_leaves;
  absl::flat_hash_set<const graph::Value*> written_leaves;  // of these
  std::vector<graph::Value*> outputs_of_leaves;             // that require grad for these alone
  AutocastState autocast, autocast_before;
  std::shared_ptr<SymbolicValue> autocast_effect;
  AttentionBackends attention_backends;
  bool uses_torch = false, uses_numpy = false;  // a tensor, an array or a call of theirs was met
  std::vector<graph::Framework> rules;          // see FrameworkRules, innermost last
  absl::flat_hash_set<const graph::Value*>
      shared;  // storage that is both a tensor's and an array's, by its base
  std::vector<std::unique_ptr<ArrayInput>> inputs;
  absl::flat_hash_map<const graph::Value*, PyRef>
      embedded;  // inputs that capture has made: their numbers stay
  // The input whose storage a value shares; values of their own storage are absent.
  absl::flat_hash_map<const graph::Value*, int> storage_of;
  absl::flat_hash_map<const graph::Value*, ValuePtr> objects;  // the object that stands for a graph value
  // The value whose storage a view looks at; values of their own storage are absent.
  absl::flat_hash_map<const graph::Value*, graph::Value*> base_of;
  absl::flat_hash_map<const graph::Value*, ValuePtr> leaf_gradients;  // .grad, where it was looked at
  // What the graph has made and is to keep its gradient (retain_grad), and the step of the root frame that said so.
  absl::flat_hash_map<const graph::Value*, int64_t> retained;
  // Results whose operators may have saved tensors that a captured backward has freed, and the step of the root frame that ran it.
  absl::flat_hash_map<const graph::Value*, int64_t> freed;
  absl::flat_hash_set<const graph::Value*> cut;                // views that no gradient flows through
  absl::flat_hash_set<const graph::Value*> updated_leaves;     // require grad, and were written under no_grad
  absl::flat_hash_set<const graph::Value*> refused_histories;  // inputs that PyTorch will not differentiate
  // By graph::ViewHistory::counter: values with a smaller id were made before the last write.
  absl::flat_hash_map<const graph::Value*, int> written_at;
  struct Nonzero {
    std::vector<graph::Value*> indices;
    int made_at = 0;  // next_value_id by then
  };
  absl::flat_hash_map<const graph::Value*, Nonzero> nonzero;  // see symbolic/tensors/nonzero.h
  std::vector<PossibleAlias> possible_aliases;
  // Ways that are captured beside another one, outermost first (symbolic/tensors/ways.h), and how many of them a call is made in.
  struct Way {
    graph::Value* condition;
    bool if_true;
    int first_value;  // values with a smaller id were made before, and so were inputs
    absl::flat_hash_map<const graph::Value*, graph::Value*> gates;
  };
  std::vector<Way> ways;
  size_t entered_ways = 0;
  absl::flat_hash_set<const graph::Value*>
      reads_of_ways;  // by indices that are in range where the way is not taken
  int regions = 0;    // checkpoints that were entered
  std::vector<size_t>
      backward_begins;  // nodes of the graph when a Function's backward was entered, outermost first
  // torch.vmap, innermost last: what stands for one example of each batched tensor.
  struct Batch {
    size_t first_node, end_node;  // of what is computed of one example
    int first_value;
    std::vector<graph::Value*> examples;
  };
  std::vector<Batch> batches;
  absl::flat_hash_set<int> of_one_example;  // ids of values that no graph has any more
};
TensorCapture& tensor_capture(Executor& ex);
// Breaks the graph where the value was computed of one example of a batch, and the program has kept it.
void refuse_one_example(const TensorCapture& capture, const graph::Value* value);
const graph::Value* base_of(const TensorCapture& capture, const graph::Value* value);
// A view that was made under no_grad, of what requires grad: for PyTorch it is a leaf of its own.
bool is_another_leaf(const TensorCapture& capture, const graph::Value* value);
// Whether something was computed of the leaf that has a history.
bool is_read_by_backward(Executor& ex, const graph::Value* leaf);
// A tensor that was made under torch.inference_mode(), or a view of one.
bool is_inference_value(const TensorCapture& capture, const graph::Value* value);
// Same, once torch is known to be used: reads its state, and leaves the frame to Python where a mode is in
// the way.
TensorCapture& torch_capture(Executor& ex);
// The program uses the framework: its state is read and guarded.
void use_framework(Executor& ex, graph::Framework framework);

// Calls that are captured while one lives follow the framework's rules (graph::Node::framework). The innermost counts; outside of all
// they are torch's in a program that has used torch.
class FrameworkRules {
 public:
  FrameworkRules(Executor& ex, graph::Framework framework);
  ~FrameworkRules();
  FrameworkRules(const FrameworkRules&) = delete;

 private:
  Executor& ex_;
};

// Grows with each side effect, write to a tensor and draw of random numbers (Python's too) that capture has met.
int64_t changes_so_far(Executor& ex);

// A tensor or array that is handed around and not compiled.
ValuePtr make_opaque_tensor(Executor& ex, PyObject* object, std::string obstacle, const SourcePtr& source);

// Registers an input: guard, sizes, storage. `make` makes its value from the graph input.
using MakeArray = std::shared_ptr<ArrayValue> (*)(graph::Value*, const SourcePtr&, PyObject*);
ValuePtr wrap_array_input(Executor& ex, PyObject* object, const SourcePtr& source, MakeArray make);
// Same, of one that each call makes anew, from a source that only guards and graph inputs name: its sizes are said by `sizes`.
std::shared_ptr<ArrayValue> add_made_input(Executor& ex, PyObject* object, const SourcePtr& source,
                                           std::vector<graph::Sym> sizes, MakeArray make);
// A tensor or array made during capture that nobody else sees: an input that is always the same. What the
// program gets is a copy of it (the value that is returned), since each call of the program makes a new one.
graph::Value* embed_constant(Executor& ex, PyObject* object, MakeArray make);

// A built-in method of a tensor or array, read and not yet called.
class BoundMethod : public SymbolicValue {
 public:
  BoundMethod(ValuePtr self, PyRef name) : self_(std::move(self)), name_(std::move(name)) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;

 protected:
  const PyRef& name() const { return name_; }
  CallArgs with_self(CallArgs args) const;

 private:
  ValuePtr self_;
  PyRef name_;
  RecipePtr recipe_;
};

// A method that has no rule: reading it is fine. `call` makes the node of a call of it, for bodies of recorded_call;
// null: a call breaks the graph.
ValuePtr make_unknown_method(ValuePtr self, PyObject* name,
                             ValuePtr (*call)(Executor& ex, const CallArgs& args));

// ---- calls of operators

// How Python arguments are matched with a schema's parameters.
enum class Convention : uint8_t { kTorchFunction, kTorchMethod, kNumpy };

struct BoundCall {
  int overload = 0;
  std::vector<graph::Arg> args;
};
// The first overload that takes these arguments, as PyTorch's parser decides (or NumPy's signatures say);
// breaks the graph where there is none. A method's receiver is the first positional argument.
BoundCall bind_call(Executor& ex, const graph::OpDef& op, const CallArgs& args, Convention convention,
                    bool in_place = false);
// numpy.dtype objects, scalar types (numpy.float32) and the Python types that NumPy takes for a dtype.
bool numpy_dtype_like(PyObject* object, graph::DType* dtype);
// What device= names: the CPU or a GPU, "cuda" being the current one; unset for what is none.
std::optional<graph::Device> device_argument(Executor& ex, const ValuePtr& value);
// A number as a scalar argument: Sym, double, bool; nullopt for what is none.
std::optional<graph::Arg> number_argument(const ValuePtr& value);
// A constant int of a subclass, as an IntEnum's member: to NumPy an array of int64, whose width counts.
bool is_int_of_subclass(const ValuePtr& value);
// A tensor, or a scalar that the graph holds, as a graph value; null for others.
graph::Value* graph_value(const ValuePtr& value);
// An exact list, tuple, or Size: its items.
std::optional<std::vector<ValuePtr>> sequence_items(Executor& ex, const ValuePtr& value);
// An argument with `leaf` of what it is, or of what its exact lists and tuples hold, in their place.
ValuePtr map_leaves(Executor& ex, const ValuePtr& value, absl::FunctionRef<ValuePtr(const ValuePtr&)> leaf);

// Appends the nodes of one call. UserError and Unsupported become graph breaks; writes and gradients are
// checked.
std::vector<graph::Value*> append_call(Executor& ex, const graph::OpDef& op, BoundCall call,
                                       bool in_place = false);
// By name with positional graph arguments; the first overload that has as many parameters (or `overload`).
graph::Value* append_call1(Executor& ex, const char* op, std::vector<graph::Arg> args, bool in_place = false);
// The sizes, or the strides, of an operand of a core.library node, as a tuple of ints. One that changes from call to call breaks the
// graph, but where the program demands one graph: there the node is for this size alone.
PyRef constant_extents(Executor& ex, const std::vector<graph::Sym>& extents);
// A core.library node of `call` (library_calls.h).
std::vector<graph::Value*> append_library_call(Executor& ex, std::vector<graph::Value*> operands,
                                               const std::string& name, const std::string& attributes,
                                               const LibraryCall& call, std::vector<graph::TensorType> types);

// NumPy: is the value a view that NumPy gives out read-only (broadcast_to, diagonal), or a view of one?
bool is_read_only_view(const graph::Value* value);

// What is written must be allowed, and must not show through other inputs. Called by append_call.
void note_write(Executor& ex, const graph::Value* value);
// Breaks the graph where `value` is not of the innermost isolated region's own making.
void refuse_write_outside_region(Executor& ex, const graph::Value* value);

// A call of the user's while its nodes are appended: they get the index of its record. What is recorded inside belongs
// to it, and where it ends in an exception nothing of it is recorded.
class UserCall {
 public:
  UserCall(Executor& ex, const char* kind, PyRef target, const CallArgs& args);
  ~UserCall();
  UserCall(const UserCall&) = delete;
  void end(const ValuePtr& result);

 private:
  Executor& ex_;
  const int outer_;  // the call that this one is made in
  int index_;
  size_t first_node_;
  bool ended_ = false;
};

template <typename F>
ValuePtr recorded_call(Executor& ex, const char* kind, PyRef target, const CallArgs& args, F&& body) {
  UserCall call(ex, kind, std::move(target), args);
  ValuePtr result = body();
  call.end(result);
  return result;
}

}  // namespace cdynamo::symbolic
