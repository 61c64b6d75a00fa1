// Random numbers by PyTorch's own operators, through the dispatcher: the same kernels and the same generator
// as eager's, so the same numbers.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

#include "runtime/abseil.h"
#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

int64_t count(const TensorView& view) {
  int64_t total = 1;
  for (int d = 0; d < view.rank; ++d) total *= view.sizes[d];
  return total;
}

// The strides of memory without gaps, its dims in the order that the integers say; none: row-major.
std::vector<int64_t> packed_strides(const LibraryArgs& args, const TensorView& view) {
  std::vector<int64_t> strides(view.rank);
  const bool ordered = args.num_integers > 0;
  for (int64_t i = view.rank, step = 1; i-- > 0;) {
    const int64_t dim = ordered ? args.integers[i] : i;
    strides[dim] = step;
    step *= view.sizes[dim];
  }
  return strides;
}

bool has_strides(const TensorView& view, const std::vector<int64_t>& strides) {
  for (int d = 0; d < view.rank; ++d)
    if (view.sizes[d] != 1 && view.strides[d] != strides[d]) return false;
  return true;
}

void copy(const TensorView& from, const TensorView& to) {
  const int64_t width = bytes(to.dtype), total = count(to);
  std::vector<int64_t> index(to.rank, 0);
  for (int64_t i = 0; i < total; ++i) {
    int64_t source = 0, place = 0;
    for (int d = 0; d < to.rank; ++d) source += index[d] * from.strides[d], place += index[d] * to.strides[d];
    std::memcpy(static_cast<char*>(to.data) + place * width,
                static_cast<const char*>(from.data) + source * width, width);
    for (int d = to.rank; d-- > 0 && ++index[d] == to.sizes[d];) index[d] = 0;
  }
}

}  // namespace

bool library_random(const LibraryArgs& args, RunError* error) {
  const TensorView& out = args.output();
  if (count(out) == 0) return true;
  // Which number falls where follows from the memory of eager's tensor, whatever the plan makes of it afterwards.
  TensorView target = out;
  std::vector<char> memory;
  const std::vector<int64_t> strides = packed_strides(args, out);
  if (!has_strides(out, strides)) {
    memory.resize(count(out) * bytes(out.dtype));
    target.data = memory.data();
    target.strides = strides.data();
  }
  const auto* distribution = std::ranges::find(kDistributions, args.text, &Distribution::name);
  if (distribution == std::end(kDistributions) ||
      !torch_random(*distribution, target, args.operands[0], args.numbers)) {
    *error = {RunError::kRuntimeError,
              absl::StrCat("PyTorch could not draw random numbers: ", absl_view(args.text))};
    return false;
  }
  if (!memory.empty()) copy(target, out);
  return true;
}

}  // namespace cdynamo::runtime
