// Tensors from Python data and from nothing: torch.tensor([...]), torch.zeros(...), with torch's defaults for
// dtype and device. zeros, ones, full, arange and the like are operators of the table where it has them; what
// is here needs rules of its own.
#include <algorithm>

#include "graph/converted_numbers.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::Sym;

namespace {

// Numbers, nested in lists and tuples, of one shape.
struct Data {
  std::vector<Sym> sizes;
  std::vector<Arg> items;
  runtime::Category category = runtime::Category::kBool;
  bool regular = true;
};

constexpr size_t kMostItems = 1 << 20;
constexpr size_t kMostPieces = 256;  // of numbers that are not all known

runtime::Category category_of(const Arg& number) {
  if (std::holds_alternative<bool>(number)) return runtime::Category::kBool;
  if (std::holds_alternative<double>(number)) return runtime::Category::kFloat;
  const auto* held = std::get_if<graph::Value*>(&number);
  return held ? runtime::info((*held)->type.dtype).category : runtime::Category::kInteger;
}

void collect(Executor& ex, const ValuePtr& value, size_t depth, Data& out) {
  if (auto items = sequence_items(ex, value)) {
    Sym count = static_cast<int64_t>(items->size());
    if (out.sizes.size() == depth && out.items.empty())
      out.sizes.push_back(count);
    else if (depth >= out.sizes.size() || !(out.sizes[depth] == count))
      out.regular = false;
    for (const ValuePtr& item : *items)
      if (out.regular) collect(ex, item, depth + 1, out);
    return;
  }
  if (auto* element = dynamic_cast<ArrayValue*>(value.get()); element && is_readable_number(*element))
    return collect(ex, read_item(ex, *element, "torch.tensor"), depth, out);
  std::optional<Arg> number = number_argument(value);
  if (!number)
    if (graph::Value* held = graph_value(value); held && held->type.weak) number = held;
  if (!number || depth != out.sizes.size() || out.items.size() >= kMostItems)
    return void(out.regular = false);
  out.category = std::max(out.category, category_of(*number));
  out.items.push_back(*number);
}

bool all_known(const Data& data) {
  return std::ranges::none_of(data.items, [](const Arg& item) {
    const Sym* sym = std::get_if<Sym>(&item);
    return std::holds_alternative<graph::Value*>(item) || (sym && !sym->is_constant());
  });
}

// Made once by torch itself: torch.tensor(data, dtype=dtype, device=device).
graph::Value* embed(Executor& ex, const ValuePtr& data, DType dtype, graph::Device device) {
  PyRef object = data->materialize(ex);
  if (!object) break_graph("CD0415", "torch.tensor of " + data->describe());
  PyRef positional = checked(PyTuple_Pack(1, object.get()));
  PyRef keywords = checked(PyDict_New());
  if (PyDict_SetItemString(keywords.get(), "dtype", torch_dtype_object(dtype)) < 0 ||
      PyDict_SetItemString(keywords.get(), "device", torch_device_object(device).get()) < 0)
    throw PythonError{};
  PyRef tensor =
      checked_user(ex, PyObject_Call(library_object("torch", "tensor"), positional.get(), keywords.get()));
  return embed_constant(ex, tensor.get(), make_tensor_input);
}

// A tensor of one number.
graph::Value* piece(Executor& ex, const Arg& number, const std::vector<Sym>& sizes, DType dtype) {
  const auto* held = std::get_if<graph::Value*>(&number);
  if (!held) return append_call1(ex, "core.full", {sizes, number, dtype});
  graph::Value* one = append_call1(ex, "core.cast", {*held, dtype});
  one = append_call1(ex, "clone",
                     {append_call1(ex, "expand", {one, sizes, false}), std::string("contiguous_format")});
  one->type.weak = false;
  return one;
}

graph::Value* build(Executor& ex, const Data& data, DType dtype) {
  for (const Arg& item : data.items) graph::require_fits(ex.graph(), item, dtype);
  if (data.sizes.empty()) return piece(ex, data.items.at(0), {}, dtype);
  if (data.items.empty()) return piece(ex, Sym(int64_t{0}), data.sizes, dtype);
  std::vector<graph::Value*> pieces;
  // Runs of equal numbers are one piece.
  for (size_t i = 0; i < data.items.size();) {
    size_t end = i + 1;
    while (end < data.items.size() && data.items[end] == data.items[i]) ++end;
    pieces.push_back(piece(ex, data.items[i], {Sym(static_cast<int64_t>(end - i))}, dtype));
    i = end;
  }
  graph::Value* flat =
      pieces.size() == 1 ? pieces[0] : append_call1(ex, "core.concat", {pieces, Sym(int64_t{0})});
  return data.sizes.size() == 1 ? flat : append_call1(ex, "core.reshape", {flat, data.sizes});
}

struct Options {
  std::optional<DType> dtype;  // unset: from the data, an empty list being of the default float type
  std::optional<graph::Device> device;
};

// A copy of an array or of one of NumPy's scalars, laid out like it.
graph::Value* from_array(Executor& ex, const ArrayValue& array, const Options& options) {
  if (ex.state().branches) break_graph("CD0418", "a tensor of an array");
  for (const Sym& stride : array.array_type().strides)
    if (!ex.graph().sym->guard(graph::Relation::kLe, 0, stride, "a stride"))
      break_graph("CD0409", "a tensor of an array with negative strides");
  graph::Value* copy = append_call1(ex, "clone", {append_call1(ex, "data", {array.value()})});
  const DType dtype = options.dtype.value_or(copy->type.dtype);
  if (dtype != copy->type.dtype) copy = append_call1(ex, "core.cast", {copy, dtype});
  const graph::Device device = options.device.value_or(graph::Device{});
  return device == graph::Device{} ? copy : append_call1(ex, "core.to_device", {copy, device});
}

graph::Value* from_data(Executor& ex, const ValuePtr& value, const Options& options) {
  std::optional<DType> dtype = options.dtype;
  const graph::Device device = options.device.value_or(graph::Device{});
  if (is_tensor(value)) break_graph("CD0415", "a copy of a tensor, which warns");
  if (auto* array = dynamic_cast<ArrayValue*>(value.get())) return from_array(ex, *array, options);
  if (is_numpy_number(value)) {
    DType known{};
    PyObject* its_dtype = value->get_attribute(ex, interned("dtype"))->real_object();
    if (!its_dtype || !dtype_of_numpy_object(its_dtype, &known)) break_graph("CD0415", value->describe());
    return from_data(ex, call_method(ex, value, "item"), {.dtype = dtype.value_or(known), .device = device});
  }
  Data data;
  collect(ex, value, 0, data);
  if (!data.regular) break_graph("CD0415", value->describe());
  if (!dtype)
    dtype = data.items.empty() || data.category == runtime::Category::kFloat ? ex.graph().default_float()
            : data.category == runtime::Category::kInteger                   ? DType::kI64
                                                                             : DType::kBool;
  if (data.items.size() > 1 && all_known(data)) return embed(ex, value, *dtype, device);
  if (data.items.size() > kMostPieces) break_graph("CD0415", "so many numbers");
  graph::Value* built = build(ex, data, *dtype);
  return device == graph::Device{} ? built : append_call1(ex, "core.to_device", {built, device});
}

// dtype=, device=, requires_grad= and pin_memory= of a factory; what is not the usual breaks the graph.
Options read_options(Executor& ex, const char* function, const ValuePtr& dtype_value, const ValuePtr& device,
                     std::initializer_list<ValuePtr> flags) {
  Options found;
  for (const ValuePtr& flag : flags)
    if (flag && constant_object(flag) != Py_False)
      break_graph("CD0402", std::string(function) + " with requires_grad or pin_memory");
  if (device && !is_none(device)) {
    found.device = device_argument(ex, device);
    if (!found.device) break_graph("CD0402", std::string(function) + " on another device");
  }
  if (!dtype_value || is_none(dtype_value)) return found;
  DType dtype{};
  if (!dtype_value->real_object() || !dtype_of_torch_object(dtype_value->real_object(), &dtype))
    break_graph("CD0402", std::string(function) + " with this dtype");
  found.dtype = dtype;
  return found;
}

// An array that the graph has no value of: of complex numbers, or a constant.
bool is_other_array(const ValuePtr& value) {
  const numpy_access::Api* numpy = numpy_access::api();
  return numpy && value->type() == numpy->array_type && !is_numpy_array(value);
}

ValuePtr tensor_of_complex_array(Executor& ex, const ValuePtr& array) {
  return polyfill(ex, PythonSide::kComplexPolyfills, "tensor_of_array")->call(ex, positional({array}));
}

// Of a function that is given nothing else.
ValuePtr tensor_of_complex_array(Executor& ex, const CallArgs& args) {
  const bool is_alone = args.positional.size() == 1 && args.keywords.empty();
  return is_alone && is_other_array(args.positional[0]) ? tensor_of_complex_array(ex, args.positional[0])
                                                        : nullptr;
}

// torch.tensor(data, dtype=None, device=None, requires_grad=False, pin_memory=False).
ValuePtr tensor_from_data(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (const ValuePtr tensor = tensor_of_complex_array(ex, args))
    return tensor->get_attribute(ex, interned("clone"))->call(ex, {});
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    const FrameworkRules rules(ex, graph::Framework::kTorch);
    std::vector<ValuePtr> given =
        bind_arguments(ex, "tensor", args, {"data", "dtype?", "device?", "requires_grad?", "pin_memory?"});
    return make_tensor(
        ex,
        from_data(ex, given[0], read_options(ex, "torch.tensor", given[1], given[2], {given[3], given[4]})));
  });
}

// torch.from_numpy(array)
ValuePtr from_numpy(Executor& ex, PyObject*, const CallArgs& args) {
  require_no_keywords(ex, "from_numpy", args);
  require_count(ex, "from_numpy", args, 1, 1);
  const ValuePtr& given = args.positional[0];
  if (is_numpy_array(given)) return tensor_of_array(ex, given);
  if (is_other_array(given)) return tensor_of_complex_array(ex, given);
  raise_error(ex, PyExc_TypeError, std::string("expected np.ndarray (got ") + type_name(given) + ")");
}

// torch.as_tensor(data, dtype=None, device=None): a tensor is returned as it is where its dtype and device are right.
ValuePtr as_tensor(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (ValuePtr tensor = tensor_of_complex_array(ex, args)) return tensor;
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    const FrameworkRules rules(ex, graph::Framework::kTorch);
    std::vector<ValuePtr> given = bind_arguments(ex, "as_tensor", args, {"data", "dtype?", "device?"});
    const Options options = read_options(ex, "torch.as_tensor", given[1], given[2], {});
    if (is_numpy_array(given[0])) given[0] = tensor_of_array(ex, given[0]);
    auto* tensor = dynamic_cast<TensorValue*>(given[0].get());
    if (!tensor) return make_tensor(ex, from_data(ex, given[0], options));
    const graph::TensorType& type = tensor->array_type();
    ValuePtr result = given[0];
    if (options.dtype.value_or(type.dtype) != type.dtype) result = call_named(ex, "to", {result, given[1]});
    if (!(options.device.value_or(type.device) == type.device))
      result = call_named(ex, "to", {result, given[2]});
    return result;
  });
}

// torch.asarray(data) of what is no tensor.
ValuePtr as_array(Executor& ex, PyObject* callable, const CallArgs& args) {
  const bool is_plain = std::ranges::all_of(args.keywords, [](const Keyword& keyword) {
    const std::string_view name = PyUnicode_AsUTF8(keyword.name.get());
    return name == "dtype" || name == "device";
  });
  if (!is_plain || args.positional.size() != 1 || is_tensor(args.positional[0]))
    break_graph("CD0402", "torch.asarray with these arguments");
  return as_tensor(ex, callable, args);
}

// torch.FloatTensor(data), torch.Tensor(data) of an array, whose memory is shared where its dtype is right, or of a sequence.
ValuePtr of_class(Executor& ex, PyObject* callable, const CallArgs& args, std::optional<DType> class_dtype) {
  const ValuePtr given = args.positional.size() == 1 && args.keywords.empty() ? args.positional[0] : nullptr;
  const bool is_sequence = given && (given->type() == &PyList_Type || given->type() == &PyTuple_Type);
  if (!given || !(is_numpy_array(given) || is_sequence))
    break_graph("CD0415", "the constructor of a tensor class");
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    const FrameworkRules rules(ex, graph::Framework::kTorch);
    const DType dtype = class_dtype.value_or(ex.graph().default_float());
    if (is_sequence) {
      Data data;
      collect(ex, given, 0, data);
      if (!runtime::is_float(dtype) && !data.items.empty() && data.category == runtime::Category::kFloat)
        break_graph("CD0415", "floats for a tensor class of integers");
      return make_tensor(ex, from_data(ex, given, {.dtype = dtype, .device = {}}));
    }
    const ValuePtr tensor = tensor_of_array(ex, given);
    if (static_cast<TensorValue&>(*tensor).array_type().dtype == dtype) return tensor;
    return call_named(ex, "to", {tensor, ex.constant(PyRef::borrow(torch_dtype_object(dtype)))});
  });
}
template <DType kDType>
ValuePtr of_typed_class(Executor& ex, PyObject* callable, const CallArgs& args) {
  return of_class(ex, callable, args, kDType);
}
ValuePtr of_default_class(Executor& ex, PyObject* callable, const CallArgs& args) {
  return of_class(ex, callable, args, std::nullopt);
}

constexpr SpecialRow kFactoryRows[] = {
    {"torch.asarray", as_array},
    {"torch.Tensor", of_default_class},
    {"torch.HalfTensor", of_typed_class<DType::kF16>},
    {"torch.FloatTensor", of_typed_class<DType::kF32>},
    {"torch.DoubleTensor", of_typed_class<DType::kF64>},
    {"torch.ByteTensor", of_typed_class<DType::kU8>},
    {"torch.CharTensor", of_typed_class<DType::kI8>},
    {"torch.ShortTensor", of_typed_class<DType::kI16>},
    {"torch.IntTensor", of_typed_class<DType::kI32>},
    {"torch.LongTensor", of_typed_class<DType::kI64>},
    {"torch.BoolTensor", of_typed_class<DType::kBool>},
    {"torch.from_numpy", from_numpy},
    {"torch.tensor", tensor_from_data},
    {"torch.as_tensor", as_tensor},
};

}  // namespace

// x.new_tensor(data): of x's dtype, on its device.
ValuePtr new_tensor_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return recorded_call(ex, "call_method", PyRef::borrow(interned("new_tensor")), all, [&]() -> ValuePtr {
    std::vector<ValuePtr> given = bind_arguments(
        ex, "new_tensor", args, {"data", "dtype?", "device?", "requires_grad?", "pin_memory?"});
    Options options = read_options(ex, "new_tensor", given[1], given[2], {given[3], given[4]});
    const graph::TensorType& type = static_cast<TensorValue&>(*self).array_type();
    if (!options.dtype) options.dtype = type.dtype;
    if (!options.device) options.device = type.device;
    return make_tensor(ex, from_data(ex, given[0], options));
  });
}

std::span<const SpecialRow> torch_factory_functions() { return kFactoryRows; }

}  // namespace cdynamo::symbolic
