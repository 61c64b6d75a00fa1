#include "frame_eval/execution/rebuild.h"

#include <algorithm>

#include "graph/op.h"

namespace cdynamo::frame_eval {

using symbolic::Effect;
using symbolic::EffectKind;
using symbolic::Recipe;
using symbolic::RecipeKind;
using symbolic::RecipePtr;

namespace {

// Containers that can hold themselves are made empty first and filled once their items are made.
bool is_filled_later(RecipeKind kind) {
  return kind == RecipeKind::kList || kind == RecipeKind::kDict || kind == RecipeKind::kCell;
}

PyRef tuple_of(const std::vector<int>& items, size_t first, const std::vector<PyRef>& made) {
  PyRef tuple = PyRef::steal(PyTuple_New(items.size() - first));
  if (!tuple) return tuple;
  for (size_t i = first; i < items.size(); ++i) {
    PyObject* item = made[items[i]].get();
    Py_INCREF(item);
    PyTuple_SET_ITEM(tuple.get(), i - first, item);
  }
  return tuple;
}

PyRef make_set(const Recipe& recipe, PyObject* elements) {
  PyTypeObject* type = recipe.kind == RecipeKind::kSet ? &PySet_Type : &PyFrozenSet_Type;
  if (recipe.layout) return PyRef::steal(symbolic::laid_out_set(*recipe.layout, elements, type));
  return PyRef::steal(type == &PySet_Type ? PySet_New(elements) : PyFrozenSet_New(elements));
}

PyRef make_function(const std::vector<int>& items, const std::vector<PyRef>& made) {
  auto item = [&](size_t i) { return made[items[i]].get(); };
  PyRef function = PyRef::steal(PyFunction_NewWithQualName(item(0), item(1), item(2)));
  if (!function) return function;
  if (item(3) != Py_None && PyFunction_SetDefaults(function.get(), item(3)) < 0) return {};
  if (item(4) != Py_None && PyFunction_SetKwDefaults(function.get(), item(4)) < 0) return {};
  if (items.size() > 5) {
    PyRef closure = tuple_of(items, 5, made);
    if (!closure || PyFunction_SetClosure(function.get(), closure.get()) < 0) return {};
  }
  return function;
}

PyRef call_recipe(const std::vector<int>& items, const std::vector<PyRef>& made) {
  PyRef args = tuple_of(items, 1, made);
  if (!args) return args;
  return PyRef::steal(PyObject_Call(made[items[0]].get(), args.get(), nullptr));
}

PyRef new_object(PyObject* type) {
  static PyObject* empty = PyTuple_New(0);
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  return PyRef::steal(PyBaseObject_Type.tp_new(cls, empty, nullptr));
}

int delete_or_set_item(PyObject* target, PyObject* key, PyObject* value) {
  return value ? PyObject_SetItem(target, key, value) : PyObject_DelItem(target, key);
}

bool replace_dict(PyObject* target, PyObject* value) {
  PyRef cleared = PyRef::steal(PyObject_CallMethod(target, "clear", nullptr));
  return cleared && PyRef::steal(PyObject_CallMethod(target, "update", "O", value));
}

bool replace_set(PyObject* target, PyObject* value) {
  if (!PySet_Check(target) || !PySet_CheckExact(value)) return false;
  symbolic::swap_contents(target, value);
  return true;
}

// A list that is being sorted tells by its allocation that it was changed, if only for a time.
bool replace_list(PyObject* list, PyObject* items) {
  const bool is_being_sorted = reinterpret_cast<PyListObject*>(list)->allocated == -1;
  if (is_being_sorted && PyList_Append(list, Py_None) < 0) return false;
  return PyList_SetSlice(list, 0, PyList_GET_SIZE(list), items) == 0;
}

bool call_effect(PyObject* target, PyObject* names, PyObject* arguments) {
  const Py_ssize_t positional = PyTuple_GET_SIZE(arguments) - (names ? PyTuple_GET_SIZE(names) : 0);
  PyObject* const* items = &PyTuple_GET_ITEM(arguments, 0);
  return static_cast<bool>(
      PyRef::steal(PyObject_Vectorcall(target, items, static_cast<size_t>(positional), names)));
}

bool could_not_make(const Recipe& recipe) {
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_SystemError, "cdynamo: a value could not be rebuilt (recipe kind %d)",
                 static_cast<int>(recipe.kind));
  return false;
}

}  // namespace

Rebuild::Rebuild(std::vector<RecipePtr> results, std::vector<Effect> effects,
                 std::shared_ptr<graph::SymContext> sym)
    : results_(std::move(results)), effects_(std::move(effects)), sym_(std::move(sym)) {
  if (effects_.empty() && results_.size() == 1 && results_[0]) {
    const RecipeKind kind = results_[0]->kind;
    if (kind == RecipeKind::kTensor || kind == RecipeKind::kNumpyScalar || kind == RecipeKind::kPythonScalar)
      single_output_ = results_[0]->index;
  }
  for (const RecipePtr& recipe : results_) result_steps_.push_back(add(recipe));
  for (const Effect& effect : effects_)
    effect_steps_.push_back(
        {add(effect.target), effect.key ? add(effect.key) : -1, effect.value ? add(effect.value) : -1});
  step_of_ = {};
}

int Rebuild::add(const RecipePtr& recipe) {
  if (!recipe) throw graph::InternalError("a recipe is missing");
  if (auto known = step_of_.find(recipe.get()); known != step_of_.end()) return known->second;
  // A container that may hold itself gets its place before its items, so that they find it.
  int place = -1;
  if (is_filled_later(recipe->kind)) {
    place = static_cast<int>(steps_.size());
    steps_.push_back({recipe.get(), {}, -1});
    step_of_[recipe.get()] = place;
  }
  std::vector<int> items;
  for (const RecipePtr& item : recipe->items) items.push_back(add(item));
  const int here = static_cast<int>(steps_.size());
  if (place >= 0 && items.empty()) return place;
  // It was made on the way: what it is made from is held by a container that holds it (a generator in its own closure).
  if (auto known = step_of_.find(recipe.get()); place < 0 && known != step_of_.end()) return known->second;
  steps_.push_back({recipe.get(), std::move(items), place});
  if (place >= 0) return place;
  step_of_[recipe.get()] = here;
  return here;
}

std::vector<OutputForm> Rebuild::output_forms(size_t num_outputs) const {
  std::vector<OutputForm> forms(num_outputs, OutputForm::kUnused);
  for (const Step& step : steps_) {
    const Recipe& recipe = *step.recipe;
    if (recipe.kind == RecipeKind::kNumpyScalar)
      forms.at(recipe.index) = OutputForm::kNumpyScalar;
    else if (recipe.kind == RecipeKind::kPythonScalar)
      forms.at(recipe.index) = OutputForm::kPythonScalar;
    else if (recipe.kind == RecipeKind::kTensor)
      forms.at(recipe.index) =
          symbolic::numpy_is_loaded() && recipe.object && PyType_Check(recipe.object.get()) &&
                  std::string_view(reinterpret_cast<PyTypeObject*>(recipe.object.get())->tp_name) ==
                      "numpy.ndarray"
              ? OutputForm::kNumpyArray
              : OutputForm::kTorchTensor;
  }
  return forms;
}

void Rebuild::read_sources(const symbolic::Roots& roots, std::vector<PyRef>& made) const {
  made.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Recipe& recipe = *steps_[i].recipe;
    if (recipe.kind == RecipeKind::kSource)
      made[i] = symbolic::follow(*recipe.source, roots);
    else if (recipe.kind == RecipeKind::kConstant || recipe.kind == RecipeKind::kNewObject)
      made[i] = PyRef::borrow(recipe.object.get());
    else
      continue;
    if (!made[i]) {
      PyErr_Clear();
      throw MissingSource{recipe.source ? recipe.source->name() : "a constant"};
    }
  }
}

bool Rebuild::run(std::vector<PyRef> made, const Bindings& bindings, const std::vector<PyRef>& outputs,
                  std::vector<PyRef>& results) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].fills >= 0) {
      if (!fill(steps_[i], made[steps_[i].fills].get(), made)) return false;
    } else if (steps_[i].recipe->kind == RecipeKind::kNewObject) {
      made[i] = new_object(made[i].get());
      if (!made[i]) return could_not_make(*steps_[i].recipe);
    } else if (!made[i]) {
      made[i] = make(steps_[i], bindings, outputs, made);
      if (!made[i] && steps_[i].recipe->kind != RecipeKind::kNull) return could_not_make(*steps_[i].recipe);
    }
  }
  auto at = [&](int step) { return step < 0 ? nullptr : made[step].get(); };
  for (size_t i = 0; i < effects_.size(); ++i) {
    const EffectSteps& steps = effect_steps_[i];
    if (!apply(effects_[i], at(steps.target), at(steps.key), at(steps.value))) return false;
  }
  results.clear();
  for (int step : result_steps_) results.push_back(made[step]);
  return true;
}

PyRef Rebuild::make(const Step& step, const Bindings& bindings, const std::vector<PyRef>& outputs,
                    const std::vector<PyRef>& made) const {
  const Recipe& recipe = *step.recipe;
  switch (recipe.kind) {
    case RecipeKind::kTensor:
    case RecipeKind::kNumpyScalar:
    case RecipeKind::kPythonScalar: return outputs.at(recipe.index);
    case RecipeKind::kInt:
      return PyRef::steal(PyLong_FromLongLong(recipe.size.is_constant()
                                                  ? recipe.size.constant()
                                                  : sym_->evaluate(recipe.size, bindings.symbols.data())));
    case RecipeKind::kInput: return PyRef::borrow(bindings.inputs.at(recipe.index));
    case RecipeKind::kTuple: return tuple_of(step.items, 0, made);
    case RecipeKind::kList: return PyRef::steal(PyList_New(0));
    case RecipeKind::kDict: return PyRef::steal(PyDict_New());
    case RecipeKind::kCell: return PyRef::steal(PyCell_New(nullptr));
    case RecipeKind::kSet:
    case RecipeKind::kFrozenSet: {
      PyRef elements = tuple_of(step.items, 0, made);
      return elements ? make_set(recipe, elements.get()) : PyRef();
    }
    case RecipeKind::kSlice:
      return PyRef::steal(
          PySlice_New(made[step.items[0]].get(), made[step.items[1]].get(), made[step.items[2]].get()));
    case RecipeKind::kCall: return call_recipe(step.items, made);
    case RecipeKind::kFunction: return make_function(step.items, made);
    case RecipeKind::kBoundMethod:
      return PyRef::steal(PyMethod_New(made[step.items[0]].get(), made[step.items[1]].get()));
    case RecipeKind::kConstant:   // read before
    case RecipeKind::kNewObject:  // by run()
    case RecipeKind::kSource:
    case RecipeKind::kNull: return {};
  }
  return {};
}

bool Rebuild::fill(const Step& step, PyObject* container, const std::vector<PyRef>& made) const {
  switch (step.recipe->kind) {
    case RecipeKind::kList:
      return std::all_of(step.items.begin(), step.items.end(),
                         [&](int item) { return PyList_Append(container, made[item].get()) == 0; });
    case RecipeKind::kDict:
      for (size_t i = 0; i + 1 < step.items.size(); i += 2)
        if (PyDict_SetItem(container, made[step.items[i]].get(), made[step.items[i + 1]].get()) < 0)
          return false;
      return true;
    case RecipeKind::kCell:
      return step.items.empty() || PyCell_Set(container, made[step.items[0]].get()) == 0;
    default: return true;
  }
}

bool Rebuild::apply(const Effect& effect, PyObject* target, PyObject* key, PyObject* value) const {
  switch (effect.kind) {
    case EffectKind::kSetAttribute:
    case EffectKind::kDeleteAttribute:
      // object.__setattr__: a class's own __setattr__ was executed symbolically already.
      return (PyType_Check(target) ? PyType_Type.tp_setattro : PyObject_GenericSetAttr)(
                 target, key, effect.kind == EffectKind::kSetAttribute ? value : nullptr) == 0;
    case EffectKind::kSetItem:
    case EffectKind::kSetGlobal: return delete_or_set_item(target, key, value) == 0;
    case EffectKind::kDeleteItem:
    case EffectKind::kDeleteGlobal: return PyObject_DelItem(target, key) == 0;
    case EffectKind::kReplaceList: return replace_list(target, value);
    case EffectKind::kExtendList:
      return PyList_SetSlice(target, PyList_GET_SIZE(target), PyList_GET_SIZE(target), value) == 0;
    case EffectKind::kReplaceDict: return replace_dict(target, value);
    case EffectKind::kReplaceSet: return replace_set(target, value);
    case EffectKind::kSetCell: return PyCell_Set(target, value) == 0;
    case EffectKind::kCall: return call_effect(target, key, value);
  }
  return false;
}

}  // namespace cdynamo::frame_eval
