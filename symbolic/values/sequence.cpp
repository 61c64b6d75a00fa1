#include "symbolic/values/sequence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

void require_short(size_t count, const SymbolicValue& sequence) {
  if (count > kLongestSequence) break_graph("CD0217", sequence.describe());
}

Py_ssize_t sequence_index(Executor& ex, const ValuePtr& key, Py_ssize_t size, const char* message) {
  Py_ssize_t index = index_argument(ex, key);
  if (index < 0) index += size;
  if (index < 0 || index >= size) raise_error(ex, PyExc_IndexError, message);
  return index;
}

namespace {
Py_ssize_t bound_or(Executor& ex, const ValuePtr& bound, Py_ssize_t missing) {
  return is_none(bound) ? missing : index_argument(ex, bound);
}
// Whether comparing the items that both have neither raises nor breaks the graph; nor should it guard a size for nothing.
bool compares_without_effects(const std::vector<ValuePtr>& a, const std::vector<ValuePtr>& b) {
  auto is_plain = [](const ValuePtr& value) { return constant_object(value) || is_integer_value(value); };
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!is_plain(a[i]) || !is_plain(b[i])) return false;
  return true;
}

}  // namespace

SliceBounds slice_bounds(Executor& ex, const ValuePtr& value, Py_ssize_t size) {
  auto& slice = dynamic_cast<SliceValue&>(*value);
  SliceBounds bounds;
  bounds.step = bound_or(ex, slice.step(), 1);
  if (bounds.step == 0) raise_error(ex, PyExc_ValueError, "slice step cannot be zero");
  bool backward = bounds.step < 0;
  bounds.start = bound_or(ex, slice.start(), backward ? PY_SSIZE_T_MAX : 0);
  bounds.stop = bound_or(ex, slice.stop(), backward ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX);
  bounds.count = PySlice_AdjustIndices(size, &bounds.start, &bounds.stop, bounds.step);
  return bounds;
}

std::vector<ValuePtr> slice_items(Executor& ex, const ValuePtr& slice, const std::vector<ValuePtr>& items) {
  SliceBounds bounds = slice_bounds(ex, slice, static_cast<Py_ssize_t>(items.size()));
  std::vector<ValuePtr> taken;
  for (Py_ssize_t i = 0; i < bounds.count; ++i) taken.push_back(items[bounds.start + i * bounds.step]);
  return taken;
}

ValuePtr compare_sequences(Executor& ex, int py_op, const std::vector<ValuePtr>& a,
                           const std::vector<ValuePtr>& b, LengthsDiffer lengths) {
  bool equality = py_op == Py_EQ || py_op == Py_NE;
  bool lengths_decide = lengths == LengthsDiffer::kDecides || compares_without_effects(a, b);
  if (equality && a.size() != b.size() && lengths_decide) return ex.constant_bool(py_op == Py_NE);
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    ValuePtr x = a[i], y = b[i];
    if (values_equal(ex, x, y)) continue;
    if (i >= a.size() || i >= b.size()) break;
    return equality ? ex.constant_bool(py_op == Py_NE)
                    : compare_operation(ex, py_op, ValuePtr(a[i]), ValuePtr(b[i]));
  }
  bool result = false;
  switch (py_op) {
    case Py_LT: result = a.size() < b.size(); break;
    case Py_LE: result = a.size() <= b.size(); break;
    case Py_EQ: result = a.size() == b.size(); break;
    case Py_NE: result = a.size() != b.size(); break;
    case Py_GT: result = a.size() > b.size(); break;
    case Py_GE: result = a.size() >= b.size(); break;
  }
  return ex.constant_bool(result);
}

Py_ssize_t find_item(Executor& ex, const std::vector<ValuePtr>& items, const ValuePtr& item, Py_ssize_t start,
                     Py_ssize_t stop) {
  for (Py_ssize_t i = start; i < stop && i < static_cast<Py_ssize_t>(items.size()); ++i) {
    ValuePtr other = items[i];
    if (values_equal(ex, other, item)) return i;
  }
  return -1;
}

std::vector<ValuePtr> repeat_items(Executor& ex, const std::vector<ValuePtr>& items, const ValuePtr& count) {
  Py_ssize_t times = std::max<Py_ssize_t>(index_argument(ex, count), 0);
  if (!items.empty() && static_cast<size_t>(times) > kLongestSequence / items.size())
    break_graph("CD0217", "a sequence repeated " + std::to_string(times) + " times");
  std::vector<ValuePtr> repeated;
  repeated.reserve(items.size() * static_cast<size_t>(times));
  for (Py_ssize_t i = 0; i < times; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return repeated;
}

ValuePtr sequence_index_method(Executor& ex, const char* kind, const std::vector<ValuePtr>& items,
                               const CallArgs& args) {
  require_count(ex, "index", args, 1, 3);
  Py_ssize_t size = static_cast<Py_ssize_t>(items.size());
  auto clip = [&](size_t position, Py_ssize_t missing) {
    if (args.positional.size() <= position) return missing;
    const ValuePtr& given = args.positional[position];
    if (!is_integer_value(given) && !lookup_special(ex, given, "__index__"))
      raise_error(ex, PyExc_TypeError, "slice indices must be integers or have an __index__ method");
    Py_ssize_t bound = index_argument(ex, given);
    return std::clamp<Py_ssize_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  Py_ssize_t found = find_item(ex, items, args.positional[0], clip(1, 0), clip(2, size));
  if (found < 0) {
    const std::string_view of = kind;
    PyTypeObject* type = args.positional[0]->type();
    if (of == "list" || (of == "range" && (type == &PyLong_Type || type == &PyBool_Type))) {
      PyRef object = materialize(ex, args.positional[0]);
      if (!object) break_graph("CD0202", absl::StrCat(kind, ".index of something that is not in it"));
      PyRef shown = checked_user(ex, PyObject_Repr(object.get()));
      raise_error(ex, PyExc_ValueError, absl::StrCat(PyUnicode_AsUTF8(shown.get()), " is not in ", kind));
    }
    if (of == "range") kind = "sequence";
    raise_error(ex, PyExc_ValueError, absl::StrCat(kind, ".index(x): x not in ", kind));
  }
  return ex.constant_int(found);
}

ValuePtr sequence_count_method(Executor& ex, const std::vector<ValuePtr>& items, const CallArgs& args) {
  require_count(ex, "count", args, 1, 1);
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    ValuePtr item = items[i];
    count += values_equal(ex, item, args.positional[0]);
  }
  return ex.constant_int(count);
}

}  // namespace cdynamo::symbolic
