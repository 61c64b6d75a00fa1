#include "symbolic/frames/generators.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/exceptions.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

GeneratorValue& generator_of(const ValuePtr& self) { return static_cast<GeneratorValue&>(*self); }

bool is_exception(const ValuePtr& value, PyObject* type) {
  return PyType_IsSubtype(value->type(), reinterpret_cast<PyTypeObject*>(type));
}

[[noreturn]] void raise_stop(Executor& ex, const ValuePtr& value) {
  std::vector<ValuePtr> args;
  if (!is_none(value)) args.push_back(value);
  raise_new(ex, make_exception(ex, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), std::move(args)));
}

ValuePtr yielded_or_stop(Executor& ex, const ValuePtr& self, ValuePtr yielded) {
  if (!yielded) raise_stop(ex, generator_of(self).returned(ex));
  return yielded;
}

ValuePtr method_next(Executor& ex, const ValuePtr& self, const CallArgs&) {
  return yielded_or_stop(ex, self, generator_of(self).send(ex, nullptr));
}

ValuePtr method_send(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "send", args, 1, 1);
  return yielded_or_stop(ex, self, generator_of(self).send(ex, args.positional[0]));
}

// throw(exception) or throw(type, value, traceback): _gen_throw, Objects/genobject.c
ValuePtr method_throw(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "throw", args, 1, 3);
  ValuePtr exception = args.positional[0];
  PyObject* type = exception->real_object();
  bool is_class = type && PyExceptionClass_Check(type);
  if (is_class) {
    ValuePtr value =
        args.positional.size() > 1 && !is_none(args.positional[1]) ? args.positional[1] : nullptr;
    bool is_instance = value && is_exception(value, PyExc_BaseException);
    exception = is_instance ? value : exception->call(ex, value ? CallArgs{{value}, {}} : CallArgs{});
  }
  if (!is_exception(exception, PyExc_BaseException))
    raise_error(
        ex, PyExc_TypeError,
        "exceptions must be classes or instances deriving from BaseException, not " + type_name(exception));
  return yielded_or_stop(ex, self, generator_of(self).throw_into(ex, exception, args));
}

ValuePtr method_close(Executor& ex, const ValuePtr& self, const CallArgs&) {
  ValuePtr returned = generator_of(self).close(ex);
  constexpr bool kGivesWhatIsReturned = PY_VERSION_HEX >= 0x030D0000;
  return kGivesWhatIsReturned ? returned : ex.none();
}

ValuePtr method_iter(Executor&, const ValuePtr& self, const CallArgs&) { return self; }

constexpr BuiltinMethodRow kIteratorMethods[] = {{"__next__", method_next}, {"__iter__", method_iter}};
constexpr BuiltinMethodRow kGeneratorMethods[] = {
    {"send", method_send}, {"throw", method_throw}, {"close", method_close}};

// What python/cdynamo/polyfills/itertools.py says of a function there; null: nothing.
PyObject* mark_of(const ValuePtr& function, const char* name) {
  PyObject* object = function ? function->real_object() : nullptr;
  if (!object || !PyFunction_Check(object)) return nullptr;
  PyObject* module = python_side(PythonSide::kItertoolsPolyfills);
  PyObject* marks = reinterpret_cast<PyFunctionObject*>(object)->func_dict;
  if (!marks || PyFunction_GET_GLOBALS(object) != PyModule_GetDict(module)) return nullptr;
  return PyDict_GetItemString(marks, name);
}

// Whether one of these is, or has in it, an iterator of the program's: asked again after its end it may give more, which most
// iterators of itertools hand on.
bool may_go_on(Executor& ex, const std::vector<ValuePtr>& values) {
  static PyTypeObject* const kNested[] = {&PyMap_Type, &PyFilter_Type, &PyZip_Type, &PyEnum_Type};
  check_stack();
  return std::ranges::any_of(values, [&](const ValuePtr& value) {
    if (!value) return false;
    if (dynamic_cast<UserObjectValue*>(value.get())) return is_iterator_type(value->type());
    if (std::ranges::find(kNested, value->type()) != std::end(kNested)) return true;
    if (auto* generator = dynamic_cast<GeneratorValue*>(value.get()))
      return generator->type() != &PyGen_Type && may_go_on(ex, generator->arguments());
    return value->type() == &PyList_Type && may_go_on(ex, items_of(ex, value));  // of zip_longest
  });
}

}  // namespace

GeneratorValue::GeneratorValue(std::unique_ptr<SymbolicFrame> frame, ValuePtr function,
                               std::vector<ValuePtr> args)
    : frame_(std::move(frame)), function_(std::move(function)), args_(std::move(args)) {
  if (PyObject* kind = mark_of(function_, "kind")) type_ = reinterpret_cast<PyTypeObject*>(kind);
  frame_->is_iterator = type_ != &PyGen_Type;
}

GeneratorValue::~GeneratorValue() {
  if (!has_to_be_closed()) return;
  abandoned_->push_back(abandoned());
  frame_->locals.clear();
  frame_->stack.clear();
}

bool GeneratorValue::has_to_be_closed() const {
  if (!frame_ || !started_ || running_) return false;
  return is_in_handler(*frame_) || closes_another();
}

// An iterator of itertools closes nothing.
bool GeneratorValue::closes_another() const { return type_ == &PyGen_Type && waits_for_closable(*frame_); }

AbandonedGenerator GeneratorValue::abandoned() const {
  return {.started_at = started_at_, .frame = frame_, .closes_another = closes_another()};
}

bool GeneratorValue::may_have_to_be_closed() const {
  if (!frame_) return false;
  if (started_) return has_to_be_closed() || holds_one_to_be_closed();
  if (type_ == &PyGen_Type) return true;
  const Program& program = frame_->code->program;
  return std::any_of(program.handlers.begin(), program.handlers.end(), [&](const auto& handler) {
    return program.code[handler.target].op == Op::PUSH_EXC_INFO;
  });
}

// Generators may hold each other: one that is being asked holds nothing more.
bool GeneratorValue::holds_one_to_be_closed() const {
  if (running_ || asked_) return false;
  const auto has_to_be = [](const ValuePtr& value) {
    auto* held = dynamic_cast<GeneratorValue*>(value.get());
    return held && held->may_have_to_be_closed();
  };
  asked_ = true;
  const bool holds =
      std::ranges::any_of(frame_->locals, has_to_be) || std::ranges::any_of(frame_->stack, has_to_be);
  asked_ = false;
  return holds;
}

std::vector<ValuePtr> GeneratorValue::held() const {
  if (!frame_) return {};
  std::vector<ValuePtr> held = frame_->locals;
  held.insert(held.end(), frame_->stack.begin(), frame_->stack.end());
  held.push_back(function_);
  return held;
}

std::vector<ValuePtr> held_by_generator(const ValuePtr& holder) {
  auto* generator = dynamic_cast<GeneratorValue*>(holder.get());
  return generator ? generator->held() : std::vector<ValuePtr>();
}

std::string GeneratorValue::describe() const {
  return function_ ? "generator of " + function_->describe() : "generator";
}

ValuePtr GeneratorValue::get_attribute(Executor& ex, PyObject* name) {
  if (ValuePtr method = find_builtin_method(shared_from_this(), name, kIteratorMethods)) return method;
  if (type_ == &PyGen_Type)
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kGeneratorMethods)) return method;
  const bool is_class = PyUnicode_CompareWithASCIIString(name, "__class__") == 0;
  if (!is_class && _PyType_Lookup(type_, name)) break_graph("CD0104", PyUnicode_AsUTF8(name));
  return builtin_attribute(ex, shared_from_this(), name);
}

const char* GeneratorValue::state() const {
  if (running_) return "GEN_RUNNING";
  if (!frame_) return "GEN_CLOSED";
  return started_ ? "GEN_SUSPENDED" : "GEN_CREATED";
}

// What its frame holds may hold the generator.
void GeneratorValue::forget() {
  const std::shared_ptr<SymbolicFrame> frame = std::move(frame_);
  function_ = returned_ = handled_ = nullptr;
  args_.clear();
}

ValuePtr GeneratorValue::returned(Executor& ex) const { return returned_ ? returned_ : ex.none(); }

// An unstarted generator is made by calling its function again, or what makes the iterator that it stands for.
RecipePtr GeneratorValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  auto* function = dynamic_cast<FunctionValue*>(function_.get());
  // Of a function whose new name is written when all has been made, it would have the old one.
  if (started_ || !function || function->is_renamed()) break_graph("CD0103", "");
  // args_ are parameter slots: positional ones, then *args as a tuple.
  const Parameters parameters(function->code());
  if (parameters.keyword_only || parameters.var_keyword) break_graph("CD0103", "with keyword arguments");
  std::vector<ValuePtr> arguments(args_.begin(), args_.begin() + parameters.positional);
  if (parameters.var_positional)
    for (const ValuePtr& item : items_of(ex, args_[parameters.positional])) arguments.push_back(item);
  PyObject* maker = mark_of(function_, "made_by");
  if (maker == Py_NotImplemented) break_graph("CD0103", "");
  std::vector<RecipePtr> items{maker ? make_recipe(RecipeKind::kConstant, maker) : function_->recipe(ex)};
  for (const ValuePtr& argument : arguments) items.push_back(argument->recipe(ex));
  // Where it is in a cell of its own function, it has come by here in the meantime.
  if (!recipe_) recipe_ = make_recipe(RecipeKind::kCall, nullptr, std::move(items));
  return recipe_;
}

ValuePtr GeneratorValue::resume(Executor& ex, const ValuePtr& value, const ValuePtr& exception) {
  ex.advancing();
  if (running_) raise_error(ex, PyExc_ValueError, "generator already executing");
  if (!frame_ && (has_failed_ || (type_ != &PyGen_Type && may_go_on(ex, args_))))
    break_graph("CD0115", type_->tp_name);
  if (!frame_) {  // who asks one that has ended gets None
    returned_ = nullptr;
    return nullptr;
  }
  if (!started_ && value && !is_none(value))
    raise_error(ex, PyExc_TypeError, "can't send non-None value to a just-started generator");
  Executor::State& state = ex.state();
  if (state.depth >= kMaxInlineDepth) break_graph("CD0007", "");
  struct Running {
    Executor::State& state;
    GeneratorValue& self;
    ValuePtr outside;
    ~Running() {
      self.running_ = false;
      self.handled_ = state.handled == outside ? nullptr : state.handled;
      state.handled = outside;
    }
  } running{state, *this, state.handled};
  if (!started_) {
    started_at_ = static_cast<int64_t>(state.root_trace.size()) - 1;
    if (!state.abandoned_generators)
      state.abandoned_generators = std::make_shared<std::vector<AbandonedGenerator>>();
    abandoned_ = state.abandoned_generators;
    state.cyclic[this] = weak_from_this();
  }
  started_ = running_ = true;
  if (handled_) state.handled = handled_;
  frame_->push(value ? value : ex.none());
  if (exception) {
    frame_->injected = exception;
    --frame_->pc;  // it is raised by YIELD_VALUE
  }
  try {
    FrameScope scope(ex, *frame_);
    run_frame(ex, *frame_);
  } catch (const PythonRaise& raised) {
    frame_.reset();
    has_failed_ = type_ != &PyGen_Type;
    if (!is_exception(raised.exception, PyExc_StopIteration)) throw;
    if (has_failed_)
      return returned_ = nullptr;  // an iterator in C hands on what its caller takes for its end
    // PEP 479; 3.12 and later say so in bytecode.
    throw PythonRaise{generator_raised_stop(ex, raised.exception)};
  }
  ValuePtr result = std::move(frame_->result);
  if (frame_->exit == FrameExit::kYield) return result;
  returned_ = result;
  frame_.reset();
  return nullptr;
}

ValuePtr GeneratorValue::send(Executor& ex, ValuePtr value) { return resume(ex, value, nullptr); }

// A generator that waits in `yield from` hands the exception on. Null: *yielded is what came of it; otherwise what is raised here.
ValuePtr GeneratorValue::delegate_throw(Executor& ex, const ValuePtr& exception, const CallArgs& given,
                                        ValuePtr* yielded) {
  const ValuePtr inner = delegated_to(*frame_);
  if (!inner) return exception;
  auto* generator = inner->type() == &PyGen_Type ? dynamic_cast<GeneratorValue*>(inner.get()) : nullptr;
  const bool closes = is_exception(exception, PyExc_GeneratorExit);
  ValuePtr returned;
  try {
    const ValuePtr method = generator ? nullptr : attribute_if_any(ex, inner, closes ? "close" : "throw");
    if (closes) {
      if (generator) generator->close(ex);
      if (method) method->call(ex, {});
      return exception;
    }
    if (!generator && !method) return exception;
    *yielded = generator ? generator->throw_into(ex, exception, given) : method->call(ex, given);
    if (*yielded) return nullptr;
    returned = generator->returned(ex);
  } catch (const PythonRaise& raised) {
    auto* stop = dynamic_cast<ExceptionValue*>(raised.exception.get());
    if (closes || generator || !stop || !is_exception(raised.exception, PyExc_StopIteration))
      return raised.exception;
    returned = stop->args().empty() ? ex.none() : stop->args()[0];
  }
  frame_->pc = frame_->code->program.code[frame_->pc - 2].arg;
  frame_->pop();
  *yielded = resume(ex, returned, nullptr);
  return nullptr;
}

ValuePtr GeneratorValue::throw_into(Executor& ex, const ValuePtr& exception, const CallArgs& given) {
  if (running_) raise_error(ex, PyExc_ValueError, "generator already executing");
  if (!frame_ || !started_) {
    frame_.reset();
    started_ = true;
    throw PythonRaise{exception};
  }
  ValuePtr yielded;
  const ValuePtr raised = delegate_throw(ex, exception, given, &yielded);
  return raised ? resume(ex, nullptr, raised) : yielded;
}

ValuePtr GeneratorValue::close(Executor& ex) {
  if (!frame_ || !started_) {
    frame_.reset();
    started_ = true;
    return ex.none();
  }
  try {
    ValuePtr exit = make_exception(ex, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), {});
    if (throw_into(ex, exit, positional({exit})))
      raise_error(ex, PyExc_RuntimeError, "generator ignored GeneratorExit");
    return returned(ex);
  } catch (const PythonRaise& raised) {
    if (!is_exception(raised.exception, PyExc_GeneratorExit) &&
        !is_exception(raised.exception, PyExc_StopIteration))
      throw;
    return ex.none();
  }
}

ValuePtr send_to_iterator(Executor& ex, const ValuePtr& iterator, const ValuePtr& value, ValuePtr* returned) {
  if (auto* generator = dynamic_cast<GeneratorValue*>(iterator.get())) {
    ValuePtr yielded = generator->send(ex, value);
    if (!yielded) *returned = generator->returned(ex);
    return yielded;
  }
  // What its __next__ raises at the end says what it has returned.
  auto* object = is_none(value) ? dynamic_cast<UserObjectValue*>(iterator.get()) : nullptr;
  const ValuePtr method = object ? object->special(ex, "__next__", true) : nullptr;
  try {
    ValuePtr yielded = method           ? method->call(ex, {})
                       : is_none(value) ? iterator->next(ex)
                                        : call_method(ex, iterator, "send", {value});
    if (!yielded) *returned = ex.none();
    return yielded;
  } catch (const PythonRaise& raised) {
    auto* stop = dynamic_cast<ExceptionValue*>(raised.exception.get());
    if (!stop || !is_exception(raised.exception, PyExc_StopIteration)) throw;
    *returned = stop->args().empty() ? ex.none() : stop->args()[0];
    return nullptr;
  }
}

}  // namespace cdynamo::symbolic
