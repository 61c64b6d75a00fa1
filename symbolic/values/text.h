// A str that C's text functions make of numbers which change from call to call or are known only when the graph has run:
// f"{loss.item():.3f}", "%d" % step. It is made after the graph; where the program looks at it before, it is made with the numbers
// of this call, which are guarded, or breaks the graph.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::symbolic {

class TextValue final : public SymbolicValue {
 public:
  // callable(*operands), a pure function of C's.
  TextValue(Executor& ex, PyRef callable, std::vector<ValuePtr> operands)
      : ex_(ex), callable_(std::move(callable)), operands_(std::move(operands)) {}

  PyTypeObject* type() const override { return &PyUnicode_Type; }
  std::string describe() const override { return "a text of numbers that change"; }
  std::optional<PyRef> as_constant() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override { return known(ex)->get_item(ex, key); }
  bool contains(Executor& ex, const ValuePtr& item) override { return known(ex)->contains(ex, item); }
  ValuePtr length(Executor& ex) override { return known(ex)->length(ex); }
  ValuePtr iterate(Executor& ex) override { return known(ex)->iterate(ex); }
  std::optional<bool> truth(Executor& ex) override { return known(ex)->truth(ex); }
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override {
    return known(ex)->compare(ex, py_op, other);
  }
  PyRef hash_key(Executor& ex) override { return materialize(ex); }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

 private:
  ValuePtr known(Executor& ex) { return known_ ? known_ : known_ = make_known(ex); }
  ValuePtr make_known(Executor& ex);
  Executor& ex_;
  PyRef callable_;
  std::vector<ValuePtr> operands_;
  ValuePtr known_;
  RecipePtr recipe_;
};

// A number that changes from call to call or is read from a tensor, or a text of such numbers.
bool is_changing(const ValuePtr& value);
// A number or text that the graph alone knows.
bool is_known_later(Executor& ex, const ValuePtr& value);
// The text that callable(*operands) gives, later where operands change (tuples of such among them). Null: none does, or the call
// may raise an error.
ValuePtr text_made_later(Executor& ex, PyRef callable, std::vector<ValuePtr> operands);

// The text that a format string gives of objects of the program's: `parts` is a function of cdynamo._formats, `option` its second
// argument. Null: it is no plain one.
ValuePtr text_of_objects(Executor& ex, PythonSide parts, PyObject* format, const PyRef& option, ValuePtr args,
                         ValuePtr names);

}  // namespace cdynamo::symbolic
