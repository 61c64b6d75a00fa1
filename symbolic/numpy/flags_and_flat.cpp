// What tells of an array's elements, and hands them out, without being an array: x.flags and x.flat.
#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Value;

namespace {

bool is_writeable(Executor& ex, const Value* value) {
  if (is_read_only_view(value)) return false;
  const TensorCapture& capture = tensor_capture(ex);
  const auto input = capture.storage_of.find(value);
  return input == capture.storage_of.end() || capture.inputs[input->second]->info.writeable;
}

// x.flags: how the elements lie, and whether they may be written. What else it tells is Python's.
class ArrayFlags final : public SymbolicValue {
 public:
  ArrayFlags(ValuePtr array, graph::TensorType layout)
      : array_(std::move(array)), layout_(std::move(layout)) {}
  PyTypeObject* type() const override {
    static PyTypeObject* type = nullptr;
    if (!type) {
      const PyRef any = checked(PyObject_CallFunction(library_object("numpy", "ndarray"), "(i)", 0));
      type = Py_TYPE(checked(PyObject_GetAttrString(any.get(), "flags")).get());
    }
    return type;
  }
  std::string describe() const override { return "flags of " + array_->describe(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    const std::string_view text = PyUnicode_AsUTF8(name);
    if (ValuePtr flag = order(ex, text, "c_contiguous", "f_contiguous")) return flag;
    const graph::TensorType& type = layout_;
    graph::SymContext& sym = *ex.graph().sym;
    const auto* array = dynamic_cast<NumpyValue*>(array_.get());
    if (text == "writeable" && array) return ex.constant_bool(is_writeable(ex, array->value()));
    if (text == "contiguous") return ex.constant_bool(graph::is_contiguous(sym, type));
    if (text == "fnc")
      return ex.constant_bool(graph::is_column_major(sym, type) && !graph::is_contiguous(sym, type));
    if (text == "forc")
      return ex.constant_bool(graph::is_column_major(sym, type) || graph::is_contiguous(sym, type));
    return SymbolicValue::get_attribute(ex, name);
  }
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override {
    PyObject* text = constant_object(key);
    const std::string_view name = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : "";
    if (ValuePtr flag = order(ex, name, "C_CONTIGUOUS", "F_CONTIGUOUS")) return flag;
    if (ValuePtr flag = order(ex, name, "C", "F")) return flag;
    if (name == "WRITEABLE" || name == "W") return get_attribute(ex, interned("writeable"));
    return SymbolicValue::get_item(ex, key);
  }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_)
      recipe_ = call_recipe(library_object("builtins", "getattr"),
                            {array_->recipe(ex), make_recipe(RecipeKind::kConstant, interned("flags"))});
    return recipe_;
  }

 private:
  ValuePtr order(Executor& ex, std::string_view name, std::string_view rows, std::string_view columns) {
    const graph::TensorType& type = layout_;
    if (name == rows) return ex.constant_bool(graph::is_contiguous(*ex.graph().sym, type));
    return name == columns ? ex.constant_bool(graph::is_column_major(*ex.graph().sym, type)) : nullptr;
  }
  ValuePtr array_;
  graph::TensorType layout_;
  RecipePtr recipe_;
};

// x.flat: the elements in row-major order, and an iterator over them, which an index sets back to the beginning.
class FlatArray final : public IteratorValue {
 public:
  explicit FlatArray(ValuePtr array) : array_(std::move(array)) {}
  PyTypeObject* type() const override {
    return reinterpret_cast<PyTypeObject*>(library_object("numpy", "flatiter"));
  }
  std::string describe() const override { return "flat of " + array_->describe(); }
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override {
    require_known_rules(ex, key);
    if (as_sym(key)) position_ = 0;  // also where it is out of range
    const ValuePtr items = flat(ex)->get_item(ex, key);
    position_ = 0;
    if (!dynamic_cast<NumpyValue*>(items.get())) return items;  // of constants
    // A copy, also where a slice would be a view.
    return array_of(items).is_scalar() ? items : call_method(ex, items, "copy");
  }
  // NumPy repeats what is too short, and leaves out what is too much.
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override {
    require_known_rules(ex, key);
    const graph::Value* given = value ? graph_value(value) : nullptr;
    if (!value || (given && given->type.rank() > 1)) break_graph("CD0503", "such an assignment to flat");
    if (!graph::is_contiguous(*ex.graph().sym, array_of(array_).array_type()))
      break_graph("CD0503", "an assignment to flat of an array that is not row-major");
    flat(ex)->set_item(ex, key, value);
    position_ = 0;
  }
  ValuePtr length(Executor& ex) override { return make_int(ex, array_of(array_).array_type().numel()); }
  ValuePtr next(Executor& ex) override {
    const int64_t count =
        ex.graph().sym->specialize(array_of(array_).array_type().numel(), "iteration over an array");
    return position_ < count ? flat(ex)->get_item(ex, ex.constant_int(position_++)) : nullptr;
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    const std::string_view text = PyUnicode_AsUTF8(name);
    if (text == "base") return array_;
    if (text == "index") return ex.constant_int(position_);
    return text == "coords" ? place(ex) : IteratorValue::get_attribute(ex, name);
  }

 protected:
  RecipePtr make_recipe_now(Executor& ex) override {
    return advanced_recipe(
        call_recipe(library_object("builtins", "getattr"),
                    {array_->recipe(ex), make_recipe(RecipeKind::kConstant, interned("flat"))}),
        position_);
  }

 private:
  // The indices of the next element.
  ValuePtr place(Executor& ex) {
    const std::vector<graph::Sym>& sizes = array_of(array_).array_type().sizes;
    std::vector<ValuePtr> indices(sizes.size());
    int64_t rest = position_;
    for (size_t d = sizes.size(); d-- > 0;) {
      const int64_t size = ex.graph().sym->specialize(sizes[d], "iteration over an array");
      if (size == 0) break_graph("CD0503", "coords of an array without elements");
      indices[d] = ex.constant_int(d == 0 ? rest : rest % size);
      rest /= size;
    }
    return make_tuple(ex, std::move(indices));
  }
  static bool holds_bool(Executor& ex, const ValuePtr& key) {
    check_stack();  // a list may hold itself
    if (const auto items = sequence_items(ex, key))
      return std::ranges::any_of(*items, [&](const ValuePtr& item) { return holds_bool(ex, item); });
    return key->type() == &PyBool_Type;
  }
  // None, tuples, a single bool and lists of bools mean something else than to the array that `flat` is taken for.
  static void require_known_rules(Executor& ex, const ValuePtr& key) {
    const graph::Value* array = graph_value(key);
    if (is_none(key) || key->type() == &PyTuple_Type || holds_bool(ex, key) ||
        (array && array->type.rank() == 0 && array->type.dtype == graph::DType::kBool))
      break_graph("CD0503", "such an index of flat");
  }
  ValuePtr flat(Executor& ex) { return call_method(ex, array_, "reshape", {ex.constant_int(-1)}); }
  ValuePtr array_;
  int64_t position_ = 0;
};

}  // namespace

ValuePtr make_array_flags(ValuePtr array, graph::TensorType layout) {
  return std::make_shared<ArrayFlags>(std::move(array), std::move(layout));
}

ValuePtr make_flat_array(ValuePtr array) { return std::make_shared<FlatArray>(std::move(array)); }

}  // namespace cdynamo::symbolic
