// weakref.ref: a live object's own reference, read from the object, and what a live reference leads to. Both are sources, so
// which object it is, and whether it is there at all, is guarded like anything else. Others are made (made_weak_reference.h).
//
// Capture does not count references. What is known to be alive is what the program has in a local, and what stands where it was
// found while nothing that may have held it was let go of; a call of any other reference breaks the graph.
#pragma once

#include <vector>

#include "symbolic/values/user_object.h"

namespace cdynamo::symbolic {

// weakref.ref(object)
ValuePtr make_weak_reference(Executor& ex, const CallArgs& args);

// A live weakref.ref, or an instance of a subclass.
bool is_weak_reference(const UserObjectValue& value);
ValuePtr call_weak_reference(Executor& ex, UserObjectValue& reference, const CallArgs& args);
// As compare() of values; `reference` may be one that was made here.
ValuePtr compare_weak_references(Executor& ex, const ValuePtr& reference, int py_op, const ValuePtr& other);
PyRef weak_reference_key(Executor& ex, UserObjectValue& reference);

// The reference without a callback to an object, a live one or one that was made here.
ValuePtr weak_reference_to(Executor& ex, const ValuePtr& object);
// What Python handed over in the middle of a call, or an iterator gives, nothing else need hold.
bool may_be_held_by_nothing(const SourcePtr& source);
// A live object: nothing that is known holds it.
bool may_have_died(Executor& ex, const ValuePtr& object);
// weakref_hash and weakref_richcompare ask the objects: those that are told apart by identity run no code.
bool has_identity(PyTypeObject* type);

// A container that is live changes for the first time: it may let go of its items.
void note_change(Executor& ex, bool is_first, const std::vector<ValuePtr>& items);

}  // namespace cdynamo::symbolic
