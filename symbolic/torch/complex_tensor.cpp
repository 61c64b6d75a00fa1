#include "symbolic/torch/complex_tensor.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/complex_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/return_type.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Sym;

namespace {

ComplexTensor* complex_of(const ValuePtr& value) { return dynamic_cast<ComplexTensor*>(value.get()); }

// What torch.view_as_complex takes: pairs that lie together, each at a multiple of two elements.
bool are_pairs(Executor& ex, const TensorValue& tensor) {
  const graph::TensorType& type = tensor.array_type();
  if (type.dtype != graph::DType::kF32 && type.dtype != graph::DType::kF64) return false;
  const auto is = [&](const Sym& a, int64_t b) {
    return ex.graph().sym->guard_eq(a, Sym(b), "view_as_complex");
  };
  if (type.rank() == 0 || !is(type.sizes.back(), 2) || !is(type.strides.back(), 1)) return false;
  return std::all_of(type.strides.begin(), type.strides.end() - 1,
                     [&](const Sym& stride) { return is(mod(stride, Sym(int64_t{2})), 0); });
}

ValuePtr make_complex(std::shared_ptr<TensorValue> pairs, bool conjugate) {
  return std::make_shared<ComplexTensor>(std::move(pairs), conjugate, torch_access::tensor_type(), nullptr);
}

ValuePtr view_as_complex(Executor& ex, const ValuePtr& value) {
  auto pairs = std::dynamic_pointer_cast<TensorValue>(value);
  if (!pairs || !are_pairs(ex, *pairs)) break_graph("CD0403", "view_as_complex of " + value->describe());
  return make_complex(std::move(pairs), false);
}

ValuePtr view_as_real(Executor&, const ValuePtr& value) {
  const ComplexTensor* tensor = complex_of(value);
  if (!tensor || tensor->conjugate()) break_graph("CD0403", "view_as_real of " + value->describe());
  return tensor->pairs();
}

bool is_complex_dtype(PyObject* object) {
  return object == library_object("torch", "complex64") || object == library_object("torch", "complex128");
}

bool is_complex(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (complex_of(value)) return true;
  if (PyObject* object = constant_object(value)) return PyComplex_Check(object) || is_complex_dtype(object);
  if (value->type() != &PyList_Type && value->type() != &PyTuple_Type) return false;
  const auto items = sequence_items(ex, value);
  return items && std::ranges::any_of(*items, [&](const ValuePtr& item) { return is_complex(ex, item); });
}

bool any_complex(Executor& ex, const CallArgs& args) {
  return std::ranges::any_of(args.positional, [&](const ValuePtr& arg) { return is_complex(ex, arg); }) ||
         std::ranges::any_of(args.keywords, [&](const Keyword& arg) { return is_complex(ex, arg.value); });
}

// A function of the table RULES or PROPERTIES; null: there is none.
ValuePtr find_rule(Executor& ex, PythonSide table, std::string_view name) {
  refuse_in_mode(ex, "a complex tensor");
  PyObject* function = PyDict_GetItemString(python_side(table), std::string(name).c_str());
  return function ? ex.wrap(function, constant_source(function)) : nullptr;
}

ValuePtr apply_rule(Executor& ex, const ValuePtr& rule, const CallArgs& args) {
  const int first = ex.graph().next_value_id();
  const ValuePtr result = result_of_rule(ex, rule, args, "an operator of complex tensors");
  const auto note = [&](const ValuePtr& leaf) {
    ComplexTensor* tensor = complex_of(leaf);
    if (tensor && base_of(tensor_capture(ex), tensor->pairs()->value())->id >= first) tensor->set_fresh();
    return leaf;
  };
  if (result) map_leaves(ex, result, note);
  return result;
}

bool is_in_place(std::string_view name) { return name.ends_with("_") && !name.ends_with("__"); }

// They change how the tensor looks at its memory, or its history, and no number in it.
constexpr std::string_view kWriteNothing[] = {"as_strided_", "detach_", "squeeze_",   "swapaxes_",
                                              "swapdims_",   "t_",      "transpose_", "unsqueeze_"};

// x.add_(...) is x.copy_(x.add(...)).
ValuePtr call_in_place(Executor& ex, std::string_view name, const CallArgs& args) {
  ComplexTensor* self = args.positional.empty() ? nullptr : complex_of(args.positional[0]);
  const bool writes = std::ranges::find(kWriteNothing, name) == std::end(kWriteNothing);
  const ValuePtr rule =
      writes ? find_rule(ex, PythonSide::kComplexRules, name.substr(0, name.size() - 1)) : nullptr;
  ValuePtr result = self && rule ? apply_rule(ex, rule, args) : nullptr;
  if (!result || !complex_of(result)) break_graph("CD0404", std::string(name) + " with a complex operand");
  CallArgs written{.positional = {args.positional[0], result}, .keywords = {}};
  polyfill(ex, PythonSide::kComplexPolyfills, "write")->call(ex, written);
  return args.positional[0];
}

// ---- calls of PyTorch's library

// The argument with pairs for complex tensors, and what marks them: see ComplexCall in _complex.py.
std::pair<ValuePtr, PyRef> paired(Executor& ex, const ValuePtr& value) {
  if (complex_of(value)) {
    const ValuePtr plain = complex_rule(ex, "resolve_conj", positional({value}));
    return {complex_of(plain)->pairs(), PyRef::borrow(Py_True)};
  }
  if ((value->type() != &PyList_Type && value->type() != &PyTuple_Type) || !is_complex(ex, value))
    return {value, PyRef::borrow(Py_None)};
  const std::vector<ValuePtr> items = *sequence_items(ex, value);
  std::vector<ValuePtr> reals;
  PyRef marks = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    auto [real, mark] = paired(ex, items[i]);
    reals.push_back(std::move(real));
    PyTuple_SET_ITEM(marks.get(), static_cast<Py_ssize_t>(i), mark.release());
  }
  ValuePtr list =
      value->type() == &PyList_Type ? make_list(ex, std::move(reals)) : make_tuple(ex, std::move(reals));
  return {std::move(list), std::move(marks)};
}

// The results with complex tensors for pairs, in the order of their leaves.
ValuePtr joined(Executor& ex, const ValuePtr& result, PyObject* are_complex, Py_ssize_t& leaf) {
  if (auto tensor = std::dynamic_pointer_cast<TensorValue>(result)) {
    const bool is_pairs =
        leaf < PyList_GET_SIZE(are_complex) && PyList_GET_ITEM(are_complex, leaf) == Py_True;
    ++leaf;
    return is_pairs ? view_as_complex(ex, tensor) : result;
  }
  const auto join = [&](const ValuePtr& item) { return joined(ex, item, are_complex, leaf); };
  if (auto* named = dynamic_cast<ReturnTypeValue*>(result.get())) {
    std::vector<ValuePtr> items = *named->unpack(ex);
    for (ValuePtr& item : items) item = join(item);
    return std::make_shared<ReturnTypeValue>(named->type(), std::move(items));
  }
  return result->as_constant() ? result : map_leaves(ex, result, join);
}

// The derivative of a library's call computes it once more, which Python's does not.
void refuse_second_computation(Executor& ex, PyObject* call, const CallArgs& reals) {
  const TensorCapture& capture = torch_capture(ex);
  if (!capture.grad_mode || !ex.state().request.leaves_loops) return;
  bool any = false;
  const auto look = [&](const ValuePtr& value) {
    const graph::Value* held = graph_value(value);
    any |= held && held->requires_grad;
    return value;
  };
  for (const ValuePtr& value : reals.positional) map_leaves(ex, value, look);
  for (const Keyword& keyword : reals.keywords) map_leaves(ex, keyword.value, look);
  if (any) break_graph("CD0417", text_attribute(call, "__name__") + " is called in PyTorch's library");
}

}  // namespace

ValuePtr call_complex_library(Executor& ex, const char* kind, PyObject* target, const CallArgs& args) {
  CallArgs reals;
  PyRef marks = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    auto [real, mark] = paired(ex, args.positional[i]);
    reals.positional.push_back(std::move(real));
    PyTuple_SET_ITEM(marks.get(), static_cast<Py_ssize_t>(i), mark.release());
  }
  PyRef keyword_marks = checked(PyDict_New());
  for (const Keyword& keyword : args.keywords) {
    auto [real, mark] = paired(ex, keyword.value);
    reals.keywords.push_back({keyword.name, std::move(real)});
    if (PyDict_SetItem(keyword_marks.get(), keyword.name.get(), mark.get()) < 0) throw PythonError{};
  }
  PyRef call = checked(PyObject_CallFunction(python_side(PythonSide::kComplexCall), "sOOO", kind, target,
                                             marks.get(), keyword_marks.get()));
  refuse_second_computation(ex, call.get(), reals);
  ValuePtr result = recorded_call(ex, "call_function", call, reals, [&] { return call_library(ex, reals); });
  PyRef are_complex = checked(PyObject_GetAttrString(call.get(), "complex_results"));
  Py_ssize_t leaf = 0;
  return joined(ex, result, are_complex.get(), leaf);
}

ValuePtr complex_rule(Executor& ex, const char* name, const CallArgs& args) {
  const ValuePtr rule = find_rule(ex, PythonSide::kComplexRules, name);
  ValuePtr result = rule ? apply_rule(ex, rule, args) : nullptr;
  if (!result) break_graph("CD0404", std::string(name) + " of complex numbers");
  return result;
}

ValuePtr try_complex_rule(Executor& ex, std::string_view name, const CallArgs& args) {
  if (!any_complex(ex, args)) return nullptr;
  const ValuePtr rule = find_rule(ex, PythonSide::kComplexRules, name);
  return rule ? apply_rule(ex, rule, args) : nullptr;
}

ValuePtr try_complex_call(Executor& ex, std::string_view name, const char* kind, PyObject* target,
                          const CallArgs& args) {
  if (!any_complex(ex, args)) return nullptr;
  if (const ValuePtr rule = find_rule(ex, PythonSide::kComplexRules, name))
    if (ValuePtr result = apply_rule(ex, rule, args)) return result;
  if (is_in_place(name)) return call_in_place(ex, name, args);
  return call_complex_library(ex, kind, target, args);
}

// ---- tensors that come in

ValuePtr wrap_complex_tensor(Executor& ex, PyObject* object, const SourcePtr& source) {
  PyRef pairs = real_view(object);
  if (!pairs) return nullptr;
  guard_exact_type(ex, object, source);
  auto value = std::dynamic_pointer_cast<TensorValue>(
      ex.wrap(pairs.get(), derived_source(SourceKind::kRealView, source)));
  return value ? std::make_shared<ComplexTensor>(std::move(value), false, Py_TYPE(object), source) : nullptr;
}

RecipePtr ComplexTensor::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  const auto flag = [](bool is_set) {
    return make_recipe(RecipeKind::kConstant, is_set ? Py_True : Py_False);
  };
  return first_recipe(recipe_, call_recipe(python_side(PythonSide::kComplexOf),
                                           {pairs_->recipe(ex), flag(conjugate_), flag(is_fresh_)}));
}

// ---- attributes

namespace {

class ComplexMethod final : public BoundMethod {
 public:
  using BoundMethod::BoundMethod;
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    return try_complex_call(ex, PyUnicode_AsUTF8(name().get()), "call_method", name().get(), with_self(args));
  }
};

// Methods that need no rule.
class ConjugateMethod final : public BoundMethod {
 public:
  ConjugateMethod(const ComplexTensor& tensor, ValuePtr self, PyRef name,
                  ValuePtr (*answer)(Executor&, const ComplexTensor&))
      : BoundMethod(std::move(self), std::move(name)), tensor_(tensor), answer_(answer) {}
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    require_count(ex, PyUnicode_AsUTF8(name().get()), args, 0, 0);
    require_no_keywords(ex, PyUnicode_AsUTF8(name().get()), args);
    return answer_(ex, tensor_);
  }

 private:
  const ComplexTensor& tensor_;  // kept by the base
  ValuePtr (*answer_)(Executor&, const ComplexTensor&);
};

struct AnswerRow {
  std::string_view name;
  ValuePtr (*answer)(Executor&, const ComplexTensor&);
};
constexpr AnswerRow kAnswers[] = {
    {"conj", [](Executor&, const ComplexTensor& z) { return make_complex(z.pairs(), !z.conjugate()); }},
    {"is_conj", [](Executor& ex, const ComplexTensor& z) { return ex.constant_bool(z.conjugate()); }},
    {"is_complex", [](Executor& ex, const ComplexTensor&) { return ex.constant_bool(true); }},
    {"is_neg", [](Executor& ex, const ComplexTensor&) { return ex.constant_bool(false); }},
};

}  // namespace

ValuePtr ComplexTensor::get_attribute(Executor& ex, PyObject* name) {
  refuse_in_mode(ex, "a complex tensor");
  const std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__class__")
    return ex.wrap(reinterpret_cast<PyObject*>(type_), constant_source(reinterpret_cast<PyObject*>(type_)));
  if (text == "requires_grad" && (!source || pairs_->requires_grad()))
    return ex.constant_bool(pairs_->requires_grad());
  for (const AnswerRow& row : kAnswers)
    if (row.name == text)
      return std::make_shared<ConjugateMethod>(*this, shared_from_this(), PyRef::borrow(name), row.answer);
  if (const ValuePtr property = find_rule(ex, PythonSide::kComplexProperties, text))
    return apply_rule(ex, property, positional({shared_from_this()}));
  PyObject* attribute = _PyType_Lookup(type_, name);
  if (attribute && find_rule(ex, PythonSide::kComplexRules, text))
    return std::make_shared<ComplexMethod>(shared_from_this(), PyRef::borrow(name));
  if (attribute && PyFunction_Check(attribute))
    return make_bound_method(ex, ex.wrap(attribute, constant_source(attribute)), shared_from_this());
  if (attribute && Py_IS_TYPE(attribute, &PyMethodDescr_Type))
    return std::make_shared<ComplexMethod>(shared_from_this(), PyRef::borrow(name));
  break_graph("CD0408", std::string(text) + " of " + describe());
}

// ---- items

ValuePtr ComplexTensor::get_item(Executor& ex, const ValuePtr& key) {
  return complex_rule(ex, "getitem", positional({shared_from_this(), key}));
}

void ComplexTensor::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  if (!value) break_graph("CD0403", "deletion of a tensor's item");
  complex_rule(ex, "setitem", positional({shared_from_this(), key, value}));
}

ValuePtr ComplexTensor::length(Executor& ex) {
  return complex_rule(ex, "__len__", positional({shared_from_this()}));
}

std::optional<std::vector<ValuePtr>> ComplexTensor::unpack(Executor& ex) {
  return complex_rule(ex, "unbind", positional({shared_from_this()}))->unpack(ex);
}

ValuePtr ComplexTensor::iterate(Executor& ex) { return make_tuple(ex, *unpack(ex))->iterate(ex); }

// ---- operators

namespace {

struct ComplexOperatorRow {
  int nb_op, in_place;
  const char *name, *function;  // in Python's operator module
};
constexpr ComplexOperatorRow kOperators[] = {
    {kNbAdd, kNbInplaceAdd, "add", "add"},
    {kNbSubtract, kNbInplaceSubtract, "sub", "sub"},
    {kNbMultiply, kNbInplaceMultiply, "mul", "mul"},
    {kNbTrueDivide, kNbInplaceTrueDivide, "div", "truediv"},
    {kNbPower, kNbInplacePower, "pow", "pow"},
    {kNbMatrixMultiply, kNbInplaceMatrixMultiply, "matmul", "matmul"},
};

}  // namespace

ValuePtr complex_operator(Executor& ex, int nb_op, const ValuePtr& left, const ValuePtr& right) {
  for (const ComplexOperatorRow& row : kOperators) {
    const bool writes = nb_op == row.in_place && nb_op != kNbInplaceMatrixMultiply;
    if (nb_op != row.nb_op && nb_op != row.in_place) continue;
    const bool is_reflected = !is_tensor(left) && !complex_of(left);
    if (nb_op == kNbTrueDivide && is_reflected)  // Tensor.__rdiv__
      return complex_operator(ex, kNbMultiply, call_method(ex, right, "reciprocal"), left);
    const bool is_swapped = nb_op == kNbAdd && is_reflected;  // Tensor.__radd__ is Tensor.add
    const CallArgs args = is_swapped ? positional({right, left}) : positional({left, right});
    const std::string name = std::string(row.name) + (writes ? "_" : "");
    return try_complex_call(ex, name, "call_function", library_object("torch", row.name), args);
  }
  break_graph("CD0403", "an operator of complex tensors");
}

ValuePtr ComplexTensor::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  const bool is_number = number_argument(other) ||
                         PyComplex_CheckExact(constant_object(other) ? constant_object(other) : Py_None);
  if (!is_number && !complex_of(other) && !dynamic_cast<TensorValue*>(other.get()))
    break_graph("CD0401", "a complex tensor's operator with " + other->describe());
  ValuePtr self = shared_from_this();
  return reflected ? complex_operator(ex, nb_op, other, self) : complex_operator(ex, nb_op, self, other);
}

ValuePtr ComplexTensor::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (py_op != Py_EQ && py_op != Py_NE) break_graph("CD0403", "an order of complex numbers");
  return complex_rule(ex, py_op == Py_EQ ? "eq" : "ne", positional({shared_from_this(), other}));
}

ValuePtr ComplexTensor::unary(Executor& ex, Op op) {
  if (op == Op::UNARY_POSITIVE) return shared_from_this();
  if (op != Op::UNARY_NEGATIVE) return SymbolicValue::unary(ex, op);
  return complex_rule(ex, "neg", positional({shared_from_this()}));
}

// ---- functions of torch

namespace {

template <ValuePtr (*view)(Executor&, const ValuePtr&)>
ValuePtr view_function(Executor& ex, PyObject*, const CallArgs& args) {
  return view(ex, bind_arguments(ex, "view", args, {"input"})[0]);
}

constexpr char kComplex[] = "complex", kPolar[] = "polar";
template <const char* name>
ValuePtr rule_function(Executor& ex, PyObject*, const CallArgs& args) {
  return complex_rule(ex, name, args);
}

constexpr SpecialRow kComplexTensorRows[] = {
    {"torch.view_as_real", view_function<view_as_real>},
    {"torch.view_as_complex", view_function<view_as_complex>},
    {"torch.complex", rule_function<kComplex>},
    {"torch.polar", rule_function<kPolar>},
};

}  // namespace

std::span<const SpecialRow> complex_functions() { return kComplexTensorRows; }

}  // namespace cdynamo::symbolic
