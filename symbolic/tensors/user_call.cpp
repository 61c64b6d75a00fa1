#include "symbolic/tensors/user_call.h"

#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/torch_generator.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

PyRef pair(const char* tag, PyRef content) {
  PyRef tuple = checked(PyTuple_New(2));
  PyTuple_SET_ITEM(tuple.get(), 0, PyRef::borrow(interned(tag)).release());
  PyTuple_SET_ITEM(tuple.get(), 1, content.release());
  return tuple;
}

PyRef encode_items(Executor& ex, const std::vector<ValuePtr>& items) {
  PyRef list = checked(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), encode_value(ex, items[i]).release());
  return list;
}

PyRef unknown(const ValuePtr& value) {
  return pair("unknown", checked(PyUnicode_FromString(value->describe().c_str())));
}

// A slice's parts are its attributes.
PyRef encode_slice(Executor& ex, const ValuePtr& value) {
  PyRef parts = checked(PyTuple_New(3));
  const char* names[] = {"start", "stop", "step"};
  for (int i = 0; i < 3; ++i)
    PyTuple_SET_ITEM(parts.get(), i,
                     encode_value(ex, value->get_attribute(ex, interned(names[i]))).release());
  return pair("slice", std::move(parts));
}

// A dict's entries are pairs.
PyRef encode_result(Executor& ex, const ValuePtr& value) {
  DictValue* dict = value->type() == &PyDict_Type ? dict_in(value) : nullptr;
  if (!dict) return encode_value(ex, value);
  PyRef entries = checked(PyList_New(0));
  for (const DictValue::Entry& entry : dict->entries(ex)) {
    if (!entry.value) continue;
    const PyRef key = encode_value(ex, entry.key), item = encode_value(ex, entry.value);
    const PyRef both = checked(PyTuple_Pack(2, key.get(), item.get()));
    if (PyList_Append(entries.get(), both.get()) < 0) throw PythonError{};
  }
  return pair("dict", std::move(entries));
}

PyObject* unknown_part(PyObject* encoded) {
  PyObject *tag = PyTuple_GET_ITEM(encoded, 0), *content = PyTuple_GET_ITEM(encoded, 1);
  const auto has_tag = [tag](const char* name) { return PyUnicode_CompareWithASCIIString(tag, name) == 0; };
  if (has_tag("unknown")) return content;
  if (has_tag("dict"))
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); ++i)
      for (int part = 0; part < 2; ++part)
        if (PyObject* text = unknown_part(PyTuple_GET_ITEM(PyList_GET_ITEM(content, i), part))) return text;
  if (!has_tag("tuple") && !has_tag("list") && !has_tag("slice")) return nullptr;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(content); ++i)
    if (PyObject* part = unknown_part(PySequence_Fast_GET_ITEM(content, i))) return part;
  return nullptr;
}

}  // namespace

PyRef encode_value(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (const graph::Value* held = graph_value(value)) return pair("value", checked(PyLong_FromLong(held->id)));
  if (const graph::Value* generator = generator_input(ex, value))
    return pair("value", checked(PyLong_FromLong(generator->id)));
  if (auto* symbolic = dynamic_cast<SymIntValue*>(value.get())) {
    PyRef text = checked(PyUnicode_FromString(symbolic->sym().str().c_str()));
    PyRef content = checked(
        Py_BuildValue("(OL)", text.get(), static_cast<long long>(ex.graph().sym->hint(symbolic->sym()))));
    return pair("int", std::move(content));
  }
  if (auto object = value->as_constant()) return pair("const", *object);
  PyTypeObject* type = value->type();
  if (type == &PySlice_Type) return encode_slice(ex, value);
  if (type == &PyList_Type || PyType_IsSubtype(type, &PyTuple_Type)) {
    if (auto items = value->unpack(ex))
      return pair(type == &PyList_Type ? "list" : "tuple", encode_items(ex, *items));
  }
  return unknown(value);
}

PyRef make_user_call(Executor& ex, const char* kind, PyObject* target, const CallArgs& args) {
  PyRef positional = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i),
                     encode_value(ex, args.positional[i]).release());
  PyRef keywords = checked(PyDict_New());
  for (const Keyword& keyword : args.keywords)
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), encode_value(ex, keyword.value).get()) < 0)
      throw PythonError{};
  return checked(PyTuple_Pack(5, interned(kind), target, positional.get(), keywords.get(), Py_None));
}

PyObject* unknown_argument(PyObject* record) {
  PyObject *positional = PyTuple_GET_ITEM(record, 2), *keywords = PyTuple_GET_ITEM(record, 3);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i)
    if (PyObject* text = unknown_part(PyTuple_GET_ITEM(positional, i))) return text;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value);)
    if (PyObject* text = unknown_part(value)) return text;
  return nullptr;
}

PyObject* unknown_result(PyObject* record) {
  PyObject* result = PyTuple_GET_ITEM(record, 4);
  return result == Py_None ? nullptr : unknown_part(result);
}

PyRef with_result(Executor& ex, PyObject* record, const ValuePtr& result) {
  PyRef encoded = result ? encode_result(ex, result) : PyRef::borrow(Py_None);
  return checked(PyTuple_Pack(5, PyTuple_GET_ITEM(record, 0), PyTuple_GET_ITEM(record, 1),
                              PyTuple_GET_ITEM(record, 2), PyTuple_GET_ITEM(record, 3), encoded.get()));
}

}  // namespace cdynamo::symbolic
