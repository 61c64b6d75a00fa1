#include "symbolic/numpy/random_generator.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/numpy_generator.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/numpy/number.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/random_generator.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::DType;
using graph::Sym;

namespace {

// ---- the methods that are captured

struct IntRange {
  int64_t least = -kLargestSymbol, most = kLargestSymbol;
};

// The int at a position or under a name, where it is known.
std::optional<int64_t> known_int(const CallArgs& args, size_t position, const char* name) {
  ValuePtr value = position < args.positional.size() ? args.positional[position] : nullptr;
  keyword_of(args, name, &value);
  const auto number = value ? as_sym(value) : std::nullopt;
  return number && number->is_constant() ? std::optional(number->constant()) : std::nullopt;
}

bool is_given(const CallArgs& args, size_t position, const char* name) {
  ValuePtr value = position < args.positional.size() ? args.positional[position] : nullptr;
  keyword_of(args, name, &value);
  return value && !is_none(value);
}

IntRange range_of_integers(const CallArgs& args) {
  const auto low = known_int(args, 0, "low"), high = known_int(args, 1, "high");
  const int64_t past_end = is_given(args, 4, "endpoint") ? 0 : 1;
  if (!low || (is_given(args, 1, "high") && !high)) return {};
  return high ? IntRange{*low, *high - past_end} : IntRange{0, *low - past_end};
}

IntRange range_of_choice(const CallArgs& args) {
  const auto count = known_int(args, 0, "a");
  return count ? IntRange{0, *count - 1} : IntRange{};
}

IntRange not_negative(const CallArgs&) { return {0, kLargestSymbol}; }

struct DrawnMethod {
  const char* name;
  IntRange (*range)(const CallArgs&) = nullptr;  // of an int; null: nothing is known of it
  int before_out = -1;  // so many arguments come before the one that it writes to, if it may
  // What it does other than to draw numbers; null: what it gives is nothing of this kind.
  ValuePtr (*apply)(Executor& ex, const ValuePtr& generator, const CallArgs& args) = nullptr;
};
ValuePtr shuffled(Executor& ex, const ValuePtr& generator, const CallArgs& args);
ValuePtr permuted_items(Executor& ex, const ValuePtr& generator, const CallArgs& args);
ValuePtr chosen_items(Executor& ex, const ValuePtr& generator, const CallArgs& args);

// Of both classes.
constexpr DrawnMethod kMethods[] = {
    {.name = "beta"},
    {.name = "binomial", .range = not_negative},
    {.name = "chisquare"},
    {.name = "choice", .range = range_of_choice, .apply = chosen_items},
    {.name = "dirichlet"},
    {.name = "exponential"},
    {.name = "f"},
    {.name = "gamma"},
    {.name = "geometric", .range = not_negative},
    {.name = "gumbel"},
    {.name = "hypergeometric", .range = not_negative},
    {.name = "integers", .range = range_of_integers},
    {.name = "laplace"},
    {.name = "logistic"},
    {.name = "lognormal"},
    {.name = "logseries", .range = not_negative},
    {.name = "multinomial"},
    {.name = "multivariate_hypergeometric"},
    {.name = "multivariate_normal"},
    {.name = "negative_binomial", .range = not_negative},
    {.name = "noncentral_chisquare"},
    {.name = "noncentral_f"},
    {.name = "normal"},
    {.name = "pareto"},
    {.name = "permutation", .apply = permuted_items},
    {.name = "permuted"},
    {.name = "poisson", .range = not_negative},
    {.name = "power"},
    {.name = "rand"},
    {.name = "randint", .range = range_of_integers},
    {.name = "randn"},
    {.name = "random", .before_out = 2},
    {.name = "random_sample"},
    {.name = "rayleigh"},
    {.name = "seed"},
    {.name = "shuffle", .apply = shuffled},
    {.name = "standard_cauchy"},
    {.name = "standard_exponential", .before_out = 3},
    {.name = "standard_gamma", .before_out = 3},
    {.name = "standard_normal", .before_out = 2},
    {.name = "standard_t"},
    {.name = "tomaxint", .range = not_negative},
    {.name = "triangular"},
    {.name = "uniform"},
    {.name = "vonmises"},
    {.name = "wald"},
    {.name = "weibull"},
    {.name = "zipf", .range = not_negative},
};

// ---- arguments

[[noreturn]] void refuse(const char* method) { break_graph("CD0504", method); }

PyRef not_null(PyRef object) {
  if (!object) throw PythonError{};
  return object;
}

bool is_made_here(const ValuePtr& generator) { return generator->source->kind == SourceKind::kComputed; }

// The generator from which capture draws. Those that share a bit generator do so here too.
PyObject* numpy_stand_in(Executor& ex, const ValuePtr& value) {
  PyObject* generator = drawing_generator_of(value);
  if (is_made_here(value)) return generator;
  auto& stand_ins = ex.state().draws.stand_ins;
  if (const auto known = stand_ins.find(generator); known != stand_ins.end()) return known->second.get();
  const PyRef bits = not_null(bit_generator_of(generator));
  PyRef& copied_bits = stand_ins[bits.get()];
  if (!copied_bits) copied_bits = not_null(copy_of_bit_generator(bits.get()));
  const PyRef over = copied_bits;
  return (stand_ins[generator] = not_null(copy_of_numpy_generator(generator, over.get()))).get();
}

// Null: not all of it is known since capture.
PyRef constant_argument(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (const auto constant = value->as_constant()) return *constant;
  if (value->type() != &PyTuple_Type && value->type() != &PyList_Type) return {};
  const std::vector<ValuePtr> items = items_of(ex, value);
  PyRef tuple = checked(PyTuple_New(std::ssize(items)));
  for (size_t i = 0; i < items.size(); ++i) {
    PyRef item = constant_argument(ex, items[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}

// The input that the array is, where nothing has been written to it: one of the call's, or drawn before. Null: another array.
const ArrayInput* unwritten_input(Executor& ex, const NumpyValue& array) {
  const TensorCapture& capture = tensor_capture(ex);
  const auto place = capture.storage_of.find(array.value());
  if (place == capture.storage_of.end()) return nullptr;
  const ArrayInput& input = *capture.inputs[place->second];
  return input.array.get() == &array && !input.written ? &input : nullptr;
}

class ArgumentsOfDraw {
 public:
  ArgumentsOfDraw(Executor& ex, const ValuePtr& generator, const DrawnMethod& method)
      : ex_(ex),
        method_(method),
        operands_(operands_of_draw(generator->source, numpy_stand_in(ex, generator))) {}

  void add(const CallArgs& args) {
    // What it is to write to is left to NumPy, which takes for an array what is none.
    if (method_.before_out >= 0 && std::ssize(args.positional) > method_.before_out) refuse(method_.name);
    for (const ValuePtr& value : args.positional) add(value);
    if (args.keywords.empty()) return;
    operands_.keywords = checked(PyTuple_New(std::ssize(args.keywords)));
    for (size_t i = 0; i < args.keywords.size(); ++i) {
      const Keyword& keyword = args.keywords[i];
      const bool is_out = PyUnicode_CompareWithASCIIString(keyword.name.get(), "out") == 0;
      if (is_out && !is_none(keyword.value)) refuse(method_.name);
      add(keyword.value);
      PyTuple_SET_ITEM(operands_.keywords.get(), static_cast<Py_ssize_t>(i), Py_NewRef(keyword.name.get()));
    }
  }

  Draw draw(PyObject* function) {
    std::optional<Draw> drawn = draw_next(ex_, std::move(operands_), function);
    if (!drawn) refuse(method_.name);  // where NumPy raises, it is to do so itself
    return *std::move(drawn);
  }

  bool share_memory(const TensorInfo& drawn) const {
    return std::ranges::any_of(arrays_, [&](const TensorInfo* array) {
      return drawn.begin < array->end && array->begin < drawn.end;
    });
  }

  // Sizes as the program has asked for them, as far as they explain these. Whatever is said here is guarded.
  std::vector<Sym> explained(const runtime::TensorView& view) const {
    const graph::SymContext& context = *ex_.graph().sym;
    std::vector<Sym> sizes(view.sizes, view.sizes + view.rank);
    for (const std::vector<Sym>& asked : asked_) {
      const auto is_size = [&](const Sym& sym, int64_t size) { return context.hint(sym) == size; };
      if (asked.size() > sizes.size() || !std::equal(asked.begin(), asked.end(), view.sizes, is_size))
        continue;
      std::ranges::copy(asked, sizes.begin());
      break;
    }
    return sizes;
  }

 private:
  void add(const ValuePtr& given) {
    const auto* scalar = dynamic_cast<NumpyNumberValue*>(given.get());
    const ValuePtr& value = scalar ? scalar->number() : given;
    if (PyRef constant = constant_argument(ex_, value)) {
      operands_.operands.push_back({.source = nullptr, .integer = {}, .constant = constant});
      operands_.now.push_back(std::move(constant));
    } else if (const auto* array = dynamic_cast<NumpyValue*>(value.get())) {
      if (!(array->is_scalar() ? add_scalar(*array) : add_array(*array))) refuse(method_.name);
    } else if (add_number(ex_, operands_, value)) {
      if (const auto size = as_sym(value)) asked_.push_back({*size});
    } else if (!add_integers(value)) {
      refuse(method_.name);
    }
  }

  bool add_array(const NumpyValue& array) {
    const ArrayInput* input = unwritten_input(ex_, array);
    if (!input) return false;
    add_object(input->source, input->object);
    arrays_.push_back(&input->info);
    asked_.push_back(array.array_type().sizes);
    return true;
  }

  // One that came in.
  bool add_scalar(const NumpyValue& scalar) {
    PyRef now = scalar.source ? follow(*scalar.source, ex_.state().request.roots) : PyRef();
    if (!now) return false;
    add_object(scalar.source, std::move(now));
    return true;
  }

  void add_object(const SourcePtr& source, PyRef now) {
    operands_.operands.push_back(
        {.source = source, .integer = {}, .constant = {}, .integers = {}, .is_object = true});
    operands_.now.push_back(std::move(now));
  }

  // A tuple or list of ints, such as `size`.
  bool add_integers(const ValuePtr& value) {
    if (value->type() != &PyTuple_Type && value->type() != &PyList_Type) return false;
    const graph::SymContext& context = *ex_.graph().sym;
    std::vector<Sym> integers;
    for (const ValuePtr& item : items_of(ex_, value)) {
      const auto* scalar = dynamic_cast<NumpyNumberValue*>(item.get());
      const auto integer = as_sym(scalar ? scalar->number() : item);
      if (!integer || context.reads_data(*integer)) return false;
      integers.push_back(*integer);
    }
    PyRef now = checked(PyTuple_New(std::ssize(integers)));
    for (size_t i = 0; i < integers.size(); ++i)
      PyTuple_SET_ITEM(now.get(), static_cast<Py_ssize_t>(i),
                       checked(PyLong_FromLongLong(context.hint(integers[i]))).release());
    asked_.push_back(integers);
    operands_.now.push_back(std::move(now));
    operands_.operands.push_back(
        {.source = nullptr, .integer = {}, .constant = {}, .integers = std::move(integers)});
    return true;
  }

  Executor& ex_;
  const DrawnMethod& method_;
  DrawOperands operands_;
  std::vector<const TensorInfo*> arrays_;
  std::vector<std::vector<Sym>> asked_;
};

// ---- what is drawn

std::shared_ptr<ArrayValue> make_drawn_array(graph::Value* value, const SourcePtr&, PyObject*) {
  return std::make_shared<NumpyValue>(value, false);
}

// Null: an array that the graph cannot take, or that shares memory with an argument.
ValuePtr drawn_array(Executor& ex, const Draw& draw, const ArgumentsOfDraw& arguments) {
  TensorInfo info;
  read_tensor(draw.drawn.get(), &info);
  if (!info.obstacle.empty() || arguments.share_memory(info)) return nullptr;
  return add_made_input(ex, draw.drawn.get(), draw.source, arguments.explained(info.view), make_drawn_array);
}

ValuePtr drawn_integer(Executor& ex, const Draw& draw, const IntRange& range) {
  DType dtype = DType::kI64;
  const bool is_numpy = is_numpy_integer(draw.drawn.get(), &dtype);
  if (is_numpy && (!ex.state().request.is_native || dtype == DType::kU64)) return nullptr;
  const int64_t number =
      PyLong_AsLongLong(is_numpy ? checked(PyNumber_Index(draw.drawn.get())).get() : draw.drawn.get());
  if (number == -1 && PyErr_Occurred()) PyErr_Clear();
  if (number < range.least || number > range.most) return nullptr;
  const ValuePtr drawn = random_int(ex, draw.source, number, range.least, range.most,
                                    is_numpy ? Py_TYPE(draw.drawn.get()) : nullptr);
  if (!is_numpy) return drawn;
  use_framework(ex, graph::Framework::kNumpy);
  return make_numpy_number(ex, drawn, dtype);
}

// rng.choice([0.5, 1.5])
ValuePtr drawn_scalar(Executor& ex, const Draw& draw) {
  graph::TensorType type;
  if (!ex.state().request.is_native || !is_numpy_real(draw.drawn.get(), &type.dtype)) return nullptr;
  guard_exact_type(ex, draw.drawn.get(), draw.source);
  use_framework(ex, graph::Framework::kNumpy);
  const InputKind kind = type.dtype == DType::kF64 ? InputKind::kFloat : InputKind::kNumpyScalar;
  graph::Value* input = ex.add_input(kind, draw.source, std::move(type));
  return numpy_call(ex, "call_function", PyRef::borrow(library_object("operator", "pos")),
                    positional({std::make_shared<NumpyValue>(input, true)}),
                    [&] { return make_numpy_result(ex, append_call1(ex, "clone", {input})); });
}

// Null: nothing that the graph can take.
ValuePtr drawn_value(Executor& ex, const Draw& draw, const IntRange& range,
                     const ArgumentsOfDraw& arguments) {
  PyObject* drawn = draw.drawn.get();
  if (drawn == Py_None) return ex.none();
  if (PyFloat_CheckExact(drawn)) return drawn_float(ex, draw);
  if (PyLong_CheckExact(drawn) || is_numpy_integer(drawn)) return drawn_integer(ex, draw, range);
  return Py_TYPE(drawn) == numpy_access::api()->array_type ? drawn_array(ex, draw, arguments)
                                                           : drawn_scalar(ex, draw);
}

PyObject* function_of(const ValuePtr& generator, const char* name) {
  return _PyType_Lookup(generator->type(), interned(name));
}

const DrawnMethod* find_method(const char* name) {
  const auto* row = std::ranges::find(kMethods, std::string_view(name), &DrawnMethod::name);
  return row == std::end(kMethods) ? nullptr : row;
}

ValuePtr draw_by(Executor& ex, const ValuePtr& generator, const char* name, const CallArgs& args) {
  const DrawnMethod& method = *find_method(name);
  const IntRange range = method.range ? method.range(args) : IntRange{};
  ArgumentsOfDraw arguments(ex, generator, method);
  arguments.add(args);
  const Draw draw = arguments.draw(function_of(generator, name));
  ValuePtr value = drawn_value(ex, draw, range, arguments);
  if (!value) refuse(name);
  return value;
}

// ---- orders and choices of an array's items: NumPy draws what it draws for their indices

NumpyValue* array_of_items(const ValuePtr& value) {
  auto* array = dynamic_cast<NumpyValue*>(value.get());
  return array && !array->is_scalar() && array->rank() > 0 ? array : nullptr;
}

bool is_array_alone(const CallArgs& args) {
  return args.positional.size() == 1 && args.keywords.empty() && array_of_items(args.positional[0]);
}

ValuePtr order_of_items(Executor& ex, const ValuePtr& generator, const ValuePtr& array) {
  return draw_by(ex, generator, "permutation", positional({array->length(ex)}));
}

// Python's random.shuffle of a list, and NumPy's, go by the same steps.
bool shuffle_list(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keywords.empty() || args.positional[0]->type() != &PyList_Type)
    return false;
  return reorder_list(ex, args.positional[0], [&](const ValuePtr& length) {
    ArgumentsOfDraw arguments(ex, generator, *find_method("shuffle"));
    arguments.add(positional({length}));
    return arguments.draw(python_side(PythonSide::kRandomOrder));
  });
}

ValuePtr shuffled(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  if (shuffle_list(ex, generator, args)) return ex.none();
  if (!is_array_alone(args)) refuse("shuffle");
  const ValuePtr array = args.positional[0];
  const ValuePtr items = array->get_item(ex, order_of_items(ex, generator, array));
  array->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), items);
  return ex.none();
}

ValuePtr permuted_items(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  if (!is_array_alone(args)) return nullptr;
  const ValuePtr array = args.positional[0];
  return array->get_item(ex, order_of_items(ex, generator, array));
}

ValuePtr chosen_items(Executor& ex, const ValuePtr& generator, const CallArgs& args) {
  NumpyValue* array = args.positional.empty() ? nullptr : array_of_items(args.positional[0]);
  if (!array || array->rank() != 1 || is_given(args, 4, "axis")) return nullptr;
  CallArgs of_indices = args;
  of_indices.positional[0] = array->length(ex);
  return array->get_item(ex, draw_by(ex, generator, "choice", of_indices));
}

// ---- the generator

class NumpyDrawValue final : public DrawingMethod {
 public:
  NumpyDrawValue(ValuePtr generator, const DrawnMethod& method)
      : DrawingMethod(std::move(generator), method.name), method_(method) {}
  PyTypeObject* type() const override { return &PyMethod_Type; }
  std::string describe() const override {
    return absl::StrCat(generator_->type()->tp_name, ".", method_.name);
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    ValuePtr given = method_.apply ? method_.apply(ex, generator_, args) : nullptr;
    return given ? given : draw_by(ex, generator_, method_.name, args);
  }

 private:
  const DrawnMethod& method_;
};

class NumpyGeneratorValue final : public DrawingGenerator {
 public:
  using DrawingGenerator::DrawingGenerator;
  std::string describe() const override { return type()->tp_name; }
  // Null: captured code has made it.
  PyObject* real_object() const override {
    return source->kind == SourceKind::kComputed ? nullptr : generator();
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    PyObject* found = _PyType_Lookup(type(), name);
    ValuePtr method = found ? method_called(ex, PyUnicode_AsUTF8(name), found) : nullptr;
    if (!method) refuse(PyUnicode_AsUTF8(name));
    return method;
  }
  ValuePtr method_called(Executor& ex, const char* name, PyObject*) override {
    const DrawnMethod* method = find_method(name);
    if (!method) return nullptr;
    guard_class(ex, type());
    return std::make_shared<NumpyDrawValue>(shared_from_this(), *method);
  }
};

// ---- functions of numpy.random that are no methods

// Each call makes one, in the order of the draws. It does not leave.
ValuePtr make_generator(Executor& ex, PyObject* function, const CallArgs& args) {
  CallArgs seed = args;
  for (const Keyword& keyword : args.keywords) seed.positional.push_back(keyword.value);
  if (seed.positional.size() > 1) refuse("default_rng");
  DrawOperands operands;
  for (const ValuePtr& value : seed.positional) {
    if (!is_none(value) && (value->type() != &PyLong_Type || !add_number(ex, operands, value)))
      refuse("default_rng");
  }
  const std::optional<Draw> made = draw_next(ex, std::move(operands), function);
  if (!made || !is_numpy_generator(made->drawn.get())) refuse("default_rng");
  guard_exact_type(ex, made->drawn.get(), made->source);
  return std::make_shared<NumpyGeneratorValue>(made->drawn.get(), made->source);
}

// One that calls the method of the generator behind the module.
template <const char* name>
ValuePtr of_the_module(Executor& ex, PyObject*, const CallArgs& args) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.random.mtrand");
  PyObject* own = module ? PyDict_GetItemString(PyModule_GetDict(module), "_rand") : nullptr;
  if (!own) refuse(name);
  const ValuePtr generator = ex.wrap(own, module_global_source(module, interned("_rand")));
  return generator->get_attribute(ex, interned(name))->call(ex, args);
}
constexpr char kSeed[] = "seed", kRandomSample[] = "random_sample";

constexpr NumpySpecialRow kRandomFunctions[] = {
    {"numpy.random.default_rng", make_generator},
    {"numpy.random.seed", of_the_module<kSeed>},
    {"numpy.random.ranf", of_the_module<kRandomSample>},
    {"numpy.random.sample", of_the_module<kRandomSample>},
};

}  // namespace

std::span<const NumpySpecialRow> numpy_random_functions() { return kRandomFunctions; }

ValuePtr wrap_numpy_generator(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!source || !is_numpy_generator(object)) return nullptr;
  guard_exact_type(ex, object, source);
  return std::make_shared<NumpyGeneratorValue>(object, source);
}

}  // namespace cdynamo::symbolic
