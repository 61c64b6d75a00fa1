#include "symbolic/values/mirrored.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/attributes.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

class MirroredMethod final : public SymbolicValue {
 public:
  MirroredMethod(std::shared_ptr<MirroredValue> self, PyRef name)
      : self_(std::move(self)), name_(std::move(name)) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override {
    return absl::StrCat(self_->describe(), ".", PyUnicode_AsUTF8(name_.get()));
  }
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    return self_->call_method(ex, name_.get(), args);
  }
  RecipePtr recipe(Executor& ex) override {
    return call_recipe(library_object("builtins", "getattr"),
                       {self_->recipe(ex), make_recipe(RecipeKind::kConstant, name_.get())});
  }

 private:
  std::shared_ptr<MirroredValue> self_;
  PyRef name_;
};

// The object itself for a method of its own, which may change while it reads: `b.extend(b)`.
PyRef known_object(Executor& ex, const ValuePtr& value) {
  PyRef object = value->materialize(ex);
  if (!object) break_graph("CD0215", value->describe());
  return object;
}

ValuePtr construct(Executor& ex, PyTypeObject* type, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) { return known_object(ex, value); };
  PyObject* cls = reinterpret_cast<PyObject*>(type);
  return std::make_shared<MirroredValue>(checked_user(ex, call_with_objects(cls, args, known).release()));
}

PyTypeObject* class_of(const char* name) {
  return reinterpret_cast<PyTypeObject*>(library_object("io", name));
}

// Where a bytearray has come to, which may have grown or shrunk since.
class ByteArrayIterator final : public SymbolicValue {
 public:
  ByteArrayIterator(ValuePtr of, PyRef iterator) : of_(std::move(of)), iterator_(std::move(iterator)) {}
  PyTypeObject* type() const override { return Py_TYPE(iterator_.get()); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    return builtin_attribute(ex, shared_from_this(), name);
  }
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr iterate(Executor&) override { return shared_from_this(); }
  ValuePtr next(Executor& ex) override {
    ex.changing(shared_from_this(), false);
    PyRef item = PyRef::steal(PyIter_Next(iterator_.get()));
    return item ? ex.constant(std::move(item)) : nullptr;
  }
  RecipePtr recipe(Executor& ex) override {
    if (recipe_) return recipe_;
    // (iter, (bytearray,), index), and (iter, ((),)) at its end
    const PyRef reduced = checked(PyObject_CallMethod(iterator_.get(), "__reduce__", nullptr));
    if (PyTuple_GET_SIZE(reduced.get()) < 3) break_graph("CD0211", describe());
    recipe_ = call_recipe(library_object("builtins", "iter"), {of_->recipe(ex)});
    const PyRef set_state = checked(PyObject_GetAttrString(as_object(type()), "__setstate__"));
    Effect effect{.kind = EffectKind::kCall};
    effect.target = make_recipe(RecipeKind::kConstant, set_state.get());
    effect.value =
        make_recipe(RecipeKind::kTuple, nullptr,
                    {recipe_, make_recipe(RecipeKind::kConstant, PyTuple_GET_ITEM(reduced.get(), 2))});
    ex.effect(std::move(effect));
    return recipe_;
  }

 private:
  ValuePtr of_;
  PyRef iterator_;
  RecipePtr recipe_;
};

bool is_hash_type(const PyTypeObject* type) {
  static constexpr std::string_view kTypes[] = {"_hashlib.HASH", "_blake2.blake2b", "_blake2.blake2s"};
  return std::ranges::find(kTypes, type->tp_name) != std::end(kTypes);
}

bool is_array_type(const PyTypeObject* type) { return std::string_view(type->tp_name) == "array.array"; }

bool is_in_place(int nb_op) { return plain_number_operation(nb_op) != nb_op; }

}  // namespace

ValuePtr make_array(Executor& ex, const CallArgs& args) {
  return construct(ex, reinterpret_cast<PyTypeObject*>(library_object("array", "array")), args);
}
ValuePtr make_bytearray(Executor& ex, const CallArgs& args) { return construct(ex, &PyByteArray_Type, args); }
ValuePtr make_string_stream(Executor& ex, const CallArgs& args) {
  return construct(ex, class_of("StringIO"), args);
}
ValuePtr make_bytes_stream(Executor& ex, const CallArgs& args) {
  return construct(ex, class_of("BytesIO"), args);
}

ValuePtr make_hash(Executor& ex, PyObject* callable, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) { return known_object(ex, value); };
  PyRef made = checked_user(ex, call_with_objects(callable, args, known).release());
  if (!is_hash_type(Py_TYPE(made.get()))) break_graph("CD0212", Py_TYPE(made.get())->tp_name);
  return std::make_shared<MirroredValue>(std::move(made));
}

bool MirroredValue::is_array() const { return is_array_type(type()); }
bool MirroredValue::is_hash() const { return is_hash_type(type()); }

ValuePtr MirroredValue::result(Executor& ex, PyRef object) {
  if (object.get() == mirror_.get()) return shared_from_this();
  if (PyByteArray_CheckExact(object.get()) || is_array_type(Py_TYPE(object.get())) ||
      is_hash_type(Py_TYPE(object.get())))
    return std::make_shared<MirroredValue>(std::move(object));
  const bool is_list = PyList_CheckExact(object.get());
  if (!is_list && !PyTuple_CheckExact(object.get()) && !is_plain_constant(object.get()))
    break_graph("CD0212", absl::StrCat(type()->tp_name, ", for a ", Py_TYPE(object.get())->tp_name));
  for (Py_ssize_t i = 0; is_list && i < PyList_GET_SIZE(object.get()); ++i)
    if (PyByteArray_Check(PyList_GET_ITEM(object.get(), i)))
      break_graph("CD0212", "bytearray, for a list of these");
  return wrap_fresh(ex, std::move(object));
}

ValuePtr MirroredValue::call_method(Executor& ex, PyObject* name, const CallArgs& args) {
  PyRef method = checked_user(ex, PyObject_GetAttr(mirror_.get(), name));
  const auto known = [&](const ValuePtr& value) { return known_object(ex, value); };
  ex.changing(shared_from_this(), false);
  return result(ex, checked_user(ex, call_with_objects(method.get(), args, known).release()));
}

ValuePtr MirroredValue::get_attribute(Executor& ex, PyObject* name) {
  const PyRef found = PyRef::steal(PyObject_GetAttr(mirror_.get(), name));
  if (!found) raise_current_error(ex);
  PyObject* in_class = _PyType_Lookup(type(), name);
  const bool is_method =
      in_class && (Py_IS_TYPE(in_class, &PyMethodDescr_Type) || Py_IS_TYPE(in_class, &PyWrapperDescr_Type));
  if (is_method)
    return std::make_shared<MirroredMethod>(std::static_pointer_cast<MirroredValue>(shared_from_this()),
                                            PyRef::borrow(name));
  if (is_plain_constant(found.get()) && type() != &PyByteArray_Type) return ex.constant(found);
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr MirroredValue::get_item(Executor& ex, const ValuePtr& key) {
  return result(ex, checked_user(ex, PyObject_GetItem(mirror_.get(), known_object(ex, key).get())));
}

void MirroredValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  const PyRef index = known_object(ex, key), item = value ? known_object(ex, value) : PyRef();
  ex.changing(shared_from_this(), false);
  const int status = item ? PyObject_SetItem(mirror_.get(), index.get(), item.get())
                          : PyObject_DelItem(mirror_.get(), index.get());
  if (status < 0) raise_current_error(ex);
}

bool MirroredValue::contains(Executor& ex, const ValuePtr& item) {
  if (is_stream()) return SymbolicValue::contains(ex, item);
  const int found = PySequence_Contains(mirror_.get(), known_object(ex, item).get());
  if (found < 0) raise_current_error(ex);
  return found;
}

ValuePtr MirroredValue::length(Executor& ex) {
  const Py_ssize_t length = PyObject_Size(mirror_.get());
  if (length < 0) raise_current_error(ex);
  return ex.constant_int(length);
}

// A stream is its own iterator.
ValuePtr MirroredValue::iterate(Executor& ex) {
  if (!is_stream())
    return std::make_shared<ByteArrayIterator>(shared_from_this(), checked(PyObject_GetIter(mirror_.get())));
  if (is_hash()) return SymbolicValue::iterate(ex);
  return call_method(ex, interned("__iter__"), {});
}

ValuePtr MirroredValue::next(Executor& ex) {
  if (!is_stream()) return SymbolicValue::next(ex);
  ex.changing(shared_from_this(), false);
  PyRef line = PyRef::steal(PyIter_Next(mirror_.get()));
  if (!line && PyErr_Occurred()) raise_current_error(ex);
  return line ? ex.constant(std::move(line)) : nullptr;
}

std::optional<bool> MirroredValue::truth(Executor&) {
  return is_stream() || PyObject_Size(mirror_.get()) > 0;
}

std::optional<std::vector<ValuePtr>> MirroredValue::unpack(Executor& ex) {
  if (is_stream()) return std::nullopt;
  std::vector<ValuePtr> items;
  const PyRef list = checked(PySequence_List(mirror_.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    items.push_back(ex.constant(PyRef::borrow(PyList_GET_ITEM(list.get(), i))));
  return items;
}

ValuePtr MirroredValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (is_stream()) return nullptr;
  const PyRef operand = known_object(ex, other);
  if (is_in_place(nb_op)) ex.changing(shared_from_this(), false);
  PyObject *left = reflected ? operand.get() : mirror_.get(),
           *right = reflected ? mirror_.get() : operand.get();
  return result(ex, checked_user(ex, apply_number_operation(nb_op, left, right)));
}

ValuePtr MirroredValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (is_stream()) return nullptr;
  const PyRef operand = other->materialize(ex);
  if (!operand) return nullptr;
  return implemented(
      result(ex, checked_user(ex, PyObject_CallMethodOneArg(
                                      mirror_.get(), interned(kComparisons[py_op].method), operand.get()))));
}

PyRef MirroredValue::hash_key(Executor& ex) {
  if (!is_stream())
    raise_error(ex, PyExc_TypeError, absl::StrCat("unhashable type: '", type()->tp_name, "'"));
  return mirror_;
}

// A copy: whoever gets it may keep it, and this one changes.
PyRef MirroredValue::materialize(Executor&) {
  if (is_array()) return checked(PySequence_GetSlice(mirror_.get(), 0, PY_SSIZE_T_MAX));
  return is_stream() ? PyRef() : checked(PyByteArray_FromObject(mirror_.get()));
}

RecipePtr MirroredValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  PyObject* cls = reinterpret_cast<PyObject*>(type());
  if (is_array()) {
    const PyRef code = checked(PyObject_GetAttrString(mirror_.get(), "typecode"));
    RecipePtr items = make_recipe(RecipeKind::kList, nullptr, recipes_of(ex, *unpack(ex)));
    return recipe_ = call_recipe(cls, {make_recipe(RecipeKind::kConstant, code.get()), std::move(items)});
  }
  if (!is_stream()) {
    const PyRef contents = checked(PyBytes_FromObject(mirror_.get()));
    return recipe_ = call_recipe(cls, {make_recipe(RecipeKind::kConstant, contents.get())});
  }
  if (is_hash()) break_graph("CD0211", describe());
  // (contents, newline, position, attributes); a closed stream has none.
  PyRef state = PyRef::steal(PyObject_CallMethod(mirror_.get(), "__getstate__", nullptr));
  if (!state) {
    PyErr_Clear();
    break_graph("CD0211", std::string("a closed ") + type()->tp_name);
  }
  recipe_ = call_recipe(cls, {});
  const PyRef set_state = checked(PyObject_GetAttrString(cls, "__setstate__"));
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, set_state.get());
  effect.value =
      make_recipe(RecipeKind::kTuple, nullptr, {recipe_, make_recipe(RecipeKind::kConstant, state.get())});
  ex.effect(std::move(effect));
  return recipe_;
}

}  // namespace cdynamo::symbolic
