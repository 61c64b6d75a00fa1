#include "symbolic/values/unique_number.h"

#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// The counter as it came in, and what has been added to it.
class UniqueNumberValue final : public SymbolicValue {
 public:
  UniqueNumberValue(SourcePtr counter, int64_t offset)
      : counter_(std::move(counter)),
        offset_(offset),
        identity_(checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)))) {}
  PyTypeObject* type() const override { return &PyLong_Type; }
  std::string describe() const override { return "an id that " + counter_->name() + " counts"; }
  PyRef hash_key(Executor&) override { return identity_; }

  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override {
    PyObject* step = constant_object(other);
    const bool adds = nb_op == kNbAdd || nb_op == kNbInplaceAdd;
    if (!adds || reflected || !step || !PyLong_CheckExact(step) || PyLong_AsLong(step) != 1)
      return SymbolicValue::binary(ex, nb_op, other, reflected);
    if (!next_) next_ = std::make_shared<UniqueNumberValue>(counter_, offset_ + 1);
    return next_;
  }

  RecipePtr recipe(Executor&) override {
    if (recipe_) return recipe_;
    const RecipePtr offset = make_recipe(RecipeKind::kConstant, checked(PyLong_FromLongLong(offset_)).get());
    return recipe_ = call_recipe(library_object("operator", "add"), {source_recipe(counter_), offset});
  }

 private:
  SourcePtr counter_;
  int64_t offset_;
  PyRef identity_;
  ValuePtr next_;
  RecipePtr recipe_;
};

}  // namespace

bool is_counter_of_unique_numbers(PyTypeObject* type, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "next_id") != 0 ||
      std::string_view(type->tp_name) != "RemovableHandle")
    return false;
  PyObject* module = _PyType_Lookup(type, interned("__module__"));
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "torch.utils.hooks") == 0;
}

ValuePtr unique_number(Executor& ex, PyTypeObject* type, PyObject* name, PyObject* number,
                       const SourcePtr& source) {
  if (!is_counter_of_unique_numbers(type, name) || !PyLong_CheckExact(number)) return nullptr;
  ValuePtr& known = ex.state().by_source[source];
  if (known) return known;
  add_guard(ex, GuardKind::kType, source, reinterpret_cast<PyObject*>(&PyLong_Type));
  return known = std::make_shared<UniqueNumberValue>(source, 0);
}

}  // namespace cdynamo::symbolic
