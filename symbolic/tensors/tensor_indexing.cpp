#include "symbolic/tensors/tensor_indexing.h"

#include <algorithm>
#include <cmath>

#include "graph/converted_numbers.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/nonzero.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/tensors/ways.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/range.h"
#include "symbolic/values/slice.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::Framework;
using graph::Sym;
using graph::Value;

namespace {

[[noreturn]] void refuse(const std::string& what) { break_graph("CD0414", what); }

// A list of ints or bools (nested too), as PyTorch and NumPy make an index array of it: sizes and items in
// row-major order.
struct ListIndex {
  std::vector<Sym> sizes;
  std::vector<Sym> items;
  bool boolean = false;
};

bool collect(Executor& ex, const ValuePtr& value, size_t depth, ListIndex& out) {
  if (auto items = sequence_items(ex, value)) {
    Sym count = static_cast<int64_t>(items->size());
    if (out.sizes.size() == depth)
      out.sizes.push_back(count);
    else if (depth >= out.sizes.size() || !(out.sizes[depth] == count))
      return false;
    for (const ValuePtr& item : *items)
      if (!collect(ex, item, depth + 1, out)) return false;
    return true;
  }
  PyObject* object = constant_object(value);
  const auto number = index_sym(ex, value);
  if (!number || depth != out.sizes.size()) return false;
  bool boolean = object && PyBool_Check(object);
  if (!out.items.empty() && boolean != out.boolean) return false;
  out.boolean = boolean;
  out.items.push_back(*number);
  return true;
}

Value* constant_index(Executor& ex, int64_t index) {
  return append_call1(ex, "core.full", {std::vector<Sym>{}, Sym(index), DType::kI64});
}

Value* no_indices(Executor& ex) {
  return append_call1(ex, "core.full", {std::vector<Sym>{0}, Sym(0), DType::kI64});
}

// A short constant array, made of filled pieces.
Value* list_tensor(Executor& ex, const ListIndex& list) {
  constexpr size_t kMostItems = 64;
  if (list.items.empty() || list.items.size() > kMostItems) refuse("a list of this kind");
  std::vector<Value*> pieces;
  for (const Sym& item : list.items)
    pieces.push_back(append_call1(ex, "core.full", {std::vector<Sym>{1}, item, DType::kI64}));
  Value* flat = pieces.size() == 1 ? pieces[0] : append_call1(ex, "core.concat", {pieces, Sym(int64_t{0})});
  return list.sizes.size() == 1 ? flat : append_call1(ex, "core.reshape", {flat, list.sizes});
}

// For each dimension of a list of bools the places of those that are true.
std::vector<ListIndex> places_of_true(const ListIndex& mask) {
  std::vector<ListIndex> places(mask.sizes.size());
  for (size_t i = 0; i < mask.items.size(); ++i) {
    if (mask.items[i].constant() == 0) continue;
    int64_t rest = static_cast<int64_t>(i);
    for (size_t d = places.size(); d-- > 0; rest /= mask.sizes[d].constant())
      places[d].items.emplace_back(rest % mask.sizes[d].constant());
  }
  for (ListIndex& place : places) place.sizes = {static_cast<int64_t>(place.items.size())};
  return places;
}

// The numbers of a range, of any length.
Value* range_tensor(Executor& ex, const RangeValue& range) {
  // A graph for a backend in Python holds the object that the program has.
  if (!ex.state().request.is_native && !range.as_constant()) refuse("a range that changes from call to call");
  const Sym length = range.length_sym(ex);
  Value* numbers = append_call1(ex, "core.iota", {std::vector<Sym>{length}, Sym(0), DType::kI64});
  if (range.step() != 1) numbers = append_call1(ex, "mul", {numbers, Sym(range.step())});
  return range.start() == Sym(0) ? numbers : append_call1(ex, "add", {numbers, range.start()});
}

class Selector {
 public:
  Selector(Executor& ex, Value* base, Framework framework) : ex_(ex), numpy_(framework == Framework::kNumpy) {
    selection_.view = base;
  }

  Selection run(const ValuePtr& key) {
    std::vector<ValuePtr> items{key};
    // Of several dims to PyTorch still, with a warning.
    if (!numpy_ && is_sequence_of_indices(key)) break_graph("CD0414", "a list that stands for a tuple");
    if (PyType_IsSubtype(key->type(), &PyTuple_Type)) {  // a torch.Size is one
      const auto of_tuple = key->unpack(ex_);
      if (!of_tuple) break_graph("CD0403", "an index that is " + key->describe());
      items = *of_tuple;
    }
    has_arrays_ =
        std::any_of(items.begin(), items.end(), [](const ValuePtr& item) { return is_array_index(item); });
    expand_ellipsis(items);
    for (const ValuePtr& item : items) apply(item);
    place_advanced();
    return std::move(selection_);
  }

 private:
  bool is_sequence_of_indices(const ValuePtr& key) {
    if (key->type() != &PyList_Type) return false;
    const auto items = sequence_items(ex_, key);
    return items && std::any_of(items->begin(), items->end(),
                                [this](const ValuePtr& item) { return !index_sym(ex_, item); });
  }
  static bool is_array_index(const ValuePtr& item) {
    auto* array = dynamic_cast<ArrayValue*>(item.get());
    if (array) return array->rank() > 0 || array->array_type().dtype == DType::kBool;
    if (is_bool(item)) return true;
    return item->type() == &PyList_Type || item->type() == &PyTuple_Type || item->type() == &PyRange_Type;
  }
  static bool is_bool(const ValuePtr& item) {
    PyObject* object = constant_object(item);
    return object && PyBool_Check(object);
  }
  static bool is_ellipsis(const ValuePtr& item) { return constant_object(item) == Py_Ellipsis; }

  // How many of the base's dimensions an item stands for.
  int consumed(const ValuePtr& item) {
    if (constant_object(item) == Py_None || is_ellipsis(item) || is_bool(item)) return 0;
    if (auto* array = dynamic_cast<ArrayValue*>(item.get()))
      return array->array_type().dtype == DType::kBool ? array->rank() : 1;
    ListIndex list;
    const bool is_list = item->type() == &PyList_Type || item->type() == &PyTuple_Type;
    if (is_list && collect(ex_, item, 0, list) && list.boolean) return static_cast<int>(list.sizes.size());
    return 1;
  }

  void expand_ellipsis(std::vector<ValuePtr>& items) {
    int used = 0, ellipses = 0;
    for (const ValuePtr& item : items) {
      used += consumed(item);
      ellipses += is_ellipsis(item);
    }
    int rank = selection_.view->type.rank();
    if (used > rank) break_graph("CD0403", "too many indices");
    if (ellipses > 1) refuse("more than one ellipsis");
    auto at = std::find_if(items.begin(), items.end(), is_ellipsis);
    skipped_ = rank - used;
    if (at == items.end())
      items.push_back(nullptr);
    else
      *at = nullptr;
  }

  void apply(const ValuePtr& item) {
    if (!item) return skip(skipped_);
    PyObject* object = constant_object(item);
    if (object == Py_None) return new_axis();
    if (is_bool(item)) return known_mask_of_new_axis(object == Py_True);
    if (item->type() == &PySlice_Type) return slice(static_cast<SliceValue&>(*item));
    if (auto sym = index_sym(ex_, item)) return integer(*sym);
    if (auto* array = dynamic_cast<ArrayValue*>(item.get())) {
      if (!numpy_ && array->framework() == Framework::kNumpy && array->is_scalar())
        break_graph("CD0403",
                    "an index that is a " + array->describe());  // PyTorch knows NumPy's integers alone
      return tensor(array->value());
    }
    if (auto* range = dynamic_cast<RangeValue*>(item.get())) return advanced(range_tensor(ex_, *range), 1);
    ListIndex list;
    if (collect(ex_, item, 0, list)) return list.boolean ? bools(list) : advanced(list_tensor(ex_, list), 1);
    refuse(item->describe());
  }

  void skip(int count) {
    dim_ += count;
    indices_.resize(indices_.size() + count, nullptr);
  }

  void new_axis() {
    selection_.view = append_call1(ex_, "unsqueeze", {selection_.view, Sym(dim_)});
    if (numpy_) selection_.view->type.strides[dim_] = int64_t{0};  // as NumPy has it
    skip(1);
  }

  void integer(const Sym& index) {
    const Sym size = selection_.view->type.sizes[dim_];
    graph::SymContext& sym = *ex_.graph().sym;
    const auto is_inside = [&] {
      return sym.guard(graph::Relation::kLt, index, size, "index") &&
             sym.guard(graph::Relation::kLe, Sym(int64_t{0}) - size, index, "index");
    };
    if (!sym.reads_data(index) && !is_inside()) break_graph("CD0403", "index out of range");
    // NumPy counts an integer beside index arrays as one of them.
    if (numpy_ && has_arrays_) {
      if (!index.is_constant()) refuse("a symbolic integer beside index arrays");
      return advanced(constant_index(ex_, index.constant()), 1);
    }
    selection_.view = append_call1(ex_, "select", {selection_.view, Sym(dim_), index});
  }

  std::optional<Sym> bound(const ValuePtr& value) {
    if (is_none(value)) return std::nullopt;
    if (auto sym = index_sym(ex_, value)) return *sym;
    if (is_array(value))
      if (auto sym = as_sym(call_method(ex_, value, "__index__"))) return *sym;
    return Sym(static_cast<int64_t>(index_argument(ex_, value)));
  }

  void slice(const SliceValue& slice) {
    std::optional<Sym> start = bound(slice.start()), stop = bound(slice.stop()), step = bound(slice.step());
    int64_t stride = step ? ex_.graph().sym->specialize(*step, "slice step") : 1;
    if (stride == 0 || (stride < 0 && !numpy_)) break_graph("CD0403", "slice step must be positive");
    if (stride < 0)
      backward_slice(start, stop, stride);
    else if (start || stop || stride != 1)
      forward_slice(start, stop, stride);
    skip(1);
  }

  void forward_slice(const std::optional<Sym>& start, const std::optional<Sym>& stop, int64_t step) {
    auto arg = [](const std::optional<Sym>& s) -> Arg { return s ? Arg(*s) : Arg(std::monostate()); };
    selection_.view =
        append_call1(ex_, "slice", {selection_.view, Sym(dim_), arg(start), arg(stop), Sym(step)});
  }

  // PySlice_AdjustIndices for a negative step.
  void backward_slice(const std::optional<Sym>& start, const std::optional<Sym>& stop, int64_t step) {
    graph::SymContext& sym = *ex_.graph().sym;
    const graph::TensorType& type = selection_.view->type;
    if (!start && !stop && sym.guard(graph::Relation::kLt, Sym(0), type.sizes[dim_], "a backward slice"))
      return take_backward(type.sizes[dim_] - Sym(1), floordiv(type.sizes[dim_] - Sym(step + 1), Sym(-step)),
                           step);
    int64_t size = sym.specialize(type.sizes[dim_], "a slice with a negative step");
    auto adjust = [&](const std::optional<Sym>& bound, int64_t missing) {
      if (!bound) return missing;
      int64_t at = sym.specialize(*bound, "a slice with a negative step");
      if (at < 0) at += size;
      return std::clamp<int64_t>(at, -1, size - 1);
    };
    int64_t first = adjust(start, size - 1), last = adjust(stop, -1);
    int64_t count = last < first ? (first - last - 1) / -step + 1 : 0;
    take_backward(Sym(count ? first : 0), Sym(count), step);
  }

  void take_backward(const Sym& first, const Sym& count, int64_t step) {
    const graph::TensorType& type = selection_.view->type;
    std::vector<Sym> starts(type.rank(), Sym(int64_t{0})), sizes = type.sizes,
                                                           steps(type.rank(), Sym(int64_t{1}));
    starts[dim_] = first;
    sizes[dim_] = count;
    steps[dim_] = step;
    selection_.view = append_call1(ex_, "core.slice", {selection_.view, starts, sizes, steps});
  }

  void tensor(Value* index) {
    DType dtype = index->type.dtype;
    if (runtime::is_float(dtype)) break_graph("CD0403", "tensors used as indices must be integers or bools");
    if (dtype == DType::kBool) {
      if (index->type.rank() == 0) index = mask_of_new_axis(index);
      selection_.mask = index;
      return advanced(index, index->type.rank());
    }
    if (runtime::is_unsigned(dtype)) {
      if (!numpy_) refuse("an unsigned tensor: a mask, or no index");
      index = append_call1(ex_, "core.cast", {index, DType::kI64});
    }
    if (!numpy_ && runtime::bytes(dtype) < 4) refuse("a tensor of int8 or int16");
    advanced(index, 1);
  }

  void bools(const ListIndex& mask) {
    for (size_t d = 0; d < mask.sizes.size(); ++d)
      if (!ex_.graph().sym->guard_eq(selection_.view->type.sizes.at(dim_ + d), mask.sizes[d], "mask"))
        break_graph("CD0403", "the mask has another shape than the tensor");
    for (const ListIndex& places : places_of_true(mask))
      advanced(places.items.empty() ? no_indices(ex_) : list_tensor(ex_, places), 1);
  }

  // As a mask over an axis of its own, of one item.
  void known_mask_of_new_axis(bool is_true) {
    selection_.view = append_call1(ex_, "unsqueeze", {selection_.view, Sym(dim_)});
    bools(ListIndex{.sizes = {1}, .items = {Sym(int64_t{is_true})}, .boolean = true});
  }

  // A 0-d bool is a mask over an axis of its own, of one item.
  Value* mask_of_new_axis(Value* index) {
    selection_.has_bool = true;
    selection_.view = append_call1(ex_, "unsqueeze", {selection_.view, Sym(dim_)});
    return append_call1(ex_, "unsqueeze", {index, Sym(0)});
  }

  void advanced(Value* index, int dims) {
    indices_.push_back(index);
    dim_ += dims;
  }

  void place_advanced() {
    if (std::none_of(indices_.begin(), indices_.end(), [](Value* v) { return v != nullptr; })) return;
    while (!indices_.empty() && !indices_.back()) indices_.pop_back();
    selection_.indices = std::move(indices_);
  }

  Executor& ex_;
  bool numpy_;
  bool has_arrays_ = false;
  int dim_ = 0;      // of the view that the next item is applied to
  int skipped_ = 0;  // dims that an ellipsis (or what is not mentioned) stands for
  std::vector<Value*> indices_;
  Selection selection_;
};

// torch: strips leading sizes of 1 that the target does not have; both then broadcast.
Value* fit_source(Executor& ex, Value* source, const graph::TensorType& target) {
  const std::vector<Sym>& sizes = source->type.sizes;
  size_t extra = sizes.size() > target.sizes.size() ? sizes.size() - target.sizes.size() : 0;
  if (extra == 0) return source;
  for (size_t d = 0; d < extra; ++d)
    if (!ex.graph().sym->guard_eq(sizes[d], 1, "item assignment"))
      break_graph("CD0403", "item assignment of too many dimensions");
  return append_call1(ex, "core.reshape",
                      {source, std::vector<Sym>(sizes.begin() + static_cast<long>(extra), sizes.end())});
}

// A mask has the sizes of the dimensions that it covers, from `first` on.
void require_mask_fits(Executor& ex, const Value* mask, const graph::TensorType& target, int first) {
  for (int d = 0; d < mask->type.rank(); ++d)
    if (!ex.graph().sym->expect_eq(mask->type.sizes[d], target.sizes[first + d], "mask"))
      break_graph("CD0403", "the mask has another shape than the tensor");
}

Value* spread_mask(Executor& ex, Value* mask, const graph::TensorType& target) {
  require_mask_fits(ex, mask, target, 0);
  std::vector<Sym> sizes = mask->type.sizes;
  if (sizes.size() == target.sizes.size()) return mask;
  sizes.resize(target.sizes.size(), Sym(int64_t{1}));
  return append_call1(ex, "core.reshape", {mask, sizes});
}

// Masks among the indices become the places of what they select.
std::vector<Value*> whole_indices(Executor& ex, const Selection& selection) {
  std::vector<Value*> indices;
  int dim = 0;
  for (Value* index : selection.indices) {
    const bool is_mask = index && index->type.dtype == DType::kBool;
    if (!is_mask) {
      indices.push_back(index);
      ++dim;
      continue;
    }
    require_mask_fits(ex, index, selection.view->type, dim);
    dim += index->type.rank();
    for (Value* place : nonzero_indices(ex, index, "a bool mask")) indices.push_back(place);
  }
  return indices;
}

// Capture assumes of a size that only the graph knows that it is neither 0 nor 1; this one is nothing else.
void refuse_bool(const Selection& selection) {
  if (selection.has_bool) refuse("a 0-d bool");
}

// The one mask that all of the subscript's indices are, as it broadcasts with the view; null: others stand beside it.
Value* whole_mask(Executor& ex, const Selection& selection) {
  const auto count = std::ranges::count_if(selection.indices, [](const Value* index) { return index; });
  if (selection.has_bool) return count == 1 ? selection.mask : nullptr;
  if (!selection.mask || selection.indices.size() != 1) return nullptr;
  return spread_mask(ex, selection.mask, selection.view->type);
}

}  // namespace

Selection select_items(Executor& ex, Value* base, const ValuePtr& key, Framework framework) {
  return Selector(ex, base, framework).run(key);
}

Value* read_selection(Executor& ex, const Selection& selection) {
  if (selection.indices.empty()) return selection.view;
  refuse_bool(selection);
  std::vector<Value*> indices = whole_indices(ex, selection);
  const auto of_ways = indices_of_ways(ex, indices, selection.view->type.sizes);
  Value* result = append_call1(ex, "index", {selection.view, of_ways.value_or(indices)});
  if (of_ways) tensor_capture(ex).reads_of_ways.insert(result);
  const bool is_view = std::ranges::none_of(
      selection.indices, [](const Value* index) { return index && index->type.rank() > 0; });
  const bool is_number = ex.graph().framework == Framework::kNumpy && result->type.rank() == 0;
  if (is_view && !is_number) note_possible_alias(ex, selection.view, result, "CD0421", current_root_step(ex));
  return result;
}

// NumPy makes an int of a float for an integer dtype, and refuses what does not fit.
static Arg fitting_number(Executor& ex, Arg number, DType dtype) {
  const auto* real = std::get_if<double>(&number);
  if (real && runtime::is_integer(dtype)) {
    if (!(std::abs(*real) < 0x1p63)) break_graph("CD0403", "a float that is no integer of the array's");
    number = Sym(static_cast<int64_t>(*real));
  }
  graph::check_numpy_integers(ex.graph(), graph::Promotion::kCommon, {number}, {dtype});
  return number;
}

void write_selection(Executor& ex, const Selection& selection, const ValuePtr& value, Framework framework) {
  Value* held = graph_value(value);
  // Integers are made of floats that fit, which is to be known.
  const bool is_cut =
      dynamic_cast<DynamicFloatValue*>(value.get()) && runtime::is_integer(selection.view->type.dtype);
  if (is_cut) return write_selection(ex, selection, ex.constant(value->materialize(ex)), framework);
  std::optional<Arg> number = held ? std::nullopt : number_argument(value);
  if (!held && !number) break_graph("CD0415", "assignment of " + value->describe());
  if (number && framework == Framework::kNumpy)
    number = fitting_number(ex, *number, selection.view->type.dtype);
  Value* mask = held && held->type.rank() > 0 ? nullptr : whole_mask(ex, selection);
  if (mask) {
    append_call1(ex, "masked_fill", {selection.view, mask, held ? Arg(held) : *number}, true);
    return;
  }
  refuse_bool(selection);
  if (!selection.indices.empty()) {
    DType dtype = selection.view->type.dtype;
    if (number && framework == Framework::kTorch) graph::require_fits(ex.graph(), *number, dtype);
    Value* source = held ? held : append_call1(ex, "core.full", {std::vector<Sym>{}, *number, dtype});
    if (source->type.dtype != dtype) {
      if (framework == Framework::kTorch && !source->type.weak)
        break_graph("CD0403", "index_put_: source and destination dtypes differ");
      source = append_call1(ex, "core.cast", {source, dtype});
    }
    append_call1(ex, "index_put", {selection.view, whole_indices(ex, selection), source}, true);
    return;
  }
  if (held)
    append_call1(ex, "copy", {selection.view, fit_source(ex, held, selection.view->type)}, true);
  else
    append_call1(ex, "fill", {selection.view, *number}, true);
}

}  // namespace cdynamo::symbolic
