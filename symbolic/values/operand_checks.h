// What Python's opcodes ask of an operand's class before they use it, with the words of their errors.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Whether iter() takes objects of its class.
bool is_iterable(const ValuePtr& value);
// f(*iterable) and f(**mapping): raise TypeError where the operand is none. For callables other than functions Python does.
void require_iterable_argument(Executor& ex, const ValuePtr& callable, const ValuePtr& operand);
void require_mapping_argument(Executor& ex, const ValuePtr& callable, const ValuePtr& operand);
// Raises TypeError with `message` where the value's class has no __call__.
void require_callable(Executor& ex, const ValuePtr& value, const char* message);
// `reverse` of sorted() and list.sort(); null: none is given.
bool reverse_argument(Executor& ex, const ValuePtr& given);
// What __str__ or __repr__, by that name, has returned.
const ValuePtr& checked_text(Executor& ex, const ValuePtr& returned, const char* method);
// The attribute of an instance or of its class, where another protocol than the class's asks for it; null: there is none.
ValuePtr attribute_if_any(Executor& ex, const ValuePtr& value, const char* name);
// What __iter__ has returned.
const ValuePtr& checked_iterator(Executor& ex, const ValuePtr& returned);
// sequence[key], which is no slice, of a builtin class.
void require_index(Executor& ex, const char* sequence, const ValuePtr& key);
// The subscript with what an __index__ of the program's gives in its place: it runs before the sequence is looked at.
ValuePtr settled_index(Executor& ex, const ValuePtr& key);
// What the operators of a builtin type see in an operand that is an instance of a subclass: the builtin part, whatever the class adds,
// where they know its type, as those of float know int. Otherwise the operand itself.
ValuePtr seen_by(PyTypeObject* type, const ValuePtr& operand);
// The number in an int or float or an instance of a subclass; other values as they are.
ValuePtr plain_number(const ValuePtr& operand);
bool is_builtin_number(PyTypeObject* type);
// Raises TypeError with `message`, $0 for the name of the class, where that has no such method.
void require_special(Executor& ex, const ValuePtr& value, const char* name, const char* message);

}  // namespace cdynamo::symbolic
