#include "frame_eval/execution/native_graph.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "frame_eval/execution/autograd_node.h"
#include "graph/index_operands.h"
#include "graph/op.h"
#include "runtime/host/arena.h"
#include "symbolic/interop/generator_handle.h"
#include "symbolic/interop/grad_mode.h"
#include "symbolic/interop/loaded_object.h"

namespace cdynamo::frame_eval {
namespace {

using graph::OutputAlias;
using symbolic::InputKind;
using symbolic::WithGradMode;

std::string take_error_text() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const PyRef held[] = {PyRef::steal(type), PyRef::steal(value), PyRef::steal(traceback)};
  const PyRef text = value ? PyRef::steal(PyObject_Str(value)) : PyRef();
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 ? utf8 : "";
}

OutputForm holder(OutputForm form) {
  if (form == OutputForm::kNumpyScalar) return OutputForm::kNumpyArray;
  return form == OutputForm::kPythonScalar ? OutputForm::kTorchTensor : form;
}

// torch.from_numpy(array). `array` may be null, with an error set.
PyRef tensor_on(const PyRef& array) {
  return array
             ? PyRef::steal(PyObject_CallOneArg(symbolic::library_object("torch", "from_numpy"), array.get()))
             : PyRef();
}

// tensor.detach().numpy()
PyRef array_on(PyObject* tensor) {
  static PyObject *const detach = PyUnicode_InternFromString("detach"), *const numpy =
                                                                            PyUnicode_InternFromString(
                                                                                "numpy");
  const PyRef detached = symbolic::requires_grad(tensor)
                             ? PyRef::steal(PyObject_CallMethodNoArgs(tensor, detach))
                             : PyRef::borrow(tensor);
  return detached ? PyRef::steal(PyObject_CallMethodNoArgs(detached.get(), numpy)) : PyRef();
}

bool is_array(PyObject* object) { return symbolic::tensor_kind(object) == symbolic::TensorKind::kNumpy; }

// A tensor of no dims on the host, whatever the default device is.
PyRef number_as_tensor(PyObject* number) {
  const char* dtype = PyFloat_Check(number) ? "float64" : "int64";
  PyRef arguments = PyRef::steal(PyTuple_Pack(1, number));
  PyRef options = PyRef::steal(
      Py_BuildValue("{s:O,s:s}", "dtype", symbolic::library_object("torch", dtype), "device", "cpu"));
  if (!arguments || !options) return {};
  PyObject* make = symbolic::library_object("torch", "scalar_tensor");
  return PyRef::steal(PyObject_Call(make, arguments.get(), options.get()));
}

// An array or a number as a tensor for PyTorch's autograd, a copy where there is none on its memory or PyTorch would warn.
PyRef as_tensor(PyObject* object) {
  if (symbolic::generator_handle(object)) return number_as_tensor(Py_False);  // nobody reads it
  if (PyFloat_Check(object) || PyLong_Check(object)) return number_as_tensor(object);
  if (symbolic::is_numpy_real(object))
    return tensor_on(PyRef::steal(PyObject_CallOneArg(symbolic::library_object("numpy", "asarray"), object)));
  if (!is_array(object)) return PyRef::borrow(object);
  symbolic::TensorInfo info;
  symbolic::read_tensor(object, &info);
  const runtime::TensorView& view = info.view;
  const bool runs_back = std::any_of(view.strides, view.strides + view.rank, [](int64_t s) { return s < 0; });
  return tensor_on(info.writeable && !runs_back ? PyRef::borrow(object)
                                                : PyRef::steal(PyObject_CallMethod(object, "copy", nullptr)));
}

}  // namespace

NativeGraph::NativeGraph(const symbolic::CaptureResult& capture, std::vector<OutputForm> forms,
                         graph::Prepared prepared, std::shared_ptr<runtime::Executable> executable,
                         std::shared_ptr<TrainingFunction> training)
    : executable_(std::move(executable)),
      training_(std::move(training)),
      sym_(capture.graph->sym),
      outputs_(std::move(prepared.outputs)),
      forms_(std::move(forms)),
      library_calls_(capture.library_calls) {
  const bool is_numpy = capture.graph->framework == graph::Framework::kNumpy;
  note_histories(capture);
  for (const runtime::OutputSpec& spec : executable_->outputs)
    fresh_.push_back({is_numpy ? OutputForm::kNumpyArray : OutputForm::kTorchTensor, FreshTensor(spec)});
  if (!training_ && !any_stale_) take_for_fresh();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool in_order = outputs_[i].kind == OutputAlias::kFresh && outputs_[i].index == static_cast<int>(i);
    in_order_ &= in_order;
    if (outputs_[i].kind == OutputAlias::kFresh && forms_[i] != OutputForm::kUnused)
      fresh_[outputs_[i].index].form = forms_[i];
  }
  // What is seen through a view lies in an array or a tensor, even where it is a number too.
  for (const OutputAlias& output : outputs_)
    if (output.kind == OutputAlias::kViewOfOutput)
      fresh_[output.index].form = holder(fresh_[output.index].form);
  // So does what a backward may read.
  for (FreshOutput& output : fresh_)
    if (training_) output.form = holder(output.form);
  in_order_ &= outputs_.size() == fresh_.size() && !training_;
  mixes_arrays_ = capture.graph->has_nodes_of(graph::Framework::kNumpy) ||
                  std::ranges::any_of(capture.inputs, [](const symbolic::GraphInput& input) {
                    return input.kind == InputKind::kNumpyArray;
                  });
  if (executable_->reads_symbols && any_stale_)
    throw graph::Unsupported("views that are written to after they were made, of sizes that depend on data");
  // A library call may bring tensors only.
  allocates_late_ = executable_->reads_symbols || (executable_->allocates_late && !any_stale_ &&
                                                   std::ranges::all_of(fresh_, [](const FreshOutput& output) {
                                                     return output.form == OutputForm::kTorchTensor;
                                                   }));
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    input_kinds_.push_back(capture.inputs[i].kind);
    const InputKind kind = capture.inputs[i].kind;
    if (kind != InputKind::kTorchTensor && kind != InputKind::kNumpyArray)
      numbers_.push_back({static_cast<int>(i), capture.inputs[i].value->type.dtype});
  }
  note_draws(capture, *prepared.core);
  note_writes(capture, *prepared.core);
  is_plain_ = in_order_ && !writes_ && !draws_ && !any_stale_ && !any_history_ && numbers_.empty() &&
              read_histories_.empty() && !allocates_late_ && !executable_->reads_symbols &&
              std::ranges::all_of(fresh_, [](const FreshOutput& output) {
                return output.form == OutputForm::kTorchTensor || output.form == OutputForm::kNumpyArray;
              });
}

// What the program has only as y.detach(), y.numpy() or from_numpy(y) is made as that.
void NativeGraph::take_for_fresh() {
  std::vector<bool> held(fresh_.size());
  for (const OutputAlias& output : outputs_)
    if (output.kind == OutputAlias::kFresh) held[output.index] = true;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    OutputAlias& output = outputs_[i];
    if (output.kind != OutputAlias::kViewOfOutput || !views_[i].is_whole || held[output.index]) continue;
    if (forms_[i] == OutputForm::kUnused) continue;
    output.kind = OutputAlias::kFresh;
    held[output.index] = true;
  }
}

void NativeGraph::note_draws(const symbolic::CaptureResult& capture, const graph::Graph& core) {
  const auto draws = [](const auto& node) { return node->op->family == graph::Family::kRandom; };
  const auto may_be_refused = [&](const auto& node) {
    return draws(node) && graph::Args(node->op->parsed[node->overload], node->args).value("probability");
  };
  draws_ = std::ranges::any_of(core.nodes, draws);
  // PyTorch may refuse what it is to draw of, and an index may be out of range: then Python makes the call.
  const bool may_run_again = !library_calls_.empty() || executable_->reads_symbols ||
                             std::ranges::any_of(core.nodes, may_be_refused) ||
                             std::ranges::any_of(capture.graph->nodes, [](const auto& node) {
                               return graph::checks_elements(*node->op, node->overload, node->args);
                             });
  if (draws_ && may_run_again) may_draw_twice_ = DrawnGenerators(core);
}

void NativeGraph::note_writes(const symbolic::CaptureResult& capture, const graph::Graph& core) {
  writes_ = !core.mutations.empty();
  absl::flat_hash_set<const graph::Value*> past_counter, counted;  // inputs; past it: through `.data`
  for (const graph::CapturedWrite& write : graph::captured_writes(*capture.graph)) {
    const graph::ViewHistory history = graph::view_history(write.target);
    (history.has_own_counter() ? past_counter : counted).insert(history.root);
  }
  for (const graph::Graph::Mutation& mutation : core.mutations) {
    const graph::Value* input = capture.graph->inputs[mutation.input];
    if (capture.inputs[mutation.input].kind != InputKind::kTorchTensor) continue;
    if (!past_counter.contains(input) || counted.contains(input)) written_.push_back(mutation.input);
  }
}

// What PyTorch's autograd knows of inputs and results.
void NativeGraph::note_histories(const symbolic::CaptureResult& capture) {
  views_ = view_forms(*capture.graph);
  any_stale_ = std::ranges::any_of(views_, &ViewForm::is_stale);
  for (const graph::Value* output : capture.graph->outputs) {
    requires_grad_.push_back(output->requires_grad);
    any_history_ |= output->requires_grad;
  }
  std::vector<bool> is_recorded(
      capture.graph->next_value_id());  // eager's autograd notes a call that reads it
  for (const auto& node : capture.graph->nodes)
    if (std::ranges::any_of(node->results, [](const graph::Value* result) { return result->requires_grad; }))
      graph::for_each_operand(*node, [&](graph::Value*& operand) { is_recorded[operand->id] = true; });
  for (size_t i = 0; i < capture.graph->inputs.size(); ++i) {
    const graph::Value* input = capture.graph->inputs[i];
    const bool is_viewed = std::ranges::any_of(outputs_, [&](const OutputAlias& output) {
      return output.kind == OutputAlias::kViewOfInput && output.index == static_cast<int>(i);
    });
    if (input->requires_grad && (training_ || is_viewed || is_recorded[input->id]))
      read_histories_.push_back(static_cast<int>(i));
  }
}

bool NativeGraph::allocate(size_t i, const int64_t* symbols, PyRef& fresh, void** data,
                           ScalarCell* cell) const {
  switch (fresh_[i].form) {
    case OutputForm::kTorchTensor: fresh = fresh_[i].tensor.make_torch(symbols, data); break;
    case OutputForm::kNumpyArray: fresh = fresh_[i].tensor.make_numpy(symbols, data); break;
    default: *data = cell; return true;
  }
  return static_cast<bool>(fresh);
}

bool NativeGraph::execute_and_note_writes(runtime::Call& call, const Bindings& bindings,
                                          std::vector<PyRef>& fresh, const AllocateOutput& allocate,
                                          CallFailure* failure) const {
  const runtime::FrugalArenas frugal(training_ != nullptr);
  const bool done = allocates_late_
                        ? execute_allocating(*executable_, call, bindings.inputs, fresh, allocate, failure)
                        : execute(*executable_, call, bindings.inputs, failure);
  if (done) {
    for (int input : written_) symbolic::bump_version(bindings.inputs[input]);
  } else if (*failure == CallFailure::kMidway || *failure == CallFailure::kNoMemory) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (int input : written_) symbolic::bump_version(bindings.inputs[input]);
    PyErr_Restore(type, value, traceback);
  }
  return done;
}

// An operator of PyTorch's gave other types than the graph was compiled for.
void NativeGraph::note_stale_calls() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  for (const auto& call : library_calls_) stale |= call->is_stale();
  PyErr_Restore(type, value, traceback);
}

// Copies, with the same strides, of what the graph is about to overwrite and higher derivatives may read.
std::vector<PyRef> NativeGraph::copies_of_overwritten(const Bindings& bindings) const {
  std::vector<PyRef> copies;
  if (!training_ || training_->overwritten().empty()) return copies;
  // The inputs' gradients go through them, in whatever mode the call is made.
  const WithGradMode with_history;
  if (with_history.failed()) throw symbolic::PythonError{};
  for (int input : training_->overwritten()) {
    const PyRef tensor = as_tensor(bindings.inputs[input]);
    if (!tensor) throw symbolic::PythonError{};
    PyRef sizes = symbolic::checked(PyObject_GetAttrString(tensor.get(), "shape"));
    PyRef strides = symbolic::checked(PyObject_CallMethod(tensor.get(), "stride", nullptr));
    PyRef copy = symbolic::checked(
        PyObject_CallMethod(tensor.get(), "new_empty_strided", "OO", sizes.get(), strides.get()));
    symbolic::checked(PyObject_CallMethod(copy.get(), "copy_", "O", tensor.get()));
    copies.push_back(std::move(copy));
  }
  return copies;
}

// One node of PyTorch's autograd for the results.
bool NativeGraph::attach_history(const Bindings& bindings, const std::vector<PyRef>& overwritten,
                                 std::vector<PyRef>& fresh) const {
  if (overwritten.empty() && !mixes_arrays_ && numbers_.empty())
    return training_->attach(bindings.inputs.data(), bindings.symbols, fresh);
  std::vector<PyObject*> inputs(bindings.inputs.begin(), bindings.inputs.end());
  for (size_t i = 0; i < overwritten.size(); ++i) inputs[training_->overwritten()[i]] = overwritten[i].get();
  // Arrays are tensors on the same memory to PyTorch's autograd, and numbers tensors that nobody writes to.
  std::vector<PyRef> held;
  for (PyObject*& input : inputs) {
    held.push_back(as_tensor(input));
    if (!held.back()) return false;
    input = held.back().get();
  }
  std::vector<PyRef> tensors;
  for (const PyRef& output : fresh) {
    tensors.push_back(output ? as_tensor(output.get()) : PyRef());
    if (output && !tensors.back()) return false;
  }
  if (!training_->attach(inputs.data(), bindings.symbols, tensors)) return false;
  for (size_t i = 0; i < fresh.size(); ++i)
    if (fresh[i] && !is_array(fresh[i].get())) fresh[i] = std::move(tensors[i]);
  return true;
}

// Whether plain Python is to run the call that failed with the error that is set: it raises what it raises, from its own line.
bool NativeGraph::is_repeatable(CallFailure failure) const {
  switch (failure) {
    case CallFailure::kUnexpectedNumber: return true;
    case CallFailure::kBeforeWrites:
      return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
    case CallFailure::kMidway:  // an index out of range, or an error of PyTorch's own
      return !writes_ &&
             (PyErr_ExceptionMatches(PyExc_IndexError) || PyErr_ExceptionMatches(PyExc_RuntimeError));
    case CallFailure::kNoMemory:  // numbers that were drawn would be drawn again
      return !writes_ && (!draws_ || !may_draw_twice_.empty());
    case CallFailure::kOfEarlierCall: return false;
  }
  return false;
}

bool NativeGraph::run(Bindings& bindings, std::vector<PyRef>& outputs) {
  return is_plain_ ? run_plain(bindings, outputs) : run_any(bindings, outputs);
}

bool NativeGraph::run_plain(Bindings& bindings, std::vector<PyRef>& outputs) {
  absl::InlinedVector<void*, 8> data(fresh_.size());
  outputs.resize(fresh_.size());
  const int64_t* symbols = bindings.symbols.data();
  for (size_t i = 0; i < fresh_.size(); ++i)
    if (!allocate(i, symbols, outputs[i], &data[i], nullptr)) return false;
  runtime::Call call{.inputs = bindings.views.data(), .symbols = symbols, .outputs = data.data()};
  CallFailure failure{};
  return execute(*executable_, call, bindings.inputs, &failure) || fail(failure, {});
}

bool NativeGraph::run_any(Bindings& bindings, std::vector<PyRef>& outputs) {
  constexpr size_t kSmall = 8;
  const size_t num_fresh = fresh_.size();
  std::array<void*, kSmall> small_data;
  std::array<ScalarCell, kSmall> small_cells;
  std::vector<void*> large_data(num_fresh > kSmall ? num_fresh : 0);
  std::vector<ScalarCell> large_cells(large_data.size());
  void** data = large_data.empty() ? small_data.data() : large_data.data();
  ScalarCell* cells = large_cells.empty() ? small_cells.data() : large_cells.data();

  std::vector<PyRef> own_fresh;
  std::vector<PyRef>& fresh = in_order_ ? outputs : own_fresh;
  fresh.resize(num_fresh);
  const int64_t* symbols = bindings.symbols.data();
  const auto allocate_output = [&](int i, void** memory) {
    const bool done = allocate(i, symbols, fresh[i], &data[i], &cells[i]);
    *memory = data[i];
    return done;
  };
  void* memory = nullptr;
  for (size_t i = 0; !allocates_late_ && i < num_fresh; ++i)
    if (!allocate_output(static_cast<int>(i), &memory)) return false;

  runtime::Call call{.inputs = bindings.views.data(), .symbols = symbols, .outputs = data};
  if (executable_->reads_symbols) call.read_symbols = bindings.symbols.data();
  std::vector<runtime::TensorView> views;
  std::vector<ScalarCell> number_cells(numbers_.size());
  if (!numbers_.empty()) {
    views = bindings.views;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const auto [input, dtype] = numbers_[i];
      if (input_kinds_[input] == InputKind::kFloat)
        number_cells[i].real = PyFloat_AS_DOUBLE(bindings.inputs[input]);
      else if (input_kinds_[input] == InputKind::kTorchGenerator)
        number_cells[i].handle = symbolic::generator_handle(bindings.inputs[input]);
      else
        symbolic::read_numpy_scalar(bindings.inputs[input], &number_cells[i]);
      views[input] = {.data = &number_cells[i], .dtype = dtype};
    }
    call.inputs = views.data();
  }
  CallFailure failure{};
  const std::vector<PyRef> overwritten = copies_of_overwritten(bindings);
  const DrawnGenerators::Saved generators = may_draw_twice_.save(bindings.inputs);
  if (!can_read_histories(bindings)) {
    PyErr_Clear();
    throw RunInPython{};
  }
  if (any_stale_ && !make_stale_views(bindings, outputs)) return false;
  if (!execute_and_note_writes(call, bindings, fresh, allocate_output, &failure))
    return fail(failure, generators);
  return make_outputs(bindings, overwritten, fresh, data, outputs);
}

bool NativeGraph::fail(CallFailure failure, const DrawnGenerators::Saved& generators) {
  if (failure == CallFailure::kBeforeWrites) note_stale_calls();
  if (!is_repeatable(failure)) return false;
  RunInPython rerun{take_error_text(), failure == CallFailure::kUnexpectedNumber};
  generators.put_back();
  throw rerun;
}

// PyTorch refuses to read the history of some views whose storage was written to, also where only numbers are made of it.
// A Parameter is a leaf, and no view.
bool NativeGraph::can_read_histories(const Bindings& bindings) const {
  static PyObject* name = PyUnicode_InternFromString("grad_fn");
  for (int input : read_histories_) {
    PyObject* tensor = bindings.inputs[input];
    if (!symbolic::is_parameter(tensor) && !PyRef::steal(PyObject_GetAttr(tensor, name))) return false;
  }
  return true;
}

// Of inputs, before the graph writes to them.
bool NativeGraph::make_stale_views(const Bindings& bindings, std::vector<PyRef>& outputs) const {
  outputs.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputAlias& alias = outputs_[i];
    if (!views_[i].is_stale || forms_[i] == OutputForm::kUnused) continue;
    if (alias.kind != OutputAlias::kViewOfInput) continue;
    outputs[i] = view_of(bindings.inputs[alias.index], i, bindings.symbols.data());
    if (!outputs[i]) return false;
    if (views_[i].history.has_own_counter()) symbolic::bump_version(outputs[i].get());
  }
  return true;
}

bool NativeGraph::make_outputs(const Bindings& bindings, const std::vector<PyRef>& overwritten,
                               std::vector<PyRef>& fresh, void* const* data,
                               std::vector<PyRef>& outputs) const {
  // A function called under no_grad may turn grad mode on, as what follows a graph break within no_grad does.
  std::optional<WithGradMode> history;
  if (any_history_ && history.emplace().failed()) return false;
  if (training_ && !attach_history(bindings, overwritten, fresh)) return false;
  if (!in_order_) outputs.resize(outputs_.size());
  const auto is_on_another = [&](size_t i) {
    const OutputAlias::Kind kind = outputs_[i].kind;
    return (kind == OutputAlias::kViewOfInput || kind == OutputAlias::kViewOfOutput) &&
           views_[i].of_result >= 0 && forms_[views_[i].of_result] == OutputForm::kTorchTensor &&
           forms_[i] == OutputForm::kTorchTensor;
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (((in_order_ || any_stale_) && outputs[i]) || is_on_another(i)) continue;
    outputs[i] = make_output(i, bindings, fresh, data);
    if (!outputs[i] && forms_[i] != OutputForm::kUnused) return false;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs[i] || !is_on_another(i)) continue;
    outputs[i] = view_on(outputs[views_[i].of_result].get(), i, bindings.symbols.data());
    if (!outputs[i]) return false;
  }
  if (any_stale_) note_writes_after_views(outputs);
  return true;
}

// The graph wrote to results after it had made views of them: so for PyTorch too, whose errors name what the history of such
// a view was.
void NativeGraph::note_writes_after_views(const std::vector<PyRef>& outputs) const {
  absl::flat_hash_set<int> noted;  // results
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs[i] || outputs_[i].kind != OutputAlias::kViewOfOutput || !views_[i].is_stale) continue;
    if (views_[i].history.has_own_counter() || noted.insert(outputs_[i].index).second)
      symbolic::bump_version(outputs[i].get());
  }
}

PyRef NativeGraph::make_output(size_t i, const Bindings& bindings, const std::vector<PyRef>& fresh,
                               void* const* data) const {
  const OutputAlias& alias = outputs_[i];
  const int64_t* symbols = bindings.symbols.data();
  switch (alias.kind) {
    case OutputAlias::kInput: return PyRef::borrow(bindings.inputs[alias.index]);
    case OutputAlias::kViewOfInput: return view_of(bindings.inputs[alias.index], i, symbols);
    case OutputAlias::kViewOfOutput: return view_of(fresh[alias.index].get(), i, symbols);
    case OutputAlias::kFresh: break;
  }
  const FreshOutput& output = fresh_[alias.index];
  if (forms_[i] == OutputForm::kNumpyScalar)
    return symbolic::make_numpy_scalar(output.tensor.dtype, data[alias.index]);
  if (forms_[i] == OutputForm::kPythonScalar)
    return symbolic::make_python_scalar(output.tensor.dtype, data[alias.index]);
  return fresh[alias.index];
}

namespace {
PyRef strided_view(const OutputAlias& alias, const graph::SymContext& sym, PyObject* base,
                   const int64_t* symbols) {
  const size_t rank = alias.sizes.size();
  std::vector<int64_t> extents(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = sym.evaluate(alias.sizes[d], symbols);
    extents[rank + d] = sym.evaluate(alias.strides[d], symbols);
  }
  return symbolic::as_strided_view(base, extents.data(), extents.data() + rank, static_cast<int>(rank),
                                   sym.evaluate(alias.offset, symbols), alias.dtype);
}
}  // namespace

PyRef NativeGraph::view_of(PyObject* base, size_t output, const int64_t* symbols) const {
  const ViewForm& form = views_[output];
  const auto strided = [&](PyObject* of) { return strided_view(outputs_[output], *sym_, of, symbols); };
  const bool is_numpy = is_array(base);
  if (is_numpy && forms_[output] != OutputForm::kTorchTensor) return strided(base);
  if (is_numpy) return tensor_on(form.is_whole ? PyRef::borrow(base) : strided(base));
  if (forms_[output] == OutputForm::kNumpyArray) {
    const PyRef array = array_on(base);
    return array && !form.is_whole ? strided(array.get()) : array;
  }
  PyRef detached;
  if (form.history.own_storage) {
    const PyRef array = array_on(base);
    if (array && form.is_from_numpy && !form.is_whole) return tensor_on(strided(array.get()));
    detached = tensor_on(array);
    if (!detached || form.is_whole) return detached;
    base = detached.get();
  } else if (form.history.detached || (!requires_grad_[output] && symbolic::requires_grad(base))) {
    detached = form.history.has_own_counter() ? PyRef::steal(PyObject_GetAttrString(base, "data"))
                                              : PyRef::steal(PyObject_CallMethod(base, "detach", nullptr));
    if (!detached || form.is_whole) return detached;
    base = detached.get();
  }
  return view_on(base, output, symbols);
}

// `base`: what shares all of its history.
PyRef NativeGraph::view_on(PyObject* base, size_t output, const int64_t* symbols) const {
  const ViewForm& form = views_[output];
  // PyTorch notes the mode that a view was made in.
  const WithGradMode mode(!form.history.no_grad);
  PyRef view = mode.failed() ? PyRef() : strided_view(outputs_[output], *sym_, base, symbols);
  if (view && form.is_apart) return PyRef::steal(PyObject_CallMethod(view.get(), "detach", nullptr));
  if (!view || !form.is_one_of_several) return view;
  const bool unbound = form.is_unbound || outputs_[output].sizes.empty();
  PyRef row = unbound ? PyRef::steal(PyObject_CallMethod(view.get(), "unsqueeze", "i", 0)) : std::move(view);
  PyRef views;
  if (row)
    views = PyRef::steal(unbound ? PyObject_CallMethod(row.get(), "unbind", nullptr)
                                 : PyObject_CallMethod(row.get(), "chunk", "i", 1));
  return views ? PyRef::steal(PySequence_GetItem(views.get(), 0)) : PyRef();
}

}  // namespace cdynamo::frame_eval
