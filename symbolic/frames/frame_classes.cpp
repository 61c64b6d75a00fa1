// Opcodes of class bodies, whose names are those of the namespace that the class is made of.
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

DictValue& names_of(SymbolicFrame& frame, const Instruction& in) {
  if (!frame.names) break_graph("CD0010", PyUnicode_AsUTF8(name_of(frame, in)));
  return *frame.names;
}

// From 3.12 on a mapping that is on the stack: the namespace, which inner scopes reach through a cell.
DictValue& pop_names(SymbolicFrame& frame) {
  const ValuePtr mapping = frame.pop();
  DictValue* names = dict_in(mapping);
  if (!names) break_graph("CD0010", mapping->describe());
  return *names;
}

void push_name(Executor& ex, SymbolicFrame& frame, DictValue& names, const Instruction& in) {
  ValuePtr value = names.lookup_string(ex, name_of(frame, in));
  if (!value) value = find_global(ex, frame, in);
  if (!value) raise_unknown_name(ex, name_of(frame, in));
  frame.push(std::move(value));
}

void load_name(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  push_name(ex, frame, names_of(frame, in), in);
}

void load_from_dict_or_globals(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  push_name(ex, frame, pop_names(frame), in);
}

void store_name(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  DictValue& names = names_of(frame, in);
  names.store(ex, ex.constant(PyRef::borrow(name_of(frame, in))), frame.pop());
}

void delete_name(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject* name = name_of(frame, in);
  if (!names_of(frame, in).erase(ex, ex.constant(PyRef::borrow(name)))) raise_unknown_name(ex, name);
}

void load_locals(Executor&, SymbolicFrame& frame, const Instruction&) {
  if (!frame.names) break_graph("CD0010", "locals");
  frame.push(frame.names);
}

void setup_annotations(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  if (!frame.names) break_graph("CD0010", "__annotations__");
  PyObject* name = interned("__annotations__");
  if (!frame.names->lookup_string(ex, name))
    frame.names->store(ex, ex.constant(PyRef::borrow(name)), new_dict());
}

void load_build_class(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr builder = find_builtin(ex, frame, interned("__build_class__"));
  if (!builder) raise_error(ex, PyExc_NameError, "__build_class__ not found");
  frame.push(std::move(builder));
}

constexpr OpRow kClassRows[] = {
    {Op::LOAD_NAME, load_name},
    {Op::STORE_NAME, store_name},
    {Op::DELETE_NAME, delete_name},
    {Op::LOAD_LOCALS, load_locals},
    {Op::LOAD_FROM_DICT_OR_GLOBALS, load_from_dict_or_globals},
    {Op::SETUP_ANNOTATIONS, setup_annotations},
    {Op::LOAD_BUILD_CLASS, load_build_class},
};

}  // namespace

std::span<const OpRow> class_ops() { return kClassRows; }

}  // namespace cdynamo::symbolic
