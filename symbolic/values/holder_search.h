// Which values hold another one: what captured code has made, and what it has put into live objects.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class DictValue;
class UserObjectValue;

class HolderSearch {
 public:
  HolderSearch(Executor& ex, const ValuePtr& wanted) : ex_(ex), wanted_(wanted) {}
  // Whether `holder` is the value that is looked for, or holds it. Holders that were looked through before are left out.
  bool is_in(const ValuePtr& holder);

 private:
  bool is_in_any(const std::vector<ValuePtr>& items);
  bool is_in_dict(const DictValue& dict);
  bool is_in_class(PyObject* cls);
  bool is_in_object(const UserObjectValue& object);

  Executor& ex_;
  const ValuePtr& wanted_;
  absl::flat_hash_set<const SymbolicValue*> seen_;
};

// What a generator that captured code has made holds, in its frame; nothing of another value. In frames/generators.cpp.
std::vector<ValuePtr> held_by_generator(const ValuePtr& holder);
// Defaults and attributes of a function, the object and the function of a bound method; nothing of another value. In
// frames/functions.cpp.
std::vector<ValuePtr> held_by_function(const ValuePtr& holder);
// What an iterator, a partial function, a function or a bound method refers to; nothing of another value.
std::vector<ValuePtr> referred_to(const ValuePtr& holder);

// Neither an argument, which dies with the call where its caller does not hold it, nor what only such an argument leads to.
bool outlives_call(const SourcePtr& source);

// Whether what is returned or written to holds the value. `by_arguments`: what an argument leads to counts as well.
bool is_kept(Executor& ex, const ValuePtr& value, const ValuePtr& returned, bool by_arguments);

}  // namespace cdynamo::symbolic
