#include "symbolic/torch/callables.h"

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/torch/autocast_policy.h"
#include "symbolic/torch/complex_tensor.h"
#include "symbolic/torch/factory_defaults.h"
#include "symbolic/torch/function_modes.h"
#include "symbolic/torch/library_call.h"
#include "symbolic/torch/made_leaves.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// add_, __iadd__; not __invert__ or __index__.
bool names_in_place(const graph::OpDef& op, const std::string& name) {
  static constexpr const char* kDunder[] = {
      "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__",    "__ifloordiv__", "__imod__",
      "__ipow__", "__iand__", "__ior__",  "__ixor__",     "__ilshift__", "__irshift__"};
  for (const char* dunder : kDunder)
    if (name == dunder) return true;
  return name.ends_with("_") && !name.ends_with("__") && !op.name.ends_with("_");
}

struct Maps {
  absl::flat_hash_map<PyObject*, OperatorCallable> operators;
  absl::flat_hash_map<std::string, OperatorCallable> methods;
  absl::flat_hash_map<PyObject*, SpecialFunction> special;
  absl::flat_hash_map<PyObject*, const char*> polyfills;
  absl::flat_hash_map<std::string, const char*> polyfill_methods;
  std::vector<PyRef> kept;  // the keys' owners

  void add_operator(const graph::OpDef& op) {
    for (const std::string& path : graph::python_names(op)) {
      if (!path.starts_with("torch")) continue;
      const std::string last = path.substr(path.rfind('.') + 1);
      OperatorCallable callable{&op, op.in_place_variant && names_in_place(op, last),
                                path.starts_with("torch.Tensor.")};
      if (callable.method) methods.try_emplace(last, callable);
      PyRef object = loaded_object(path);
      if (!object || !PyCallable_Check(object.get())) continue;
      if (operators.try_emplace(object.get(), callable).second) kept.push_back(std::move(object));
    }
  }

  void add_polyfill(const PolyfillRow& row) {
    constexpr std::string_view kMethod = "torch.Tensor.";
    std::string_view path = row.path;
    if (path.starts_with(kMethod))
      polyfill_methods.try_emplace(std::string(path.substr(kMethod.size())), row.function);
    PyRef object = loaded_object(row.path);
    if (object && polyfills.try_emplace(object.get(), row.function).second) kept.push_back(std::move(object));
  }

  void add_special(std::span<const SpecialRow> rows) {
    for (const SpecialRow& row : rows) {
      PyRef object = loaded_object(row.path);
      if (!object && std::string_view(row.path).starts_with("cdynamo."))
        throw graph::InternalError(absl::StrCat("there is no ", row.path));
      if (object && special.try_emplace(object.get(), row.apply).second) kept.push_back(std::move(object));
    }
  }
};

// not_captured("a case"), called in a polyfill.
ValuePtr break_in_polyfill(Executor&, PyObject*, const CallArgs& args) {
  PyObject* what = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  break_graph("CD0404", what && PyUnicode_Check(what) ? PyUnicode_AsUTF8(what) : "an operator");
}

// Null until torch is there.
const Maps* maps() {
  static const Maps* kept = nullptr;
  if (kept || !torch_is_loaded()) return kept;
  // Looking objects up may run Python, and so another thread: nobody sees the tables before they are complete.
  auto made = std::make_unique<Maps>();
  for (const graph::OpDef* op : graph::all_ops()) made->add_operator(*op);
  made->add_special(torch_query_functions());
  made->add_special(torch_factory_functions());
  made->add_special(torch_mode_functions());
  made->add_special(torch_autocast_functions());
  made->add_special(inference_mode_functions());
  made->add_special(factory_default_functions());
  made->add_special(function_mode_rules());
  made->add_special(saved_tensor_functions());
  made->add_special(made_leaf_functions());
  made->add_special(attention_backend_functions());
  for (const PolyfillRow& row : torch_polyfills()) made->add_polyfill(row);
  made->special.try_emplace(python_side(PythonSide::kNotCaptured), break_in_polyfill);
  made->add_special(checkpoint_rules());
  made->add_special(way_rules());
  made->add_special(loop_rules());
  made->add_special(autograd_call_rules());
  made->add_special(user_function_rules());
  made->add_special(module_hook_rules());
  made->add_special(data_rules());
  made->add_special(foreach_functions());
  made->add_special(function_transform_rules());
  made->add_special(vmap_rules());
  made->add_special(complex_functions());
  if (!kept) kept = made.release();
  return kept;
}

}  // namespace

const char* find_torch_polyfill(PyObject* callable) {
  if (const Maps* all = maps())
    if (auto found = all->polyfills.find(callable); found != all->polyfills.end()) return found->second;
  return nullptr;
}

const char* find_tensor_polyfill(std::string_view method) {
  if (const Maps* all = maps())
    if (auto found = all->polyfill_methods.find(std::string(method)); found != all->polyfill_methods.end())
      return found->second;
  return nullptr;
}

namespace {

// torch.ops.aten.view.default and its kind: operators whose results share memory, which no node of the library's may.
OperatorCallable view_overload(PyObject* callable) {
  if (std::string_view(Py_TYPE(callable)->tp_name) != "OpOverload") return {};
  const PyRef schema = PyRef::steal(PyObject_GetAttrString(callable, "_schema"));
  const PyRef name = schema ? PyRef::steal(PyObject_GetAttrString(schema.get(), "name")) : PyRef();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  constexpr std::string_view kNamespace = "aten::";
  if (!text || !std::string_view(text).starts_with(kNamespace)) return {};
  const graph::OpDef* op = graph::find_op(std::string_view(text).substr(kNamespace.size()));
  if (!op || !op->view || op->parsed.at(0).result_is_list || op->parsed.at(0).num_results != 1) return {};
  return {op, /*in_place=*/false, /*method=*/false};
}

}  // namespace

OperatorCallable find_torch_operator(PyObject* callable) {
  const Maps* all = maps();
  if (!all) return {};
  const auto found = all->operators.find(callable);
  return found != all->operators.end() ? found->second : view_overload(callable);
}

OperatorCallable find_tensor_operator(std::string_view name) {
  if (const Maps* all = maps())
    if (auto found = all->methods.find(std::string(name)); found != all->methods.end()) return found->second;
  return {};
}

SpecialFunction find_special_function(PyObject* callable) {
  if (const Maps* all = maps())
    if (auto found = all->special.find(callable); found != all->special.end()) return found->second;
  return nullptr;
}

// "?" where it has none.
static std::string function_name(PyObject* callable) {
  PyRef name = PyRef::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  return text ? text : "?";
}

namespace {

// A rule that runs a function of the program's in a way of its own.
bool is_transform(SpecialFunction rule) {
  for (const auto rows : {checkpoint_rules(), way_rules(), user_function_rules(), module_hook_rules(),
                          function_transform_rules(), vmap_rules()})
    for (const SpecialRow& row : rows)
      if (rule && row.apply == rule) return true;
  return false;
}

}  // namespace

std::string TorchCallable::describe() const { return "torch function " + function_name(object_.get()); }

ValuePtr TorchCallable::get_attribute(Executor& ex, PyObject* name) {
  PyRef value = PyRef::steal(PyObject_GetAttr(object_.get(), name));
  if (!value) {
    const bool is_absent = Py_TYPE(object_.get())->tp_getattro == PyType_Type.tp_getattro &&
                           PyErr_ExceptionMatches(PyExc_AttributeError);
    PyErr_Clear();
    if (!is_absent) return SymbolicValue::get_attribute(ex, name);
    auto* cls = reinterpret_cast<PyTypeObject*>(object_.get());
    guard_class(ex, cls);
    raise_error(
        ex, PyExc_AttributeError,
        absl::StrCat("type object '", cls->tp_name, "' has no attribute '", PyUnicode_AsUTF8(name), "'"));
  }
  return ex.wrap(value.get(), constant_source(value.get()));
}

ValuePtr TorchCallable::call(Executor& ex, const CallArgs& given) {
  TensorCapture& capture = torch_capture(ex);
  if (ValuePtr result = call_through_mode(ex, shared_from_this(), object_.get(), given)) return result;
  if ((polyfill_ && !calls_no_operators(polyfill_)) || is_transform(special_))
    refuse_in_mode(ex, describe().c_str());
  if (const std::optional<CallArgs> rest = without_requires_grad(ex, object_.get(), given))
    return made_leaf(ex, call(ex, *rest));
  const std::optional<CallArgs> completed = with_factory_defaults(ex, capture, object_.get(), given);
  const CallArgs& args = completed ? *completed : given;
  if (!op_.op) {
    const std::string name = function_name(object_.get());
    if (ValuePtr result = special_ ? try_complex_rule(ex, name, args)
                                   : try_complex_call(ex, name, "call_function", object_.get(), args))
      return result;
  }
  if (special_) return special_(ex, object_.get(), args);
  if (polyfill_) check_autocast_of_polyfill(ex, polyfill_);
  if (polyfill_) return polyfill(ex, PythonSide::kTorchPolyfills, polyfill_)->call(ex, args);
  if (!op_.op)
    return or_complex(ex, "call_function", object_.get(), args, [&] {
      return recorded_call(ex, "call_function", object_, args, [&] { return call_library(ex, args); });
    });
  // A method in Python (Tensor.pow) has a name of its own for its class alone.
  if (op_.method && PyFunction_Check(object_.get()))
    return call_operator(ex, *op_.op, op_.in_place, "call_method",
                         checked(PyObject_GetAttrString(object_.get(), "__name__")), args,
                         Convention::kTorchMethod);
  return call_operator(ex, *op_.op, op_.in_place, "call_function", object_, args,
                       op_.method ? Convention::kTorchMethod : Convention::kTorchFunction);
}

ValuePtr TorchCallable::compare(Executor& ex, int py_op, const ValuePtr& other) {
  PyObject* object = other->real_object();
  if (!object || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  bool equal = object == object_.get();
  // torch.Tensor.shape.__get__ is an object of its own each time.
  if (!equal &&
      Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(library_object("types", "MethodWrapperType")))
    equal = PyObject_RichCompareBool(object, object_.get(), Py_EQ) == 1;
  return ex.constant_bool(equal == (py_op == Py_EQ));
}

RecipePtr TorchCallable::recipe(Executor& ex) {
  if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
  return recipe_;
}

}  // namespace cdynamo::symbolic
