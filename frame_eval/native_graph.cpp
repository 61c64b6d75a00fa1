// The native backend: a graph as machine code, called on the memory of the inputs.

#include <algorithm>
#include <array>

#include "frame_eval/compiled_graph.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "symbolic/counters.h"
#include "symbolic/logs.h"

namespace cdynamo::frame_eval {
namespace {

using graph::OutputAlias;
using symbolic::InputKind;
using symbolic::Topic;

// Sizes and strides of one result, evaluated in place; static ones once.
struct Extents {
  std::vector<runtime::SizeExpr> expressions;
  std::vector<int64_t> values;
  bool is_static = true;

  void prepare() {
    values.resize(expressions.size());
    for (size_t i = 0; i < expressions.size(); ++i) {
      is_static &= expressions[i].is_constant();
      if (expressions[i].is_constant()) values[i] = expressions[i].constant;
    }
  }
  const int64_t* get(const int64_t* symbols, std::vector<int64_t>& scratch) const {
    if (is_static) return values.data();
    scratch.resize(expressions.size());
    for (size_t i = 0; i < expressions.size(); ++i) scratch[i] = expressions[i].evaluate(symbols);
    return scratch.data();
  }
};

struct FreshOutput {
  OutputForm form = OutputForm::kTorchTensor;
  runtime::DType dtype;
  runtime::Device device;
  Extents sizes, strides;
};

union ScalarCell {
  int64_t integer;
  double real;
};

bool set_error(const runtime::RunError& error) {
  if (PyErr_Occurred()) return false;
  PyObject* type = error.kind == runtime::RunError::kIndexError    ? PyExc_IndexError
                   : error.kind == runtime::RunError::kMemoryError ? PyExc_MemoryError
                                                                   : PyExc_RuntimeError;
  PyErr_SetString(type, error.message.c_str());
  return false;
}

class NativeGraph : public CompiledGraph {
 public:
  NativeGraph(const symbolic::CaptureResult& capture, std::vector<OutputForm> forms, graph::Prepared prepared,
              std::unique_ptr<runtime::Executable> executable);
  bool run(const Bindings& bindings, std::vector<PyRef>& outputs) override;

 private:
  PyRef make_output(size_t i, const Bindings& bindings, const std::vector<PyRef>& fresh,
                    const ScalarCell* cells) const;
  bool allocate(const int64_t* symbols, std::vector<PyRef>& fresh, void** data, ScalarCell* cells) const;
  bool execute(const runtime::Call& call, const Bindings& bindings) const;
  PyRef view_of(PyObject* base, const OutputAlias& alias, const int64_t* symbols) const;

  std::unique_ptr<runtime::Executable> executable_;
  std::shared_ptr<graph::SymContext> sym_;
  std::vector<OutputAlias> outputs_;
  std::vector<OutputForm> forms_;
  std::vector<FreshOutput> fresh_;
  std::vector<int> numbers_;  // graph inputs that are Python numbers
  std::vector<InputKind> input_kinds_;
  std::vector<int> written_;  // torch tensors that the graph writes to
  bool plain_ = true;         // every output is fresh, in order: the common case
};

NativeGraph::NativeGraph(const symbolic::CaptureResult& capture, std::vector<OutputForm> forms,
                         graph::Prepared prepared, std::unique_ptr<runtime::Executable> executable)
    : executable_(std::move(executable)),
      sym_(capture.graph->sym),
      outputs_(std::move(prepared.outputs)),
      forms_(std::move(forms)) {
  fresh_.resize(executable_->outputs.size());
  const bool numpy = capture.graph->framework == graph::Framework::kNumpy;
  for (size_t i = 0; i < fresh_.size(); ++i) {
    runtime::OutputSpec& spec = executable_->outputs[i];
    fresh_[i] = {numpy ? OutputForm::kNumpyArray : OutputForm::kTorchTensor,
                 spec.dtype,
                 spec.device,
                 {spec.sizes, {}},
                 {spec.strides, {}}};
    fresh_[i].sizes.prepare();
    fresh_[i].strides.prepare();
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool in_order = outputs_[i].kind == OutputAlias::kFresh && outputs_[i].index == static_cast<int>(i);
    plain_ &= in_order;
    if (outputs_[i].kind == OutputAlias::kFresh && forms_[i] != OutputForm::kUnused)
      fresh_[outputs_[i].index].form = forms_[i];
  }
  plain_ &= outputs_.size() == fresh_.size();
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    input_kinds_.push_back(capture.inputs[i].kind);
    const InputKind kind = capture.inputs[i].kind;
    if (kind == InputKind::kFloat || kind == InputKind::kInt) numbers_.push_back(static_cast<int>(i));
  }
  for (const graph::Graph::Mutation& mutation : prepared.core->mutations)
    if (capture.inputs[mutation.input].kind == InputKind::kTorchTensor) written_.push_back(mutation.input);
}

bool NativeGraph::allocate(const int64_t* symbols, std::vector<PyRef>& fresh, void** data,
                           ScalarCell* cells) const {
  std::vector<int64_t> sizes, strides;
  for (size_t i = 0; i < fresh_.size(); ++i) {
    const FreshOutput& output = fresh_[i];
    const int rank = static_cast<int>(output.sizes.values.size());
    if (output.form == OutputForm::kTorchTensor)
      fresh[i] = symbolic::make_torch_tensor(output.dtype, output.device, output.sizes.get(symbols, sizes),
                                             output.strides.get(symbols, strides), rank, &data[i]);
    else if (output.form == OutputForm::kNumpyArray)
      fresh[i] = symbolic::make_numpy_array(output.dtype, output.sizes.get(symbols, sizes),
                                            output.strides.get(symbols, strides), rank, &data[i]);
    else
      data[i] = &cells[i];
    if (data[i] != &cells[i] && !fresh[i]) return false;
  }
  return true;
}

bool NativeGraph::execute(const runtime::Call& call, const Bindings& bindings) const {
  runtime::RunError error;
  bool done;
  if (executable_->takes_long) {
    // Another thread may drop what holds the inputs while the GIL is away.
    std::vector<PyRef> held;
    held.reserve(bindings.inputs.size());
    for (PyObject* input : bindings.inputs) held.push_back(PyRef::borrow(input));
    Py_BEGIN_ALLOW_THREADS;
    done = executable_->run(call, &error);
    Py_END_ALLOW_THREADS;
  } else {
    done = executable_->run(call, &error);
  }
  for (int input : written_) symbolic::bump_version(bindings.inputs[input]);
  return done || set_error(error);
}

bool NativeGraph::run(const Bindings& bindings, std::vector<PyRef>& outputs) {
  constexpr size_t kSmall = 8;
  const size_t num_fresh = fresh_.size();
  std::array<void*, kSmall> small_data;
  std::array<ScalarCell, kSmall> small_cells;
  std::vector<void*> large_data(num_fresh > kSmall ? num_fresh : 0);
  std::vector<ScalarCell> large_cells(large_data.size());
  void** data = large_data.empty() ? small_data.data() : large_data.data();
  ScalarCell* cells = large_cells.empty() ? small_cells.data() : large_cells.data();

  std::vector<PyRef> own_fresh;
  std::vector<PyRef>& fresh = plain_ ? outputs : own_fresh;
  fresh.resize(num_fresh);
  const int64_t* symbols = bindings.symbols.data();
  if (!allocate(symbols, fresh, data, cells)) return false;

  runtime::Call call{.inputs = bindings.views.data(), .symbols = symbols, .outputs = data};
  std::vector<runtime::TensorView> views;
  std::vector<ScalarCell> number_cells(numbers_.size());
  if (!numbers_.empty()) {
    views = bindings.views;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const bool real = input_kinds_[numbers_[i]] == InputKind::kFloat;
      PyObject* number = bindings.inputs[numbers_[i]];
      if (real)
        number_cells[i].real = PyFloat_AS_DOUBLE(number);
      else
        number_cells[i].integer = PyLong_AsLongLong(number);
      views[numbers_[i]] = {.data = &number_cells[i],
                            .dtype = real ? runtime::DType::kF64 : runtime::DType::kI64};
    }
    call.inputs = views.data();
  }
  if (!execute(call, bindings)) return false;
  if (!plain_) outputs.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (plain_ && outputs[i]) continue;
    outputs[i] = make_output(i, bindings, fresh, cells);
    if (!outputs[i] && forms_[i] != OutputForm::kUnused) return false;
  }
  return true;
}

PyRef NativeGraph::make_output(size_t i, const Bindings& bindings, const std::vector<PyRef>& fresh,
                               const ScalarCell* cells) const {
  const OutputAlias& alias = outputs_[i];
  const int64_t* symbols = bindings.symbols.data();
  switch (alias.kind) {
    case OutputAlias::kInput: return PyRef::borrow(bindings.inputs[alias.index]);
    case OutputAlias::kViewOfInput: return view_of(bindings.inputs[alias.index], alias, symbols);
    case OutputAlias::kViewOfOutput: return view_of(fresh[alias.index].get(), alias, symbols);
    case OutputAlias::kFresh: break;
  }
  const FreshOutput& output = fresh_[alias.index];
  if (output.form == OutputForm::kNumpyScalar)
    return symbolic::make_numpy_scalar(output.dtype, &cells[alias.index]);
  if (output.form == OutputForm::kPythonScalar)
    return symbolic::make_python_scalar(output.dtype, &cells[alias.index]);
  return fresh[alias.index];
}

PyRef NativeGraph::view_of(PyObject* base, const OutputAlias& alias, const int64_t* symbols) const {
  const size_t rank = alias.sizes.size();
  std::vector<int64_t> extents(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = sym_->evaluate(alias.sizes[d], symbols);
    extents[rank + d] = sym_->evaluate(alias.strides[d], symbols);
  }
  return symbolic::as_strided_view(base, extents.data(), extents.data() + rank, static_cast<int>(rank),
                                   sym_->evaluate(alias.offset, symbols));
}

}  // namespace

std::unique_ptr<CompiledGraph> compile_native(const symbolic::CaptureResult& capture,
                                              std::vector<OutputForm> forms,
                                              lowering::CompileReport& report) {
  graph::Prepared prepared = graph::prepare(*capture.graph, [](const char* stage, const graph::Graph& graph) {
    if (log_enabled(Topic::kAot)) log(Topic::kAot, std::string(stage) + "\n" + graph::print_readable(graph));
  });
  lowering::CompileOptions options{.use_disk_cache = global_config().disk_cache,
                                   .keep_text = log_enabled(Topic::kOutputCode)};
  auto executable = lowering::compile(*prepared.core, options, &report);
  symbolic::counters().kernels_compiled += report.kernels_compiled;
  symbolic::counters().kernels_from_disk += report.kernels_from_disk;
  symbolic::counters().library_calls_compiled += report.library_calls;
  if (log_enabled(Topic::kFusion)) log(Topic::kFusion, report.fusion);
  if (log_enabled(Topic::kOutputCode)) log(Topic::kOutputCode, report.loop_ir + "\n" + report.llvm_ir);
  return std::make_unique<NativeGraph>(capture, std::move(forms), std::move(prepared), std::move(executable));
}

}  // namespace cdynamo::frame_eval
