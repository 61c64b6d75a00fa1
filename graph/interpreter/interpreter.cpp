#include "graph/interpreter.h"

#include "graph/broadcast.h"
#include "graph/interpreter/kernels.h"
#include "graph/reference.h"

namespace cdynamo::graph {

using runtime::is_float;

// ---- tensors --------------------------------------------------------------------------------------------

DenseTensor::DenseTensor(DType dtype, std::vector<int64_t> sizes) : dtype(dtype), sizes(std::move(sizes)) {
  elements.resize(static_cast<size_t>(numel()));
}

DenseTensor DenseTensor::of(std::vector<int64_t> sizes, std::vector<double> values, DType dtype) {
  DenseTensor tensor(dtype, std::move(sizes));
  if (values.size() != tensor.elements.size()) throw InternalError("values do not fill the tensor");
  for (size_t i = 0; i < values.size(); ++i) tensor.set(i, values[i]);
  return tensor;
}

int64_t DenseTensor::numel() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

double DenseTensor::number(size_t index) const {
  return is_float(dtype) ? elements[index].real : integer_to_real(elements[index].integer, dtype);
}

void DenseTensor::set(size_t index, double value) {
  if (is_float(dtype))
    elements[index].real = round_to(value, dtype);
  else
    elements[index].integer = real_to_integer(value, dtype);
}

std::vector<double> DenseTensor::numbers() const {
  std::vector<double> result(elements.size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = number(i);
  return result;
}

// ---- helpers of the kernels -----------------------------------------------------------------------------

std::vector<const DenseTensor*> KernelCall::tensors(std::string_view name) const {
  std::vector<const DenseTensor*> result;
  for (Value* value : args.values(name)) result.push_back(&values[value->id]);
  return result;
}

std::vector<int64_t> KernelCall::integers(std::string_view name) const {
  std::vector<int64_t> result;
  for (const Sym& sym : args.sizes(name)) result.push_back(evaluate(sym));
  return result;
}

void for_each_index(const std::vector<int64_t>& sizes,
                    const std::function<void(const std::vector<int64_t>&)>& fn) {
  for (int64_t size : sizes)
    if (size <= 0) return;
  std::vector<int64_t> index(sizes.size(), 0);
  while (true) {
    fn(index);
    size_t dim = sizes.size();
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

size_t flat(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes) {
  int64_t at = 0;
  for (size_t d = 0; d < sizes.size(); ++d) at = at * sizes[d] + index[d];
  return static_cast<size_t>(at);
}

int64_t checked_index(int64_t index, int64_t size) {
  if (index < -size || index >= size)
    index_error("index " + std::to_string(index) + " is out of bounds for dimension with size " +
                std::to_string(size));
  return index < 0 ? index + size : index;
}

void store(DenseTensor& out, size_t at, double value) { out.set(at, value); }

// ---- nodes ----------------------------------------------------------------------------------------------

static Scalar load(ReferenceBuilder& b, const DenseTensor& tensor, size_t at) {
  DType dtype = runtime::compute_type(tensor.dtype);
  return is_float(dtype) ? b.constant(tensor.elements[at].real, dtype)
                         : b.constant_int(tensor.elements[at].integer, dtype);
}

static void run_pointwise(const KernelCall& call, DenseTensor& out) {
  ReferenceBuilder b;
  std::vector<const DenseTensor*> operands;
  for_each_operand(const_cast<Node&>(call.node),
                   [&](Value*& value) { operands.push_back(&call.values[value->id]); });
  for (const DenseTensor* operand : operands)
    if (operand->sizes != out.sizes) throw InternalError("operands of a pointwise core node differ in size");
  std::vector<Scalar> scalars(operands.size());
  for (size_t i = 0; i < out.elements.size(); ++i) {
    for (size_t k = 0; k < operands.size(); ++k) scalars[k] = load(b, *operands[k], i);
    Scalar result = call.node.op->scalar(b, scalars.data(), call.args);
    Scalar rounded = b.cast(result, out.dtype);
    if (is_float(out.dtype))
      out.elements[i].real = b.real(rounded);
    else
      out.elements[i].integer = b.integer(rounded);
  }
}

static void run_node(const KernelCall& call, std::vector<DenseTensor>& results) {
  const OpDef& op = *call.node.op;
  if (op.core.interpret) return op.core.interpret(call, results);
  if (op.family == Family::kPointwise) return run_pointwise(call, results.at(0));
  if (op.family == Family::kReduction) return interpret_reduction(call, results);
  throw Unsupported("the interpreter does not know " + std::string(op.name));
}

InterpretResult interpret_all(const Graph& core, const std::vector<DenseTensor>& inputs,
                              std::vector<int64_t> symbols) {
  if (symbols.empty())
    for (const SymbolInfo& symbol : core.sym->symbols()) symbols.push_back(symbol.hint);
  std::vector<DenseTensor> values(static_cast<size_t>(core.next_value_id()));
  if (inputs.size() != core.inputs.size()) throw InternalError("the number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i) values[core.inputs[i]->id] = inputs[i];
  for (const auto& node : core.nodes) {
    KernelCall call{*node, Args(node->op->parsed.at(node->overload), node->args), *core.sym, symbols, values};
    std::vector<DenseTensor> outs;
    for (const Value* result : node->results) {
      std::vector<int64_t> sizes;
      for (const Sym& size : result->type.sizes) sizes.push_back(call.evaluate(size));
      outs.emplace_back(result->type.dtype, std::move(sizes));
    }
    run_node(call, outs);
    for (size_t i = 0; i < outs.size(); ++i) values[node->results[i]->id] = std::move(outs[i]);
  }
  InterpretResult result;
  for (Value* output : core.outputs) result.outputs.push_back(values[output->id]);
  result.inputs = inputs;
  for (const Graph::Mutation& mutation : core.mutations)
    result.inputs[mutation.input] = values[mutation.value->id];
  return result;
}

std::vector<DenseTensor> interpret(const Graph& core, const std::vector<DenseTensor>& inputs,
                                   std::vector<int64_t> symbols) {
  return interpret_all(core, inputs, std::move(symbols)).outputs;
}

}  // namespace cdynamo::graph
