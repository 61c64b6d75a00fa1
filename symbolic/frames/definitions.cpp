// What the body of a class makes for the class alone: descriptors of functions, a dataclass's fields, an enum's values.
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/made_classes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// ---- property(f).setter(g)

enum PropertyPart : size_t { kGetter, kSetter, kDeleter };

template <PropertyPart part>
ValuePtr with_part(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "property", args, 1, 1);
  return static_cast<DefinitionValue&>(*self).with_part(ex, part, args.positional[0]);
}

constexpr BuiltinMethodRow kPropertyMethods[] = {
    {"getter", with_part<kGetter>}, {"setter", with_part<kSetter>}, {"deleter", with_part<kDeleter>}};

// ---- calls

// The callable itself says whether there are too many arguments, or unknown ones. `object` stands in for each: it has what
// is read of functions.
void check_arguments(PyObject* callable, const char* name, const CallArgs& args) {
  const auto any = [](const ValuePtr&) { return PyRef::borrow(as_object(&PyBaseObject_Type)); };
  if (call_with_objects(callable, args, any)) return;
  PyErr_Clear();
  break_graph("CD0212", std::string(name) + " with arguments that it does not take");
}

template <const char* module, const char* name>
ValuePtr define(Executor&, const CallArgs& args) {
  PyObject* callable = library_object(module, name);
  check_arguments(callable, name, args);
  return std::make_shared<DefinitionValue>(PyRef::borrow(callable), args);
}

constexpr char kBuiltins[] = "builtins", kFunctools[] = "functools", kEnum[] = "enum",
               kDataclasses[] = "dataclasses";
constexpr char kProperty[] = "property", kClassMethod[] = "classmethod", kStaticMethod[] = "staticmethod",
               kCachedProperty[] = "cached_property", kAuto[] = "auto", kMember[] = "member",
               kNonMember[] = "nonmember", kField[] = "field";

constexpr BuiltinRow kDefinitionClasses[] = {
    {kBuiltins, kProperty, define<kBuiltins, kProperty>},
    {kBuiltins, kClassMethod, define<kBuiltins, kClassMethod>},
    {kBuiltins, kStaticMethod, define<kBuiltins, kStaticMethod>},
    {kFunctools, kCachedProperty, define<kFunctools, kCachedProperty>},
    {kEnum, kAuto, define<kEnum, kAuto>},
    {kEnum, kMember, define<kEnum, kMember>},
    {kEnum, kNonMember, define<kEnum, kNonMember>},
};

}  // namespace

std::span<const BuiltinRow> definition_classes() { return kDefinitionClasses; }

ValuePtr define_field(Executor& ex, const CallArgs& args) { return define<kDataclasses, kField>(ex, args); }

ValuePtr method_of_property(Executor& ex, PyObject* property, PyObject* name) {
  CallArgs parts;
  for (const char* part : {"fget", "fset", "fdel"}) {
    const PyRef function = checked(PyObject_GetAttrString(property, part));
    parts.positional.push_back(ex.wrap(function.get(), constant_source(function.get())));
  }
  const auto definition =
      std::make_shared<DefinitionValue>(PyRef::borrow(as_object(&PyProperty_Type)), std::move(parts));
  return find_builtin_method(definition, name, kPropertyMethods);
}

PyTypeObject* DefinitionValue::type() const {
  // dataclasses.field is a function.
  PyObject* cls = PyType_Check(callable_.get()) ? callable_.get() : library_object("dataclasses", "Field");
  return reinterpret_cast<PyTypeObject*>(cls);
}

ValuePtr DefinitionValue::get_attribute(Executor& ex, PyObject* name) {
  if (type() == &PyProperty_Type)
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kPropertyMethods)) return method;
  return SymbolicValue::get_attribute(ex, name);
}

ValuePtr DefinitionValue::with_part(Executor& ex, size_t index, const ValuePtr& part) const {
  if (!args_.keywords.empty()) break_graph("CD0212", "a property with keywords");
  CallArgs changed = args_;
  while (changed.positional.size() <= index) changed.positional.push_back(ex.none());
  changed.positional[index] = part;
  return std::make_shared<DefinitionValue>(callable_, std::move(changed));
}

ValuePtr DefinitionValue::binary(Executor&, int, const ValuePtr&, bool) {
  break_graph("CD0209", "operator of " + describe());
}
ValuePtr DefinitionValue::compare(Executor&, int, const ValuePtr&) {
  break_graph("CD0209", "comparison of " + describe());
}

RecipePtr DefinitionValue::recipe(Executor&) { break_graph("CD0211", describe()); }

PyRef DefinitionValue::make(Executor& ex, StandIns& parts) const {
  const PyRef positional = parts.of(args_.positional), keywords = parts.of(args_.keywords);
  PyRef made = PyRef::steal(PyObject_Call(callable_.get(), positional.get(), keywords.get()));
  if (made) return made;
  PyErr_Clear();
  break_graph("CD0212", describe() + ", which raises an error");
}

}  // namespace cdynamo::symbolic
