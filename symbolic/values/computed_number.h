// Numbers that Python computes at each call from numbers that change from call to call, where the graph has no operator that
// says just the same: 0.9 ** step, math.cos(angle), round(n * 0.3), rate < 0.1. A float becomes an input of the graph, an int a
// symbol, a bool is guarded: only a call where it is another one is compiled again.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "symbolic/capture/value.h"
#include "symbolic/values/dynamic_float.h"

namespace cdynamo::symbolic {

// A number that is known when the call begins.
struct KnownNumber {
  Computation::Operand operand;
  PyRef now;  // in the call that is being captured
  int steps = 0;
  std::vector<FloatRoot> roots;
  bool is_random = false;
};
std::optional<KnownNumber> known_number(Executor& ex, const ValuePtr& value);

// Whether it is a pure function of C from numbers to a number: of math, abs, round, int, float.
bool is_numeric_function(PyObject* callable);
// operator.add, operator.lt ...: of an operation that the interpreter numbers.
PyObject* operator_function(int nb_op);
PyObject* comparison_function(int py_op);

// The result of a computation, which Python makes at each call.
SourcePtr source_of(std::shared_ptr<Computation> computation);
// Where the result of the call is found in another call. Null: an operand is no number that is known when the call begins, or none
// changes, or it has become too much to compute.
SourcePtr computed_source(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands);
// The result; null where it has no source, or is no number in this call.
ValuePtr computed_number(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands);
// What a C function without arguments says of the process or the thread: sys.getrecursionlimit(). It is asked at each call.
ValuePtr number_of_process(Executor& ex, PyObject* function);
// An int that is drawn at random, or computed of one.
bool is_random_index(Executor& ex, const ValuePtr& index);
// 0 <= index < size, which is guarded.
bool is_within(Executor& ex, const ValuePtr& index, int64_t size);
// table[index], at random, of exact ints or exact floats that are known. Null: otherwise.
ValuePtr number_in_table(Executor& ex, const std::vector<ValuePtr>& table, const ValuePtr& index);
// function(table, number) of numbers that are known and an int that changes: where it stands among them, and whether it does. Null:
// otherwise.
ValuePtr computed_of_table(Executor& ex, PyObject* function, const std::vector<ValuePtr>& table,
                           const ValuePtr& number);
// bisect_left or bisect_right(table, number, least, most) of numbers that are known and one that changes. Null: otherwise.
ValuePtr place_in_table(Executor& ex, PyObject* function, const std::vector<ValuePtr>& table,
                        const ValuePtr& number, int64_t least, int64_t most);
std::optional<bool> table_contains(Executor& ex, const std::vector<ValuePtr>& table, const ValuePtr& number);

}  // namespace cdynamo::symbolic
