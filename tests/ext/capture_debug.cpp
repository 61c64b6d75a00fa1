#include "tests/ext/capture_debug.h"

#include <chrono>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/passes.h"
#include "symbolic/entry/capture.h"

namespace cdynamo::symbolic {

namespace {

constexpr const char* kGuardNames[] = {
    "type",           "identity",     "equals",           "set layout",     "length",
    "dict keys",      "key absent",   "attribute absent", "type unchanged", "not subclass",
    "tensor",         "dynamic int",  "dynamic float",    "function code",  "same object",
    "not the object", "dies quietly", "distinct tensors",
};
static_assert(std::size(kGuardNames) == static_cast<size_t>(GuardKind::kDistinctTensors) + 1);
constexpr const char* kEffectNames[] = {"set attribute", "delete attribute", "set item",     "delete item",
                                        "replace list",  "extend list",      "replace dict", "replace set",
                                        "set global",    "delete global",    "set cell",     "call"};
constexpr const char* kEndNames[] = {"return", "break", "skip"};

std::string repr(PyObject* object) {
  if (!object) return "";
  PyRef text = PyRef::steal(PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "?";
}

std::string guard_text(const Guard& guard) {
  std::string text = guard.source->name() + ": " + kGuardNames[static_cast<size_t>(guard.kind)];
  if (guard.kind == GuardKind::kTensor) {
    text += " [";
    for (size_t i = 0; i < guard.tensor.sizes.size(); ++i)
      text += (i ? ", " : "") + guard.tensor.sizes[i].str();
    text += "]";
  }
  if (guard.object) text += " " + repr(guard.object.get());
  if (guard.index >= 0) text += " " + std::to_string(guard.index);
  if (guard.other) text += " " + guard.other->name();
  return text;
}

// Recipes as expressions; one that is met again is named by its number: "#1=[x, #1]".
class RecipePrinter {
 public:
  std::string text(const RecipePtr& recipe) {
    if (!recipe) return "-";
    bool is_object = recipe->kind == RecipeKind::kList || recipe->kind == RecipeKind::kDict ||
                     recipe->kind == RecipeKind::kSet || recipe->kind == RecipeKind::kCell ||
                     recipe->kind == RecipeKind::kNewObject || recipe->kind == RecipeKind::kFunction;
    if (!is_object) return body(*recipe);
    auto [it, added] = numbers_.try_emplace(recipe.get(), numbers_.size() + 1);
    std::string number = "#" + std::to_string(it->second);
    return added ? number + "=" + body(*recipe) : number;
  }

 private:
  std::string items(const Recipe& recipe, size_t first = 0) {
    std::string all;
    for (size_t i = first; i < recipe.items.size(); ++i)
      all += (i > first ? ", " : "") + text(recipe.items[i]);
    return all;
  }
  std::string pairs(const Recipe& recipe) {
    std::string all;
    for (size_t i = 0; i + 1 < recipe.items.size(); i += 2)
      all += (i ? ", " : "") + text(recipe.items[i]) + ": " + text(recipe.items[i + 1]);
    return all;
  }
  std::string body(const Recipe& recipe) {
    switch (recipe.kind) {
      case RecipeKind::kSource: return recipe.source->name();
      case RecipeKind::kConstant: return repr(recipe.object.get());
      case RecipeKind::kTensor: return "output " + std::to_string(recipe.index);
      case RecipeKind::kNumpyScalar: return "numpy scalar of output " + std::to_string(recipe.index);
      case RecipeKind::kInput: return "input " + std::to_string(recipe.index);
      case RecipeKind::kPythonScalar: return "number of output " + std::to_string(recipe.index);
      case RecipeKind::kInt: return recipe.size.str();
      case RecipeKind::kTuple: return "(" + items(recipe) + (recipe.items.size() == 1 ? ",)" : ")");
      case RecipeKind::kList: return "[" + items(recipe) + "]";
      case RecipeKind::kSet: return "{" + items(recipe) + "}";
      case RecipeKind::kFrozenSet: return "frozenset(" + items(recipe) + ")";
      case RecipeKind::kDict: return "{" + pairs(recipe) + "}";
      case RecipeKind::kSlice: return "slice(" + items(recipe) + ")";
      case RecipeKind::kCall: return "call(" + items(recipe) + ")";
      case RecipeKind::kFunction: return "function(" + items(recipe, 2) + ")";
      case RecipeKind::kCell: return "cell(" + items(recipe) + ")";
      case RecipeKind::kBoundMethod: return "method(" + items(recipe) + ")";
      case RecipeKind::kNewObject: return "new " + repr(recipe.object.get());
      case RecipeKind::kNull: return "NULL";
    }
    return "?";
  }
  std::unordered_map<const Recipe*, size_t> numbers_;
};

std::string effect_text(RecipePrinter& printer, const Effect& effect) {
  std::string text =
      std::string(kEffectNames[static_cast<size_t>(effect.kind)]) + " " + printer.text(effect.target);
  if (effect.key) text += " " + printer.text(effect.key);
  if (effect.value) text += " " + printer.text(effect.value);
  return text;
}

PyRef string(const std::string& text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

PyRef list(const std::vector<std::string>& texts) {
  PyRef result = checked(PyList_New(0));
  for (const std::string& text : texts)
    if (PyList_Append(result.get(), string(text).get()) < 0) throw PythonError{};
  return result;
}

void put(const PyRef& dict, const char* key, const PyRef& value) {
  if (PyDict_SetItemString(dict.get(), key, value.get()) < 0) throw PythonError{};
}

PyRef break_dict(const BreakRecord& record) {
  PyRef dict = checked(PyDict_New());
  put(dict, "id", string(record.id));
  put(dict, "what", string(record.what));
  put(dict, "why", string(record.why));
  put(dict, "instead", string(record.instead));
  std::vector<std::string> stack;
  for (const UserFrame& frame : record.stack)
    stack.push_back(frame.file + ":" + std::to_string(frame.line) + " in " + frame.function + ": " +
                    frame.text);
  put(dict, "stack", list(stack));
  return dict;
}

PyRef describe(const CaptureResult& result, PyCodeObject* code) {
  PyRef dict = checked(PyDict_New());
  put(dict, "end", string(kEndNames[static_cast<size_t>(result.end)]));
  put(dict, "skip_reason", string(result.skip_reason));
  put(dict, "graph", string(result.graph ? graph::print_readable(*result.graph) : ""));
  put(dict, "num_nodes", checked(PyLong_FromSize_t(result.graph ? result.graph->nodes.size() : 0)));
  std::vector<std::string> inputs, guards, effects, results, locals;
  for (const GraphInput& input : result.inputs) inputs.push_back(input.source->name());
  for (const Guard& guard : result.guards) guards.push_back(guard_text(guard));
  RecipePrinter printer;
  for (const RecipePtr& recipe : result.results) results.push_back(printer.text(recipe));
  for (const Effect& effect : result.effects) effects.push_back(effect_text(printer, effect));
  const BrokenFrame* root = result.frames.empty() ? nullptr : &result.frames[0];
  for (int slot : root ? root->local_slots : std::vector<int>())
    locals.push_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, slot)));
  put(dict, "inputs", list(inputs));
  put(dict, "guards", list(guards));
  put(dict, "results", list(results));
  put(dict, "effects", list(effects));
  put(dict, "locals", list(locals));
  std::vector<std::string> exits;
  for (const WayOut& way : result.ways_out) {
    std::string text = std::to_string(way.from) + " to " + std::to_string(way.to) + ":";
    for (int slot : way.locals)
      text += std::string(" ") + PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, slot));
    exits.push_back(text);
  }
  put(dict, "ways_out", list(exits));
  put(dict, "stack_depth", checked(PyLong_FromLong(root ? root->stack_depth : 0)));
  PyRef breaks = checked(PyList_New(0));
  for (const BreakRecord& record : result.breaks)
    if (PyList_Append(breaks.get(), break_dict(record).get()) < 0) throw PythonError{};
  put(dict, "breaks", breaks);
  if (root) {
    Program program = decode(code);
    const Instruction& at = program.code[static_cast<size_t>(root->at)];
    put(dict, "break_at",
        string(std::string(op_name(at.op)) + " line " + std::to_string(at.line - code->co_firstlineno)));
  } else {
    put(dict, "break_at", PyRef::borrow(Py_None));
  }
  return dict;
}

}  // namespace

PyObject* debug_capture(PyObject* function, PyObject* arguments) {
  try {
    std::vector<PyObject*> values;
    if (PyMethod_Check(function)) {
      values.push_back(PyMethod_GET_SELF(function));
      function = PyMethod_GET_FUNCTION(function);
    }
    if (!PyFunction_Check(function) || !PyTuple_Check(arguments)) {
      PyErr_SetString(PyExc_TypeError, "a Python function and a tuple of arguments are needed");
      return nullptr;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
      values.push_back(PyTuple_GET_ITEM(arguments, i));
    auto* object = reinterpret_cast<PyFunctionObject*>(function);
    CaptureRequest request;
    request.code = reinterpret_cast<PyCodeObject*>(object->func_code);
    request.roots.arguments = values.data();
    request.roots.num_arguments = static_cast<Py_ssize_t>(values.size());
    request.roots.function = function;
    request.roots.globals = object->func_globals;
    request.roots.builtins = object->func_builtins;
    request.roots.closure = object->func_closure;
    request.num_positional = static_cast<Py_ssize_t>(values.size());
    auto start = std::chrono::steady_clock::now();
    CaptureResult result = capture(request);
    auto elapsed = std::chrono::steady_clock::now() - start;
    PyRef dict = describe(result, request.code);
    put(dict, "captured_in_ns", checked(PyLong_FromLongLong(std::chrono::nanoseconds(elapsed).count())));
    return dict.release();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace cdynamo::symbolic
