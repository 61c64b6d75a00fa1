// NumPy's functions and ufuncs as values, and what a call of one is: an operator, a rule of its own, a call of NumPy's library.
#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/library.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::OpDef;
using graph::Value;

namespace {

struct Maps {
  absl::flat_hash_map<std::string, const OpDef*> by_path;
  absl::flat_hash_map<PyObject*, const OpDef*> by_object;
  absl::flat_hash_map<PyObject*, NumpySpecial> special;
  std::vector<PyRef> kept;
  PyRef ufunc_type, dispatcher_type;

  // Those of modules that have been imported.
  void add_special() {
    for (const auto& rows : {numpy_factory_functions(), numpy_random_functions(),
                             numpy_error_state_functions(), numpy_memory_functions()})
      for (const NumpySpecialRow& row : rows)
        if (PyRef object = loaded_object(row.path);
            object && special.try_emplace(object.get(), row.apply).second)
          kept.push_back(std::move(object));
  }

  Maps() {
    for (const OpDef* op : graph::all_ops())
      for (const std::string& path : graph::python_names(*op)) {
        if (!path.starts_with("numpy.")) continue;
        by_path.try_emplace(path, op);
        PyRef object = loaded_object(path);
        if (object && by_object.try_emplace(object.get(), op).second) kept.push_back(std::move(object));
      }
    add_special();
    ufunc_type = loaded_object("numpy.ufunc");
    if (PyRef sum = loaded_object("numpy.sum"))
      dispatcher_type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(sum.get())));
  }
};

Maps* maps() {
  static Maps* made = nullptr;
  if (!made && numpy_is_loaded()) made = new Maps;
  return made;
}

}  // namespace

const OpDef* find_numpy_operator(std::string_view path) {
  const Maps* all = maps();
  if (!all) return nullptr;
  auto found = all->by_path.find(std::string(path));
  return found == all->by_path.end() ? nullptr : found->second;
}

// ---- callables

namespace {

class NumpyCallable final : public SymbolicValue {
 public:
  NumpyCallable(PyRef object, const OpDef* op, NumpySpecial special, SourcePtr from)
      : object_(std::move(object)), op_(op), special_(special) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override {
    PyRef name = PyRef::steal(PyObject_GetAttrString(object_.get(), "__name__"));
    if (!name) PyErr_Clear();
    return std::string("numpy.") +
           (name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : "function");
  }
  PyObject* real_object() const override { return object_.get(); }
  std::optional<PyRef> as_constant() const override { return object_; }
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
    return recipe_;
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;

 private:
  ValuePtr call_implementation(Executor& ex, const CallArgs& args);
  bool is_refused_by_dispatch(const CallArgs& args) const;
  ValuePtr call_complex(Executor& ex, const CallArgs& args);
  ValuePtr take_complex_out(CallArgs& args) const;
  ValuePtr call_into_several(Executor& ex, const CallArgs& args);
  ValuePtr call_instead(Executor& ex, const GraphBreak& broken, const CallArgs& args);
  // Of NumPy or SciPy, not one of the program's.
  bool is_own_ufunc() const {
    if (!is_ufunc()) return false;
    const std::string name = text_attribute(object_.get(), "__name__");
    return loaded_object("numpy." + name).get() == object_.get() ||
           loaded_object("scipy.special." + name).get() == object_.get();
  }
  bool is_ufunc() const { return reinterpret_cast<PyObject*>(type()) == library_object("numpy", "ufunc"); }
  PyRef object_;
  const OpDef* op_;
  NumpySpecial special_;
  RecipePtr recipe_;
};

// Constants, and lists of them.
static bool only_known(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (value->as_constant()) return true;
  const auto items = sequence_items(ex, value);
  return items && std::ranges::all_of(*items, [&](const ValuePtr& item) { return only_known(ex, item); });
}
static bool only_known(Executor& ex, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) { return only_known(ex, value); };
  return std::ranges::all_of(args.positional, known) &&
         std::ranges::all_of(args.keywords, [&](const Keyword& keyword) { return known(keyword.value); });
}

ValuePtr NumpyCallable::call(Executor& ex, const CallArgs& args) {
  if (holds_tensor(ex, args)) {
    const auto call = [&](const CallArgs& arrays) { return NumpyCallable::call(ex, arrays); };
    if (ValuePtr result = call_with_tensors(ex, object_.get(), args, call)) return result;
    return call_implementation(ex, args);
  }
  if (ValuePtr result = call_complex(ex, args)) return result;
  if (ValuePtr result = call_into_several(ex, args)) return result;
  if (special_) {
    try {
      return special_(ex, object_.get(), args);
    } catch (const GraphBreak&) {
      if (!is_numpy_library_function(object_.get())) throw;
    }
  }
  // numpy.sqrt(2.0) of constants is a constant.
  if (only_constants(args)) return made_by_numpy(ex, object_.get(), args);
  if (is_numpy_library_function(object_.get()) && only_known(ex, args))
    return made_by_numpy(ex, object_.get(), args);
  if (op_) {
    try {
      return numpy_call(ex, "call_function", object_, args,
                        [&] { return call_numpy_operator(ex, *op_, false, args); });
    } catch (const GraphBreak& broken) {
      if (ValuePtr result = call_instead(ex, broken, args)) return result;
      throw;
    }
  }
  // A ufunc of NumPy's own gives what its operands' sizes decide; one that numpy.frompyfunc makes runs the program's code.
  if (is_own_ufunc() || is_numpy_library_function(object_.get())) {
    try {
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    } catch (const GraphBreak&) {  // its Python may be captured
    }
  }
  return call_implementation(ex, args);
}

// An array or number of the graph's, or a list that holds one.
static bool holds_computed(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (graph_value(value) || dynamic_cast<ComplexArray*>(value.get())) return true;
  const auto items = sequence_items(ex, value);
  return items && std::ranges::any_of(*items, [&](const ValuePtr& item) { return holds_computed(ex, item); });
}

// Where something is complex: by the function's rule, else in NumPy's library, else by the function's Python. Null: nothing is, or
// constants are all that there is.
ValuePtr NumpyCallable::call_complex(Executor& ex, const CallArgs& given) {
  if (!any_complex(ex, given) || (only_constants(given) && !special_)) return nullptr;
  const std::string name = text_attribute(object_.get(), "__name__");
  const bool converts = special_ && (name == "array" || name == "asarray" || name == "asanyarray");
  if (converts && !given.positional.empty() && !holds_computed(ex, given.positional[0])) return nullptr;
  CallArgs args = given;
  const ValuePtr out = is_ufunc() ? take_complex_out(args) : nullptr;
  ValuePtr result = try_complex_rule(ex, object_.get(), args);
  if (!result && special_) return nullptr;
  const PyRef implementation = PyRef::steal(PyObject_GetAttrString(object_.get(), "_implementation"));
  PyErr_Clear();
  const bool is_python = implementation && PyFunction_Check(implementation.get());
  if (!result && (op_ || is_own_ufunc() || is_numpy_library_function(object_.get()) || !is_python)) {
    try {
      result = recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    } catch (const GraphBreak&) {
      if (!is_python) throw;  // its Python may be captured
    }
  }
  if (!result) result = call_implementation(ex, args);
  return out ? complex_polyfill(ex, "write", {out, result}) : result;
}

// The out= of a ufunc, taken out of the arguments; null: none.
ValuePtr NumpyCallable::take_complex_out(CallArgs& args) const {
  const auto operands = static_cast<size_t>(integer_attribute(object_.get(), "nin"));
  ValuePtr out;
  if (args.positional.size() == operands + 1) {
    out = args.positional.back();
    args.positional.pop_back();
  } else if (keyword_of(args, "out", &out)) {
    erase_keyword(args, "out");
  }
  ValuePtr where;
  if (out && keyword_of(args, "where", &where)) break_graph("CD0501", "where of complex arrays");
  if (out && out->type() == &PyTuple_Type) break_graph("CD0501", "out= as a tuple");
  return out && is_none(out) ? nullptr : out;
}

// numpy.divmod(x, y, out=(a, b)): the results, written to `a` and `b`. Null: it gives one result, or has no out=.
ValuePtr NumpyCallable::call_into_several(Executor& ex, const CallArgs& args) {
  ValuePtr out;
  if (!is_own_ufunc() || integer_attribute(object_.get(), "nout") < 2 || !keyword_of(args, "out", &out) ||
      is_none(out))
    return nullptr;
  CallArgs rest = args;
  erase_keyword(rest, "out");
  if (!rest.keywords.empty()) break_graph("CD0501", "out= with other options");
  std::optional<std::vector<ValuePtr>> targets = out->unpack(ex), results = call(ex, rest)->unpack(ex);
  if (!targets || !results || targets->size() != results->size()) break_graph("CD0501", "out=");
  for (size_t i = 0; i < targets->size(); ++i) {
    ValuePtr& target = (*targets)[i];
    if (is_none(target)) {
      target = (*results)[i];
      continue;
    }
    const auto* array = dynamic_cast<NumpyValue*>(target.get());
    const Value* result = graph_value((*results)[i]);
    if (!array || array->is_scalar() || !result || array->array_type().dtype != result->type.dtype ||
        array->array_type().sizes != result->type.sizes)
      break_graph("CD0501", "out= of another dtype or shape");
    target->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), (*results)[i]);
  }
  return make_tuple(ex, *std::move(targets));
}

// What the operator of the table does not take: where= of a reduction is left to NumPy's library, and other arguments to it or
// to the function's Python. Null: neither takes them.
ValuePtr NumpyCallable::call_instead(Executor& ex, const GraphBreak& broken, const CallArgs& args) {
  ValuePtr out;
  if (keyword_of(args, "out", &out)) return nullptr;
  const bool has_no_rule = broken.record.id == "CD0401" || broken.record.id == "CD0404";
  try {
    if (is_ufunc()) {
      const auto operands = static_cast<size_t>(integer_attribute(object_.get(), "nin"));
      if (!is_own_ufunc() || args.positional.size() != operands ||
          !(has_no_rule || broken.record.id == "CD0501"))
        return nullptr;
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    }
    if (broken.record.id == "CD0501" || (has_no_rule && is_numpy_library_function(object_.get())))
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    return has_no_rule ? call_implementation(ex, args) : nullptr;
  } catch (const GraphBreak&) {
    return nullptr;
  }
}

// numpy.hstack(x for x in arrays): NumPy refuses what has no items before it comes to the implementation.
bool NumpyCallable::is_refused_by_dispatch(const CallArgs& args) const {
  if (!op_ || op_->parsed[0].params.empty()) return false;
  const graph::Param& param = op_->parsed[0].params[0];
  if (param.kind != graph::ParamKind::kTensorList) return false;
  ValuePtr arrays;
  if (!args.positional.empty())
    arrays = args.positional[0];
  else
    keyword_of(args, param.name.c_str(), &arrays);
  const PyTypeObject* type = arrays ? arrays->type() : nullptr;
  return type && !(type->tp_as_mapping && type->tp_as_mapping->mp_subscript) &&
         !(type->tp_as_sequence && type->tp_as_sequence->sq_item);
}

// A function that dispatches: its Python implementation is inlined.
ValuePtr NumpyCallable::call_implementation(Executor& ex, const CallArgs& args) {
  if (is_refused_by_dispatch(args)) break_graph("CD0500", describe());
  PyRef implementation = PyRef::steal(PyObject_GetAttrString(object_.get(), "_implementation"));
  if (!implementation) PyErr_Clear();
  if (implementation && PyFunction_Check(implementation.get()))
    return ex.wrap(implementation.get(), constant_source(implementation.get()))->call(ex, args);
  break_graph("CD0500", describe());
}

ValuePtr NumpyCallable::get_attribute(Executor& ex, PyObject* name) {
  if (ValuePtr method = ufunc_method(shared_from_this(), op_, is_own_ufunc(), name)) return method;
  PyRef value = PyRef::steal(PyObject_GetAttr(object_.get(), name));
  if (!value) {
    PyErr_Clear();
    return SymbolicValue::get_attribute(ex, name);
  }
  // resolve_dtypes ...: C methods.
  if (PyCallable_Check(value.get())) return make_unknown_method(shared_from_this(), name, nullptr);
  return ex.wrap(value.get(), constant_source(value.get()));
}

bool is_random(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return self && std::string_view(Py_TYPE(self)->tp_name).starts_with("numpy.random");
}

}  // namespace

PyObject* keyword_of(const CallArgs& args, const char* name, ValuePtr* value) {
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), name) == 0) {
      *value = keyword.value;
      return keyword.name.get();
    }
  return nullptr;
}

void erase_keyword(CallArgs& args, const char* name) {
  std::erase_if(args.keywords,
                [&](const Keyword& k) { return PyUnicode_CompareWithASCIIString(k.name.get(), name) == 0; });
}

bool only_constants(const CallArgs& args) {
  for (const ValuePtr& value : args.positional)
    if (!value->as_constant()) return false;
  for (const Keyword& keyword : args.keywords)
    if (!keyword.value->as_constant()) return false;
  return true;
}

ValuePtr call_numpy_function(Executor& ex, const char* name, std::vector<ValuePtr> args) {
  PyObject* function = library_object("numpy", name);
  return ex.wrap(function, constant_source(function))->call(ex, positional(std::move(args)));
}

// Functions may have any object for a module, or none.
static bool is_of_numpy_testing(PyObject* object) {
  if (!PyFunction_Check(object)) return false;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(object)->func_module;
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  return name && std::string_view(name).starts_with("numpy.testing");
}

// A function of Cython's.
static bool is_of_numpy_random(PyObject* object) {
  if (!std::string_view(Py_TYPE(object)->tp_name).ends_with("cython_function_or_method")) return false;
  return text_attribute(object, "__module__").starts_with("numpy.random");
}

ValuePtr wrap_numpy_callable(Executor& ex, PyObject* object, const SourcePtr& source) {
  Maps* all = maps();
  if (!all) return nullptr;
  // A module that programs import by themselves, perhaps later than the others.
  if ((is_of_numpy_testing(object) || is_of_numpy_random(object)) && !all->special.contains(object))
    all->add_special();
  if (is_numpy_scalar_type(object)) return wrap_scalar_type(ex, object, source);
  auto special = all->special.find(object);
  auto op = all->by_object.find(object);
  const bool known = special != all->special.end() || op != all->by_object.end();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (!known && !is_numpy_library_function(object) && type != all->ufunc_type.get() &&
      type != all->dispatcher_type.get() && !is_random(object))
    return nullptr;
  if (PyFunction_Check(object) && !known && !is_numpy_library_function(object)) return nullptr;
  add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<NumpyCallable>(PyRef::borrow(object),
                                         op == all->by_object.end() ? nullptr : op->second,
                                         special == all->special.end() ? nullptr : special->second, source);
}

}  // namespace cdynamo::symbolic
