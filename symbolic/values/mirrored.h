// Mutable objects of C that captured code makes of known contents: bytearray, array.array, io.StringIO, io.BytesIO, hashlib's hashes. A real object stands for each,
// on which its methods are called as they are captured; what leaves is made as that one is in the end.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class MirroredValue final : public SymbolicValue {
 public:
  explicit MirroredValue(PyRef mirror) : mirror_(std::move(mirror)) {}

  PyTypeObject* type() const override { return Py_TYPE(mirror_.get()); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  ValuePtr next(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

  // mirror.name(*args), as a call of the program's.
  ValuePtr call_method(Executor& ex, PyObject* name, const CallArgs& args);

 private:
  bool is_array() const;
  // Or a hash, which is like one in what it lacks.
  bool is_stream() const { return type() != &PyByteArray_Type && !is_array(); }
  bool is_hash() const;
  ValuePtr result(Executor& ex, PyRef object);
  PyRef mirror_;
  RecipePtr recipe_;
};

ValuePtr make_array(Executor& ex, const CallArgs& args);
ValuePtr make_bytearray(Executor& ex, const CallArgs& args);
ValuePtr make_string_stream(Executor& ex, const CallArgs& args);
ValuePtr make_bytes_stream(Executor& ex, const CallArgs& args);
// Of a function of the module _hashlib.
ValuePtr make_hash(Executor& ex, PyObject* callable, const CallArgs& args);

}  // namespace cdynamo::symbolic
