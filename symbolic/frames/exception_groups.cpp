// Objects/exceptions.c: BaseExceptionGroup_new, exceptiongroup_split_recursive, _PyExc_PrepReraiseStar; Python/ceval.c:
// exception_group_match.
#include "symbolic/frames/exception_groups.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_set>

#include "absl/strings/substitute.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/list.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using Matcher = std::function<bool(const ValuePtr& exception)>;

bool is_sequence(const ValuePtr& value) {
  return value->type() == &PyList_Type || value->type() == &PyTuple_Type;
}

PyTypeObject* class_of(const char* name) {
  return reinterpret_cast<PyTypeObject*>(library_object("builtins", name));
}

bool is_exception(const ValuePtr& value) {
  return is_instance_of(value, reinterpret_cast<PyTypeObject*>(PyExc_Exception));
}

bool is_base_exception(const ValuePtr& value) {
  return is_instance_of(value, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
}

// One that captured code has made, and takes apart in C.
ExceptionValue& group_of(const ValuePtr& value) {
  auto* group = dynamic_cast<ExceptionValue*>(value.get());
  if (!group || !group->message) break_graph("CD0108", value->describe());
  for (const char* method : {"split", "subgroup"}) {
    PyObject* found = _PyType_Lookup(value->type(), interned(method));
    if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type))
      break_graph("CD0108", value->describe() + " with a " + method);
  }
  return *group;
}

std::vector<ValuePtr> parts_of(Executor& ex, const ValuePtr& group) {
  return items_of(ex, group_of(group).exceptions);
}

// With the metadata of the whole; None: of nothing. (exceptiongroup_subset: setting a cause, also none, suppresses the context.)
ValuePtr subset(Executor& ex, const ValuePtr& whole, std::vector<ValuePtr> parts) {
  if (parts.empty()) return ex.none();
  ExceptionValue& of = group_of(whole);
  ValuePtr made =
      whole->get_attribute(ex, interned("derive"))->call(ex, positional({make_list(ex, std::move(parts))}));
  auto* group = dynamic_cast<ExceptionValue*>(made.get());
  if (!group || !group->message)
    raise_error(ex, PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
  group->cause = of.cause;
  group->context = of.context;
  group->suppress_context = true;
  group->raised_at = of.raised_at;
  group->outside_at = of.outside_at;
  group->part_of = of.part_of ? of.part_of : whole;
  const ValuePtr notes = of.own_attribute(interned("__notes__"));
  if (notes && is_sequence(notes))
    group->set_own_attribute(ex, interned("__notes__"), make_list(ex, items_of(ex, notes)));
  return made;
}

std::pair<ValuePtr, ValuePtr> split(Executor& ex, const ValuePtr& exception, const Matcher& matches) {
  check_stack();
  if (matches(exception)) return {exception, ex.none()};
  if (!is_exception_group(exception->type())) return {ex.none(), exception};
  std::vector<ValuePtr> matching, rest;
  for (const ValuePtr& part : parts_of(ex, exception)) {
    const auto [in, out] = split(ex, part, matches);
    if (!is_none(in)) matching.push_back(in);
    if (!is_none(out)) rest.push_back(out);
  }
  return {subset(ex, exception, std::move(matching)), subset(ex, exception, std::move(rest))};
}

Matcher matcher_of(Executor& ex, const CallArgs& args, const char* method) {
  require_no_keywords(ex, method, args);
  require_count(ex, method, args, 1, 1);
  const ValuePtr condition = args.positional[0];
  PyObject* cls = condition->real_object();
  if ((cls && PyExceptionClass_Check(cls)) || condition->type() == &PyTuple_Type)
    return
        [&ex, condition](const ValuePtr& exception) { return exception_matches(ex, exception, condition); };
  return [&ex, condition](const ValuePtr& exception) {
    return is_true(ex, condition->call(ex, positional({exception})));
  };
}

ValuePtr split_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const auto [matching, rest] = split(ex, self, matcher_of(ex, args, "split"));
  return make_tuple(ex, {matching, rest});
}
ValuePtr subgroup_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return split(ex, self, matcher_of(ex, args, "subgroup")).first;
}
ValuePtr derive_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const ValuePtr parts = bind_arguments(ex, "derive", args, {"excs"})[0];
  return new_exception_group(ex, class_of("BaseExceptionGroup"), {group_of(self).message, parts});
}

constexpr BuiltinMethodRow kExceptionGroupMethods[] = {
    {"split", split_method}, {"subgroup", subgroup_method}, {"derive", derive_method}};

// _PyExc_CreateExceptionGroup
ValuePtr unnamed_group(Executor& ex, const ValuePtr& parts) {
  return new_exception_group(ex, class_of("BaseExceptionGroup"),
                             {ex.constant(checked(PyUnicode_FromString(""))), parts});
}

void collect_leaves(Executor& ex, const ValuePtr& exception,
                    std::unordered_set<const SymbolicValue*>& leaves) {
  if (!is_exception_group(exception->type())) {
    leaves.insert(exception.get());
    return;
  }
  for (const ValuePtr& part : parts_of(ex, exception)) collect_leaves(ex, part, leaves);
}

// Left by a clause, or raised again by it, and not another one.
bool has_metadata_of(const ValuePtr& exception, const ValuePtr& original) {
  auto* value = dynamic_cast<ExceptionValue*>(exception.get());
  const auto& whole = static_cast<ExceptionValue&>(*original);
  if (!value || !is_exception_group(value->type())) return false;
  const ValuePtr& mine = value->part_of ? value->part_of : exception;
  return mine == (whole.part_of ? whole.part_of : original) && value->cause == whole.cause &&
         value->context == whole.context;
}

}  // namespace

bool is_exception_group(PyTypeObject* type) { return PyType_IsSubtype(type, class_of("BaseExceptionGroup")); }

// BaseExceptionGroup_new
ValuePtr new_exception_group(Executor& ex, PyTypeObject* type, const std::vector<ValuePtr>& args) {
  const auto refuse = [&](PyObject* error, const std::string& text) { raise_error(ex, error, text.c_str()); };
  if (args.size() != 2)
    refuse(
        PyExc_TypeError,
        absl::Substitute("BaseExceptionGroup.__new__() takes exactly 2 arguments ($0 given)", args.size()));
  if (args[0]->type() != &PyUnicode_Type)
    refuse(PyExc_TypeError, "BaseExceptionGroup.__new__() argument 1 must be str, not " + type_name(args[0]));
  if (!is_sequence(args[1])) {
    if (!args[1]->type()->tp_as_sequence || !args[1]->type()->tp_as_sequence->sq_item)
      refuse(PyExc_TypeError, "second argument (exceptions) must be a sequence");
    break_graph("CD0108", type->tp_name);
  }
  const std::vector<ValuePtr> parts = items_of(ex, args[1]);
  if (parts.empty()) refuse(PyExc_ValueError, "second argument (exceptions) must be a non-empty sequence");
  for (size_t i = 0; i < parts.size(); ++i)
    if (!is_base_exception(parts[i]))
      refuse(PyExc_ValueError,
             absl::Substitute("Item $0 of second argument (exceptions) is not an exception", i));
  const bool holds_base = !std::ranges::all_of(parts, is_exception);
  if (type == class_of("BaseExceptionGroup") && !holds_base) type = class_of("ExceptionGroup");
  if (holds_base && PyType_IsSubtype(type, exception_type(PyExc_Exception)))
    refuse(PyExc_TypeError, type == class_of("ExceptionGroup")
                                ? "Cannot nest BaseExceptions in an ExceptionGroup"
                                : absl::Substitute("Cannot nest BaseExceptions in '$0'", type->tp_name));
  ValuePtr made = make_exception(ex, type, args);
  auto& group = static_cast<ExceptionValue&>(*made);
  group.message = args[0];
  group.exceptions = args[1]->type() == &PyTuple_Type ? args[1] : make_tuple(ex, parts);
  return made;
}

PyRef exception_group_text(Executor& ex, const ExceptionValue& group) {
  const PyRef message = string_argument(ex, group.message);
  const size_t count = items_of(ex, group.exceptions).size();
  return checked(
      PyUnicode_FromFormat("%S (%zu sub-exception%s)", message.get(), count, count > 1 ? "s" : ""));
}

ValuePtr exception_group_attribute(Executor& ex, const ValuePtr& group, const char* name) {
  const ExceptionValue& self = static_cast<ExceptionValue&>(*group);
  if (!self.message) return nullptr;
  if (!std::strcmp(name, "message")) return self.message;
  if (!std::strcmp(name, "exceptions")) return self.exceptions;
  PyObject* found = _PyType_Lookup(group->type(), interned(name));
  if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type)) return nullptr;
  return find_builtin_method(group, interned(name), kExceptionGroupMethods);
}

std::pair<ValuePtr, ValuePtr> match_exception_group(Executor& ex, const ValuePtr& exception,
                                                    const ValuePtr& classes) {
  check_exception_classes(ex, classes);
  if (is_none(exception)) return {ex.none(), ex.none()};
  const auto refuse_group = [&](const ValuePtr& cls) {
    PyObject* object = cls->real_object();
    if (object && PyType_Check(object) && is_exception_group(reinterpret_cast<PyTypeObject*>(object)))
      raise_error(ex, PyExc_TypeError,
                  "catching ExceptionGroup with except* is not allowed. Use except instead.");
  };
  if (classes->type() == &PyTuple_Type)
    for (const ValuePtr& cls : items_of(ex, classes)) refuse_group(cls);
  refuse_group(classes);
  const bool is_group = is_exception_group(exception->type());
  if (exception_matches(ex, exception, classes)) {
    if (is_group) return {exception, ex.none()};
    return {unnamed_group(ex, make_tuple(ex, {exception})), ex.none()};
  }
  if (!is_group) return {ex.none(), exception};
  return split(ex, exception, [&](const ValuePtr& part) { return exception_matches(ex, part, classes); });
}

ValuePtr left_of_exception_group(Executor& ex, const ValuePtr& original,
                                 const std::vector<ValuePtr>& raised) {
  if (raised.empty()) return ex.none();
  // What was no group has come to one clause at most.
  if (!is_exception_group(original->type())) return raised[0];
  std::vector<ValuePtr> others;
  std::unordered_set<const SymbolicValue*> leaves;
  for (const ValuePtr& exception : raised) {
    if (is_none(exception)) continue;
    if (has_metadata_of(exception, original))
      collect_leaves(ex, exception, leaves);
    else
      others.push_back(exception);
  }
  ValuePtr again = ex.none();
  if (!leaves.empty())
    again = split(ex, original, [&](const ValuePtr& part) { return leaves.contains(part.get()); }).first;
  if (others.empty()) return again;
  if (!is_none(again)) others.push_back(again);
  if (others.size() == 1) return others[0];
  return unnamed_group(ex, make_list(ex, std::move(others)));
}

}  // namespace cdynamo::symbolic
