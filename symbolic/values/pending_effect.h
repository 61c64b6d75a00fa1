// What is to happen when the graph has run and is no value of the program's: it stands among the mutated values (Executor::mutated), and
// its emit_effects says what that is.
#pragma once

#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

class PendingEffect : public SymbolicValue {
 public:
  PyTypeObject* type() const final { return &PyBool_Type; }
  RecipePtr recipe(Executor&) final { return make_recipe(RecipeKind::kNull); }
  void emit_effects(Executor& ex) override = 0;
};

}  // namespace cdynamo::symbolic
