// What may not leave a capture: classes that it has made, what is in them and what is made of them.
#include <algorithm>
#include <unordered_set>

#include "symbolic/capture/executor_state.h"
#include "symbolic/frames/made_classes.h"

namespace cdynamo::symbolic {

namespace {

bool is_own(const Executor::State::MadeClasses& made, PyObject* object) {
  if (!object) return false;
  if (made.own.contains(object) || made.values.contains(object) ||
      made.own.contains(reinterpret_cast<PyObject*>(Py_TYPE(object))))
    return true;
  if (!PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (is_own(made, PyTuple_GET_ITEM(object, i))) return true;
  return false;
}

bool is_own(const Executor::State::MadeClasses& made, const SourcePtr& source) {
  const Source* root = source.get();
  while (root && root->base) root = root->base.get();
  return root && is_own(made, root->object.get());
}

// Whether Python would be given what is the capture's own.
class Escapes {
 public:
  explicit Escapes(const Executor::State::MadeClasses& made) : made_(made) {}
  bool by(const RecipePtr& recipe) {
    if (!recipe || !seen_.insert(recipe.get()).second) return false;
    return is_own(made_, recipe->object.get()) || is_own(made_, recipe->source) ||
           std::ranges::any_of(recipe->items, [&](const RecipePtr& item) { return by(item); });
  }
  bool by(const Effect& effect) { return by(effect.target) || by(effect.key) || by(effect.value); }

 private:
  const Executor::State::MadeClasses& made_;
  std::unordered_set<const Recipe*> seen_;
};

}  // namespace

void keep_classes_inside(Executor& ex, bool returned) {
  Executor::State& state = ex.state();
  const Executor::State::MadeClasses& made = state.made_classes;
  if (made.first_step < 0) return;
  CaptureResult& result = state.result;
  Escapes escapes(made);
  const bool escaped =
      std::ranges::any_of(result.results, [&](const RecipePtr& recipe) { return escapes.by(recipe); }) ||
      std::ranges::any_of(result.effects, [&](const Effect& effect) { return escapes.by(effect); });
  if (!returned || escaped) {
    state.break_step = made.first_step;
    BreakRecord record = break_record("CD0008", made.first_name + ", which leaves what is captured");
    record.stack = made.first_stack;
    throw GraphBreak{std::move(record)};
  }
  // What is the capture's own is as it was.
  std::erase_if(result.guards,
                [&](const Guard& guard) { return is_own(made, guard.source) || is_own(made, guard.other); });
}

}  // namespace cdynamo::symbolic
