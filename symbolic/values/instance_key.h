// Instances whose classes say in Python how they hash and compare, as keys of dicts and sets: frozen dataclasses, classes with
// __hash__ and __eq__. During capture a key object stands for such an instance in the real dicts and sets that capture keeps.
// Its hash is what __hash__ has given; where CPython compares two keys, __eq__ is run as captured code.
#pragma once

#include <span>

#include "symbolic/values/user_object.h"

namespace cdynamo::symbolic {

// What stands for the instance as a key, as it is now.
PyRef instance_key(Executor& ex, UserObjectValue& instance);

// The int that a __hash__ has returned, as slot_tp_hash takes it.
Py_hash_t hash_of_returned(Executor& ex, const ValuePtr& instance, const ValuePtr& returned);

// hash(x) of a value that has no object: of an instance, or of what holds one.
Py_hash_t hash_of_value(Executor& ex, const ValuePtr& value);

// The key is one of these, or a tuple or frozenset of such.
bool holds_instance_key(PyObject* key);

// A tuple or frozenset of the program's in which an instance is, which capture has to look into.
bool holds_instance(PyObject* object);

// Throws where what is put into a dict or set now would hash otherwise than `key`, under which capture has put it, or may be put
// there before its attributes are what they are.
void require_same_hash(Executor& ex, const ValuePtr& value, PyObject* key);

// Throws where Python would compare some of the keys, an instance among them, when it makes the dict or set: what __eq__ reads may
// be something else by then.
void require_no_comparison(std::span<PyObject* const> keys);

// Python's error may stand for what was thrown where two keys were compared: throws that.
void rethrow_error_of_comparison();
[[noreturn]] void throw_error_of_keys();  // that, or PythonError

}  // namespace cdynamo::symbolic
