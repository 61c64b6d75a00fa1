#include "symbolic/capture/executor.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::symbolic {

Executor::State::State(const CaptureRequest& request)
    : request(request), builder((result.graph = std::make_shared<graph::Graph>(), *result.graph)) {
  result.user_calls = checked(PyList_New(0));
}

Executor::State::~State() {
  for (const auto& [address, value] : cyclic)
    if (auto alive = value.lock()) alive->forget();
  // What came in may hold itself too.
  for (const auto& [object, value] : by_object) value->forget();
  for (const auto& [source, value] : by_source) value->forget();
  for (const auto& [object, value] : made_classes.values) value->forget();
}

Executor::Executor(const CaptureRequest& request) : state_(std::make_unique<State>(request)) {}
Executor::~Executor() = default;

// ---- objects to values

namespace {

// Objects whose identity programs do not rely on: each source has a value and a guard of its own.
bool has_no_identity(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) ||
         PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
         PyComplex_CheckExact(object) || PyTuple_CheckExact(object) || PySlice_Check(object) ||
         object == Py_Ellipsis;
}

// Tensors, arrays, and other objects whose kind the frameworks own; null: not theirs.
ValuePtr wrap_framework_object(Executor& ex, PyObject* object, const SourcePtr& source) {
  switch (tensor_kind(object)) {
    case TensorKind::kTorch: return wrap_torch_tensor(ex, object, source);
    case TensorKind::kNumpy: return wrap_numpy_array(ex, object, source);
    case TensorKind::kNone: break;
  }
  if (torch_is_loaded())
    if (ValuePtr value = wrap_torch_object(ex, object, source)) return value;
  return wrap_numpy_object(ex, object, source);
}

ValuePtr wrap_framework_callable(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (torch_is_loaded())
    if (ValuePtr value = wrap_torch_callable(ex, object, source)) return value;
  return wrap_numpy_callable(ex, object, source);
}

ValuePtr wrap_new(Executor& ex, PyObject* object, const SourcePtr& source) {
  // A proxy says that it is of its object's class.
  if (has_no_identity(object) || PyWeakref_CheckProxy(object)) return wrap_python_object(ex, object, source);
  if (ValuePtr value = wrap_framework_object(ex, object, source)) return value;
  if (PyCallable_Check(object) || PyType_Check(object))
    if (ValuePtr value = wrap_framework_callable(ex, object, source)) return value;
  if (PyFunction_Check(object)) return wrap_function(ex, object, source);
  if (PyMethod_Check(object)) return wrap_method(ex, object, source);
  if (PyCell_Check(object)) return wrap_cell(ex, object, source);
  if (PyExceptionInstance_Check(object)) return wrap_exception(ex, object, source);
  return wrap_python_object(ex, object, source);
}

Guard same_object_guard(PyObject* object, const SourcePtr& known, const SourcePtr& other) {
  Guard guard;
  if (known->kind == SourceKind::kConstant || other->kind == SourceKind::kConstant) {
    guard.kind = GuardKind::kIdentity;
    guard.source = known->kind == SourceKind::kConstant ? other : known;
    guard.object = ConstantRef::weakly(object);
  } else {
    guard.kind = GuardKind::kSameObject;
    guard.source = other;
    guard.other = known;
  }
  return guard;
}

// What is read from there may be assigned to at any time.
bool is_state(const Source& source) {
  switch (source.kind) {
    case SourceKind::kGlobal:
    case SourceKind::kModuleGlobal:
    case SourceKind::kDictValueAt: return true;
    case SourceKind::kItem:
      return static_cast<bool>(source.key);  // lists are asked themselves, tuples stay as they are
    case SourceKind::kAttribute:             // of a function: its code, its defaults
      return source.base->kind != SourceKind::kConstant || !PyFunction_Check(source.base->object.get());
    default: return false;
  }
}

}  // namespace

ValuePtr Executor::wrap(PyObject* object, SourcePtr source) {
  State& s = *state_;
  if (auto it = s.made_classes.values.find(object); it != s.made_classes.values.end()) return it->second;
  if (!source) return wrap_new(*this, object, nullptr);
  if (!s.isolated_regions.empty() && is_state(*source) && has_no_identity(object)) asks_later(source->name());
  if (auto it = s.by_source.find(source); it != s.by_source.end()) return it->second;
  if (has_no_identity(object)) {
    ValuePtr value = wrap_python_object(*this, object, source);
    s.by_source.emplace(source, value);
    return value;
  }
  if (auto it = s.by_object.find(object); it != s.by_object.end()) {
    ValuePtr value = it->second;
    SourcePtr known = value->source;
    if (!known)  // it is made anew where it leaves
      for (const auto& [first, found] : s.by_source)
        if (found == value) known = first;
    if (known) guard(same_object_guard(object, known, source));
    s.by_source.emplace(source, value);
    return value;
  }
  // What is read of an object while its value is made may lead back to it: a defaultdict whose factory is a method of its own.
  if (std::ranges::find(s.being_wrapped, object) != s.being_wrapped.end())
    break_graph("CD0200", absl::StrCat("a ", Py_TYPE(object)->tp_name, " that refers to itself"));
  s.kept.push_back(PyRef::borrow(object));
  s.being_wrapped.push_back(object);
  const absl::Cleanup done = [&] { s.being_wrapped.pop_back(); };
  ValuePtr value = wrap_new(*this, object, source);
  s.by_source.emplace(source, value);
  s.by_object.emplace(object, value);
  return value;
}

ValuePtr Executor::constant(PyRef object) { return make_constant(*this, std::move(object)); }
ValuePtr Executor::constant_int(int64_t value) { return constant(checked(PyLong_FromLongLong(value))); }
ValuePtr Executor::constant_bool(bool value) { return constant(PyRef::borrow(value ? Py_True : Py_False)); }
ValuePtr Executor::none() {
  if (!state_->none_value) state_->none_value = constant(PyRef::borrow(Py_None));
  return state_->none_value;
}

// ---- guards, effects, graph

namespace {
size_t hash_guard(const Guard& guard) {
  size_t hash = hash_source(*guard.source) * 31 + static_cast<size_t>(guard.kind);
  return hash * 31 + static_cast<size_t>(guard.index + 1);
}

bool same_object(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (!PyUnicode_CheckExact(a) && !PyLong_CheckExact(a)) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool same_guard(const Guard& a, const Guard& b) {
  return a.kind == b.kind && a.index == b.index && same_object(a.object.get(), b.object.get()) &&
         same_source(*a.source, *b.source) && !a.other == !b.other &&
         (!a.other || same_source(*a.other, *b.other));
}

std::string base_name(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

const std::string& text_at(Executor::State& state, const CodeLine& place) {
  auto [it, added] = state.location_texts.try_emplace({place.code, place.line});
  if (added) it->second = source_line(place.code, place.line);
  return it->second;
}
}  // namespace

void Executor::guard(Guard guard) {
  State& s = *state_;
  size_t hash = hash_guard(guard);
  absl::InlinedVector<size_t, 1>& known = s.guard_index[hash];
  for (size_t index : known)
    if (same_guard(s.result.guards[index], guard)) return;
  if (guard.why.empty())
    if (const CodeLine place = user_line(s.frame); place.code)
      guard.why = absl::StrCat(base_name(place.file), ":", place.line, ": ", text_at(s, place));
  known.push_back(s.result.guards.size());
  s.result.guards.push_back(std::move(guard));
}

void Executor::effect(Effect effect) {
  ++state_->live_changes;
  state_->result.effects.push_back(std::move(effect));
}

void Executor::mutated(const ValuePtr& value) {
  if (value->source && isolated_region() && !isolated_region()->may_write_objects)
    break_graph("CD0419", isolated_region()->what);
  if (value->source || value->real_object()) ++state_->live_changes;
  if (state_->mutated_set.insert(value.get()).second) state_->mutated.push_back(value);
}

namespace {
// The region that runs later, if it is the program's own code that runs; null: it is not.
const Executor::IsolatedRegion* later_region(const Executor::State& state) {
  const auto& regions = state.isolated_regions;
  const auto later = std::ranges::find_if(regions, [](const auto& region) { return region.runs_later >= 0; });
  return later == regions.end() ? nullptr : &*later;
}
}  // namespace

void Executor::asks_later(const std::string& what) const {
  const IsolatedRegion* region = later_region(*state_);
  if (region && state_->request.leaves_loops && !is_in_library(state_->frame))
    break_graph("CD0424", absl::StrCat(what, " in ", region->what));
}

void Executor::reads_later(SymbolicValue& container, bool is_live) {
  const IsolatedRegion* region = later_region(*state_);
  if (!region || !state_->request.leaves_loops) return;
  if (is_live)
    asks_later(container.describe());
  else
    state_->read_later.try_emplace(container.shared_from_this(), region->runs_later);
}

void Executor::changing(const ValuePtr& value, bool is_live) {
  if (!state_->read_later.empty() && !later_region(*state_))
    if (const auto read = state_->read_later.find(value); read != state_->read_later.end()) {
      state_->break_step = read->second;
      break_graph("CD0424", absl::StrCat(value->describe(), ", which is changed afterwards,"));
    }
  state_->cyclic[value.get()] = value;
  state_->key_calls.writes = true;
  if (is_live) return mutated(value);
  // Whether it was made outside is known of lists and cells alone.
  if (isolated_region() && isolated_region()->pure && !state_->made_in_region.contains(value))
    break_graph("CD0419", isolated_region()->what);
}

void Executor::State::note_let_go(PyObject* object) {
  if (!object || PyWeakref_Check(object)) return;
  if (Py_TYPE(object)->tp_weaklistoffset != 0) let_go.insert(object);
  if (tensor_kind(object) == TensorKind::kNone && PyObject_GC_IsTracked(object)) let_go_of_holder = true;
}

void assign_name(Executor& ex, PyObject* namespace_, PyObject* name, ValuePtr value) {
  Executor::State& state = ex.state();
  if (ex.isolated_region()) break_graph("CD0419", ex.isolated_region()->what);
  PyObject* interned = Py_NewRef(name);
  PyUnicode_InternInPlace(&interned);
  state.kept.push_back(PyRef::steal(interned));
  state.kept.push_back(PyRef::borrow(namespace_));
  state.note_let_go(PyDict_GetItemWithError(namespace_, interned));
  const std::pair<PyObject*, PyObject*> key{namespace_, interned};
  ++state.live_changes;
  if (!state.globals.count(key)) state.globals_order.push_back(key);
  state.globals[key] = std::move(value);
}

const ValuePtr* assigned_name(Executor& ex, PyObject* namespace_, PyObject* name) {
  const auto& globals = ex.state().globals;
  if (globals.empty()) return nullptr;
  const PyRef interned = [&] {
    PyObject* text = Py_NewRef(name);
    PyUnicode_InternInPlace(&text);
    return PyRef::steal(text);
  }();
  const auto found = globals.find({namespace_, interned.get()});
  return found == globals.end() ? nullptr : &found->second;
}

graph::Graph& Executor::graph() { return *state_->result.graph; }

graph::Builder& Executor::builder() {
  State& s = *state_;
  if (s.result.graph->nodes.size() > kMaxNodes) break_graph("CD0006", "");
  if (s.open_calls == 0)
    throw graph::InternalError("a node of the graph that belongs to no call of the program");
  int location = -1;
  if (const CodeLine place = user_line(s.frame); place.code) {
    auto [it, added] =
        s.locations.try_emplace({place.code, place.line}, static_cast<int>(s.result.graph->locations.size()));
    if (added)
      s.result.graph->locations.push_back({place.file, place.function, text_at(s, place), place.line});
    location = it->second;
  }
  s.builder.set_location(location, s.user_call,
                         s.isolated_regions.empty() ? 0 : s.isolated_regions.back().region);
  return s.builder;
}

namespace {
// A name for a graph value: "self.layers[0].weight" becomes "self_layers_0_weight".
std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text) {
    bool word = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (word)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "input" : name;
}
}  // namespace

graph::Value* Executor::add_input(InputKind kind, SourcePtr source, graph::TensorType type) {
  State& s = *state_;
  if (auto it = s.inputs.find(source); it != s.inputs.end()) return it->second;
  graph::Value* value = graph().add_input(std::move(type), identifier(source->name()));
  s.inputs.emplace(source, value);
  s.result.inputs.push_back({kind, source, value});
  return value;
}

namespace {
// A float is one only by itself: in a container NaN is compared by identity.
bool is_counter(const CaptureRequest& request, const Source* source, bool is_int) {
  while (is_int && source->kind == SourceKind::kItem && source->base) source = source->base.get();
  return source->kind == SourceKind::kArgument &&
         std::ranges::find(request.counters, source->label) != request.counters.end();
}

bool is_hinted(const CaptureRequest& request, const SourcePtr& source, int dim, bool is_int) {
  if (dim < 0 && !request.counters.empty() && is_counter(request, source.get(), is_int)) return true;
  if (request.dynamic.empty()) return false;
  std::string name = source->name();
  for (const DynamicHint& hint : request.dynamic)
    if (hint.dim == dim && hint.source == name) return true;
  return false;
}
}  // namespace

bool Executor::is_dynamic(const SourcePtr& source) const {
  return source && !state_->request.assume_static && is_hinted(state_->request, source, -1, false);
}

graph::Sym Executor::size_symbol(const SourcePtr& source, int dim, int64_t value, bool marked) {
  State& s = *state_;
  if (!source || s.request.assume_static) return graph::Sym(value);
  bool is_size = dim >= 0;
  if (is_size && value < 2) return graph::Sym(value);  // 0 and 1 are specialised
  bool dynamic = marked || is_hinted(s.request, source, dim, true) || (is_size && s.request.assume_dynamic);
  if (!dynamic || value > kLargestSymbol || value < -kLargestSymbol) return graph::Sym(value);
  auto [source_it, added] = s.size_sources.try_emplace(source, s.size_sources.size());
  auto [it, fresh] = s.size_symbols.try_emplace({source_it->second, dim});
  if (fresh) {
    graph::SymContext& context = *graph().sym;
    std::string name = (is_size ? "s" : "i") + std::to_string(context.symbols().size());
    it->second = context.new_symbol(name, value, is_size ? 2 : -kLargestSymbol, kLargestSymbol);
    s.symbols.push_back({static_cast<int>(context.symbols().size()) - 1, source, dim});
  }
  return it->second;
}

int Executor::record_user_call(const PyRef& record) {
  State& s = *state_;
  s.user_call = static_cast<int>(PyList_GET_SIZE(user_calls()));
  if (PyList_Append(user_calls(), record.get()) < 0) throw PythonError{};
  return s.user_call;
}

PyObject* Executor::user_calls() { return state_->result.user_calls.get(); }

void Executor::add_library_call(std::shared_ptr<LibraryCall> call) {
  state_->result.library_calls.push_back(std::move(call));
}
void Executor::uses_torch() { state_->result.uses_torch = true; }
void Executor::changes_autocast() { state_->result.changes_autocast = true; }

const Executor::IsolatedRegion* Executor::isolated_region() const {
  return state_->isolated_regions.empty() ? nullptr : &state_->isolated_regions.back();
}
void Executor::enter_isolated_region(std::string what, int region, bool pure) {
  state_->isolated_regions.push_back({std::move(what), region, graph().next_value_id(), pure});
}
void Executor::advancing() const {
  for (const IsolatedRegion& region : state_->isolated_regions)
    if (region.may_be_left_out) break_graph("CD0419", region.what);
}

void Executor::leave_isolated_region() {
  if (isolated_region()->pure || isolated_region()->runs_later >= 0) state_->made_in_region.clear();
  state_->isolated_regions.pop_back();
}

// ---- running

SymbolicFrame* Executor::frame() { return state_->frame; }

std::vector<UserFrame> Executor::user_stack() const { return frames_to(state_->frame); }

}  // namespace cdynamo::symbolic
