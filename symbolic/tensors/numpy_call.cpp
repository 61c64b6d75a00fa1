#include "symbolic/tensors/numpy_call.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "symbolic/interop/numpy_access.h"

namespace cdynamo::symbolic {
namespace {

using runtime::DType;
using runtime::TensorView;

constexpr int kMostDims = 64;                     // of NumPy's arrays
constexpr int kComplex64 = 14, kComplex128 = 15;  // NPY_CFLOAT, NPY_CDOUBLE

// The first `rank` dims of the view.
PyRef new_array(const TensorView& view, int type_number, int rank) {
  const numpy_access::Api* api = numpy_access::api();
  if (!api || type_number < 0 || rank > kMostDims) {
    PyErr_SetString(PyExc_RuntimeError, "NumPy cannot make an array over given memory");
    return {};
  }
  const intptr_t width = runtime::bytes(view.dtype);
  intptr_t sizes[kMostDims], strides[kMostDims];
  for (int d = 0; d < rank; ++d) sizes[d] = view.sizes[d], strides[d] = view.strides[d] * width;
  return PyRef::steal(api->new_from_descr(
      api->array_type, api->descr_from_type(type_number), rank, sizes, view.data ? strides : nullptr,
      view.data, view.data ? numpy_access::kWriteable | numpy_access::kAligned : 0, nullptr));
}

int complex_type_number(DType part) { return part == DType::kF32 ? kComplex64 : kComplex128; }
PyRef complex_array_over(const TensorView& pairs) {
  return new_array(pairs, complex_type_number(pairs.dtype), pairs.rank - 1);
}
bool has_complex_numbers(const TensorView& pairs) {
  return pairs.rank > 0 && pairs.sizes[pairs.rank - 1] == 2 && pairs.strides[pairs.rank - 1] == 1;
}

bool is_array(PyObject* object) { return Py_TYPE(object) == numpy_access::api()->array_type; }

// Whether the result is what the graph says of `view`, as numbers or, in pairs, as complex ones.
bool is_as_said(const numpy_access::Array& result, const TensorView& view) {
  const int number = result.descr->type_number;
  int rank = view.rank;
  if (number == kComplex64 || number == kComplex128) {
    if (number != complex_type_number(view.dtype) || !has_complex_numbers(view)) return false;
    --rank;
  } else if (DType dtype; !numpy_access::dtype_of_descr(result.descr, &dtype) || dtype != view.dtype) {
    return false;
  }
  return result.rank == rank && std::equal(result.sizes, result.sizes + rank, view.sizes);
}

// Of complex numbers the view has the pairs.
bool has_strides_of(const numpy_access::Array& result, const TensorView& view) {
  const int64_t width = runtime::bytes(view.dtype);
  for (int d = 0; d < result.rank; ++d)
    if (result.sizes[d] > 1 && result.strides[d] != view.strides[d] * width) return false;
  return true;
}

int64_t count(const TensorView& view) {
  int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.sizes[d];
  return count;
}

// Both without gaps, row-major.
bool is_copied_as_a_whole(const numpy_access::Array& result, const TensorView& view) {
  int64_t bytes = runtime::bytes(view.dtype);
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.strides[d] * runtime::bytes(view.dtype) != bytes ||
        (d < result.rank && result.strides[d] != bytes))
      return false;
    bytes *= view.sizes[d];
  }
  return true;
}

bool copy(const TensorView& to, PyObject* from) {
  const numpy_access::Array& result = *numpy_access::array(from);
  if (is_copied_as_a_whole(result, to)) {
    std::memcpy(to.data, result.data, count(to) * runtime::bytes(to.dtype));
    return true;
  }
  const PyRef array = result.rank < to.rank ? complex_array_over(to) : array_over(to);
  return array && numpy_access::api()->copy_into(array.get(), from) == 0;
}

// As arrays; null: they are nested otherwise than the outputs, or no arrays and scalars.
std::vector<PyRef> arrays_of(PyObject* result, size_t count) {
  const bool is_sequence = PyTuple_Check(result) || PyList_Check(result);
  if (is_sequence ? PySequence_Fast_GET_SIZE(result) != static_cast<Py_ssize_t>(count) : count != 1)
    return {};
  std::vector<PyRef> arrays;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = is_sequence ? PySequence_Fast_GET_ITEM(result, static_cast<Py_ssize_t>(i)) : result;
    if (is_array(item))
      arrays.push_back(PyRef::borrow(item));
    else if (numpy_access::is_scalar(item))
      arrays.push_back(PyRef::steal(numpy_access::api()->from_scalar(item, nullptr)));
    else
      return {};
    if (!arrays.back()) return PyErr_Clear(), std::vector<PyRef>();
  }
  return arrays;
}

PyRef attribute(PyObject* object, const char* name) {
  PyRef value = PyRef::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace

PyRef array_over(const TensorView& view) {
  return new_array(view, numpy_access::kTypeNumbers[static_cast<int>(view.dtype)], view.rank);
}

std::unique_ptr<NumpyCall> NumpyCall::of(PyObject* call) {
  // (function, arguments, keywords, kinds of operands, context variable, value), of a SizedCall one more
  const PyRef direct = attribute(call, "direct");
  if (!direct || !PyTuple_Check(direct.get()) || !numpy_access::api()) return nullptr;
  const auto item = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(direct.get(), i); };
  auto made = std::make_unique<NumpyCall>();
  made->function_ = PyRef::borrow(item(0));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item(1)); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(item(1), i);  // (index of an operand or -1, constant)
    made->arguments_.push_back({static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(argument, 0))),
                                PyRef::borrow(PyTuple_GET_ITEM(argument, 1))});
  }
  if (PyDict_GET_SIZE(item(2)) > 0) made->keywords_ = PyRef::borrow(item(2));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item(3)); ++i) {
    std::string_view kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(item(3), i));
    const bool is_complex = kind.starts_with("complex ");
    if (is_complex) kind.remove_prefix(std::strlen("complex "));
    made->operands_.push_back({kind == "array"    ? Form::kArray
                               : kind == "scalar" ? Form::kScalar
                                                  : Form::kNumber,
                               is_complex});
  }
  made->error_state_ = PyRef::borrow(item(4));
  made->no_errors_ = PyRef::borrow(item(5));
  made->checks_strides_ = PyTuple_GET_SIZE(direct.get()) > 6;
  return made;
}

PyRef NumpyCall::given(const Operand& operand, const TensorView& view) {
  PyRef array = operand.is_complex ? complex_array_over(view) : array_over(view);
  if (!array || operand.form == Form::kArray) return array;
  if (operand.form == Form::kNumber) return PyRef::steal(PyObject_CallMethod(array.get(), "item", nullptr));
  const numpy_access::Array& made = *numpy_access::array(array.get());
  return PyRef::steal(numpy_access::api()->scalar(made.data, made.descr, array.get()));
}

NumpyCall::Outcome NumpyCall::run(std::span<const TensorView> inputs,
                                  std::span<const TensorView> outputs) const {
  if (inputs.size() != operands_.size()) return Outcome::kOther;
  std::vector<PyRef> made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (operands_[i].is_complex && !has_complex_numbers(inputs[i])) return Outcome::kOther;
    made.push_back(given(operands_[i], inputs[i]));
    if (!made.back()) return Outcome::kRaised;
  }
  std::vector<PyObject*> arguments;
  for (const Argument& argument : arguments_)
    arguments.push_back(argument.operand < 0 ? argument.constant.get() : made[argument.operand].get());
  const PyRef token = PyRef::steal(PyContextVar_Set(error_state_.get(), no_errors_.get()));
  if (!token) return Outcome::kRaised;
  const PyRef result = PyRef::steal(
      PyObject_VectorcallDict(function_.get(), arguments.data(), arguments.size(), keywords_.get()));
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const bool is_reset = PyContextVar_Reset(error_state_.get(), token.get()) == 0;
  if (is_reset) PyErr_Restore(type, value, traceback);
  if (!is_reset || !result) return Outcome::kRaised;
  const std::vector<PyRef> results = arrays_of(result.get(), outputs.size());
  if (results.empty()) return Outcome::kOther;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const numpy_access::Array& result = *numpy_access::array(results[i].get());
        !is_as_said(result, outputs[i]) || (checks_strides_ && !has_strides_of(result, outputs[i])))
      return Outcome::kOther;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].data && !copy(outputs[i], results[i].get())) return Outcome::kRaised;
  return Outcome::kWritten;
}

}  // namespace cdynamo::symbolic
