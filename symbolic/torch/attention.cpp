#include "symbolic/torch/attention.h"

#include <algorithm>
#include <numeric>

#include "graph/core.h"
#include "graph/op.h"
#include "graph/strides.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Arg;
using graph::Sym;
using graph::TensorType;
using graph::Value;

PyRef hints_tuple(Executor& ex, const std::vector<Sym>& sizes) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t d = 0; d < sizes.size(); ++d)
    PyTuple_SET_ITEM(tuple.get(), d, checked(PyLong_FromLongLong(ex.graph().sym->hint(sizes[d]))).release());
  return tuple;
}

// dtype, sizes, strides and device of each operand in this call.
PyRef describe_operands(Executor& ex, const std::vector<Value*>& operands) {
  PyRef list = checked(PyList_New(0));
  for (const Value* operand : operands) {
    const TensorType& type = operand->type;
    PyRef row =
        checked(PyTuple_Pack(4, torch_dtype_object(type.dtype), hints_tuple(ex, type.sizes).get(),
                             hints_tuple(ex, type.strides).get(), torch_device_object(type.device).get()));
    if (PyList_Append(list.get(), row.get()) < 0) throw PythonError{};
  }
  return list;
}

PyObject* boolean(bool value) { return value ? Py_True : Py_False; }

PyRef describe_options(const graph::Args& args) {
  PyRef dropout = checked(PyFloat_FromDouble(args.number("dropout_p")));
  PyRef scale =
      args.has("scale") ? checked(PyFloat_FromDouble(args.number("scale"))) : PyRef::borrow(Py_None);
  return checked(PyTuple_Pack(4, dropout.get(), boolean(args.boolean("is_causal")), scale.get(),
                              boolean(args.boolean("enable_gqa"))));
}

PyRef describe_gradients(Executor& ex, const std::vector<Value*>& operands) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  const bool grad_mode = torch_capture(ex).grad_mode;
  for (size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), i,
                     PyRef::borrow(boolean(grad_mode && operands[i]->requires_grad)).release());
  return tuple;
}

// A bool mask says what is seen: 0 there and -inf elsewhere, in the query's dtype.
Value* additive_mask(Executor& ex, Value* mask, const TensorType& query) {
  if (mask->type.dtype != graph::DType::kBool) return mask;
  const auto number = [&](double value) {
    return append_call1(ex, "core.full", {std::vector<Sym>{}, value, query.dtype});
  };
  return append_call1(ex, "where", {mask, number(0.0), number(-std::numeric_limits<double>::infinity())});
}

std::vector<int64_t> integers(PyObject* tuple) {
  std::vector<int64_t> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    found.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  return found;
}

// Row-major in the order of dims that `like` has.
std::vector<Sym> strides_in_order(const std::vector<Sym>& sizes, const std::vector<int64_t>& like) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return like[a] > like[b]; });
  std::vector<Sym> strides(sizes.size());
  Sym next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next = next * sizes[order[i]];
  }
  return strides;
}

// The type of result `index` as an expression of the operands' sizes; `found`: dtype, sizes, strides, device in this call. False where
// it is none that is known.
bool result_type(Executor& ex, const std::vector<Value*>& operands, size_t index, PyObject* found,
                 TensorType& type) {
  const TensorType &query = operands[0]->type, &value = operands[2]->type;
  const std::vector<int64_t> sizes = integers(PyTuple_GET_ITEM(found, 1)),
                             strides = integers(PyTuple_GET_ITEM(found, 2));
  if (!dtype_of_torch_object(PyTuple_GET_ITEM(found, 0), &type.dtype)) return false;
  type.device = query.device;
  const graph::SymContext& sym = *ex.graph().sym;
  if (index == 0) {
    type.sizes = query.sizes;
    type.sizes.back() = value.sizes.back();
  } else if (index == 1) {  // one a row of scores; some kernels fill rows up, some have a last dim of 1
    const Sym rows = query.sizes[2];
    type.sizes = {query.sizes[0], query.sizes[1], rows};
    if (sizes.size() > 2 && sizes[2] != sym.hint(rows))
      type.sizes[2] = floordiv(rows + Sym(31), Sym(32)) * Sym(32);
    if (sizes.size() == 4) type.sizes.emplace_back(1);
  } else {
    type.sizes = {Sym(2)};
  }
  if (sizes.size() != type.sizes.size()) return false;
  bool fits = true, constant = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    fits &= sym.hint(type.sizes[d]) == sizes[d];
    constant &= type.sizes[d].is_constant();
  }
  if (constant)
    type.strides.assign(strides.begin(), strides.end());
  else
    type.strides = strides_in_order(type.sizes, strides);
  for (size_t d = 0; d < sizes.size(); ++d) fits &= sizes[d] == 1 || sym.hint(type.strides[d]) == strides[d];
  return fits;
}

// Query, key and value with the heads' size filled up to a multiple of what the kernel takes.
void pad_heads(Executor& ex, std::vector<Value*>& operands, int64_t padding) {
  for (size_t i = 0; i < 3; ++i)
    operands[i] = append_call1(ex, "constant_pad_nd", {operands[i], std::vector<Sym>{0, Sym(padding)}, 0.0});
}

// Null where eager has no kernel for the call, or raises an error.
PyRef describe(Executor& ex, const graph::Args& args, const std::vector<Value*>& operands) {
  PyObject* describe = find_python_side(PythonSide::kDescribeAttention);
  if (!describe) {
    PyErr_Clear();
    return {};
  }
  PyRef call = checked(PyObject_CallFunctionObjArgs(describe, describe_operands(ex, operands).get(),
                                                    describe_options(args).get(),
                                                    describe_gradients(ex, operands).get(), nullptr));
  return call.get() == Py_None || PyUnicode_Check(call.get()) ? PyRef() : std::move(call);
}

bool all_on(const std::vector<Value*>& operands, graph::Device device) {
  return std::ranges::all_of(operands, [&](const Value* operand) { return operand->type.device == device; });
}

}  // namespace

ValuePtr try_fused_attention(Executor& ex, const graph::OpDef& op, const BoundCall& call) {
  if (op.name != "scaled_dot_product_attention") return nullptr;
  const graph::Args args(op.parsed[call.overload], call.args);
  std::vector<Value*> operands = {args.value("query"), args.value("key"), args.value("value")};
  const TensorType& query = operands[0]->type;
  const torch_access::Api* api = torch_access::api();
  if (query.device.type != runtime::DeviceType::kCUDA || query.rank() != 4 || !api ||
      !api->tensor_from_memory)
    return nullptr;
  // The kernel is chosen now, by the flags that the process has.
  if (torch_capture(ex).attention_backends.are_changed())
    break_graph("CD0413", "sdpa_kernel, before attention on a GPU");
  if (Value* mask = args.value("attn_mask")) operands.push_back(additive_mask(ex, mask, query));
  if (!all_on(operands, query.device)) return nullptr;
  PyRef attention = describe(ex, args, operands);
  if (!attention) return nullptr;
  const int64_t head = ex.graph().sym->specialize(query.sizes.back(), "attention"),
                multiple = integer_attribute(attention.get(), "multiple"),
                padding = (multiple - head % multiple) % multiple;
  if (padding) pad_heads(ex, operands, padding);
  PyRef found = checked(PyObject_GetAttrString(attention.get(), "types"));
  std::vector<TensorType> types(static_cast<size_t>(PyList_GET_SIZE(found.get())));
  for (size_t i = 0; i < types.size(); ++i)
    if (!result_type(ex, operands, i, PyList_GET_ITEM(found.get(), i), types[i])) return nullptr;
  auto held = std::make_shared<LibraryCall>(attention);
  std::vector<Value*> results =
      append_library_call(ex, std::move(operands), text_attribute(attention.get(), "name"),
                          text_attribute(attention.get(), "attributes"), *held, std::move(types));
  ex.add_library_call(std::move(held));
  Value* output = results[0];
  if (padding) output = append_call1(ex, "narrow", {output, Sym(3), Sym(0), Sym(head)});
  return make_tensor(ex, output);
}

}  // namespace cdynamo::symbolic
