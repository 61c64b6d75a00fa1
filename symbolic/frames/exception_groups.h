// Exception groups and except*: what captured code makes of them. A subclass may have __new__, __init__ and `derive` of its own.
#pragma once

#include "symbolic/frames/exceptions.h"

namespace cdynamo::symbolic {

bool is_exception_group(PyTypeObject* type);
// BaseExceptionGroup.__new__(type, message, exceptions): an instance of the class that fits what is in it.
ValuePtr new_exception_group(Executor& ex, PyTypeObject* type, const std::vector<ValuePtr>& args);
// BaseExceptionGroup_str
PyRef exception_group_text(Executor& ex, const ExceptionValue& group);
// `message`, `exceptions`, and the methods; null: another attribute.
ValuePtr exception_group_attribute(Executor& ex, const ValuePtr& group, const char* name);

// CHECK_EG_MATCH: what of the exception is of the classes, as a group, and the rest; None: nothing.
std::pair<ValuePtr, ValuePtr> match_exception_group(Executor& ex, const ValuePtr& exception,
                                                    const ValuePtr& classes);
// PREP_RERAISE_STAR: what is raised after the clauses, which have raised or left `raised`; None: nothing.
ValuePtr left_of_exception_group(Executor& ex, const ValuePtr& original, const std::vector<ValuePtr>& raised);

}  // namespace cdynamo::symbolic
