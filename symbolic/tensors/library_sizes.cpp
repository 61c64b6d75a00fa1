#include "symbolic/tensors/library_sizes.h"

#include <algorithm>
#include <numeric>

#include "symbolic/capture/executor_state.h"

namespace cdynamo::symbolic {
namespace {

using graph::Sym;

PyRef tuple_of(const std::vector<int64_t>& numbers) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     checked(PyLong_FromLongLong(numbers[i])).release());
  return tuple;
}

std::vector<int64_t> ints_of(PyObject* sequence) {
  const PyRef items = checked(PySequence_Tuple(sequence));
  std::vector<int64_t> ints;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    ints.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(items.get(), i)));
  return ints;
}

std::vector<Sym> strides_by(const std::vector<int64_t>& order, const std::vector<Sym>& sizes) {
  std::vector<Sym> strides(sizes.size());
  Sym step(1);
  for (const int64_t dim : order) {
    strides[dim] = step;
    step = step * (sizes[dim] == Sym(0) ? Sym(1) : sizes[dim]);
  }
  return strides;
}

}  // namespace

OperandSizes::OperandSizes(Executor& ex, std::span<graph::Value* const> operands)
    : context_(ex.graph().sym.get()) {
  const bool fit =
      ex.state().request.is_native &&
      std::ranges::all_of(operands, [&](const graph::Value* operand) { return add(operand->type); });
  if (!fit) variables_.clear();
}

PyRef OperandSizes::size_form(const Sym& given) {
  const Sym size = context_->simplify(given);
  if (size.is_constant()) return checked(PyLong_FromLongLong(size.constant()));
  auto found = std::ranges::find(variables_, size);
  if (found == variables_.end()) found = variables_.insert(found, size);
  return checked(Py_BuildValue("(n)", static_cast<Py_ssize_t>(found - variables_.begin())));
}

PyRef OperandSizes::layout_form(const graph::TensorType& type, const std::vector<int64_t>& order) const {
  const std::vector<Sym> dense = strides_by(order, type.sizes);
  PyRef layout = checked(PyTuple_New(static_cast<Py_ssize_t>(order.size())));
  for (size_t place = 0; place < order.size(); ++place) {
    const int64_t dim = order[place];
    const Sym stride = context_->simplify(type.strides[dim]);
    const std::vector<int64_t> inner(order.begin(), order.begin() + static_cast<ptrdiff_t>(place));
    const int64_t gaps = context_->hint(stride) / std::max<int64_t>(context_->hint(dense[dim]), 1);
    if (!stride.is_constant() && !(stride == context_->simplify(Sym(gaps) * dense[dim]))) return {};
    const PyRef form =
        stride.is_constant()
            ? checked(Py_BuildValue("(L())", static_cast<long long>(stride.constant())))
            : checked(Py_BuildValue("(LO)", static_cast<long long>(gaps), tuple_of(inner).get()));
    PyTuple_SET_ITEM(layout.get(), static_cast<Py_ssize_t>(dim), PyRef(form).release());
  }
  return layout;
}

bool OperandSizes::add(const graph::TensorType& type) {
  std::vector<int64_t> order(type.sizes.size()), strides;
  for (const auto* extents : {&type.sizes, &type.strides})
    for (const Sym& extent : *extents)
      if (context_->reads_data(extent)) return false;
  for (const Sym& stride : type.strides) strides.push_back(context_->hint(stride));
  std::iota(order.rbegin(), order.rend(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t dim) { return strides[dim]; });
  const PyRef layout = layout_form(type, order);
  if (!layout) return false;
  PyRef sizes = checked(PyTuple_New(static_cast<Py_ssize_t>(type.sizes.size())));
  for (size_t d = 0; d < type.sizes.size(); ++d)
    PyTuple_SET_ITEM(sizes.get(), static_cast<Py_ssize_t>(d), size_form(type.sizes[d]).release());
  forms_.emplace_back(std::move(sizes), layout);
  return true;
}

PyRef OperandSizes::hints() const {
  std::vector<int64_t> hints;
  for (const Sym& size : variables_) hints.push_back(context_->hint(size));
  return tuple_of(hints);
}

bool OperandSizes::take_equal_sizes(Executor& ex) const {
  graph::SymContext& context = *ex.graph().sym;
  bool any = false;
  for (size_t i = 0; i < variables_.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (context.hint(variables_[i]) == context.hint(variables_[k]))
        any |= context.guard_eq(variables_[k], variables_[i], "operands of a call in a library");
  return any;
}

void OperandSizes::read(PyObject* sizes, PyObject* order, graph::TensorType& type) const {
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(sizes); ++d) {
    PyObject* size = PyTuple_GET_ITEM(sizes, d);
    Sym sum(PyLong_AsLongLong(PyTuple_GET_ITEM(size, 0)));
    const std::vector<int64_t> coefficients = ints_of(PyTuple_GET_ITEM(size, 1));
    for (size_t i = 0; i < coefficients.size(); ++i) sum = sum + Sym(coefficients[i]) * variables_[i];
    if (PyObject* half = PyTuple_GET_ITEM(size, 2); half != Py_None) {
      const std::vector<int64_t> parts = ints_of(half);
      sum = sum + floordiv(variables_[parts[0]] + Sym(parts[1]), Sym(2));
    }
    type.sizes.push_back(sum);
  }
  type.strides = strides_by(ints_of(order), type.sizes);
}

}  // namespace cdynamo::symbolic
