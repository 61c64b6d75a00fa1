#include "symbolic/values/partial.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {
PyTypeObject* partial_type() {
  return reinterpret_cast<PyTypeObject*>(library_object("functools", "partial"));
}

// Keywords of a later call replace those that are bound.
CallArgs merged(const CallArgs& bound, const CallArgs& args) {
  CallArgs all = bound;
  all.positional.insert(all.positional.end(), args.positional.begin(), args.positional.end());
  for (const Keyword& keyword : args.keywords) {
    bool replaced = false;
    for (Keyword& old : all.keywords) {
      if (PyUnicode_Compare(old.name.get(), keyword.name.get()) != 0) continue;
      old.value = keyword.value;
      replaced = true;
    }
    if (!replaced) all.keywords.push_back(keyword);
  }
  return all;
}
}  // namespace

PyTypeObject* PartialValue::type() const { return partial_type(); }

// partial_new (Modules/_functoolsmodule.c): a partial of a partial is flattened.
ValuePtr make_partial(Executor& ex, const CallArgs& args) {
  if (args.positional.empty()) raise_error(ex, PyExc_TypeError, "type 'partial' takes at least one argument");
  CallArgs rest = args;
  ValuePtr function = rest.positional.front();
  require_callable(ex, function, "the first argument must be callable");
  rest.positional.erase(rest.positional.begin());
  if (auto* inner = dynamic_cast<PartialValue*>(function.get())) {
    rest = merged(inner->bound(ex), rest);
    function = inner->get_attribute(ex, interned("func"));
  }
  auto keywords = new_dict();
  for (const Keyword& keyword : rest.keywords) keywords->store(ex, ex.constant(keyword.name), keyword.value);
  return std::make_shared<PartialValue>(function, std::move(rest.positional), keywords);
}

std::vector<ValuePtr> PartialValue::held() const {
  std::vector<ValuePtr> all = positional_;
  all.push_back(function_);
  all.push_back(keywords_);
  for (const auto& [name, value] : attributes_) all.push_back(value);
  return all;
}

CallArgs PartialValue::bound(Executor& ex) const {
  CallArgs bound{.positional = positional_, .keywords = {}};
  for (const DictValue::Entry& entry : dict_in(keywords_)->entries(ex))
    bound.keywords.push_back({string_argument(ex, entry.key), entry.value});
  return bound;
}

ValuePtr wrap_partial(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (Py_TYPE(object) != partial_type()) return nullptr;
  guard_exact_type(ex, object, source);
  auto part = [&](const char* name) {
    PyRef value = checked(PyObject_GetAttrString(object, name));
    return ex.wrap(value.get(), attribute_source(source, interned(name)));
  };
  std::vector<ValuePtr> arguments = items_of(ex, part("args"));
  ValuePtr keywords = part("keywords");
  if (!dict_in(keywords)) return nullptr;
  auto value = std::make_shared<PartialValue>(part("func"), std::move(arguments), std::move(keywords));
  value->object = PyRef::borrow(object);
  value->source = source;
  return value;
}

ValuePtr PartialValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "func") return function_;
  if (text == "args") return new_tuple(positional_);
  if (text == "keywords") {
    keywords_are_shown_ = true;
    return keywords_;
  }
  for (const auto& [key, value] : attributes_)
    if (PyUnicode_Compare(key.get(), name) == 0) return value;
  return SymbolicValue::get_attribute(ex, name);
}

// What functools.partialmethod notes of the method.
void PartialValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  if (source || recipe_ || !value || _PyType_Lookup(type(), name))
    return SymbolicValue::set_attribute(ex, name, value);
  ex.changing(shared_from_this(), false);
  std::erase_if(attributes_,
                [&](const auto& known) { return PyUnicode_Compare(known.first.get(), name) == 0; });
  attributes_.emplace_back(PyRef::borrow(name), value);
}

ValuePtr PartialValue::call(Executor& ex, const CallArgs& args) {
  ex.state().hand_call_on(*this, *function_);
  return function_->call(ex, merged(bound(ex), args));
}

PyRef PartialValue::hash_key(Executor& ex) { return object ? object : SymbolicValue::hash_key(ex); }

// functools.partial(f, *args, **keywords) takes keywords by __setstate__ only; a recipe has positional
// arguments.
RecipePtr PartialValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  if (!attributes_.empty()) break_graph("CD0211", "functools.partial with attributes");
  std::vector<RecipePtr> arguments = recipes_of(ex, positional_);
  arguments.insert(arguments.begin(), function_->recipe(ex));
  const bool has_keywords = dict_in(keywords_)->size(ex) > 0;
  if (!has_keywords && !keywords_are_shown_)
    return recipe_ = call_recipe(reinterpret_cast<PyObject*>(type()), std::move(arguments));
  RecipePtr made = call_recipe(reinterpret_cast<PyObject*>(type()), {function_->recipe(ex)});
  // __setstate__ takes an exact dict as it is.
  RecipePtr keywords = keywords_->recipe(ex);
  arguments.erase(arguments.begin());
  RecipePtr state =
      make_recipe(RecipeKind::kTuple, nullptr,
                  {function_->recipe(ex), make_recipe(RecipeKind::kTuple, nullptr, std::move(arguments)),
                   keywords, make_recipe(RecipeKind::kConstant, Py_None)});
  PyRef set_state = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type()), "__setstate__"));
  Effect effect;
  effect.kind = EffectKind::kCall;
  effect.target = make_recipe(RecipeKind::kConstant, set_state.get());
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, {made, state});
  ex.effect(std::move(effect));
  return recipe_ = made;
}

}  // namespace cdynamo::symbolic
