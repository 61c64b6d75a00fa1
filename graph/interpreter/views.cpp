#include "graph/interpreter/kernels.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

using Index = std::vector<int64_t>;

// out[i] = self[map(i)]; an empty index means `fill`.
template <typename Map>
void copy_by(const DenseTensor& self, DenseTensor& out, Element fill, Map&& map) {
  size_t at = 0;
  for_each_index(out.sizes, [&](const Index& i) {
    std::optional<Index> from = map(i);
    out.elements[at++] = from ? self.elements[flat(*from, self.sizes)] : fill;
  });
}

Element element_of(const KernelCall& call, std::string_view name, DType dtype) {
  DenseTensor one(dtype, {});
  const Arg& arg = call.args[name];
  if (const auto* sym = std::get_if<Sym>(&arg)) {
    int64_t value = call.evaluate(*sym);
    if (runtime::is_float(dtype))
      one.set(0, static_cast<double>(value));
    else
      one.elements[0].integer = wrap_to(value, dtype);
  } else {
    one.set(0, call.args.number(name));
  }
  return one.elements[0];
}

}  // namespace

void interpret_full(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  Element value = element_of(call, "value", out.dtype);
  for (Element& element : out.elements) element = value;
}

void interpret_iota(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  int64_t dim = call.integer("dim");
  size_t at = 0;
  for_each_index(out.sizes, [&](const Index& i) { out.set(at++, static_cast<double>(i[dim])); });
}

void interpret_expand(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  const DenseTensor& self = call.tensor("self");
  copy_by(self, out, {}, [&](Index i) {
    for (size_t d = 0; d < i.size(); ++d)
      if (self.sizes[d] == 1) i[d] = 0;
    return std::optional(i);
  });
}

void interpret_permute(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  Index dims = call.integers("dims");
  copy_by(call.tensor("self"), out, {}, [&](const Index& i) {
    Index from(i.size());
    for (size_t d = 0; d < i.size(); ++d) from[dims[d]] = i[d];
    return std::optional(from);
  });
}

void interpret_reshape(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  if (call.tensor("self").elements.size() != out.elements.size())
    throw InternalError("core.reshape changes the number of elements");
  out.elements = call.tensor("self").elements;
}

void interpret_detach(const KernelCall& call, Results& results) {
  results[0].elements = call.tensor("self").elements;
}

void interpret_slice(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  Index start = call.integers("start"), step = call.integers("step");
  copy_by(call.tensor("self"), out, {}, [&](Index i) {
    for (size_t d = 0; d < i.size(); ++d) i[d] = start[d] + i[d] * step[d];
    return std::optional(i);
  });
}

void interpret_diagonal(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  int64_t offset = call.integer("offset"), dim1 = call.integer("dim1"), dim2 = call.integer("dim2");
  const DenseTensor& self = call.tensor("self");
  copy_by(self, out, {}, [&](const Index& i) {
    Index from(self.sizes.size());
    size_t next = 0;
    for (int64_t d = 0; d < self.rank(); ++d)
      if (d != dim1 && d != dim2) from[d] = i[next++];
    from[dim1] = i.back() + std::max<int64_t>(-offset, 0);
    from[dim2] = i.back() + std::max<int64_t>(offset, 0);
    return std::optional(from);
  });
}

void interpret_window(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  Index dims = call.integers("dims"), stride = call.integers("stride"), padding = call.integers("padding"),
        dilation = call.integers("dilation");
  const DenseTensor& self = call.tensor("self");
  copy_by(self, out, element_of(call, "fill", out.dtype), [&](const Index& i) -> std::optional<Index> {
    Index from(i.begin(), i.begin() + self.rank());
    for (size_t k = 0; k < dims.size(); ++k) {
      int64_t at = from[dims[k]] * stride[k] - padding[k] + i[self.rank() + k] * dilation[k];
      if (at < 0 || at >= self.sizes[dims[k]]) return std::nullopt;
      from[dims[k]] = at;
    }
    return from;
  });
}

void interpret_pad(const KernelCall& call, Results& results) {
  DenseTensor& out = results[0];
  Index low = call.integers("low");
  const DenseTensor& self = call.tensor("self");
  copy_by(self, out, element_of(call, "fill", out.dtype), [&](Index i) -> std::optional<Index> {
    for (size_t d = 0; d < i.size(); ++d) {
      i[d] -= low[d];
      if (i[d] < 0 || i[d] >= self.sizes[d]) return std::nullopt;
    }
    return i;
  });
}

}  // namespace cdynamo::graph
