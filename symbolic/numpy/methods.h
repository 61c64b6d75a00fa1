// Attributes and methods of arrays and scalars. Internal to symbolic/numpy.
#pragma once

#include "symbolic/numpy/numpy_values.h"

namespace cdynamo::symbolic {

// Of what is known to be one.
inline NumpyValue& array_of(const ValuePtr& value) { return static_cast<NumpyValue&>(*value); }

// Null where there is none of that name.
ValuePtr numpy_property(Executor& ex, NumpyValue& self, std::string_view name);
ValuePtr numpy_method(Executor& ex, const ValuePtr& self, std::string_view name);

// self as another dtype: astype, numpy.float32(x).
ValuePtr numpy_cast(Executor& ex, const NumpyValue& self, graph::DType dtype);

// scalar.__round__: with digits what numpy.round gives; null without, where it is an int.
ValuePtr rounded_to_digits(Executor& ex, const ValuePtr& scalar, const CallArgs& args);

// Runs the function itself, on arguments that are all known. An array that it gives is made anew in each call.
ValuePtr made_by_numpy(Executor& ex, PyObject* callable, const CallArgs& args);

// Reads each item when it is asked for.
ValuePtr make_array_iterator(ValuePtr array, int64_t count);
// "add" of NB_ADD: the ufunc that an array's operator is; null: none.
const char* ufunc_of_operator(int nb_op);

// flags_and_flat.cpp. x.flags of an array of these sizes and strides; x.flat.
ValuePtr make_array_flags(ValuePtr array, graph::TensorType layout);
ValuePtr make_flat_array(ValuePtr array);

// conversions.cpp
ValuePtr array_function(Executor& ex, PyObject* callable, const CallArgs& args);
ValuePtr asarray_function(Executor& ex, PyObject* callable, const CallArgs& args);
ValuePtr ascontiguousarray(Executor& ex, PyObject* callable, const CallArgs& args);
ValuePtr asfortranarray(Executor& ex, PyObject* callable, const CallArgs& args);

using NumpySpecial = ValuePtr (*)(Executor& ex, PyObject* callable, const CallArgs& args);
struct NumpySpecialRow {
  const char* path;  // "numpy.asarray"
  NumpySpecial apply;
};
std::span<const NumpySpecialRow> numpy_factory_functions();      // factories.cpp
std::span<const NumpySpecialRow> numpy_random_functions();       // random_generator.cpp
std::span<const NumpySpecialRow> numpy_error_state_functions();  // error_state.cpp
std::span<const NumpySpecialRow> numpy_memory_functions();       // shared_memory.cpp

}  // namespace cdynamo::symbolic
