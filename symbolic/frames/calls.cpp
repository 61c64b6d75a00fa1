// Calls of Python functions: which are inlined, how arguments become parameters, how the body is run.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/generators.h"
#include "symbolic/frames/output.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// Modules whose functions do what a graph cannot, or whose Python is not worth following.
constexpr const char* kSkippedModules[] = {
    "torch._dynamo",
    "torch._inductor",
    "torch.fx",
    "torch._functorch._aot_autograd",
    "torch.distributed",
    "torch.utils.data",
    "torch.profiler",
    "torch.jit",
    "logging",
    "unittest",
    "pdb",
    "bdb",
    "threading",
    "_pytest",
    "subprocess",
    "multiprocessing",
    "asyncio",
    "importlib",
    "linecache",
    "tokenize",
    "inspect",
    "traceback",
    "socket",
    "pickle",
    "tempfile",
    "shutil",
    "random",
    "warnings",
};

bool in_module(const char* module, const char* name) {
  size_t length = std::strlen(name);
  return std::strncmp(module, name, length) == 0 && (module[length] == '\0' || module[length] == '.');
}

// What is followed all the same in those modules: names that start so. Logger._log is an effect (frames/output.cpp).
struct FollowedName {
  const char* module;
  const char* prefix;
};
constexpr FollowedName kFollowedNames[] = {
    {"logging", "Logger.debug"},
    {"logging", "Logger.info"},
    {"logging", "Logger.warn"},
    {"logging", "Logger.error"},
    {"logging", "Logger.critical"},
    {"logging", "Logger.log"},
    {"torch.distributed.distributed_c10d", "is_initialized"},
    {"torch.distributed.distributed_c10d", "_WorldMeta.WORLD"},
    {"torch.distributed.distributed_c10d", "_World.default_pg"},
    {"inspect", "Signature."},
    {"inspect", "Parameter."},
    {"inspect", "BoundArguments."},
    {"inspect", "is"},  // isfunction, isclass ...
    {"inspect", "_has_code_flag"},
    {"inspect", "_has_coroutine_mark"},
    {"inspect", "_signature_is_functionlike"},
    {"logging", "Logger.isEnabledFor"},
    {"logging", "Logger.getEffectiveLevel"},
    {"logging", "Logger.hasHandlers"},
    {"inspect", "getclosurevars"},
    {"random", "Random.choice"},  // and choices
    {"warnings", "catch_warnings."},
    {"warnings", "simplefilter"},
    {"warnings", "filterwarnings"},
    {"warnings", "resetwarnings"},
    {"warnings", "_showwarnmsg"},
    {"warnings", "WarningMessage."},
    {"warnings", "deprecated."},
    {"torch.fx.graph_module", "GraphModule.recompile.<locals>.call_wrapped"},
    {"torch.fx.graph_module", "_WrappedCall.__call__"},
    {"torch.fx._pytree", "tree_flatten_spec"},
    {"torch.fx._pytree", "_"},
    {"torch._dynamo.external_utils", "wrap_dunder_call_ctx_manager."},
    // What torch.compile puts in place of Module.__init__ and Module.__setstate__ for the rest of the process.
    {"torch._dynamo.mutation_guard", "install_generation_tagging_init."},
};

bool is_followed(const char* module, std::string_view qualified_name) {
  for (const FollowedName& name : kFollowedNames)
    if (std::strcmp(module, name.module) == 0 && qualified_name.starts_with(name.prefix)) return true;
  return false;
}

bool has_mark(PyObject* function, const char* mark) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* value = dict ? PyDict_GetItemString(dict, mark) : nullptr;
  return value && value != Py_None && value != Py_False;
}

// Wrappers that torch puts around functions, by their code's name: what they are in a graph. The polyfill is given the
// function that is wrapped.
struct WrapperRow {
  const char *module, *name;
  const char* wraps_in;  // the module of what is wrapped
  const char* polyfill;
};
constexpr WrapperRow kWrappers[] = {
    {"torch.optim.optimizer", "_use_grad", "torch.optim", "optimizer_step"},
    {"torch._compile", "inner", "torch.optim", "wrapped"},
    // torch.compile disables `_init_group` of all optimizers when it is first called: nobody has asked for that here.
    {"torch._dynamo.eval_frame", "_fn", "torch.optim", "wrapped"},
};

bool has_code_name(PyObject* function, const char* name) {
  PyObject* code = PyFunction_GET_CODE(function);
  return PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(code)->co_name, name) == 0;
}

// Null: no such wrapper.
ValuePtr call_wrapper(Executor& ex, FunctionValue& function, PyObject* real, const char* module,
                      const CallArgs& args) {
  for (const WrapperRow& row : kWrappers) {
    if (std::strcmp(module, row.module) != 0 || !has_code_name(real, row.name)) continue;
    ValuePtr wrapped = function.get_attribute(ex, interned("__wrapped__"));
    PyObject* inner = wrapped->real_object();
    PyObject* name = inner && PyFunction_Check(inner)
                         ? PyDict_GetItemString(PyFunction_GET_GLOBALS(inner), "__name__")
                         : nullptr;
    if (!name || !PyUnicode_Check(name) || !in_module(PyUnicode_AsUTF8(name), row.wraps_in)) return nullptr;
    CallArgs all = args;
    all.positional.insert(all.positional.begin(), std::move(wrapped));
    return polyfill(ex, PythonSide::kTrainingPolyfills, row.polyfill)->call(ex, all);
  }
  return nullptr;
}

// reprlib.recursive_repr, which dataclasses have too: the wrapper goes by the object's address.
bool is_recursive_repr(const FunctionValue& function, std::string_view module) {
  static constexpr std::pair<std::string_view, const char*> kWrappers[] = {
      {"dataclasses", "_recursive_repr.<locals>.wrapper"},
      {"reprlib", "recursive_repr.<locals>.decorating_function.<locals>.wrapper"}};
  return std::ranges::any_of(kWrappers, [&](const auto& row) {
    return module == row.first &&
           PyUnicode_CompareWithASCIIString(function.code()->co_qualname, row.second) == 0;
  });
}

// The contents of a closure's cell by the variable's name; null: there is none.
ValuePtr closure_variable(Executor& ex, FunctionValue& function, const char* name) {
  const PyRef names = checked(PyCode_GetFreevars(function.code()));
  const std::vector<ValuePtr> cells = function.closure(ex);
  for (size_t i = 0; i < cells.size(); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) == 0)
      return cells[i]->get_attribute(ex, interned("cell_contents"));
  return nullptr;
}

// What is wrapped, but within its own call for the object. Null: no call of a wrapper.
ValuePtr call_recursive_repr(Executor& ex, FunctionValue& function, const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty()) return nullptr;
  const ValuePtr wrapped = closure_variable(ex, function, "user_function");
  auto* inner = dynamic_cast<FunctionValue*>(wrapped.get());
  if (!inner) return nullptr;
  for (const SymbolicFrame* frame = ex.frame(); frame; frame = frame->back) {
    if (frame->code->object() != inner->code() || !frame->locals[0]) continue;
    if (!same_object(ex, frame->locals[0], args.positional[0])) continue;
    const ValuePtr filling = closure_variable(ex, function, "fillvalue");
    return filling ? filling : ex.constant(PyRef::borrow(interned("...")));
  }
  return wrapped->call(ex, args);
}

// The function that functools.singledispatch calls for a class: without its cache, which only saves searches. Null: another
// function.
ValuePtr call_dispatch(Executor& ex, FunctionValue& function, const char* module, const CallArgs& args) {
  if (std::strcmp(module, "functools") != 0 || function.describe() != "singledispatch.<locals>.dispatch()")
    return nullptr;
  CallArgs all = args;
  const ValuePtr registry = closure_variable(ex, function, "registry");
  const ValuePtr cache = closure_variable(ex, function, "dispatch_cache");
  if (!registry || !cache || args.positional.size() != 1) return nullptr;
  if (as_object(cache->type()) != library_object("weakref", "WeakKeyDictionary")) return nullptr;
  all.positional.insert(all.positional.begin(), registry);
  return polyfill(ex, PythonSide::kStandardPolyfills, "dispatch")->call(ex, all);
}

// What torch.compile notes of each module that is made, for its own captures: modules that a graph makes do without.
bool notes_for_torch_compile(const FunctionValue& function, const char* module) {
  return std::strcmp(module, "torch._dynamo.mutation_guard") == 0 &&
         function.describe().ends_with("GenerationTracker.tag()");
}

// torch._dynamo.assume_constant_result: called while capturing, whatever it gives is a constant. Null: it is not marked.
ValuePtr call_assumed_constant(Executor& ex, PyObject* function, const CallArgs& args) {
  if (!has_mark(function, "_dynamo_marked_constant")) return nullptr;
  PyRef arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    PyRef argument = args.positional[i]->materialize(ex);
    if (!argument && args.positional[i]->real_object())
      argument = PyRef::borrow(args.positional[i]->real_object());
    if (!argument) break_graph("CD0215", "assume_constant_result of " + args.positional[i]->describe());
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), argument.release());
  }
  if (!args.keywords.empty()) break_graph("CD0215", "assume_constant_result with keywords");
  PyRef result = checked_user(ex, PyObject_Call(function, arguments.get(), nullptr));
  return ex.wrap(result.get(), constant_source(result.get()));
}

// What torch.compile has wrapped, called by what is captured: the function itself. Null: something else.
ValuePtr call_compiled_by_torch(FunctionValue& function, Executor& ex, const char* module,
                                const CallArgs& args) {
  if (std::strcmp(module, "torch._dynamo.eval_frame") != 0 || !function.real_object()) return nullptr;
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function.real_object())->func_dict;
  PyObject* original = dict ? PyDict_GetItemString(dict, "_torchdynamo_orig_callable") : nullptr;
  if (!original || !PyFunction_Check(original) || is_disabled(function.real_object())) return nullptr;
  return function.get_attribute(ex, interned("_torchdynamo_orig_callable"))->call(ex, args);
}

// A schedule is numbers that differ from step to step: where one of them is pinned, each step would be a graph of its own.
void refuse_schedule(Executor& ex, PyObject* function, const char* module) {
  if (ex.state().request.leaves_loops && in_module(module, "torch.optim.lr_scheduler") &&
      has_code_name(function, "step"))
    break_graph("CD0106", "torch.optim.lr_scheduler");
}

void refuse_marked(const FunctionValue& function, PyObject* real, const char* module) {
  if (is_disabled(real)) break_graph("CD0003", function.describe());
  if (is_followed(module, function.describe())) return;
  for (const char* skipped : kSkippedModules)
    if (in_module(module, skipped)) break_graph("CD0106", std::string(module) + "." + function.describe());
}

PyObject* parameter_name(PyCodeObject* code, int index) {
  return PyTuple_GET_ITEM(code->co_localsplusnames, index);
}

// A function of the same parameters and name, whose defaults are None.
PyRef function_like(Executor& ex, FunctionValue& function) {
  PyCodeObject* code = function.code();
  const Parameters parameters(code);
  const PyRef globals = checked(PyDict_New()), keyword_defaults = checked(PyDict_New());
  PyRef like = checked(PyFunction_New(reinterpret_cast<PyObject*>(code), globals.get()));
  int defaults = 0;
  for (int i = 0; i < parameters.positional; ++i) defaults += function.positional_default(ex, i) != nullptr;
  const PyRef values = checked(PyTuple_New(defaults));
  for (int i = 0; i < defaults; ++i) PyTuple_SET_ITEM(values.get(), i, PyRef::borrow(Py_None).release());
  for (int i = parameters.positional; i < parameters.positional + parameters.keyword_only; ++i)
    if (function.keyword_default(ex, parameter_name(code, i)) &&
        PyDict_SetItem(keyword_defaults.get(), parameter_name(code, i), Py_None) < 0)
      throw PythonError{};
  const PyRef name = string_argument(ex, function.get_attribute(ex, interned("__qualname__")));
  if (PyFunction_SetDefaults(like.get(), values.get()) < 0 ||
      PyFunction_SetKwDefaults(like.get(), keyword_defaults.get()) < 0 ||
      PyObject_SetAttrString(like.get(), "__qualname__", name.get()) < 0)
    throw PythonError{};
  return like;
}

// Raises what Python says of a call whose arguments do not fit: it refuses them before the body runs.
[[noreturn]] void refuse_arguments(Executor& ex, FunctionValue& function, const CallArgs& args) {
  // One of the package's own stands for a function of C, which says it in other words.
  const ValuePtr module = function.get_attribute(ex, interned("__module__"));
  if (module->type() == &PyUnicode_Type &&
      in_module(PyUnicode_AsUTF8(string_argument(ex, module).get()), "cdynamo"))
    break_graph("CD0100", function.describe());
  const auto nothing = [](const ValuePtr&) { return PyRef::borrow(Py_None); };
  const PyRef like = function_like(ex, function);
  if (call_with_objects(like.get(), args, nothing)) break_graph("CD0100", function.describe());
  raise_current_error(ex);
}

int find_parameter(PyCodeObject* code, PyObject* name, int first, int last) {
  for (int i = first; i < last; ++i) {
    PyObject* parameter = parameter_name(code, i);
    if (parameter == name || PyUnicode_Compare(parameter, name) == 0) return i;
  }
  return -1;
}

}  // namespace

bool is_disabled(PyObject* function) {
  return has_mark(function, "_cdynamo_disable") || has_mark(function, "_torchdynamo_disable");
}

Parameters::Parameters(PyCodeObject* code)
    : positional(code->co_argcount),
      keyword_only(code->co_kwonlyargcount),
      var_positional(code->co_flags & CO_VARARGS),
      var_keyword(code->co_flags & CO_VARKEYWORDS) {}

// initialize_locals, Python/ceval.c
std::vector<ValuePtr> bind_call(Executor& ex, FunctionValue& function, const CallArgs& args) {
  PyCodeObject* code = function.code();
  Parameters parameters(code);
  int named = parameters.positional + parameters.keyword_only;
  std::vector<ValuePtr> slots(static_cast<size_t>(parameters.total()));
  size_t given = args.positional.size(),
         fit = std::min<size_t>(given, static_cast<size_t>(parameters.positional));
  std::copy_n(args.positional.begin(), fit, slots.begin());
  if (parameters.var_positional)
    slots[named] =
        make_tuple(ex, {args.positional.begin() + static_cast<ptrdiff_t>(fit), args.positional.end()});
  else if (given > fit)
    refuse_arguments(ex, function, args);

  std::vector<std::pair<ValuePtr, ValuePtr>> rest;
  for (const Keyword& keyword : args.keywords) {
    int at = find_parameter(code, keyword.name.get(), code->co_posonlyargcount, named);
    if (at >= 0 && slots[at]) refuse_arguments(ex, function, args);
    if (at >= 0)
      slots[at] = keyword.value;
    else if (parameters.var_keyword)
      rest.emplace_back(ex.constant(keyword.name), keyword.value);
    else
      refuse_arguments(ex, function, args);
  }
  if (parameters.var_keyword) slots.back() = make_dict(ex, rest);

  for (int i = 0; i < named; ++i) {
    if (slots[i]) continue;
    slots[i] = i < parameters.positional ? function.positional_default(ex, i)
                                         : function.keyword_default(ex, parameter_name(code, i));
    if (!slots[i]) refuse_arguments(ex, function, args);
  }
  return slots;
}

namespace {

int level_below(const Executor::State& state, const SymbolicFrame& caller) {
  const bool stops_below = caller.level >= 0 && caller.level + 1 < std::ssize(state.stop_path) &&
                           state.stop_path[caller.level] == caller.step;
  return stops_below ? caller.level + 1 : -1;
}

// A function that calls itself would be another continuation at each depth.
bool is_run_around(const SymbolicFrame& frame) {
  PyCodeObject* code = frame.code->object();
  for (const SymbolicFrame* caller = frame.back; caller; caller = caller->back) {
    PyCodeObject* other = caller->code->object();
    if (other->co_firstlineno == code->co_firstlineno &&
        PyUnicode_Compare(other->co_filename, code->co_filename) == 0 &&
        PyUnicode_Compare(other->co_qualname, code->co_qualname) == 0)
      return true;
  }
  return false;
}

// Whether Python can go on in a linked frame that is no root. In a loop the caller's CALL is left to Python, and then the
// frame, a root of its own, is cut into turns.
bool can_be_left(const CaptureRequest& request, SymbolicFrame& frame) {
  PyCodeObject* code = frame.code->object();
  if (!request.compiles || !request.compiles(code)) return false;
  const bool in_loop =
      std::ranges::any_of(frame.code->loops, [&](const Loop& loop) { return loop.body[frame.pc]; });
  return !in_loop && !sees_locals(code) && !handles_exception(frame.code->program, frame.pc) &&
         !is_run_around(frame) && (!names_super(code) || (code->co_argcount > 0 && frame.is_bound(0)));
}

void note_step(GraphBreak& broken, SymbolicFrame& frame, bool can_be_left) {
  if (can_be_left)
    broken.inner_steps.insert(broken.inner_steps.begin(), frame.step);
  else
    broken.inner_steps.clear();
}

void set_arguments(SymbolicFrame& frame, std::span<const ValuePtr> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (auto* unseen = dynamic_cast<UnseenArgument*>(arguments[i].get())) {
      frame.pending[i] = unseen->source;
      frame.is_resumed = true;
    } else {
      frame.locals[i] = arguments[i];
    }
}

// The frame's run, as one that a break can be noted in and that a stop leaves behind.
void run_linked(Executor& ex, std::unique_ptr<SymbolicFrame>& frame) {
  FrameScope scope(ex, *frame);
  frame->level = level_below(ex.state(), *frame->back);
  try {
    run_frame(ex, *frame);
  } catch (GraphBreak& broken) {
    note_step(broken, *frame, can_be_left(ex.state().request, *frame));
    throw;
  } catch (const StopReached&) {
    ex.state().stopped_frames.push_back(std::move(frame));
    throw;
  }
}

}  // namespace

ValuePtr run_function(Executor& ex, FunctionValue& function, std::vector<ValuePtr> arguments,
                      bool is_linked) {
  Executor::State& state = ex.state();
  if (state.depth >= kMaxInlineDepth) break_graph("CD0007", "");
  PyObject* real = function.real_object();
  PyRef builtins =
      real ? PyRef::borrow(reinterpret_cast<PyFunctionObject*>(real)->func_builtins) : ex.frame()->builtins;
  auto frame =
      std::make_unique<SymbolicFrame>(decoded(function.code()), PyRef::borrow(function.globals()), builtins);
  frame->closure = function.closure(ex);
  set_arguments(*frame, arguments);
  frame->is_linked = is_linked && state.open_calls == 0 && !(function.code()->co_flags & CO_GENERATOR);
  if (frame->is_linked) {
    run_linked(ex, frame);
  } else {
    FrameScope scope(ex, *frame);
    run_frame(ex, *frame);
  }
  if (frame->exit == FrameExit::kGenerator) {
    return std::make_shared<GeneratorValue>(std::move(frame), function.shared_from_this(),
                                            std::move(arguments));
  }
  if (frame->is_resumed) note_held_by_stack(ex, frame->result);
  return std::move(frame->result);
}

namespace {

// That of every function, but where PyFunction_SetVectorcall has set another.
bool has_plain_vectorcall(PyObject* function) {
  static vectorcallfunc plain = nullptr;  // no initializer: it would run with a lock held, and make an object
  if (!plain) {
    auto* made = reinterpret_cast<PyFunctionObject*>(function);
    const PyRef fresh = checked(PyFunction_New(made->func_code, made->func_globals));
    plain = reinterpret_cast<PyFunctionObject*>(fresh.get())->vectorcall;
  }
  return reinterpret_cast<PyFunctionObject*>(function)->vectorcall == plain;
}

}  // namespace

ValuePtr FunctionValue::call(Executor& ex, const CallArgs& args) {
  const bool is_linked = std::exchange(ex.state().callee, nullptr) == this;
  if (PyObject* real = function_.get()) {
    if (!has_plain_vectorcall(real)) break_graph("CD0212", describe() + ", whose vectorcall is not Python's");
    PyObject* name = PyDict_GetItemString(globals_.get(), "__name__");
    const char* module = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : "";
    if (ValuePtr result = call_own_function(ex, real, module, args)) return result;
    if (ValuePtr result = call_library_function(ex, real, args)) return result;
    if (ValuePtr result = call_wrapper(ex, *this, real, module, args)) return result;
    if (is_recursive_repr(*this, module)) {
      guard_code(ex);
      if (ValuePtr result = call_recursive_repr(ex, *this, args)) return result;
    }
    if (ValuePtr result = call_dispatch(ex, *this, module, args)) {
      guard_code(ex);
      return result;
    }
    if (in_module(module, "warnings"))
      if (ValuePtr result = call_warnings_function(ex, real, args)) return result;
    if (ValuePtr result = call_assumed_constant(ex, real, args)) return result;
    if (ValuePtr result = call_substitute(ex, real, args)) {
      guard_code(ex);
      return result;
    }
    if (ValuePtr result = call_compiled_by_torch(*this, ex, module, args)) return result;
    if (ValuePtr result = call_compiler_function(ex, *this, module, args)) {
      guard_code(ex);
      return result;
    }
    if (notes_for_torch_compile(*this, module)) return ex.none();
    refuse_schedule(ex, real, module);
    refuse_marked(*this, real, module);
  }
  if (code()->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
    break_graph("CD0102", describe());
  if (writes_locals(code(), decoded(code())->program))
    break_graph("CD0219", describe() + ", which calls eval or exec");
  guard_code(ex);
  return run_function(ex, *this, bind_call(ex, *this, args), is_linked);
}

}  // namespace cdynamo::symbolic
