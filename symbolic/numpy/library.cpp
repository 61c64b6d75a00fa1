#include "symbolic/numpy/library.h"

#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/frames/warnings.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/number.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/tensors/library_calls.h"
#include "symbolic/tensors/library_sizes.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Sym;
using graph::Value;

// Functions whose results have sizes that the operands' sizes decide, and memory of their own.
constexpr std::string_view kLibraryFunctions[] = {"cdynamo._numpy_library.density_histogram",
                                                  "cdynamo._numpy_library.padded",
                                                  "cdynamo._numpy_library.unique_rows",
                                                  "cdynamo._numpy_library.whole_histogram",
                                                  "numpy.fft.fft",
                                                  "numpy.fft.fft2",
                                                  "numpy.fft.fftn",
                                                  "numpy.fft.hfft",
                                                  "numpy.fft.ifft",
                                                  "numpy.fft.ifft2",
                                                  "numpy.fft.ifftn",
                                                  "numpy.fft.ihfft",
                                                  "numpy.fft.irfft",
                                                  "numpy.fft.irfft2",
                                                  "numpy.fft.irfftn",
                                                  "numpy.fft.rfft",
                                                  "numpy.fft.rfft2",
                                                  "numpy.fft.rfftn",
                                                  "numpy.linalg.cholesky",
                                                  "numpy.linalg.cond",
                                                  "numpy.linalg.det",
                                                  "numpy.linalg.eig",
                                                  "numpy.linalg.eigh",
                                                  "numpy.linalg.eigvals",
                                                  "numpy.linalg.eigvalsh",
                                                  "numpy.linalg.inv",
                                                  "numpy.linalg.lstsq",
                                                  "numpy.linalg.matrix_power",
                                                  "numpy.linalg.matrix_rank",
                                                  "numpy.linalg.multi_dot",
                                                  "numpy.linalg.norm",
                                                  "numpy.linalg.pinv",
                                                  "numpy.linalg.qr",
                                                  "numpy.linalg.slogdet",
                                                  "numpy.linalg.solve",
                                                  "numpy.linalg.svd",
                                                  "numpy.linalg.svdvals",
                                                  "numpy.linalg.tensorinv",
                                                  "numpy.linalg.tensorsolve",
                                                  "numpy.argpartition",
                                                  "numpy.argsort",
                                                  "numpy.around",
                                                  "numpy.average",
                                                  "numpy.block",
                                                  "numpy.choose",
                                                  "numpy.convolve",
                                                  "numpy.corrcoef",
                                                  "numpy.correlate",
                                                  "numpy.cov",
                                                  "numpy.digitize",
                                                  "numpy.einsum",
                                                  "numpy.histogram",
                                                  "numpy.histogram_bin_edges",
                                                  "numpy.i0",
                                                  "numpy.interp",
                                                  "numpy.linspace",
                                                  "numpy.logspace",
                                                  "numpy.geomspace",
                                                  "numpy.meshgrid",
                                                  "numpy.isin",
                                                  "numpy.lexsort",
                                                  "numpy.median",
                                                  "numpy.nanargmin",
                                                  "numpy.nancumprod",
                                                  "numpy.nanmax",
                                                  "numpy.nanmedian",
                                                  "numpy.nanmin",
                                                  "numpy.nanpercentile",
                                                  "numpy.nanquantile",
                                                  "numpy.nanstd",
                                                  "numpy.nanvar",
                                                  "numpy.packbits",
                                                  "numpy.pad",
                                                  "numpy.partition",
                                                  "numpy.percentile",
                                                  "numpy.polyfit",
                                                  "numpy.quantile",
                                                  "numpy.ravel_multi_index",
                                                  "numpy.roots",
                                                  "numpy.round",
                                                  "numpy.searchsorted",
                                                  "numpy.select",
                                                  "numpy.sort",
                                                  "numpy.take",
                                                  "numpy.unpackbits",
                                                  "numpy.unravel_index",
                                                  "numpy.unwrap",
                                                  "numpy.vander"};

// The arguments of one call, as _numpy_library.NumpyCall has them.
class Arguments {
 public:
  // `pins_ints`: those that change from call to call are constants, and no operands, for which nodes would be made.
  Arguments(Executor& ex, bool pins_ints) : ex_(ex), pins_ints_(pins_ints) {}

  // Null: of a kind that a node does not hold.
  PyRef encode(const ValuePtr& value) {
    const bool is_int = as_sym(value).has_value() || dynamic_cast<NumpyNumberValue*>(value.get());
    if (pins_ints_ && is_int) return PyRef::steal(Py_BuildValue("(sO)", "const", known(value).get()));
    if (Value* number = graph_number(ex_, value)) return operand("number", value, number);
    if (auto* array = dynamic_cast<NumpyValue*>(value.get()))
      return operand(array->is_scalar() ? "scalar" : "array", value, array->value());
    if (auto* array = dynamic_cast<ComplexArray*>(value.get()))
      return operand(array->is_scalar() ? "complex scalar" : "complex array", array->pairs(),
                     array->pairs()->value());
    if (graph_value(value)) return {};
    if (const std::optional<PyRef> constant = value->as_constant())
      return PyRef::steal(Py_BuildValue("(sO)", "const", constant->get()));
    std::optional<std::vector<ValuePtr>> items = sequence_items(ex_, value);
    if (!items) return {};
    PyRef list = checked(PyList_New(0));
    for (const ValuePtr& item : *items) {
      const PyRef encoded = encode(item);
      if (!encoded) return {};
      if (PyList_Append(list.get(), encoded.get()) < 0) throw PythonError{};
    }
    return PyRef::steal(Py_BuildValue("(sO)", value->type() == &PyTuple_Type ? "tuple" : "list", list.get()));
  }

  // Kind, dtype, sizes and strides of each; where sizes change, the forms of both.
  PyRef operands(const OperandSizes& changing) const {
    PyRef list = checked(PyList_New(0));
    for (size_t i = 0; i < values.size(); ++i) {
      const graph::TensorType& type = values[i]->type;
      const PyRef dtype = numpy_dtype_object(type.dtype);
      const auto [sizes, layout] = changing.are_known() ? std::pair(constant_extents(ex_, type.sizes),
                                                                    constant_extents(ex_, type.strides))
                                                        : changing.forms()[i];
      const PyRef tuple = checked(Py_BuildValue("(sOOO)", kinds_[i], dtype.get(), sizes.get(), layout.get()));
      if (PyList_Append(list.get(), tuple.get()) < 0) throw PythonError{};
    }
    return list;
  }
  std::vector<ValuePtr> given;  // of complex arrays their pairs
  std::vector<Value*> values;

 private:
  PyRef known(const ValuePtr& number) {
    PyRef object = number->materialize(ex_);
    if (!object) break_graph("CD0406", "an operand of a call in a library");
    return object;
  }

  PyRef operand(const char* kind, const ValuePtr& as_given, Value* value) {
    if (!numpy_dtype_object(value->type.dtype) || !(value->type.device == graph::Device{})) return {};
    kinds_.push_back(kind);
    values.push_back(value);
    given.push_back(as_given);
    return PyRef::steal(Py_BuildValue("(sn)", "value", static_cast<Py_ssize_t>(values.size() - 1)));
  }

  Executor& ex_;
  const bool pins_ints_;
  std::vector<const char*> kinds_;
};

// Null: of a dtype that graphs do not have.
std::optional<std::vector<graph::TensorType>> result_types(PyObject* call, const OperandSizes& changing) {
  const PyRef list = checked(PyObject_GetAttrString(call, "types"));
  std::vector<graph::TensorType> types;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* type = PyList_GET_ITEM(list.get(), i);
    graph::TensorType& result = types.emplace_back();
    if (!dtype_of_numpy_object(PyTuple_GET_ITEM(type, 0), &result.dtype)) return std::nullopt;
    PyObject *sizes = PyTuple_GET_ITEM(type, 1), *layout = PyTuple_GET_ITEM(type, 2);
    if (!changing.are_known()) {
      changing.read(sizes, layout, result);
      continue;
    }
    result.sizes = read_sizes(sizes);
    result.strides = read_sizes(layout);
  }
  return types;
}

// `tree`: as _numpy_library._tree makes it.
ValuePtr wrap_tree(Executor& ex, PyObject* tree, const std::vector<Value*>& results) {
  PyObject *tag = PyTuple_GET_ITEM(tree, 0), *content = PyTuple_GET_ITEM(tree, 1);
  if (PyLong_Check(content)) {
    Value* result = results.at(PyLong_AsSize_t(content));
    const std::string_view kind = PyUnicode_AsUTF8(tag);
    // Every other number of it, as the real parts of complex ones lie.
    if (kind == "gapped array")
      result = append_call1(ex, "select", {result, Sym(int64_t{-1}), Sym(int64_t{0})});
    if (kind.starts_with("complex"))
      return std::make_shared<ComplexArray>(std::make_shared<NumpyValue>(result, false),
                                            kind == "complex scalar");
    return std::make_shared<NumpyValue>(result, kind == "scalar");
  }
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
    items.push_back(wrap_tree(ex, PyList_GET_ITEM(content, i), results));
  if (tag == reinterpret_cast<PyObject*>(&PyTuple_Type)) return make_tuple(ex, std::move(items));
  if (tag == reinterpret_cast<PyObject*>(&PyList_Type)) return make_list(ex, std::move(items));
  return ex.wrap(tag, constant_source(tag))->call(ex, positional(std::move(items)));
}

}  // namespace

bool is_numpy_library_function(PyObject* callable) {
  static std::vector<PyRef>* functions = nullptr;
  if (!functions) {
    library_object("numpy.fft", "fft");  // which NumPy imports where a program first asks for it
    find_python_side(PythonSide::kDescribeNumpyCall), PyErr_Clear();  // its module
    functions = new std::vector<PyRef>;
    for (const std::string_view path : kLibraryFunctions)
      if (PyRef function = loaded_object(std::string(path))) functions->push_back(std::move(function));
  }
  return std::ranges::any_of(*functions, [&](const PyRef& function) { return function.get() == callable; });
}

[[noreturn]] static void refuse(PyObject* function) {
  break_graph("CD0500", text_attribute(function, "__name__") + " of these arguments");
}

// A call that a node stands for.
struct Described {
  PyRef call;  // _numpy_library.NumpyCall
  PyRef tree;
  std::vector<ValuePtr> given;  // what stands for the operands in the program; of complex arrays their pairs
  std::vector<Value*> operands;
  std::vector<graph::TensorType> types;
  bool has_complex = false;  // among operands or results
};

static Described described_call(Executor& ex, PyObject* function, const CallArgs& args, bool pins_ints) {
  if (has_changed_filters(ex)) break_graph("CD0213", "a function of NumPy's that may warn");
  // Under cdynamo.grad a derivative would be left out without a word.
  PyObject* describe = ex.state().branches ? nullptr : find_python_side(PythonSide::kDescribeNumpyCall);
  if (!describe) {
    PyErr_Clear();
    refuse(function);
  }
  Arguments arguments(ex, pins_ints);
  const PyRef given = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size()))),
              keywords = checked(PyDict_New());
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef encoded = arguments.encode(args.positional[i]);
    if (!encoded) refuse(function);
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), encoded.release());
  }
  for (const Keyword& keyword : args.keywords) {
    const PyRef encoded = arguments.encode(keyword.value);
    if (!encoded) refuse(function);
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), encoded.get()) < 0) throw PythonError{};
  }
  if (arguments.values.empty()) refuse(function);
  Described described;
  OperandSizes changing(ex, arguments.values);
  const auto ask = [&] {
    const PyRef hints = changing.are_known() ? PyRef::borrow(Py_None) : changing.hints();
    return checked(PyObject_CallFunctionObjArgs(describe, function, given.get(), keywords.get(),
                                                arguments.operands(changing).get(), hints.get(), nullptr));
  };
  described.call = ask();
  if (described.call.get() == Py_None && changing.take_equal_sizes(ex)) {
    changing = OperandSizes(ex, arguments.values);
    described.call = ask();
  }
  if (described.call.get() == Py_None && !changing.are_known()) {
    changing = OperandSizes();
    described.call = ask();
  }
  if (described.call.get() == Py_None) refuse(function);
  std::optional<std::vector<graph::TensorType>> types = result_types(described.call.get(), changing);
  if (!types) refuse(function);
  described.types = *std::move(types);
  described.tree = checked(PyObject_GetAttrString(described.call.get(), "tree"));
  described.given = std::move(arguments.given);
  described.operands = std::move(arguments.values);
  const PyRef has_complex = checked(PyObject_GetAttrString(described.call.get(), "has_complex"));
  described.has_complex = has_complex.get() == Py_True;
  return described;
}

static std::vector<Value*> append_described(Executor& ex, Described& described) {
  auto held = std::make_shared<LibraryCall>(described.call);
  std::vector<Value*> results =
      append_library_call(ex, std::move(described.operands), text_attribute(described.call.get(), "name"), "",
                          *held, std::move(described.types));
  ex.add_library_call(std::move(held));
  return results;
}

ValuePtr call_numpy_library(Executor& ex, PyObject* function, const CallArgs& args) {
  const FrameworkRules rules(ex, graph::Framework::kNumpy);
  Described described = described_call(ex, function, args, false);
  if (described.has_complex) refuse(function);
  return wrap_tree(ex, described.tree.get(), append_described(ex, described));
}

ValuePtr recorded_numpy_library(Executor& ex, const char* kind, PyRef target, PyObject* function,
                                const CallArgs& args) {
  const FrameworkRules rules(ex, graph::Framework::kNumpy);
  struct IsComplex {};
  if (!any_complex(ex, args)) {
    try {
      return numpy_call(ex, kind, std::move(target), args, [&] {
        Described described = described_call(ex, function, args, false);
        if (described.has_complex) throw IsComplex{};
        return wrap_tree(ex, described.tree.get(), append_described(ex, described));
      });
    } catch (const IsComplex&) {
    }
  }
  Described described = described_call(ex, function, args, true);
  // What is recorded is a call of real arrays: the list of what stands for the results.
  std::vector<Value*> results;
  numpy_call(ex, "call_function", described.call, positional(described.given), [&] {
    results = append_described(ex, described);
    std::vector<ValuePtr> items;
    for (Value* result : results) items.push_back(std::make_shared<NumpyValue>(result, false));
    return make_list(ex, std::move(items));
  });
  return wrap_tree(ex, described.tree.get(), results);
}

ValuePtr write_by_numpy_library(Executor& ex, PyObject* function, const CallArgs& args) {
  PyObject* written = python_side(PythonSide::kWrittenCopy);
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), ex.constant(PyRef::borrow(function)));
  if (args.positional.empty()) refuse(function);
  return numpy_call(ex, "call_function", PyRef::borrow(function), args, [&] {
    const ValuePtr result = call_numpy_library(ex, written, all);
    args.positional[0]->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), result);
    return ex.none();
  });
}

}  // namespace cdynamo::symbolic
