#include "frame_eval/reports/graph_description.h"

#include "absl/strings/str_cat.h"

#include <utility>

#include "graph/core.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/torch/library_call.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;

PyRef tagged(const char* tag, PyRef content) { return checked(Py_BuildValue("(sO)", tag, content.get())); }

PyRef constant(PyObject* new_reference) { return tagged("const", checked(new_reference)); }

PyRef encode_value(const graph::Value* value) {
  return value ? tagged("value", checked(PyLong_FromLong(value->id))) : constant(Py_NewRef(Py_None));
}

template <typename Items, typename Encode>
PyRef encode_list(const Items& items, Encode&& encode) {
  PyRef list = checked(PyList_New(0));
  for (const auto& item : items) append(list, encode(item));
  return tagged("list", list);
}

class Encoder {
 public:
  explicit Encoder(const graph::SymContext& context) : context_(context) {}

  PyRef size(const graph::Sym& size) const {
    if (size.is_constant()) return constant(PyLong_FromLongLong(size.constant()));
    return tagged("int", checked(Py_BuildValue("(sL)", size.str().c_str(),
                                               static_cast<long long>(context_.hint(size)))));
  }

  PyRef operator()(std::monostate) const { return constant(Py_NewRef(Py_None)); }
  PyRef operator()(const graph::Value* value) const { return encode_value(value); }
  PyRef operator()(const graph::Sym& value) const { return size(value); }
  PyRef operator()(double value) const { return constant(PyFloat_FromDouble(value)); }
  PyRef operator()(bool value) const { return constant(PyBool_FromLong(value)); }
  PyRef operator()(const std::string& value) const { return tagged("const", python_text(value)); }
  PyRef operator()(graph::DType dtype) const {
    return tagged("const", python_text(runtime::info(dtype).name));  // by name: NumPy has dtypes of its own
  }
  PyRef operator()(graph::Device device) const {
    const bool cpu = device.type == runtime::DeviceType::kCPU;
    return tagged("const", python_text(cpu ? "cpu" : absl::StrCat("cuda:", device.index)));
  }
  PyRef operator()(const std::vector<graph::Value*>& values) const {
    return encode_list(values, encode_value);
  }
  PyRef operator()(const std::vector<graph::Sym>& sizes) const {
    return encode_list(sizes, [this](const graph::Sym& item) { return size(item); });
  }
  PyRef operator()(const std::vector<double>& values) const {
    return encode_list(values, [](double item) { return constant(PyFloat_FromDouble(item)); });
  }
  PyRef operator()(const std::vector<bool>& values) const {
    return encode_list(values, [](bool item) { return constant(PyBool_FromLong(item)); });
  }
  PyRef operator()(const std::shared_ptr<const graph::Graph>&) const {
    return tagged("const", python_text("graph"));  // gone before anything runs
  }

 private:
  const graph::SymContext& context_;
};

PyRef result_of(const graph::Node& node) {
  return node.results.size() == 1 ? encode_value(node.results[0]) : encode_list(node.results, encode_value);
}

// An operator of PyTorch's: the call gives the list of its results.
PyRef encode_library_call(const graph::Node& node, const symbolic::LibraryCalls* library) {
  const graph::Args args(node.op->parsed.at(node.overload), node.args);
  constexpr int64_t kNumbers = int64_t{1} << graph::kMostLibraryResults;
  const int64_t number = args.constant("call"), incoming = number % kNumbers;
  if (!library) throw graph::InternalError("a description of library calls without the calls");
  PyRef call = PyRef::borrow(library->find(number));
  if (incoming) call = checked(PyObject_CallMethod(call.get(), "derivative", "L", incoming));
  PyRef list = checked(PyList_New(0)), keywords = checked(PyDict_New());
  graph::for_each_operand(const_cast<graph::Node&>(node),
                          [&](graph::Value*& value) { append(list, encode_value(value)); });
  PyRef operands = checked(PyList_AsTuple(list.get())), result = encode_list(node.results, encode_value);
  return checked(
      Py_BuildValue("(sOOOO)", "call_function", call.get(), operands.get(), keywords.get(), result.get()));
}

PyRef encode_call(const graph::Node& node, const Encoder& encode, const symbolic::LibraryCalls* library) {
  if (node.op->family == graph::Family::kLibrary) return encode_library_call(node, library);
  PyRef function = checked(PyObject_CallFunction(symbolic::python_side(symbolic::PythonSide::kCoreFunction),
                                                 "s", std::string(node.op->name).c_str()));
  const graph::Schema& schema = node.op->parsed.at(node.overload);
  PyRef list = checked(PyList_New(0)), keywords = checked(PyDict_New());
  for (size_t i = 0; i < node.args.size(); ++i) {
    const bool is_symbol_read = i == 1 && node.op->core.kind == graph::CoreKind::kReadInt;
    // The name of what it gives a value to.
    PyRef encoded = is_symbol_read ? tagged("const", python_text(std::get<graph::Sym>(node.args[i]).str()))
                                   : std::visit(encode, node.args[i]);
    if (i < schema.params.size() && schema.params[i].keyword_only) {
      if (PyDict_SetItemString(keywords.get(), schema.params[i].name.c_str(), encoded.get()) < 0)
        throw symbolic::PythonError{};
    } else {
      append(list, encoded);
    }
  }
  PyRef args = checked(PyList_AsTuple(list.get()));
  PyRef result = result_of(node);
  return checked(
      Py_BuildValue("(sOOOO)", "call_function", function.get(), args.get(), keywords.get(), result.get()));
}

// (name, input, dim) of each size symbol that an input shows.
PyRef encode_symbols(const graph::Graph& core) {
  PyRef list = checked(PyList_New(0));
  const auto& symbols = core.sym->symbols();
  for (const graph::SymbolInfo& symbol : symbols)
    for (size_t i = 0; i < core.inputs.size(); ++i) {
      const std::vector<graph::Sym>& sizes = core.inputs[i]->type.sizes;
      size_t dim = 0;
      while (dim < sizes.size() && sizes[dim].str() != symbol.name) ++dim;
      if (dim == sizes.size()) continue;
      append(list, checked(Py_BuildValue("(snn)", symbol.name.c_str(), static_cast<Py_ssize_t>(i),
                                         static_cast<Py_ssize_t>(dim))));
      break;
    }
  return list;
}

}  // namespace

PyRef python_text(std::string_view text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void append(const PyRef& list, const PyRef& item) {
  if (PyList_Append(list.get(), item.get()) < 0) throw symbolic::PythonError{};
}

PyRef location_of(const graph::Graph& graph, const graph::Node& node) {
  if (node.location < 0) return PyRef::borrow(Py_None);
  const graph::SourceLocation& where = graph.locations[node.location];
  return checked(
      Py_BuildValue("(siss)", where.file.c_str(), where.line, where.function.c_str(), where.text.c_str()));
}

PyRef describe(const graph::Graph& graph, const PyRef& symbols, const PyRef& calls, const PyRef& locations) {
  PyRef inputs = checked(PyList_New(0)), outputs = checked(PyList_New(0));
  for (const graph::Value* input : graph.inputs)
    append(inputs, checked(Py_BuildValue("(is)", input->id, input->name.c_str())));
  for (const graph::Value* output : graph.outputs) append(outputs, checked(PyLong_FromLong(output->id)));
  const bool torch = graph.framework == graph::Framework::kTorch;
  const std::pair<const char*, PyRef> entries[] = {
      {"framework", python_text(torch ? "torch" : "numpy")},
      {"inputs", inputs},
      {"outputs", outputs},
      {"symbols", symbols},
      {"calls", calls},
      {"locations", locations},
      {"readable", python_text(graph::print_readable(graph))},
      {"dot", python_text(graph::to_dot(graph))},
  };
  PyRef dict = checked(PyDict_New());
  for (const auto& [key, value] : entries)
    if (PyDict_SetItemString(dict.get(), key, value.get()) < 0) throw symbolic::PythonError{};
  return dict;
}

PyRef describe_core(const graph::Graph& core, const symbolic::LibraryCalls* library) {
  const Encoder encode(*core.sym);
  PyRef calls = checked(PyList_New(0)), locations = checked(PyList_New(0));
  for (const auto& node : core.nodes) {
    append(calls, encode_call(*node, encode, library));
    append(locations, location_of(core, *node));
  }
  return describe(core, encode_symbols(core), calls, locations);
}

}  // namespace cdynamo::frame_eval
