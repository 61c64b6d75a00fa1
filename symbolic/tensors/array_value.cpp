#include "symbolic/tensors/array_value.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/op.h"
#include "graph/ops/random.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/numpy_errors.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/values/tensor_key.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Framework;
using graph::Sym;
using graph::TensorType;

bool ArrayValue::is_same_object(const SymbolicValue& other) const {
  if (this == &other) return true;
  const auto* array = dynamic_cast<const ArrayValue*>(&other);
  return array && array->value_ == value_ && array->type() == type();
}

// How the tensor that is there in this call hashes; of one that captured code makes, any number will do.
static Py_hash_t hash_of_tensor(Executor& ex, const graph::Value& value) {
  for (const GraphInput& input : ex.state().result.inputs) {
    if (input.value != &value || !input.source) continue;
    const PyRef tensor = follow(*input.source, ex.state().request.roots);
    const Py_hash_t hash = tensor ? PyObject_Hash(tensor.get()) : -1;
    if (hash != -1) return hash;
    PyErr_Clear();
  }
  return value.id;
}

// A tensor's is equal for one graph value, and equal to no key of the program's. NumPy's scalars are equal where their values are.
PyRef ArrayValue::hash_key(Executor& ex) {
  if (type()->tp_hash == PyObject_HashNotImplemented)
    raise_error(ex, PyExc_TypeError, "unhashable type: '" + std::string(type()->tp_name) + "'");
  if (framework() != Framework::kTorch) break_graph("CD0210", describe());
  if (source) ex.state().identities.insert(this);
  return tensor_key(value_, hash_of_tensor(ex, *value_));
}

RecipePtr ArrayValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  refuse_one_example(tensor_capture(ex), value_);
  // Values that stand for one object are one output.
  graph::Value* content = output(ex);
  std::vector<graph::Value*>& outputs = ex.graph().outputs;
  auto found = std::find(outputs.begin(), outputs.end(), content);
  RecipePtr made = make_recipe(output_kind(), reinterpret_cast<PyObject*>(type()));
  made->index = static_cast<int>(found - outputs.begin());
  if (found == outputs.end()) outputs.push_back(content);
  return recipe_ = made_of_output(ex, std::move(made));
}

std::string BoundMethod::describe() const {
  return PyUnicode_AsUTF8(name_.get()) + (" of " + self_->describe());
}

CallArgs BoundMethod::with_self(CallArgs args) const {
  args.positional.insert(args.positional.begin(), self_);
  return args;
}

RecipePtr BoundMethod::recipe(Executor& ex) {
  if (!recipe_)
    recipe_ = call_recipe(library_object("builtins", "getattr"),
                          {self_->recipe(ex), make_recipe(RecipeKind::kConstant, name_.get())});
  return recipe_;
}

namespace {

class UnknownMethod final : public BoundMethod {
 public:
  UnknownMethod(ValuePtr self, PyRef name, ValuePtr (*call)(Executor&, const CallArgs&))
      : BoundMethod(std::move(self), std::move(name)), call_(call) {}
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (!call_) break_graph("CD0405", describe());
    const CallArgs all = with_self(args);
    return recorded_call(ex, "call_method", name(), all, [&] { return call_(ex, all); });
  }

 private:
  ValuePtr (*call_)(Executor&, const CallArgs&);
};

}  // namespace

ValuePtr make_unknown_method(ValuePtr self, PyObject* name, ValuePtr (*call)(Executor&, const CallArgs&)) {
  return std::make_shared<UnknownMethod>(std::move(self), PyRef::borrow(name), call);
}

std::string type_text(const TensorType& type) {
  std::string text = std::string(runtime::info(type.dtype).short_name) + "[";
  for (size_t d = 0; d < type.sizes.size(); ++d) text += (d ? ", " : "") + type.sizes[d].str();
  return text + "]";
}

TensorCapture& tensor_capture(Executor& ex) {
  if (!ex.framework_state) ex.framework_state = std::make_shared<TensorCapture>();
  return *static_cast<TensorCapture*>(ex.framework_state.get());
}

namespace {
// A tensor's tangent is not to be seen from outside, so where there may be any all is eager's.
void guard_no_forward_mode(Executor& ex) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.autograd.forward_ad");
  PyObject* name = interned("_current_level");
  PyObject* level = module ? PyDict_GetItemWithError(PyModule_GetDict(module), name) : nullptr;
  if (!level) return;
  if (!PyLong_Check(level) || PyLong_AsLong(level) >= 0)
    throw SkipFrame{.reason = "forward-mode AD is active", .retry_later = true};
  add_guard(ex, GuardKind::kEquals, module_global_source(module, name), level);
}
}  // namespace

TensorCapture& torch_capture(Executor& ex) {
  TensorCapture& capture = tensor_capture(ex);
  if (capture.has_state) return capture;
  capture.state = read_torch_state();
  if (const char* obstacle = torch_state_obstacle(capture.state))
    throw SkipFrame{.reason = obstacle, .retry_later = true};
  capture.grad_mode = capture.state.grad_mode();
  AutocastState& autocast = capture.autocast;
  autocast.known = true;
  for (size_t i = 0; i < autocast.devices.size(); ++i)
    autocast.known &=
        torch_access::dtype_of_scalar_type(capture.state.autocast_dtypes[i], &autocast.devices[i].dtype);
  autocast.devices[0].enabled = capture.state.flags & TorchState::kAutocast;
  autocast.devices[1].enabled = capture.state.flags & TorchState::kAutocastCuda;
  autocast.cache = capture.state.flags & TorchState::kAutocastCache;
  capture.autocast_before = autocast;
  capture.has_state = true;
  guard_no_forward_mode(ex);
  ex.uses_torch();
  return capture;
}

namespace {

void apply_rules(Executor& ex) {
  const TensorCapture& capture = tensor_capture(ex);
  const Framework between = capture.uses_numpy && !capture.uses_torch ? Framework::kNumpy : Framework::kTorch;
  ex.graph().framework = capture.rules.empty() ? between : capture.rules.back();
}

}  // namespace

void use_framework(Executor& ex, Framework framework) {
  TensorCapture& capture = tensor_capture(ex);
  bool& known = framework == Framework::kNumpy ? capture.uses_numpy : capture.uses_torch;
  if (known) return;
  if (framework == Framework::kTorch) {
    torch_capture(ex);
    if (!torch_access::dtype_of_scalar_type(capture.state.default_dtype, &ex.graph().torch_float))
      throw SkipFrame{.reason = "torch's default dtype is not supported"};
  } else if (numpy_reports_errors()) {
    throw SkipFrame{
        .reason = "numpy.errstate asks for floating-point errors to be raised or reported by a callback",
        .retry_later = true};
  }
  known = true;
  apply_rules(ex);
}

FrameworkRules::FrameworkRules(Executor& ex, Framework framework) : ex_(ex) {
  use_framework(ex, framework);
  tensor_capture(ex).rules.push_back(framework);
  apply_rules(ex);
}

FrameworkRules::~FrameworkRules() {
  tensor_capture(ex_).rules.pop_back();
  apply_rules(ex_);
}

namespace {

// Strides in terms of the sizes where the hints allow it: the layout of a dense tensor, dimension by
// dimension from the innermost. A stride that is no product of inner sizes stays a number.
std::vector<Sym> symbolic_strides(const runtime::TensorView& view, const std::vector<Sym>& sizes) {
  std::vector<Sym> strides(view.strides, view.strides + view.rank);
  if (std::all_of(sizes.begin(), sizes.end(), [](const Sym& s) { return s.is_constant(); })) return strides;
  std::vector<int> order(view.rank);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return view.strides[a] < view.strides[b]; });
  Sym running = 1;
  int64_t running_hint = 1;
  for (int d : order) {
    if (view.strides[d] == 0) continue;  // expanded
    if (view.strides[d] == running_hint) strides[d] = running;
    running = strides[d] * sizes[d];
    running_hint = view.strides[d] * view.sizes[d];
  }
  return strides;
}

bool overlap(const TensorInfo& a, const TensorInfo& b) {
  return a.begin != a.end && b.begin != b.end && a.begin < b.end && b.begin < a.end;
}

[[noreturn]] void refuse_overlap() {
  throw SkipFrame{.reason = "two inputs share memory, and one of them is written to", .retry_later = true};
}

void check_overlap(const TensorCapture& capture, const ArrayInput& input) {
  for (const auto& other : capture.inputs)
    if (other.get() != &input && (input.written || other->written) && overlap(input.info, other->info))
      refuse_overlap();
}

}  // namespace

namespace {

// What torch._dynamo.mark_dynamic and its siblings note on a tensor: sets of dimensions.
bool is_marked(PyObject* tensor, int dim, std::initializer_list<const char*> marks) {
  PyObject** dict = _PyObject_GetDictPtr(tensor);
  if (!dict || !*dict || PyDict_GET_SIZE(*dict) == 0) return false;
  const PyRef number = checked(PyLong_FromLong(dim));
  for (const char* mark : marks) {
    PyObject* dims = PyDict_GetItemString(*dict, mark);
    if (dims && PyAnySet_Check(dims) && PySet_Contains(dims, number.get()) == 1) return true;
  }
  return false;
}

// An operator, or hooks. No guard: it decides how many autograd nodes a compiled function has, not what they compute.
// Nothing where PyTorch refuses to show a history: the tensor is one of several views, and its base was written to.
std::optional<bool> has_history(PyObject* tensor) {
  PyRef is_leaf = PyRef::steal(PyObject_GetAttr(tensor, interned("is_leaf")));
  if (!is_leaf && PyErr_ExceptionMatches(PyExc_RuntimeError)) return PyErr_Clear(), std::nullopt;
  if (!is_leaf) throw PythonError{};
  PyRef hooks = checked(PyObject_GetAttr(tensor, interned("_backward_hooks")));
  return is_leaf.get() != Py_True || hooks.get() != Py_None;
}

std::vector<Sym> sizes_of_input(Executor& ex, PyObject* object, const TensorInfo& info,
                                const SourcePtr& source) {
  std::vector<Sym> sizes;
  for (int d = 0; d < info.view.rank; ++d) {
    const auto dynamic = {"_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices",
                          "_dynamo_unbacked_indices"};
    sizes.push_back(is_marked(object, d, {"_dynamo_static_indices"})
                        ? Sym(info.view.sizes[d])
                        : ex.size_symbol(source, d, info.view.sizes[d], is_marked(object, d, dynamic)));
  }
  return sizes;
}

// `sizes`: null: they may be others in the next call.
std::shared_ptr<ArrayValue> add_array_input(Executor& ex, PyObject* object, const SourcePtr& source,
                                            const std::vector<Sym>* sizes, MakeArray make) {
  auto input = std::make_unique<ArrayInput>();
  TensorInfo& info = input->info;
  input->object = PyRef::borrow(object);
  input->source = source;
  read_tensor(object, &info);
  const bool numpy = info.kind == TensorKind::kNumpy;
  use_framework(ex, numpy ? Framework::kNumpy : Framework::kTorch);

  TensorType type;
  type.dtype = info.view.dtype;
  type.device = info.view.device;
  type.sizes = sizes ? *sizes : sizes_of_input(ex, object, info, source);
  type.strides = symbolic_strides(info.view, type.sizes);

  Guard guard{.kind = GuardKind::kTensor, .source = source};
  guard.tensor = {.type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))),
                  .numpy = numpy,
                  .dtype = type.dtype,
                  .device = type.device,
                  .sizes = type.sizes,
                  .strides = type.strides,
                  .requires_grad = info.requires_grad,
                  .inference = info.inference,
                  .writeable = info.writeable};
  ex.guard(std::move(guard));
  graph::Value* value =
      ex.add_input(numpy ? InputKind::kNumpyArray : InputKind::kTorchTensor, source, std::move(type));
  // Objects known since capture have no names of their own.
  for (const graph::Value* other : ex.graph().inputs)
    if (other != value && other->name == value->name) value->name += "_" + std::to_string(value->id);
  input->array = make(value, source, object);
  value->requires_grad = info.requires_grad;
  TensorCapture& capture = tensor_capture(ex);
  if (info.requires_grad) {
    const std::optional<bool> history = has_history(object);
    value->has_history = history.value_or(true);
    if (!history) capture.refused_histories.insert(value);
  }
  capture.storage_of[value] = static_cast<int>(capture.inputs.size());
  capture.objects[value] = input->array;
  capture.inputs.push_back(std::move(input));
  check_overlap(capture, *capture.inputs.back());
  return capture.inputs.back()->array;
}

}  // namespace

ValuePtr wrap_array_input(Executor& ex, PyObject* object, const SourcePtr& source, MakeArray make) {
  return add_array_input(ex, object, source, nullptr, make);
}

std::shared_ptr<ArrayValue> add_made_input(Executor& ex, PyObject* object, const SourcePtr& source,
                                           std::vector<Sym> sizes, MakeArray make) {
  return add_array_input(ex, object, source, &sizes, make);
}

graph::Value* embed_constant(Executor& ex, PyObject* object, MakeArray make) {
  TensorInfo info;
  read_tensor(object, &info);
  const std::vector<Sym> sizes(info.view.sizes, info.view.sizes + info.view.rank);
  std::shared_ptr<ArrayValue> constant = add_array_input(ex, object, constant_source(object), &sizes, make);
  tensor_capture(ex).embedded.emplace(constant->value(), PyRef::borrow(object));
  return append_call1(ex, "clone", {constant->value()});
}

void refuse_write_outside_region(Executor& ex, const graph::Value* value) {
  const Executor::IsolatedRegion* region = ex.isolated_region();
  if (!region) return;
  TensorCapture& capture = tensor_capture(ex);
  const auto base = capture.base_of.find(value);
  const bool own = (base == capture.base_of.end() ? value : base->second)->id >= region->first_value;
  if (!own || capture.storage_of.count(value)) break_graph("CD0419", region->what);
}

int64_t changes_so_far(Executor& ex) {
  const Executor::State& state = ex.state();
  const TensorCapture& capture = tensor_capture(ex);
  int64_t count =
      static_cast<int64_t>(state.result.effects.size() + state.mutated.size() + state.globals_order.size() +
                           state.result.draws.size() + capture.written_at.size());
  for (const auto& [history, written] : capture.written_at) count += written;
  for (const auto& input : capture.inputs) count += input->written;
  for (const auto& node : state.result.graph->nodes) count += graph::draws_random_numbers(*node->op);
  return count;
}

bool is_read_only_view(const graph::Value* value) {
  // unfold: numpy.lib.stride_tricks.sliding_window_view.
  static constexpr const char* kReadOnly[] = {"np.broadcast_to", "np.diagonal", "np.diag", "unfold"};
  while (value->node && graph::result_alias(*value->node) != graph::Alias::kNone) {
    for (const char* name : kReadOnly)
      if (value->node->op->name == name && value->node->framework == graph::Framework::kNumpy) return true;
    const graph::Value* viewed = nullptr;  // the first operand, which is not the first argument of einsum
    graph::for_each_operand(*value->node,
                            [&](graph::Value*& operand) { viewed = viewed ? viewed : operand; });
    value = viewed;
  }
  return false;
}

void note_write(Executor& ex, const graph::Value* value) {
  TensorCapture& capture = tensor_capture(ex);
  refuse_write_to_possible_alias(ex, value);
  if (is_read_only_view(value)) break_graph("CD0411", "a read-only array");
  const std::vector<Sym>& sizes = value->type.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (value->type.strides[d] == Sym(int64_t{0}) &&
        !(sizes[d] == Sym(int64_t{0}) || sizes[d] == Sym(int64_t{1})))
      break_graph("CD0410", "");
  refuse_write_outside_region(ex, value);
  if (!capture.inference_mode && is_inference_value(capture, value))
    break_graph("CD0411", "an inference tensor");
  auto found = capture.storage_of.find(value);
  if (found == capture.storage_of.end()) return;
  ++ex.state().input_writes;
  ArrayInput& input = *capture.inputs[found->second];
  if (!input.info.writeable) break_graph("CD0411", "a read-only array");
  if (input.info.inference && !(capture.state.flags & TorchState::kInferenceMode) && !capture.inference_mode)
    break_graph("CD0411", "an inference tensor");
  if (capture.grad_mode && input.info.requires_grad && capture.has_state && !capture.cut.count(value))
    break_graph("CD0416", "an input");
  // Hooks are registered after the graph has run; of one of several views PyTorch refuses that once its base is written to.
  for (const graph::Value* hooked : ex.state().hooked)
    if (const auto of = capture.storage_of.find(hooked);
        of != capture.storage_of.end() && of->second == found->second)
      break_graph("CD0416", "a tensor that got a hook");
  if (input.written) return;
  input.written = true;
  check_overlap(capture, input);
  ex.guard({.kind = GuardKind::kDistinctTensors, .source = input.source});
}

}  // namespace cdynamo::symbolic
