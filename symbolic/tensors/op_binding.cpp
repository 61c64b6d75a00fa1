// Matching Python arguments with a schema, as array_value.h offers it. Mirrors
// torch/csrc/utils/python_arg_parser.cpp.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <cmath>

#include "graph/op.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/torch_generator.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::OpDef;
using graph::Param;
using graph::ParamKind;
using graph::Schema;
using graph::Sym;

bool is_int_of_subclass(const ValuePtr& value) {
  PyObject* object = constant_object(value);
  return object && PyLong_Check(object) && !PyLong_CheckExact(object) && !PyBool_Check(object);
}

std::optional<Arg> number_argument(const ValuePtr& value) {
  PyObject* object = constant_object(value);
  if (object && PyBool_Check(object)) return Arg(object == Py_True);
  if (object && PyFloat_CheckExact(object)) return Arg(PyFloat_AS_DOUBLE(object));
  if (std::optional<Sym> sym = as_sym(value)) return Arg(*sym);
  return std::nullopt;
}

graph::Value* graph_value(const ValuePtr& value) {
  if (auto* array = dynamic_cast<ArrayValue*>(value.get())) return array->value();
  if (auto* number = dynamic_cast<DynamicFloatValue*>(value.get())) return number->value();
  if (auto* read = dynamic_cast<DataBoolValue*>(value.get())) return read->value();
  return nullptr;
}

std::optional<std::vector<ValuePtr>> sequence_items(Executor& ex, const ValuePtr& value) {
  PyTypeObject* type = value->type();
  if (type != &PyList_Type && !PyType_IsSubtype(type, &PyTuple_Type)) return std::nullopt;
  return value->unpack(ex);
}

ValuePtr map_leaves(Executor& ex, const ValuePtr& value, absl::FunctionRef<ValuePtr(const ValuePtr&)> leaf) {
  check_stack();  // a list may hold itself
  const bool is_list = value->type() == &PyList_Type;
  if ((!is_list && value->type() != &PyTuple_Type) || value->as_constant()) return leaf(value);
  auto items = value->unpack(ex);
  if (!items) return value;
  bool changed = false;
  for (ValuePtr& item : *items) {
    ValuePtr mapped = map_leaves(ex, item, leaf);
    changed |= mapped != item;
    item = std::move(mapped);
  }
  if (!changed) return value;
  return is_list ? make_list(ex, std::move(*items)) : make_tuple(ex, std::move(*items));
}

namespace {

// Names that PyTorch's parser takes for a parameter besides its own.
struct NameAlias {
  const char *param, *keyword;
};
constexpr NameAlias kTorchAliases[] = {{"dim", "axis"},   {"keepdim", "keepdims"},
                                       {"self", "input"}, {"self", "x"},
                                       {"self", "a"},     {"self", "x1"},
                                       {"input", "x"},    {"input", "a"},
                                       {"other", "x2"},   {"split_size", "split_size_or_sections"}};
// NumPy's names for the parameters of ATen schemas that serve NumPy too.
constexpr NameAlias kNumpyAliases[] = {{"dim", "axis"}, {"keepdim", "keepdims"}, {"self", "a"},
                                       {"self", "x"},   {"self", "x1"},          {"other", "x2"},
                                       {"other", "b"},  {"self", "array"},       {"self", "arr"}};

bool is_none_object(const ValuePtr& value) { return constant_object(value) == Py_None; }

// Keyword arguments of torch's functions that ask for nothing when they have these values.
bool is_trivial_option(std::string_view name, const ValuePtr& value) {
  PyObject* object = constant_object(value);
  if (!object) return false;
  if (name == "out" || name == "names" || name == "generator" || name == "layout" || name == "dtype" ||
      name == "device")
    if (object == Py_None) return true;
  if (name == "layout") return object == library_object("torch", "strided");
  if (name == "memory_format") return object == library_object("torch", "preserve_format");
  if (name == "requires_grad" || name == "pin_memory") return object == Py_False || object == Py_None;
  return false;
}

// CUDA's current device, which the guard on torch's state covers.
graph::Device current_cuda_device(Executor& ex) {
  const int32_t index = read_torch_state().current_device;
  if (index != torch_capture(ex).state.current_device)  // it was not known when capture began
    throw SkipFrame{.reason = "CUDA's current device is looked up for the first time", .retry_later = true};
  return {runtime::DeviceType::kCUDA, static_cast<int8_t>(index)};
}
}  // namespace

std::optional<graph::Device> device_argument(Executor& ex, const ValuePtr& value) {
  PyObject* object = constant_object(value);
  if (!object || object == Py_None || PyBool_Check(object)) return std::nullopt;
  PyRef text = PyRef::steal(PyObject_Str(object));
  const char* name = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!name) return PyErr_Clear(), std::nullopt;
  std::string_view device = name;
  if (device == "cpu" || device == "cpu:0") return graph::Device{};
  const bool is_number = PyLong_Check(object);
  if (!is_number && !device.starts_with("cuda")) return std::nullopt;
  if (!torch_access::probe_cuda()) return std::nullopt;  // eager raises its own
  if (device == "cuda") return current_cuda_device(ex);
  if (!is_number) device.remove_prefix(std::string_view("cuda:").size());
  int index = -1;
  if (!absl::SimpleAtoi(std::string(device), &index) || index < 0 || index > INT8_MAX) return std::nullopt;
  return graph::Device{runtime::DeviceType::kCUDA, static_cast<int8_t>(index)};
}

namespace {

class Binder {
 public:
  // What binds where nothing before it does: numbers of the graph where a parameter takes them; tensors of one element for
  // numbers, as PyTorch's parser has it; numbers that are pinned to what they are.
  enum class Pass : uint8_t { kAsGiven, kReadTensors, kPinned };

  Binder(Executor& ex, const OpDef& op, const CallArgs& call, Convention convention, Pass pass)
      : ex_(ex), op_(op), call_(call), convention_(convention), pass_(pass) {}

  bool bind(const Schema& schema, std::vector<Arg>& out) {
    // A method's receiver is an object of its class.
    if (convention_ == Convention::kTorchMethod &&
        (call_.positional.empty() || !dynamic_cast<ArrayValue*>(call_.positional[0].get())))
      return false;
    out.assign(schema.params.size(), std::monostate());
    given_.assign(schema.params.size(), false);
    return bind_positional(schema, out) && bind_keywords(schema, out) && fill_defaults(schema, out);
  }

 private:
  bool bind_positional(const Schema& schema, std::vector<Arg>& out) {
    std::vector<size_t> slots;
    for (size_t i = 0; i < schema.params.size(); ++i)
      if (!schema.params[i].keyword_only) slots.push_back(i);
    const std::vector<ValuePtr>& values = call_.positional;
    size_t self = convention_ == Convention::kTorchMethod ? 1 : 0;
    // x.view(2, 3): all that is left is one list of ints.
    bool varargs = slots.size() == self + 1 && schema.params[slots.back()].kind == ParamKind::kIntList &&
                   values.size() > self && integer(values[self]) && convention_ != Convention::kNumpy;
    size_t plain = varargs ? self : values.size();
    if (plain > slots.size()) return false;
    for (size_t i = 0; i < plain; ++i)
      if (!give(schema, slots[i], values[i], out)) return false;
    if (!varargs) return true;
    std::vector<Sym> sizes;
    for (size_t i = self; i < values.size(); ++i) {
      std::optional<Sym> size = integer(values[i]);
      if (!size) return false;
      sizes.push_back(*size);
    }
    out[slots.back()] = std::move(sizes);
    given_[slots.back()] = true;
    return true;
  }

  int find_keyword(const Schema& schema, std::string_view keyword) const {
    int index = schema.find(keyword);
    if (index >= 0 && !(keyword == "self" && convention_ == Convention::kTorchFunction)) return index;
    auto search = [&](const auto& aliases) {
      for (const NameAlias& alias : aliases)
        if (keyword == alias.keyword)
          if (int found = schema.find(alias.param); found >= 0 && !given_[found]) return found;
      return -1;
    };
    return convention_ == Convention::kNumpy ? search(kNumpyAliases) : search(kTorchAliases);
  }

  bool bind_keywords(const Schema& schema, std::vector<Arg>& out) {
    for (const Keyword& keyword : call_.keywords) {
      const char* name = PyUnicode_AsUTF8(keyword.name.get());
      int index = find_keyword(schema, name);
      if (index < 0) {
        if (convention_ == Convention::kTorchMethod && std::string_view(name) == "out") return false;
        if (is_trivial_option(name, keyword.value)) continue;
        return false;
      }
      if (given_[index] || !give(schema, static_cast<size_t>(index), keyword.value, out)) return false;
    }
    return true;
  }

  bool fill_defaults(const Schema& schema, std::vector<Arg>& out) {
    for (size_t i = 0; i < schema.params.size(); ++i) {
      if (given_[i]) continue;
      const Param& param = schema.params[i];
      if (!param.has_default) return false;
      out[i] = param.default_value;
    }
    return true;
  }

  bool give(const Schema& schema, size_t index, const ValuePtr& value, std::vector<Arg>& out) {
    const Param& param = schema.params[index];
    given_[index] = true;
    if (is_none_object(value) &&
        (param.optional ||
         (param.has_default && std::holds_alternative<std::monostate>(param.default_value)))) {
      out[index] = std::monostate();
      return true;
    }
    return convert(param, value, out[index]);
  }

  // The number in a tensor where numbers are read from tensors; else the value.
  ValuePtr number_in(const ValuePtr& value) {
    auto* array = dynamic_cast<ArrayValue*>(value.get());
    if (pass_ != Pass::kReadTensors || !array || !is_readable_number(*array)) return value;
    ValuePtr& number = read_[value];
    if (!number) number = read_item(ex_, *array, op_.name.data());
    return number;
  }

  // An int or SymInt, no bool.
  std::optional<Sym> integer(const ValuePtr& given) {
    const ValuePtr value = number_in(given);
    if (dynamic_cast<DataBoolValue*>(value.get())) return std::nullopt;
    PyObject* object = constant_object(value);
    if (object && PyBool_Check(object)) return std::nullopt;
    return index_sym(ex_, value);
  }

  bool convert(const Param& param, const ValuePtr& given, Arg& out) {
    const bool is_kept = convention_ == Convention::kNumpy || param.kind == ParamKind::kBool;
    const ValuePtr value = is_kept ? given : without_numpy_scalar(ex_, given);
    switch (param.kind) {
      case ParamKind::kTensor: return convert_tensor(param, value, out);
      case ParamKind::kTensorList: return convert_tensors(param, value, out);
      case ParamKind::kScalar: return convert_scalar(value, out);
      case ParamKind::kInt: return convert_int(value, out);
      case ParamKind::kFloat: return convert_float(value, out);
      case ParamKind::kBool: return convert_bool(value, out);
      case ParamKind::kString: return convert_string(value, out);
      case ParamKind::kDType: return convert_dtype(value, out);
      case ParamKind::kDevice: return convert_device(value, out);
      case ParamKind::kIntList: return convert_ints(param, value, out);
      case ParamKind::kFloatList: return convert_floats(value, out);
      case ParamKind::kBoolList: return convert_bools(value, out);
      case ParamKind::kMemoryFormat: return convert_memory_format(value, out);
      case ParamKind::kGenerator: return convert_generator(value, out);
      case ParamKind::kLayout: return constant_object(value) == library_object("torch", "strided");
      case ParamKind::kScalarList:
      case ParamKind::kDimname:
      case ParamKind::kGraph: return false;
    }
    return false;
  }

  bool convert_tensor(const Param& param, const ValuePtr& value, Arg& out) {
    const bool numbers = param.accepts_number || convention_ == Convention::kNumpy;
    if (auto* array = dynamic_cast<ArrayValue*>(value.get()); array && !is_own(*array)) {
      if (convention_ == Convention::kNumpy || !array->is_scalar() ||
          !(numbers || has_scalar_overload(param.name)))
        return false;
      out = number_of_scalar(ex_, *array);
      return true;
    }
    if (graph::Value* held = graph_value(value)) {
      // A number that the graph holds is no tensor: it stands where a number may, in this overload or in
      // another.
      if (held->type.weak && !numbers && !has_scalar_overload(param.name)) return false;
      out = held;
      return true;
    }
    return numbers && !(convention_ == Convention::kNumpy && is_int_of_subclass(value)) &&
           convert_number(value, out);
  }

  bool is_own(const ArrayValue& array) const {
    return (array.framework() == graph::Framework::kNumpy) == (convention_ == Convention::kNumpy);
  }

  bool has_scalar_overload(std::string_view name) const {
    for (const Schema& schema : op_.parsed)
      if (const int index = schema.find(name); index >= 0 && schema.params[index].kind == ParamKind::kScalar)
        return true;
    return false;
  }

  bool convert_tensors(const Param& param, const ValuePtr& value, Arg& out) {
    auto items = sequence_items(ex_, value);
    if (!items) return false;
    std::vector<graph::Value*> values;
    for (const ValuePtr& item : *items) {
      auto* array = dynamic_cast<ArrayValue*>(item.get());
      if (array && !is_own(*array)) return false;
      graph::Value* held = graph_value(item);
      if (!held && !(param.list_elements_optional && is_none_object(item))) return false;
      values.push_back(held);
    }
    out = std::move(values);
    return true;
  }

  bool convert_scalar(const ValuePtr& given, Arg& out) {
    const ValuePtr value = number_in(given);
    const bool is_of_graph =
        dynamic_cast<DynamicFloatValue*>(value.get()) || dynamic_cast<DataBoolValue*>(value.get());
    if (!is_of_graph) return convert_number(value, out);
    if (op_.numbers_of_graph) return out = graph_value(value), true;
    return pass_ == Pass::kPinned && convert_number(value, out);
  }

  // A float that changes from call to call is pinned where the schema wants a number.
  bool convert_number(const ValuePtr& given, Arg& out) {
    const ValuePtr value = number_in(given);
    if (auto* number = dynamic_cast<DynamicFloatValue*>(value.get()))
      return out = number->specialize(ex_), true;
    if (std::optional<Arg> number = number_argument(value)) {
      out = *number;
      return true;
    }
    return false;
  }

  bool convert_int(const ValuePtr& value, Arg& out) {
    std::optional<Sym> sym = integer(value);
    if (sym) out = *sym;
    return sym.has_value();
  }

  bool convert_float(const ValuePtr& value, Arg& out) {
    if (dynamic_cast<DynamicFloatValue*>(value.get())) return convert_number(value, out);
    std::optional<Arg> number = number_argument(value);
    if (!number || std::holds_alternative<bool>(*number)) return false;
    if (const Sym* sym = std::get_if<Sym>(&*number))
      out = static_cast<double>(ex_.graph().sym->specialize(*sym, "a float argument"));
    else
      out = *number;
    return true;
  }

  bool convert_bool(const ValuePtr& value, Arg& out) {
    PyObject* object = constant_object(value);
    if (object != Py_True && object != Py_False) return false;
    out = object == Py_True;
    return true;
  }

  bool convert_string(const ValuePtr& value, Arg& out) {
    PyObject* object = constant_object(value);
    const char* text = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
    if (!text) return PyErr_Clear(), false;
    out = std::string(text);
    return true;
  }

  bool convert_dtype(const ValuePtr& value, Arg& out) {
    PyObject* object = value->real_object();
    graph::DType dtype;
    if (!object || !dtype_argument(object, &dtype)) return false;
    out = dtype;
    return true;
  }

  bool dtype_argument(PyObject* object, graph::DType* dtype) const {
    if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return *dtype = graph::DType::kF64, true;
    if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return *dtype = graph::DType::kI64, true;
    if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return *dtype = graph::DType::kBool, true;
    return convention_ == Convention::kNumpy ? numpy_dtype_like(object, dtype)
                                             : dtype_of_torch_object(object, dtype);
  }

  bool convert_device(const ValuePtr& value, Arg& out) {
    const std::optional<graph::Device> device = device_argument(ex_, value);
    if (device) out = *device;
    return device.has_value();
  }

  bool convert_generator(const ValuePtr& value, Arg& out) {
    graph::Value* input = generator_input(ex_, value);
    if (input) out = input;
    return input != nullptr;
  }

  // What NumPy hands on to a ufunc is an integer or a tuple; these make a tuple of a list themselves.
  bool takes_list_of_axes() const {
    return op_.name == "np.flip" || op_.name == "np.roll" || op_.name == "np.average";
  }

  bool convert_ints(const Param& param, const ValuePtr& value, Arg& out) {
    if (auto items = sequence_items(ex_, value)) {
      if (convention_ == Convention::kNumpy && param.name == "axis" && param.optional &&
          value->type() == &PyList_Type && !takes_list_of_axes())
        return false;
      std::vector<Sym> sizes;
      for (const ValuePtr& item : *items) {
        std::optional<Sym> size = integer(item);
        if (!size) return false;
        sizes.push_back(*size);
      }
      out = std::move(sizes);
      return true;
    }
    std::optional<Sym> single = integer(value);
    if (!single || (param.list_size == 0 && convention_ != Convention::kNumpy)) return false;
    out = std::vector<Sym>(static_cast<size_t>(std::max(param.list_size, 1)), *single);
    return true;
  }

  bool convert_floats(const ValuePtr& value, Arg& out) {
    auto items = sequence_items(ex_, value);
    if (!items) return false;
    std::vector<double> numbers;
    for (const ValuePtr& item : *items) {
      Arg number;
      if (!convert_float(item, number)) return false;
      numbers.push_back(std::get<double>(number));
    }
    out = std::move(numbers);
    return true;
  }

  bool convert_bools(const ValuePtr& value, Arg& out) {
    auto items = sequence_items(ex_, value);
    if (!items) return false;
    std::vector<bool> flags;
    for (const ValuePtr& item : *items) {
      Arg flag;
      if (!convert_bool(item, flag)) return false;
      flags.push_back(std::get<bool>(flag));
    }
    out = std::move(flags);
    return true;
  }

  bool convert_memory_format(const ValuePtr& value, Arg& out) {
    PyObject* object = constant_object(value);
    for (const char* name : {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"})
      if (object && object == library_object("torch", name)) return out = std::string(name), true;
    return false;
  }

  Executor& ex_;
  const OpDef& op_;
  const CallArgs& call_;
  Convention convention_;
  Pass pass_;
  std::vector<bool> given_;
  absl::flat_hash_map<ValuePtr, ValuePtr> read_;  // number_in
};

std::string describe_arguments(const CallArgs& args) {
  std::string text = "(";
  for (const ValuePtr& value : args.positional) text += (text.size() > 1 ? ", " : "") + value->describe();
  for (const Keyword& keyword : args.keywords)
    text += (text.size() > 1 ? ", " : "") + std::string(PyUnicode_AsUTF8(keyword.name.get())) + "=" +
            keyword.value->describe();
  return text + ")";
}

// Numbers, some of which only the graph knows, stand in all places of tensors.
bool has_only_numbers(const Schema& schema, const std::vector<Arg>& args) {
  bool any = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (std::holds_alternative<std::vector<graph::Value*>>(args[i])) return false;
    const auto* held = std::get_if<graph::Value*>(&args[i]);
    if (!held || !*held) continue;
    if (!(*held)->type.weak) return false;
    any |= schema.params[i].kind == ParamKind::kTensor;
  }
  return any;
}

bool all_take_numbers(const Schema& schema) {
  return std::ranges::all_of(schema.params, [](const Param& param) {
    return param.kind != ParamKind::kTensor || param.accepts_number;
  });
}

// PyTorch makes tensors of them, floats of its default type, where arithmetic on Python's numbers stays Python's.
void make_tensors_of_numbers(Executor& ex, const Schema& schema, std::vector<Arg>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    auto* held = std::get_if<graph::Value*>(&args[i]);
    if (!held || !*held || schema.params[i].kind != ParamKind::kTensor) continue;
    const graph::DType own = (*held)->type.dtype;
    const graph::DType dtype = runtime::is_float(own) ? ex.graph().default_float() : own;
    *held = append_call1(ex, "core.cast", {*held, dtype});
    (*held)->type.weak = false;
  }
}

}  // namespace

BoundCall bind_call(Executor& ex, const OpDef& op, const CallArgs& args, Convention convention,
                    bool in_place) {
  const bool numpy = convention == Convention::kNumpy;
  for (const auto pass : {Binder::Pass::kAsGiven, Binder::Pass::kReadTensors, Binder::Pass::kPinned}) {
    if (numpy && pass == Binder::Pass::kReadTensors) continue;
    Binder binder(ex, op, args, convention, pass);
    // NumPy's own signatures go first for NumPy's programs, and are not torch's.
    for (bool own : {true, false}) {
      if (own && !numpy) continue;
      for (size_t i = 0; i < op.parsed.size(); ++i) {
        if (op.parsed[i].name.starts_with("np.") != own) continue;
        BoundCall call{.overload = static_cast<int>(i)};
        if (!binder.bind(op.parsed[i], call.args)) continue;
        if (numpy || !has_only_numbers(op.parsed[i], call.args)) return call;
        if (!all_take_numbers(op.parsed[i])) continue;
        make_tensors_of_numbers(ex, op.parsed[i], call.args);
        return call;
      }
    }
  }
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), "out") == 0 && !is_none_object(keyword.value))
      break_graph("CD0402", std::string(op.name) + " with out=");
  break_graph("CD0401", std::string(op.name) + (in_place ? "_" : "") + describe_arguments(args));
}

}  // namespace cdynamo::symbolic
