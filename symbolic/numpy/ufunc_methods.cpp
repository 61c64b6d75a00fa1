// Methods of ufuncs.
#include <algorithm>
#include <string>

#include "symbolic/interop/loaded_object.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/library.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::OpDef;

namespace {

// What ufunc.reduce is, for the ufuncs whose reduction is a function of NumPy's too.
const OpDef* reduction_of(const OpDef& ufunc) {
  struct Row {
    const char *ufunc, *function;
  };
  static constexpr Row kRows[] = {{"numpy.add", "numpy.sum"},         {"numpy.multiply", "numpy.prod"},
                                  {"numpy.maximum", "numpy.max"},     {"numpy.minimum", "numpy.min"},
                                  {"numpy.logical_and", "numpy.all"}, {"numpy.logical_or", "numpy.any"}};
  for (const Row& row : kRows)
    if (find_numpy_operator(row.ufunc) == &ufunc) return find_numpy_operator(row.function);
  return nullptr;
}

// numpy.add.reduce(x, axis=0): numpy.sum with another default.
class UfuncReduce final : public SymbolicValue {
 public:
  UfuncReduce(ValuePtr ufunc, const OpDef& op) : ufunc_(std::move(ufunc)), op_(op) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override { return ufunc_->describe() + ".reduce"; }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    CallArgs all = args;
    ValuePtr axis;
    if (all.positional.size() < 2 && !keyword_of(all, "axis", &axis))
      all.keywords.push_back({checked(PyUnicode_FromString("axis")), ex.constant_int(0)});
    PyRef target = checked(PyObject_GetAttrString(ufunc_->real_object(), "reduce"));
    try {
      return numpy_call(ex, "call_function", target, all,
                        [&] { return call_numpy_operator(ex, op_, false, all); });
    } catch (const GraphBreak&) {  // initial=, where=: NumPy's library takes them
      ValuePtr out;
      if (keyword_of(args, "out", &out)) throw;
      return recorded_numpy_library(ex, "call_function", target, target.get(), args);
    }
  }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_)
      recipe_ = call_recipe(library_object("builtins", "getattr"),
                            {ufunc_->recipe(ex), make_recipe(RecipeKind::kConstant, interned("reduce"))});
    return recipe_;
  }

 private:
  ValuePtr ufunc_;
  const OpDef& op_;
  RecipePtr recipe_;
};

// numpy.maximum.accumulate, at, outer, reduceat, and reduce where no function of NumPy's is the same.
class UfuncMethod final : public SymbolicValue {
 public:
  UfuncMethod(ValuePtr ufunc, PyObject* name)
      : ufunc_(std::move(ufunc)),
        name_(PyRef::borrow(name)),
        method_(checked(PyObject_GetAttr(ufunc_->real_object(), name))) {}
  PyTypeObject* type() const override { return Py_TYPE(method_.get()); }
  std::string describe() const override { return ufunc_->describe() + "." + PyUnicode_AsUTF8(name_.get()); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (PyUnicode_CompareWithASCIIString(name_.get(), "at") == 0)
      return write_by_numpy_library(ex, method_.get(), args);
    if (!is_plain_outer(args))
      return recorded_numpy_library(ex, "call_function", method_, method_.get(), args);
    return numpy_call(ex, "call_function", method_, args, [&] { return outer(ex, args); });
  }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_)
      recipe_ = call_recipe(library_object("builtins", "getattr"),
                            {ufunc_->recipe(ex), make_recipe(RecipeKind::kConstant, name_.get())});
    return recipe_;
  }

 private:
  bool is_plain_outer(const CallArgs& args) const {
    const auto is_array = [](const ValuePtr& value) {
      const auto* array = dynamic_cast<ArrayValue*>(value.get());
      return is_numpy_array(value) && array && array->rank() > 0;
    };
    return PyUnicode_CompareWithASCIIString(name_.get(), "outer") == 0 && args.keywords.empty() &&
           args.positional.size() == 2 && std::ranges::all_of(args.positional, is_array);
  }
  // ufunc(a[..., None, None], b), a None for each dim of b.
  ValuePtr outer(Executor& ex, const CallArgs& args) {
    std::vector<ValuePtr> key = {ex.constant(PyRef::borrow(Py_Ellipsis))};
    key.resize(1 + static_cast<ArrayValue&>(*args.positional[1]).rank(), ex.none());
    return ufunc_->call(ex, positional({args.positional[0]->get_item(ex, make_tuple(ex, std::move(key))),
                                        args.positional[1]}));
  }

  ValuePtr ufunc_;
  PyRef name_, method_;
  RecipePtr recipe_;
};

}  // namespace

ValuePtr ufunc_method(const ValuePtr& ufunc, const OpDef* op, bool is_own, PyObject* name) {
  const std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "reduce" && op)
    if (const OpDef* reduction = reduction_of(*op)) return std::make_shared<UfuncReduce>(ufunc, *reduction);
  static constexpr std::string_view kMethods[] = {"accumulate", "at", "outer", "reduce", "reduceat"};
  if (!is_own || std::ranges::find(kMethods, text) == std::end(kMethods)) return nullptr;
  return std::make_shared<UfuncMethod>(ufunc, name);
}

}  // namespace cdynamo::symbolic
