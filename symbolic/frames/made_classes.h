// Classes that captured code makes. Each call of the program makes one of its own; while capturing, a real class stands for it,
// which lives as long as the capture. What its namespace holds is either known (a constant, a class) or a real object that
// stands for a value: looking an attribute up finds the object, and Executor::wrap gives the value. So functions are inlined
// with the closures that they have here, whichever way they are found: through the class, an instance, super(), a property.
//
// Nothing of all this may leave the capture: where the class, or an instance of it, is handed to Python, or where the graph
// breaks later on, it breaks before the class is made instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symbolic/capture/value.h"
#include "symbolic/values/dict.h"

namespace cdynamo::symbolic {

// Real objects that stand for values in the namespace of a class.
class StandIns {
 public:
  explicit StandIns(Executor& ex) : ex_(ex) {}
  // The same one for the same value. Breaks the graph where a class could tell it from the object.
  PyRef of(const ValuePtr& value);
  PyRef of(const std::vector<ValuePtr>& values);   // a tuple
  PyRef dict(const ValuePtr& value);               // a dict, or a tuple of key, value, key, value ...
  PyRef of(const std::vector<Keyword>& keywords);  // a dict
  // Whether all of them are as the objects are: Python that looks into them sees what it would see. False once one was an empty
  // object that stands for a tensor, a list, an instance.
  bool are_faithful() const { return faithful_; }
  // Whether a function among them has one: its cells are empty, and only capture can call it.
  bool have_closures() const { return closures_; }

 private:
  PyRef function(const ValuePtr& value);
  PyRef placeholder(const ValuePtr& value);
  Executor& ex_;
  bool faithful_ = true, closures_ = false;
};

// What the body of a class makes for the class alone: property(f), field(default=1), auto(). The real one is made with the class.
class DefinitionValue final : public SymbolicValue {
 public:
  DefinitionValue(PyRef callable, CallArgs args) : callable_(std::move(callable)), args_(std::move(args)) {}
  PyTypeObject* type() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  std::optional<bool> truth(Executor&) override { return true; }
  // In the body of an enum auto() is a number.
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  RecipePtr recipe(Executor& ex) override;
  PyRef make(Executor& ex, StandIns& parts) const;
  // property(f).setter(g)
  ValuePtr with_part(Executor& ex, size_t index, const ValuePtr& part) const;

 private:
  PyRef callable_;
  CallArgs args_;
};

// dataclasses.field(...)
ValuePtr define_field(Executor& ex, const CallArgs& args);

// What a class is made of, its body having run. type_new (Objects/typeobject.c), builtin___build_class__ (Python/bltinmodule.c)
struct ClassDefinition {
  PyRef name;
  PyRef bases;  // a tuple of classes
  PyTypeObject* metaclass = &PyType_Type;
  std::vector<Keyword> keywords;  // without the metaclass
  std::shared_ptr<DictValue> names;
  bool has_hook = false;  // a base has an __init_subclass__ of the program's, which capture calls

  [[noreturn]] void refuse(const std::string& why) const;
  // Python's own, torch's: they see the class that they make, and nothing else does.
  bool has_known_metaclass() const;
  // What the metaclass reads in the namespace is part of what it makes: members, fields.
  bool is_read_by_metaclass() const;
  bool is_enum() const;
};
ValuePtr make_real_class(Executor& ex, const ClassDefinition& definition);

// At the end of a capture: breaks the graph before the first class was made, if something of a class would leave the capture.
void keep_classes_inside(Executor& ex, bool returned);

}  // namespace cdynamo::symbolic
