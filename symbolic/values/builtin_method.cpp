#include "symbolic/values/builtin_method.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// How many arguments by position "name($self, index=-1, /)\n--" takes; none where it does not say.
std::optional<std::pair<size_t, size_t>> declared_count(const char* name, const char* documentation) {
  absl::string_view text = documentation ? documentation : "";
  const size_t end = text.find("/)\n--\n");
  if (!absl::ConsumePrefix(&text, absl::StrCat(name, "($self, ")) || end == text.npos) return std::nullopt;
  size_t least = 0, most = 0;
  for (absl::string_view parameter :
       absl::StrSplit(text.substr(0, text.find("/)")), ", ", absl::SkipEmpty())) {
    ++most;
    least += !absl::StrContains(parameter, '=');
  }
  return std::pair(least, most);
}

void check_method_arguments(Executor& ex, const PyMethodDescrObject& descriptor, const CallArgs& args) {
  const PyMethodDef& method = *descriptor.d_method;
  if (method.ml_flags & METH_KEYWORDS) return;
  const std::string called = absl::StrCat(_PyType_Name(descriptor.d_common.d_type), ".", method.ml_name);
  require_no_keywords(ex, called.c_str(), args);
  const size_t given = args.positional.size();
  const auto refuse = [&](const char* takes) {
    raise_error(ex, PyExc_TypeError, absl::Substitute("$0() takes $1 ($2 given)", called, takes, given));
  };
  if (method.ml_flags & METH_NOARGS) {
    if (given != 0) refuse("no arguments");
  } else if (method.ml_flags & METH_O) {
    if (given != 1) refuse("exactly one argument");
  } else if (const auto count = declared_count(method.ml_name, method.ml_doc)) {
    require_count(ex, method.ml_name, args, count->first, count->second);
  }
}

void check_slot_arguments(Executor& ex, const wrapperbase& slot, const CallArgs& args) {
  if (slot.flags & PyWrapperFlag_KEYWORDS) return;
  if (!args.keywords.empty())
    raise_error(ex, PyExc_TypeError, absl::Substitute("wrapper $0() takes no keyword arguments", slot.name));
  const auto count = declared_count(slot.name, slot.doc);
  const size_t given = args.positional.size();
  if (!count || count->first != count->second || count->first == given) return;
  // PyArg_UnpackTuple's words for two begin with the name of a function that is empty.
  raise_error(ex, PyExc_TypeError,
              absl::Substitute("$0expected $1 argument$2, got $3", count->first > 1 ? " " : "", count->first,
                               count->first == 1 ? "" : "s", given));
}

}  // namespace

void check_arguments(Executor& ex, PyObject* descriptor, const CallArgs& args) {
  if (Py_IS_TYPE(descriptor, &PyMethodDescr_Type))
    check_method_arguments(ex, *reinterpret_cast<PyMethodDescrObject*>(descriptor), args);
  if (Py_IS_TYPE(descriptor, &PyWrapperDescr_Type))
    check_slot_arguments(ex, *reinterpret_cast<PyWrapperDescrObject*>(descriptor)->d_base, args);
}

ValuePtr find_builtin_method(const ValuePtr& self, PyObject* name, std::span<const BuiltinMethodRow> rows) {
  const char* text = PyUnicode_AsUTF8(name);
  for (const BuiltinMethodRow& row : rows)
    if (std::string_view(row.name) == text) return std::make_shared<BuiltinMethodValue>(self, row);
  return nullptr;
}

ValuePtr BuiltinMethodValue::call(Executor& ex, const CallArgs& args) {
  if (PyObject* descriptor = _PyType_Lookup(self_->type(), interned(row_.name)))
    check_arguments(ex, descriptor, args);
  return row_.apply(ex, self_, args);
}

ValuePtr BuiltinMethodValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__self__") return self_;
  if (text == "__name__") return ex.constant(PyRef::borrow(interned(row_.name)));
  return SymbolicValue::get_attribute(ex, name);
}

// meth_richcompare: the same method of the same object.
ValuePtr BuiltinMethodValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* method = dynamic_cast<BuiltinMethodValue*>(other.get());
  if (!method || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  const bool equal = &row_ == &method->row_ && same_object(ex, self_, method->self_);
  return ex.constant_bool(equal == (py_op == Py_EQ));
}

RecipePtr BuiltinMethodValue::recipe(Executor& ex) {
  if (!recipe_ && source) recipe_ = source_recipe(source);
  if (!recipe_) {
    recipe_ = call_recipe(library_object("builtins", "getattr"),
                          {self_->recipe(ex), make_recipe(RecipeKind::kConstant, interned(row_.name))});
  }
  return recipe_;
}

}  // namespace cdynamo::symbolic
