#include "symbolic/values/range.h"

#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Sym;

namespace {
constexpr int64_t kLargest = int64_t{1} << 61;  // of a bound: lengths and items stay in 64 bits

bool is_small(int64_t number) { return -kLargest <= number && number <= kLargest; }
int64_t small(int64_t number, const ValuePtr& value) {
  if (!is_small(number)) break_graph("CD0215", "range of " + value->describe());
  return number;
}

graph::Sym bound(Executor& ex, const ValuePtr& value) {
  if (auto sym = index_sym(ex, value)) {
    if (auto constant = sym->maybe_constant()) small(*constant, value);
    return *sym;
  }
  if (!is_integer_value(value)) return Sym(small(index_argument(ex, value), value));
  break_graph("CD0215", "range of " + value->describe());
}
}  // namespace

ValuePtr make_range(Executor& ex, const CallArgs& args) {
  require_count(ex, "range", args, 1, 3);
  const auto& given = args.positional;
  Sym start = given.size() > 1 ? bound(ex, given[0]) : Sym(0);
  Sym stop = bound(ex, given[given.size() > 1 ? 1 : 0]);
  int64_t step = given.size() > 2 ? small(index_argument(ex, given[2]), given[2]) : 1;
  if (step == 0) raise_error(ex, PyExc_ValueError, "range() arg 3 must not be zero");
  return std::make_shared<RangeValue>(start, stop, step);
}

ValuePtr range_from_object(Executor& ex, PyObject* range) {
  CallArgs args;
  for (const char* name : {"start", "stop", "step"}) {
    PyRef number = checked(PyObject_GetAttrString(range, name));
    int overflow = 0;
    int64_t value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
    if (overflow || !is_small(value)) return nullptr;
    args.positional.push_back(ex.constant(std::move(number)));
  }
  return make_range(ex, args);
}

// compute_range_length (Objects/rangeobject.c)
Sym RangeValue::length_sym(Executor& ex) const {
  graph::SymContext& context = *ex.graph().sym;
  Sym distance = step_ > 0 ? stop_ - start_ : start_ - stop_;
  if (!context.guard(graph::Relation::kLt, Sym(0), distance, "range is not empty")) return Sym(0);
  int64_t size = step_ > 0 ? step_ : -step_;
  return size == 1 ? distance : floordiv(distance + Sym(size - 1), Sym(size));
}

int64_t RangeValue::count(Executor& ex) {
  if (count_ < 0) count_ = ex.graph().sym->specialize(length_sym(ex), "iterations of a range");
  return count_;
}

ValuePtr RangeValue::at(Executor& ex, int64_t index) const {
  return make_int(ex, start_ + Sym(index * step_));
}

std::shared_ptr<RangeValue> RangeValue::reversed(Executor& ex) {
  Sym last = start_ + Sym((count(ex) - 1) * step_);
  return std::make_shared<RangeValue>(last, start_ - Sym(step_), -step_);
}

std::optional<PyRef> RangeValue::as_constant() const {
  auto start = start_.maybe_constant(), stop = stop_.maybe_constant();
  if (!start || !stop) return std::nullopt;
  return checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL", (long long)*start,
                                       (long long)*stop, (long long)step_));
}

namespace {
ValuePtr range_index(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_index_method(ex, "range", *self->unpack(ex), args);
}
ValuePtr range_count(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return sequence_count_method(ex, *self->unpack(ex), args);
}
constexpr BuiltinMethodRow kRangeMethods[] = {{"index", range_index}, {"count", range_count}};
}  // namespace

ValuePtr RangeValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "start") return make_int(ex, start_);
  if (text == "stop") return make_int(ex, stop_);
  if (text == "step") return ex.constant_int(step_);
  if (auto method = find_builtin_method(shared_from_this(), name, kRangeMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr RangeValue::get_item(Executor& ex, const ValuePtr& key) {
  if (auto* slice = dynamic_cast<SliceValue*>(key.get())) {
    SliceBounds bounds = slice_bounds(ex, key, static_cast<Py_ssize_t>(count(ex)));
    (void)slice;
    return std::make_shared<RangeValue>(start_ + Sym(bounds.start * step_), start_ + Sym(bounds.stop * step_),
                                        step_ * bounds.step);
  }
  require_index(ex, "range", key);
  if (is_random_index(ex, key) && is_within(ex, key, static_cast<int64_t>(count(ex))))
    return make_int(ex, start_ + *as_sym(key) * Sym(step_));
  return at(ex,
            sequence_index(ex, key, static_cast<Py_ssize_t>(count(ex)), "range object index out of range"));
}

bool RangeValue::contains(Executor& ex, const ValuePtr& item) {
  PyRef range = materialize(ex), wanted = item->materialize(ex);
  if (!wanted) break_graph("CD0205", item->describe() + " in range");
  int found = PySequence_Contains(range.get(), wanted.get());
  if (found < 0) raise_current_error(ex);
  return found;
}

ValuePtr RangeValue::length(Executor& ex) { return make_int(ex, length_sym(ex)); }
ValuePtr RangeValue::iterate(Executor& ex) {
  count(ex);
  return new_sequence_iterator(shared_from_this());
}

ValuePtr RangeValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  if (!dynamic_cast<RangeValue*>(other.get())) return nullptr;
  PyRef mine = materialize(ex), theirs = other->materialize(ex);
  return ex.constant(checked_user(ex, PyObject_RichCompare(mine.get(), theirs.get(), py_op)));
}

std::optional<std::vector<ValuePtr>> RangeValue::unpack(Executor& ex) {
  require_short(static_cast<size_t>(count(ex)), *this);
  std::vector<ValuePtr> items;
  for (int64_t i = 0; i < count_; ++i) items.push_back(at(ex, i));
  return items;
}

PyRef RangeValue::materialize(Executor& ex) {
  graph::SymContext& context = *ex.graph().sym;
  long long start = context.specialize(start_, "range"), stop = context.specialize(stop_, "range");
  return checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL", start, stop,
                                       (long long)step_));
}
PyRef RangeValue::hash_key(Executor& ex) { return materialize(ex); }

RecipePtr RangeValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  return recipe_ = call_recipe(reinterpret_cast<PyObject*>(&PyRange_Type),
                               {make_int(ex, start_)->recipe(ex), make_int(ex, stop_)->recipe(ex),
                                ex.constant_int(step_)->recipe(ex)});
}

}  // namespace cdynamo::symbolic
