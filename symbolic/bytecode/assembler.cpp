// assemble(): values -> indices, canonical -> raw (encoder.cpp), sizes and jumps -> bytes, tables, stack size
// -> code object.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "symbolic/bytecode/code_tables.h"
#include "symbolic/bytecode/encoder.h"

namespace cdynamo::symbolic {
namespace {

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto* new_code = PyUnstable_Code_NewWithPosOnlyArgs;
#else
constexpr auto* new_code = PyCode_NewWithPosOnlyArgs;
#endif

// co_consts or co_names, grown at the end. Objects are compared by identity.
class Table {
 public:
  explicit Table(PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
      append(PyRef::borrow(PyTuple_GET_ITEM(tuple, i)));
  }
  int index_of(const PyRef& object) {
    const auto found = index_.find(object.get());
    return found != index_.end() ? found->second : append(object);
  }
  PyRef tuple() const {
    PyRef result = checked(PyTuple_New(static_cast<Py_ssize_t>(objects_.size())));
    for (size_t i = 0; i < objects_.size(); ++i)
      PyTuple_SET_ITEM(result.get(), i, PyRef(objects_[i]).release());
    return result;
  }

 private:
  int append(PyRef object) {
    const int index = static_cast<int>(objects_.size());
    index_.emplace(object.get(), index);
    objects_.push_back(std::move(object));
    return index;
  }
  std::vector<PyRef> objects_;
  absl::flat_hash_map<PyObject*, int> index_;
};

PyRef interned(const PyRef& name) {
  PyObject* result = PyRef(name).release();
  PyUnicode_InternInPlace(&result);
  return PyRef::steal(result);
}

std::vector<Instruction> resolve_values(const std::vector<Instruction>& code, Table& consts, Table& names) {
  std::vector<Instruction> result = code;
  for (Instruction& instruction : result) {
    if (!instruction.value) continue;
    if (instruction.op == Op::CALL_KW) {
      instruction.arg2 = consts.index_of(instruction.value);
    } else if (op_arg_kind(instruction.op) == ArgKind::kName) {
      instruction.arg = names.index_of(interned(instruction.value));
    } else {
      instruction.arg = consts.index_of(instruction.value);
    }
  }
  return result;
}

int num_extended(int arg) { return (arg > 0xff) + (arg > 0xffff) + (arg > 0xffffff); }

// Gives each unit its place in code units. An argument that grows may move what it jumps over, so this goes
// on until nothing grows any more.
std::vector<int> place_units(std::vector<RawUnit>& units, const std::vector<int>& unit_of) {
  std::vector<int> size(units.size()), start(units.size() + 1);
  for (size_t i = 0; i < units.size(); ++i) size[i] = num_extended(units[i].arg) + 1 + units[i].row->caches;
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < units.size(); ++i) start[i + 1] = start[i] + size[i];
    for (size_t i = 0; i < units.size(); ++i) {
      RawUnit& unit = units[i];
      if (unit.target < 0) continue;
      unit.arg = std::abs(start[unit_of[unit.target]] - start[i + 1]);
      const int needed = num_extended(unit.arg) + 1 + unit.row->caches;
      if (needed <= size[i]) continue;
      size[i] = needed;
      grew = true;
    }
  }
  return start;
}

PyRef write_code(const std::vector<RawUnit>& units, const std::vector<int>& start) {
  PyRef bytes = checked(PyBytes_FromStringAndSize(nullptr, 2 * static_cast<Py_ssize_t>(start.back())));
  char* out = PyBytes_AS_STRING(bytes.get());
  const uint8_t extended_arg = find_shape(Shape::kExtendedArg, Op::NOP)->number;
  auto write = [&](uint8_t opcode, int arg) {
    *out++ = static_cast<char>(opcode);
    *out++ = static_cast<char>(arg & 0xff);
  };
  for (size_t i = 0; i < units.size(); ++i) {
    const RawUnit& unit = units[i];
    // By the room it was given, which may be more than it needs in the end.
    for (int extra = start[i + 1] - start[i] - 1 - unit.row->caches; extra > 0; --extra) {
      write(extended_arg, unit.arg >> (8 * extra));
    }
    write(unit.row->number, unit.arg);
    for (int cache = 0; cache < unit.row->caches; ++cache) write(0, 0);
  }
  return bytes;
}

PyRef bytes_from(const std::string& text) {
  return checked(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

PyRef write_lines(const Encoding& encoding, const std::vector<int>& start,
                  const std::vector<Instruction>& code, int first_line) {
  LineTableWriter writer(first_line);
  for (size_t i = 0; i < encoding.units.size(); ++i) {
    const Instruction& source = code[encoding.units[i].source];
    writer.add({source.line, source.end_line, source.column, source.end_column}, start[i + 1] - start[i]);
  }
  return bytes_from(writer.take());
}

PyRef write_exceptions(const Encoding& encoding, const std::vector<int>& start, const Program& program) {
  std::string table;
  const auto& units = encoding.units;
  auto handler_of = [&](size_t unit) { return program.code[units[unit].source].handler; };
  for (size_t i = 0; i < units.size();) {
    size_t end = i + 1;
    while (end < units.size() && handler_of(end) == handler_of(i)) ++end;
    if (handler_of(i) >= 0) {
      const Handler& handler = program.handlers[handler_of(i)];
      append_exception_entry(table, {start[i], start[end], start[encoding.unit_of[handler.target]],
                                     handler.depth, handler.push_lasti});
    }
    i = end;
  }
  return bytes_from(table);
}

// At least the original's: debuggers may jump to code that control never comes to by itself.
int stack_size(const Program& program, int original) {
  int size = original;
  const std::vector<int> depths = stack_depths(program);
  for (size_t i = 0; i < depths.size(); ++i) {
    if (depths[i] < 0) continue;
    const Instruction& instruction = program.code[i];
    const int names_on_stack = instruction.op == Op::CALL_KW;
    size = std::max(
        {size, depths[i] + names_on_stack, depths[i] + op_stack_effect(instruction.op, instruction.arg)});
  }
  return size;
}

PyRef string(const std::string& text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
}

PyRef string_tuple(const std::vector<std::string>& names) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; i < names.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, string(names[i]).release());
  return tuple;
}

// `qualname` with its last part replaced.
PyRef renamed(PyObject* qualname, const std::string& name) {
  const char* text = PyUnicode_AsUTF8(qualname);
  if (!text) throw PythonError{};
  std::string result = text;
  const size_t dot = result.rfind('.');
  result.replace(dot == std::string::npos ? 0 : dot + 1, std::string::npos, name);
  return string(result);
}

struct Layout {
  PyRef varnames, cellvars, freevars;
  int argcount, posonly, kwonly;
};

Layout layout_of(PyCodeObject* original, const CodeOptions& options) {
  if (!options.replace_layout) {
    return {checked(PyCode_GetVarnames(original)), checked(PyCode_GetCellvars(original)),
            checked(PyCode_GetFreevars(original)), original->co_argcount,
            original->co_posonlyargcount,          original->co_kwonlyargcount};
  }
  return {string_tuple(options.varnames), string_tuple(options.cellvars), string_tuple(options.freevars),
          std::max(options.argcount, 0),  std::max(options.posonly, 0),   std::max(options.kwonly, 0)};
}

}  // namespace

PyRef assemble(PyCodeObject* original, const Program& program, const CodeOptions& options) {
  Table consts(original->co_consts), names(original->co_names);
  const std::vector<Instruction> code = resolve_values(program.code, consts, names);
  Encoding encoding = encode(original, code, program.handlers);
  const std::vector<int> start = place_units(encoding.units, encoding.unit_of);

  const PyRef bytes = write_code(encoding.units, start);
  const PyRef lines = write_lines(encoding, start, code, original->co_firstlineno);
  const PyRef exceptions = write_exceptions(encoding, start, program);
  const PyRef const_tuple = consts.tuple(), name_tuple = names.tuple();
  const Layout layout = layout_of(original, options);
  const PyRef name = options.name.empty() ? PyRef::borrow(original->co_name) : string(options.name);
  const PyRef qualname = options.name.empty() ? PyRef::borrow(original->co_qualname)
                                              : renamed(original->co_qualname, options.name);

  PyRef result = checked(reinterpret_cast<PyObject*>(new_code(
      layout.argcount, layout.posonly, layout.kwonly,
      static_cast<int>(PyTuple_GET_SIZE(layout.varnames.get())), stack_size(program, original->co_stacksize),
      options.flags < 0 ? original->co_flags : options.flags, bytes.get(), const_tuple.get(),
      name_tuple.get(), layout.varnames.get(), layout.freevars.get(), layout.cellvars.get(),
      original->co_filename, name.get(), qualname.get(), original->co_firstlineno, lines.get(),
      exceptions.get())));
  if (!options.replace_layout) {
    // Which locals are hidden (those of inlined comprehensions) cannot be said to CPython's constructor.
    auto* made = reinterpret_cast<PyCodeObject*>(result.get());
    Py_INCREF(original->co_localspluskinds);
    Py_SETREF(made->co_localspluskinds, original->co_localspluskinds);
  }
  return result;
}

}  // namespace cdynamo::symbolic
