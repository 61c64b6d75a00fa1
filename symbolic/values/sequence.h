// What list and tuple share: indexing, slicing, comparison, search. Mirrors Objects/listobject.c and
// tupleobject.c.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Capture has a value for each item; longer sequences are Python's. Throws GraphBreak for more than this many.
constexpr size_t kLongestSequence = 100'000;
void require_short(size_t count, const SymbolicValue& sequence);

// An index that is in range for a sequence of `size`; negative ones count from the end. Raises IndexError.
Py_ssize_t sequence_index(Executor& ex, const ValuePtr& key, Py_ssize_t size, const char* message);

struct SliceBounds {
  Py_ssize_t start, stop, step, count;
};
// PySlice_AdjustIndices for a SliceValue over `size` items.
SliceBounds slice_bounds(Executor& ex, const ValuePtr& slice, Py_ssize_t size);
std::vector<ValuePtr> slice_items(Executor& ex, const ValuePtr& slice, const std::vector<ValuePtr>& items);

// Lists of other lengths are unequal whatever they hold; of tuples the items come first, whose comparison may raise.
enum class LengthsDiffer { kDecides, kComesLast };
// list_richcompare and tuple_richcompare: the first items that differ decide.
ValuePtr compare_sequences(Executor& ex, int py_op, const std::vector<ValuePtr>& a,
                           const std::vector<ValuePtr>& b, LengthsDiffer lengths);
// The first position in [start, stop) that equals `item`, or -1.
Py_ssize_t find_item(Executor& ex, const std::vector<ValuePtr>& items, const ValuePtr& item,
                     Py_ssize_t start = 0, Py_ssize_t stop = PY_SSIZE_T_MAX);
std::vector<ValuePtr> repeat_items(Executor& ex, const std::vector<ValuePtr>& items, const ValuePtr& count);
// The `index(value, start, stop)` and `count(value)` methods.
ValuePtr sequence_index_method(Executor& ex, const char* kind, const std::vector<ValuePtr>& items,
                               const CallArgs& args);
ValuePtr sequence_count_method(Executor& ex, const std::vector<ValuePtr>& items, const CallArgs& args);

}  // namespace cdynamo::symbolic
