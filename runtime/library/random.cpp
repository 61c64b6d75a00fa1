// Random numbers by PyTorch's own operators, through the dispatcher: the same kernels and the same generator
// as eager's, so the same numbers.
#include <cstring>
#include <iterator>
#include <vector>

#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

int64_t count(const TensorView& view) {
  int64_t total = 1;
  for (int d = 0; d < view.rank; ++d) total *= view.sizes[d];
  return total;
}

// The strides of memory without gaps, its dims in the order that integers[1...] say; none: row-major.
std::vector<int64_t> packed_strides(const LibraryArgs& args, const TensorView& view) {
  std::vector<int64_t> strides(view.rank);
  const bool ordered = args.num_integers > 1;
  for (int64_t i = view.rank, step = 1; i-- > 0;) {
    const int64_t dim = ordered ? args.integers[1 + i] : i;
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

int draw_kind(std::string_view distribution) {
  for (size_t i = 0; i < std::size(kDraws); ++i)
    if (distribution == kDraws[i].distribution) return static_cast<int>(i);
  return -1;
}

bool library_draw(const LibraryArgs& args, RunError* error) {
  const TensorView& out = args.output();
  if (count(out) == 0) return true;
  // Which number falls where follows from the memory of eager's tensor, whatever the plan makes of it afterwards.
  TensorView drawn = out;
  std::vector<char> memory;
  const std::vector<int64_t> strides = packed_strides(args, out);
  if (!has_strides(out, strides)) {
    memory.resize(count(out) * bytes(out.dtype));
    drawn.data = memory.data();
    drawn.strides = strides.data();
  }
  if (!torch_draw(kDraws[args.integers[0]], drawn, args.operands[0], args.numbers)) {
    *error = {RunError::kRuntimeError,
              std::string("PyTorch could not draw random numbers: ") + kDraws[args.integers[0]].op};
    return false;
  }
  if (!memory.empty()) copy(drawn, out);
  return true;
}

}  // namespace cdynamo::runtime
