#include <algorithm>
#include <cmath>

#include "graph/interpreter/kernels.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

using Index = std::vector<int64_t>;

// The place in self of the element of out that indices pick: leading dims by index, the rest as they are.
Index picked(const std::vector<const DenseTensor*>& indices, const DenseTensor& self, const Index& i) {
  size_t lead = indices[0]->sizes.size();
  size_t at = flat(Index(i.begin(), i.begin() + static_cast<int64_t>(lead)), indices[0]->sizes);
  Index from;
  for (size_t k = 0; k < indices.size(); ++k)
    from.push_back(checked_index(indices[k]->elements[at].integer, self.sizes[k]));
  from.insert(from.end(), i.begin() + static_cast<int64_t>(lead), i.end());
  return from;
}

bool is_less(DType dtype, Element a, Element b) {
  const auto bits = [](Element x) { return static_cast<uint64_t>(x.integer); };
  return dtype == DType::kU64 ? bits(a) < bits(b) : a.integer < b.integer;
}

Element combine(std::string_view reduce, DType dtype, Element a, Element b) {
  bool real = runtime::is_float(dtype);
  Element result;
  if (reduce.empty()) return b;
  if (reduce == "sum")
    result = {a.real + b.real, a.integer + b.integer};
  else if (reduce == "prod")
    result = {a.real * b.real, a.integer * b.integer};
  else if (reduce == "amax")
    result = real ? (std::isnan(a.real) || a.real > b.real ? a : b) : is_less(dtype, b, a) ? a : b;
  else if (reduce == "amin")
    result = real ? (std::isnan(a.real) || a.real < b.real ? a : b) : is_less(dtype, a, b) ? a : b;
  else
    throw InternalError("core.scatter reduces by " + std::string(reduce));
  return real ? Element{round_to(result.real, dtype), 0} : Element{0, wrap_to(result.integer, dtype)};
}

}  // namespace

void interpret_concat(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  int64_t dim = call.integer("dim"), start = 0;
  for (const DenseTensor* value : call.tensors("values")) {
    size_t at = 0;
    for_each_index(value->sizes, [&](Index i) {
      i[dim] += start;
      out.elements[flat(i, out.sizes)] = value->elements[at++];
    });
    start += value->sizes[dim];
  }
}

void interpret_gather(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor &self = call.tensor("self"), &index = call.tensor("index");
  int64_t dim = call.integer("dim");
  size_t at = 0;
  for_each_index(out.sizes, [&](Index i) {
    i[dim] = checked_index(index.elements[at].integer, self.sizes[dim]);
    out.elements[at++] = self.elements[flat(i, self.sizes)];
  });
}

void interpret_index(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor& self = call.tensor("self");
  auto indices = call.tensors("indices");
  size_t at = 0;
  for_each_index(out.sizes, [&](const Index& i) {
    out.elements[at++] = self.elements[flat(picked(indices, self, i), self.sizes)];
  });
}

void interpret_slice_scatter(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  out.elements = call.tensor("self").elements;
  const DenseTensor& src = call.tensor("src");
  Index start = call.integers("start"), step = call.integers("step");
  size_t at = 0;
  for_each_index(src.sizes, [&](Index i) {
    for (size_t d = 0; d < i.size(); ++d) i[d] = start[d] + i[d] * step[d];
    out.elements[flat(i, out.sizes)] = src.elements[at++];
  });
}

void interpret_diagonal_scatter(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  out.elements = call.tensor("self").elements;
  const DenseTensor& src = call.tensor("src");
  int64_t offset = call.integer("offset"), dim1 = call.integer("dim1"), dim2 = call.integer("dim2");
  size_t at = 0;
  for_each_index(src.sizes, [&](const Index& i) {
    Index to(out.sizes.size());
    size_t next = 0;
    for (int64_t d = 0; d < out.rank(); ++d)
      if (d != dim1 && d != dim2) to[d] = i[next++];
    to[dim1] = i.back() + std::max<int64_t>(-offset, 0);
    to[dim2] = i.back() + std::max<int64_t>(offset, 0);
    out.elements[flat(to, out.sizes)] = src.elements[at++];
  });
}

void interpret_scatter(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  out.elements = call.tensor("self").elements;
  const DenseTensor &indices = call.tensor("index"), &src = call.tensor("src");
  int64_t dim = call.integer("dim");
  std::string_view reduce = call.args.string("reduce");
  size_t at = 0;
  for_each_index(indices.sizes, [&](Index i) {
    Element value = src.elements[flat(i, src.sizes)];
    i[dim] = checked_index(indices.elements[at++].integer, out.sizes[dim]);
    Element& target = out.elements[flat(i, out.sizes)];
    target = combine(reduce, out.dtype, target, value);
  });
}

void interpret_index_put(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  out.elements = call.tensor("self").elements;
  const DenseTensor& values = call.tensor("values");
  auto indices = call.tensors("indices");
  std::string_view reduce = call.args.boolean("accumulate") ? "sum" : "";
  size_t at = 0;
  for_each_index(values.sizes, [&](const Index& i) {
    Element& target = out.elements[flat(picked(indices, out, i), out.sizes)];
    target = combine(reduce, out.dtype, target, values.elements[at++]);
  });
}

// Running values along a dim; the accumulator is of the compute type.
void interpret_scan(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor& self = call.tensor("self");
  const int64_t dim = call.integer("dim");
  const DType dtype = runtime::compute_type(self.dtype);
  const bool real = runtime::is_float(dtype);
  const bool stepwise = call.args.has("stepwise") && call.args.boolean("stepwise");
  ReferenceBuilder b;
  std::vector<Scalar> running(self.elements.size());
  size_t at = 0;
  for_each_index(self.sizes, [&](Index i) {
    const Element& element = self.elements[at];
    Scalar value = real ? b.constant(element.real, dtype) : b.constant_int(element.integer, dtype);
    if (i[dim] > 0) {
      --i[dim];
      value = call.node.op->reduction->combine(b, running[flat(i, self.sizes)], value);
    }
    running[at] = stepwise && real ? b.constant(round_to(b.real(value), self.dtype), dtype) : value;
    if (real)
      out.set(at, b.real(running[at]));
    else
      out.elements[at].integer = wrap_to(b.integer(value), out.dtype);
    ++at;
  });
}

void interpret_running_counts(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const std::vector<Element>& flags = call.tensor("self").elements;
  const size_t block = static_cast<size_t>(call.integer("block"));
  int64_t count = 0;
  for (size_t i = 0; i < flags.size(); ++i) {
    count += flags[i].integer != 0;
    out.elements[i / block].integer = count;
  }
}

void interpret_compress(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const std::vector<Element>&from = call.tensor("self").elements, &flags = call.tensor("mask").elements;
  size_t at = 0;
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i].integer != 0) out.elements.at(at++) = from[i];
}

}  // namespace cdynamo::graph
