#include "symbolic/values/random_generator.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// ---- the methods that are draws

struct Bounds {
  int64_t least = -kLargestSymbol, most = kLargestSymbol;
};
using BoundsOf = std::optional<Bounds> (*)(const std::vector<int64_t>& arguments);

std::optional<Bounds> of_bits(const std::vector<int64_t>& given) {
  if (given.size() != 1 || given[0] < 0 || given[0] > 52) return std::nullopt;
  return Bounds{0, (int64_t{1} << given[0]) - 1};
}
std::optional<Bounds> below(const std::vector<int64_t>& given) {
  if (given.size() != 1 || given[0] < 1) return std::nullopt;
  return Bounds{0, given[0] - 1};
}
std::optional<Bounds> between(const std::vector<int64_t>& given) {
  if (given.size() != 2 || given[0] > given[1]) return std::nullopt;
  return Bounds{given[0], given[1]};
}
std::optional<Bounds> in_range(const std::vector<int64_t>& given) {
  if (given.size() == 1) return below(given);
  return given.size() == 2 ? between({given[0], given[1] - 1}) : std::nullopt;
}

struct DrawRow {
  const char* name;
  PyTypeObject* type;  // of the result
  BoundsOf bounds;     // of an int, where the arguments are known
  ValuePtr (*apply)(Executor& ex, const ValuePtr& generator,
                    const CallArgs& args) = nullptr;  // or what else it does
};
ValuePtr shuffle(Executor& ex, const ValuePtr& generator, const CallArgs& args);
ValuePtr sample(Executor& ex, const ValuePtr& generator, const CallArgs& args);
ValuePtr seed(Executor& ex, const ValuePtr& generator, const CallArgs& args);
template <const char* name>
ValuePtr of_known_state(Executor& ex, const ValuePtr& generator, const CallArgs& args);
constexpr char kGetState[] = "getstate", kSetState[] = "setstate", kBytes[] = "randbytes";

const DrawRow kDraws[] = {
    {"random", &PyFloat_Type, nullptr},
    {"uniform", &PyFloat_Type, nullptr},
    {"triangular", &PyFloat_Type, nullptr},
    {"gauss", &PyFloat_Type, nullptr},
    {"normalvariate", &PyFloat_Type, nullptr},
    {"lognormvariate", &PyFloat_Type, nullptr},
    {"expovariate", &PyFloat_Type, nullptr},
    {"vonmisesvariate", &PyFloat_Type, nullptr},
    {"gammavariate", &PyFloat_Type, nullptr},
    {"betavariate", &PyFloat_Type, nullptr},
    {"paretovariate", &PyFloat_Type, nullptr},
    {"weibullvariate", &PyFloat_Type, nullptr},
    {"getrandbits", &PyLong_Type, of_bits},
    {"_randbelow", &PyLong_Type, below},
    {"randrange", &PyLong_Type, in_range},
    {"randint", &PyLong_Type, between},
    {"shuffle", nullptr, nullptr, shuffle},
    {"sample", nullptr, nullptr, sample},
    {"seed", nullptr, nullptr, seed},
    {kGetState, nullptr, nullptr, of_known_state<kGetState>},
    {kSetState, nullptr, nullptr, of_known_state<kSetState>},
    {kBytes, nullptr, nullptr, of_known_state<kBytes>},
};

// Those that are inlined: what they draw, they draw by the methods above.
constexpr const char* kInlined[] = {"choice", "choices"};

// ---- a draw

// The generator from which capture draws.
PyObject* stand_in(Executor& ex, PyObject* generator) {
  PyRef& made = ex.state().draws.stand_ins[generator];
  if (!made) {
    made = GeneratorState(generator).new_generator();
    if (!made) throw PythonError{};
  }
  return made.get();
}

// The arguments in the order of the method's parameters.
std::vector<ValuePtr> in_order(PyObject* method, const char* name, const CallArgs& args) {
  std::vector<ValuePtr> ordered = args.positional;
  ordered.resize(ordered.size() + args.keywords.size());
  for (const Keyword& keyword : args.keywords) {
    PyRef names =
        PyFunction_Check(method)
            ? checked(PyCode_GetVarnames(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method))))
            : checked(PyTuple_New(0));
    const Py_ssize_t parameter = PySequence_Index(names.get(), keyword.name.get());
    PyErr_Clear();
    const auto place = static_cast<size_t>(parameter - 1);  // self is the first one
    if (parameter < 1 || place >= ordered.size() || ordered[place]) break_graph("CD0227", name);
    ordered[place] = keyword.value;
  }
  return ordered;
}

std::vector<int64_t> known_ints(const std::vector<ValuePtr>& values) {
  std::vector<int64_t> ints;
  for (const ValuePtr& value : values)
    if (const auto number = as_sym(value); number && number->is_constant())
      ints.push_back(number->constant());
  return ints;
}

ValuePtr drawn_int(Executor& ex, const SourcePtr& source, PyObject* drawn, const Bounds& bounds) {
  const int64_t number = PyLong_AsLongLong(drawn);
  if (number == -1 && PyErr_Occurred()) PyErr_Clear();
  return random_int(ex, source, number, bounds.least, bounds.most);
}

// One that captured code has made of a known seed: what it draws is known while capturing.
bool is_made(const ValuePtr& generator) { return !generator->source; }

PyRef known_draw(Executor& ex, const ValuePtr& generator, PyObject* function, const char* name,
                 const std::vector<ValuePtr>& arguments) {
  const PyRef objects = checked(PyTuple_New(std::ssize(arguments) + 1));
  PyTuple_SET_ITEM(objects.get(), 0, Py_NewRef(drawing_generator_of(generator)));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto constant = arguments[i]->as_constant();
    PyRef known = constant ? *constant : tuple_in(arguments[i]) ? arguments[i]->materialize(ex) : PyRef();
    if (!known) break_graph("CD0227", name);
    PyTuple_SET_ITEM(objects.get(), static_cast<Py_ssize_t>(i + 1), known.release());
  }
  ex.changing(generator, false);
  return checked_user(ex, PyObject_CallObject(function, objects.get()));
}

Draw draw_numbers(Executor& ex, const ValuePtr& generator, PyObject* method, const char* name,
                  const std::vector<ValuePtr>& arguments, PyTypeObject* type) {
  DrawOperands operands = operands_of_draw(generator->source, stand_in(ex, generator->real_object()));
  for (const ValuePtr& argument : arguments)
    if (!add_number(ex, operands, argument)) break_graph("CD0227", name);
  std::optional<Draw> draw = draw_next(ex, std::move(operands), method);
  // Where Python raises, it is to do so itself.
  if (!draw || Py_TYPE(draw->drawn.get()) != type) break_graph("CD0227", name);
  return *std::move(draw);
}

ValuePtr draw_number(Executor& ex, const ValuePtr& generator, PyObject* method, const DrawRow& row,
                     const CallArgs& args) {
  const std::vector<ValuePtr> arguments = in_order(method, row.name, args);
  if (is_made(generator)) return ex.constant(known_draw(ex, generator, method, row.name, arguments));
  const Draw draw = draw_numbers(ex, generator, method, row.name, arguments, row.type);
  if (!row.bounds) return drawn_float(ex, draw);
  Bounds bounds;
  const std::vector<int64_t> known = known_ints(arguments);
  if (known.size() == arguments.size()) bounds = row.bounds(known).value_or(bounds);
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(draw.drawn.get(), &overflow);
  if (overflow || number < bounds.least || number > bounds.most) break_graph("CD0227", row.name);
  return drawn_int(ex, draw.source, draw.drawn.get(), bounds);
}

// ---- states

// Of a generator that came in, this is one of the draws, which gives nothing.
ValuePtr seed(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty() || is_none(args.positional[0]))
    break_graph("CD0227", "seed");
  PyObject* function = python_side(PythonSide::kRandomSeed);
  if (is_made(generator))
    known_draw(ex, generator, function, "seed", args.positional);
  else
    draw_numbers(ex, generator, function, "seed", args.positional, &PyLong_Type);
  return ex.none();
}

template <const char* name>
ValuePtr of_known_state(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  if (!is_made(generator)) break_graph("CD0227", name);
  PyObject* method = _PyType_Lookup(generator->type(), interned(name));
  return wrap_fresh(ex, known_draw(ex, generator, method, name, in_order(method, name, args)));
}

// ---- orders and samples

constexpr Py_ssize_t kMostPlaces = 64;

// The ints of a tuple that was drawn.
std::vector<ValuePtr> drawn_places(Executor& ex, const Draw& draw, int64_t size) {
  const Py_ssize_t count = PyTuple_GET_SIZE(draw.drawn.get());
  add_guard(ex, GuardKind::kLength, draw.source, nullptr, count);
  std::vector<ValuePtr> places;
  for (Py_ssize_t i = 0; i < count; ++i)
    places.push_back(
        drawn_int(ex, index_source(draw.source, i), PyTuple_GET_ITEM(draw.drawn.get(), i), {0, size - 1}));
  return places;
}

// What a function of _draws.py gives: places in a sequence of `size`.
std::vector<ValuePtr> draw_places(Executor& ex, const ValuePtr& generator, PythonSide function,
                                  const char* name, int64_t size, std::vector<ValuePtr> arguments) {
  arguments.insert(arguments.begin(), ex.constant_int(size));
  if (is_made(generator))
    return items_of(ex, wrap_fresh(ex, known_draw(ex, generator, python_side(function), name, arguments)));
  const Draw draw = draw_numbers(ex, generator, python_side(function), name, arguments, &PyTuple_Type);
  if (PyTuple_GET_SIZE(draw.drawn.get()) > kMostPlaces)
    break_graph("CD0227", absl::StrCat(name, " of more than ", kMostPlaces));
  return drawn_places(ex, draw, size);
}

int64_t known_length(Executor& ex, const ValuePtr& sequence, const char* name) {
  const auto length = as_sym(sequence->length(ex));
  if (!length || !length->is_constant()) break_graph("CD0227", name);
  return length->constant();
}

std::vector<ValuePtr> items_at(Executor& ex, const ValuePtr& sequence, const std::vector<ValuePtr>& places) {
  std::vector<ValuePtr> items;
  for (const ValuePtr& place : places) items.push_back(sequence->get_item(ex, place));
  return items;
}

ValuePtr shuffle(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  const ValuePtr list = bind_arguments(ex, "shuffle", args, {"x"})[0];
  if (list->type() != &PyList_Type) break_graph("CD0227", "shuffle");
  const ValuePtr all = make_slice(ex, ex.none(), ex.none(), ex.none());
  const ValuePtr before = list->get_item(ex, all);
  const std::vector<ValuePtr> places =
      draw_places(ex, generator, PythonSide::kRandomOrder, "shuffle", known_length(ex, list, "shuffle"), {});
  list->set_item(ex, all, make_list(ex, items_at(ex, before, places)));
  return ex.none();
}

ValuePtr sample(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  const auto given = bind_arguments(ex, "sample", args, {"population", "k", "*counts?"});
  PyTypeObject* type = given[0]->type();
  const bool is_known_sequence = type == &PyList_Type || type == &PyTuple_Type || type == &PyRange_Type;
  if (!is_known_sequence || (given[2] && !is_none(given[2]))) break_graph("CD0227", "sample");
  const int64_t size = known_length(ex, given[0], "sample");
  return make_list(
      ex, items_at(ex, given[0],
                   draw_places(ex, generator, PythonSide::kRandomSample, "sample", size, {given[1]})));
}

// ---- the generator

class DrawValue final : public DrawingMethod {
 public:
  DrawValue(ValuePtr generator, PyObject* method, const DrawRow& row)
      : DrawingMethod(std::move(generator), row.name), method_(PyRef::borrow(method)), row_(row) {}
  PyTypeObject* type() const override {
    return PyFunction_Check(method_.get()) ? &PyMethod_Type : &PyCFunction_Type;
  }
  std::string describe() const override { return absl::StrCat("random.Random.", row_.name); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    return row_.apply ? row_.apply(ex, generator_, args)
                      : draw_number(ex, generator_, method_.get(), row_, args);
  }

 private:
  PyRef method_;
  const DrawRow& row_;
};

// Draws call each other by name: one that the program has put there is its own code, which capturing must not run.
bool is_as_python_made_it(PyTypeObject* type) {
  return std::ranges::all_of(kDraws, [&](const DrawRow& row) {
    PyObject* method = _PyType_Lookup(type, interned(row.name));
    if (!method || !PyFunction_Check(method)) return method && Py_IS_TYPE(method, &PyMethodDescr_Type);
    PyObject* module = reinterpret_cast<PyFunctionObject*>(method)->func_module;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "random") == 0;
  });
}

class RandomGeneratorValue final : public DrawingGenerator {
 public:
  using DrawingGenerator::DrawingGenerator;
  std::string describe() const override { return "random.Random"; }
  // Null: captured code has made it.
  PyObject* real_object() const override { return source ? generator() : nullptr; }

  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    PyObject* found = _PyType_Lookup(type(), name);
    ValuePtr method = found ? method_called(ex, PyUnicode_AsUTF8(name), found) : nullptr;
    if (!method) break_graph("CD0227", PyUnicode_AsUTF8(name));
    return method;
  }

  ValuePtr method_called(Executor& ex, const char* name, PyObject* function) override {
    const auto* row = std::ranges::find(kDraws, std::string_view(name), &DrawRow::name);
    const bool is_draw = row != std::end(kDraws);
    if (!is_draw && std::ranges::find(kInlined, std::string_view(name)) == std::end(kInlined)) return nullptr;
    guard_methods(ex);
    if (is_draw) return std::make_shared<DrawValue>(shared_from_this(), function, *row);
    return make_bound_method(ex, ex.wrap(function, constant_source(function)), shared_from_this());
  }

 private:
  // The methods are those of the class: the program has assigned none to the generator.
  void guard_methods(Executor& ex) {
    guard_class(ex, type());
    if (!is_as_python_made_it(type())) break_graph("CD0227", "a class with methods of the program's");
    if (!source) return;
    PyRef dict = checked(PyObject_GenericGetDict(generator(), nullptr));
    PyRef names = checked(PySequence_Tuple(dict.get()));
    if (PyTuple_GET_SIZE(names.get()) != 1 || PyTuple_GET_ITEM(names.get(), 0) != interned("gauss_next"))
      break_graph("CD0227", "an instance with attributes of its own");
    add_guard(ex, GuardKind::kDictKeys, instance_dict_source(source), names.get());
  }
};

}  // namespace

DrawingGenerator::DrawingGenerator(PyObject* generator, SourcePtr from)
    : generator_(PyRef::borrow(generator)) {
  source = std::move(from);
}

RecipePtr DrawingGenerator::recipe(Executor&) {
  if (!real_object()) break_graph("CD0211", describe());
  if (!recipe_) recipe_ = source_recipe(source);
  return recipe_;
}

PyObject* drawing_generator_of(const ValuePtr& generator) {
  return dynamic_cast<DrawingGenerator&>(*generator).generator();
}

ValuePtr DrawingMethod::get_attribute(Executor& ex, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__self__") == 0) return generator_;
  return SymbolicValue::get_attribute(ex, name);
}

RecipePtr DrawingMethod::recipe(Executor& ex) {
  if (!recipe_)
    recipe_ = call_recipe(library_object("builtins", "getattr"),
                          {generator_->recipe(ex), make_recipe(RecipeKind::kConstant, interned(name_))});
  return recipe_;
}

DrawOperands operands_of_draw(const SourcePtr& generator, PyObject* stand_in) {
  DrawOperands operands;
  operands.operands.push_back({.source = generator, .integer = {}, .constant = {}});
  operands.now.push_back(PyRef::borrow(stand_in));
  return operands;
}

bool add_number(Executor& ex, DrawOperands& to, const ValuePtr& value) {
  std::optional<KnownNumber> number = known_number(ex, value);
  if (!number) return false;
  to.steps += number->steps;
  to.operands.push_back(std::move(number->operand));
  to.now.push_back(std::move(number->now));
  return true;
}

std::optional<Draw> draw_next(Executor& ex, DrawOperands operands, PyObject* function) {
  if (const auto* region = ex.isolated_region()) break_graph("CD0419", region->what);
  if (operands.operands.size() > Computation::kMostOperands || operands.steps > Computation::kMostSteps)
    return std::nullopt;
  auto computation = std::make_shared<Computation>();
  computation->function = PyRef::borrow(function);
  computation->operands = std::move(operands.operands);
  computation->keywords = std::move(operands.keywords);
  computation->steps = operands.steps;
  computation->draw = static_cast<int>(ex.state().result.draws.size());
  computation->is_random = true;
  std::vector<PyObject*> now;
  for (const PyRef& object : operands.now) now.push_back(object.get());
  PyRef drawn = computation->call(now.data());
  if (!drawn) return std::nullopt;
  SourcePtr source = source_of(std::move(computation));
  ex.state().key_calls.writes = true;
  ex.state().result.draws.push_back(source);
  return Draw{std::move(source), std::move(drawn)};
}

ValuePtr drawn_float(Executor& ex, const Draw& draw) {
  add_guard(ex, GuardKind::kDynamicFloat, draw.source);
  return std::make_shared<DynamicFloatValue>(ex, draw.source, PyFloat_AS_DOUBLE(draw.drawn.get()),
                                             std::vector<FloatRoot>{{draw.source, draw.drawn}});
}

bool reorder_list(Executor& ex, const ValuePtr& list,
                  const std::function<Draw(const ValuePtr& length)>& draw) {
  const auto length = as_sym(list->length(ex));
  if (!length || !length->is_constant() || length->constant() > kMostPlaces) return false;
  const ValuePtr all = make_slice(ex, ex.none(), ex.none(), ex.none());
  const ValuePtr before = list->get_item(ex, all);
  const std::vector<ValuePtr> order =
      drawn_places(ex, draw(ex.constant_int(length->constant())), length->constant());
  list->set_item(ex, all, make_list(ex, items_at(ex, before, order)));
  return true;
}

ValuePtr make_random_generator(Executor& ex, const CallArgs& args) {
  const bool has_seed = args.positional.size() == 1 && args.keywords.empty() && !is_none(args.positional[0]);
  const auto known = has_seed ? args.positional[0]->as_constant() : std::nullopt;
  PyObject* type = library_object("random", "Random");
  if (!known || !is_as_python_made_it(reinterpret_cast<PyTypeObject*>(type))) return nullptr;
  guard_class(ex, reinterpret_cast<PyTypeObject*>(type));
  const PyRef made = checked_user(ex, PyObject_CallOneArg(type, known->get()));
  return std::make_shared<RandomGeneratorValue>(made.get(), nullptr);
}

ValuePtr wrap_random_generator(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!is_random_generator(object)) return nullptr;
  guard_exact_type(ex, object, source);
  return std::make_shared<RandomGeneratorValue>(object, source);
}

ValuePtr method_of_generator(Executor& ex, const ValuePtr& generator, PyObject* function) {
  auto* owner = dynamic_cast<DrawingGenerator*>(generator.get());
  if (!owner) return nullptr;
  PyRef name = checked(PyObject_GetAttrString(function, "__name__"));
  // Under another name where the class chooses among several: _randbelow.
  const bool is_found = PyUnicode_Check(name.get()) && _PyType_Lookup(owner->type(), name.get()) == function;
  return is_found ? owner->method_called(ex, PyUnicode_AsUTF8(name.get()), function) : nullptr;
}

bool is_random(const SourcePtr& source) {
  for (const Source* at = source.get(); at; at = at->base.get())
    if (at->computation && at->computation->is_random) return true;
  return false;
}

namespace {
std::vector<bool> random_symbols(Executor& ex, const graph::Sym& number) {
  const std::vector<bool>& known = ex.state().draws.symbols;
  if (known.empty()) return {};
  std::vector<bool> symbols(ex.graph().sym->symbols().size());
  graph::mark_symbols(number, symbols);
  for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = symbols[i] && i < known.size() && known[i];
  return symbols;
}
}  // namespace

bool is_random(Executor& ex, const graph::Sym& number) {
  return std::ranges::any_of(random_symbols(ex, number), std::identity());
}

ValuePtr random_int(Executor& ex, const SourcePtr& source, int64_t number, int64_t least, int64_t most,
                    PyTypeObject* type) {
  if (least == most) return ex.constant_int(number);
  graph::SymContext& context = *ex.graph().sym;
  const auto index = static_cast<int>(context.symbols().size());
  const graph::Sym symbol = context.new_symbol(absl::StrCat("i", index), number, least, most);
  ex.state().symbols.push_back({index, source, -1});
  note_random(ex, symbol);
  add_guard(ex, GuardKind::kDynamicInt, source, reinterpret_cast<PyObject*>(type), index);
  return make_int(ex, symbol);
}

void note_random(Executor& ex, const graph::Sym& symbol) {
  std::vector<bool>& symbols = ex.state().draws.symbols;
  symbols.resize(ex.graph().sym->symbols().size());
  symbols[symbol.node()->symbol] = true;
}

int64_t number_of_values(Executor& ex, const graph::Sym& number) {
  const graph::Sym simple = ex.graph().sym->simplify(number);
  const std::vector<bool> symbols = random_symbols(ex, simple);
  double count = 1;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const graph::SymbolInfo& info = ex.graph().sym->symbols()[i];
    if (symbols[i]) count *= static_cast<double>(info.max) - static_cast<double>(info.min) + 1;
  }
  return static_cast<int64_t>(std::min(count, static_cast<double>(kLargestSymbol)));
}

void decide_at_random(Executor& ex, int64_t ways) {
  constexpr int64_t kMost = 8, kMostWhereBreaksAreFine = 2;
  const int64_t most = ex.state().request.leaves_loops ? kMostWhereBreaksAreFine : kMost;
  int64_t& all = ex.state().draws.ways;
  if (ways > most / all) break_graph("CD0226", "");
  all *= ways;
}

}  // namespace cdynamo::symbolic
