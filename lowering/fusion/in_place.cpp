#include "lowering/fusion/in_place.h"

namespace cdynamo::lowering {
namespace {

int find_buffer(const Kernel& kernel, int id) {
  for (size_t i = 0; i < kernel.buffers.size(); ++i)
    if (kernel.buffers[i].kind == BufferKind::kGlobal && kernel.buffers[i].plan_buffer == id)
      return static_cast<int>(i);
  return -1;
}

bool reads_in_memory(const LoweringContext& context, const Value& value, int id) {
  if (context.layouts[value.id].buffer >= 0) return context.layouts[value.id].buffer == id;
  if (!value.node) return value.id == id;
  bool found = false;
  graph::for_each_operand(*value.node,
                          [&](Value*& operand) { found |= reads_in_memory(context, *operand, id); });
  return found;
}

bool same_layout(const Value& value, const BufferLayout& a, const BufferLayout& b) {
  for (size_t d = 0; d < value.type.sizes.size(); ++d)
    if (!(value.type.sizes[d] == Sym(1)) && !(a.strides[d] == b.strides[d])) return false;
  return a.offset == b.offset;
}

// One store of `to`, and every load of `from` at the same place: before it in the same loop, or in an earlier phase that
// runs over the same elements.
bool reads_where_it_writes(const Kernel& kernel, int from, int to) {
  const Stmt* store = nullptr;
  const Phase* writer = nullptr;
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kStore && stmt.buffer == to) {
        if (store || phase.sequential) return false;
        store = &stmt;
        writer = &phase;
      }
  if (!store) return false;
  bool before = true;
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body) {
      if (&stmt == store) before = false;
      if (stmt.kind == StmtKind::kLoad && stmt.buffer == from &&
          (!before || !(phase.inner == writer->inner) || !equal(stmt.index, store->index)))
        return false;
    }
  return true;
}

void merge_buffers(Kernel& kernel, int from, int to) {
  kernel.buffers[to].written = true;
  for (Phase& phase : kernel.phases)
    for (Stmt& stmt : phase.body) {
      if (stmt.buffer == from) stmt.buffer = to;
      if (stmt.buffer > from) --stmt.buffer;
    }
  kernel.buffers.erase(kernel.buffers.begin() + from);
}

// One kernel: each buffer that begins here takes the place of one that ends here, where it can.
void overwrite_in(Kernel& kernel, int step, std::map<int, BufferUse>& uses, std::map<int, int>& moved) {
  for (int to = 0; to < static_cast<int>(kernel.buffers.size()); ++to) {
    const int id = kernel.buffers[to].plan_buffer;
    const auto begins = uses.find(id);
    if (kernel.buffers[to].kind != BufferKind::kGlobal || begins == uses.end() ||
        begins->second.first_step != step)
      continue;
    for (int from = 0; from < static_cast<int>(kernel.buffers.size()); ++from) {
      const KernelBuffer& read = kernel.buffers[from];
      const auto ends = uses.find(read.plan_buffer);
      if (read.kind != BufferKind::kGlobal || read.written || ends == uses.end() ||
          ends->second.last_step != step || find_buffer(kernel, read.plan_buffer) != from ||
          read.dtype != kernel.buffers[to].dtype || !(ends->second.bytes == begins->second.bytes) ||
          !reads_where_it_writes(kernel, from, to))
        continue;
      moved[id] = read.plan_buffer;
      ends->second.last_step = begins->second.last_step;
      uses.erase(begins);
      kernel.buffers[to].plan_buffer = read.plan_buffer;
      merge_buffers(kernel, from, to);
      to = -1;  // the buffers have other numbers now
      break;
    }
  }
}

// What may fail does so before the value is written: inputs are as they were then.
bool fails_before_written(const LoweringContext& context, const Steps& steps, const Value& value) {
  bool written = false;
  for (const Step& step : steps.steps) {
    if (written && step.kind == Step::kLibrary && context.kind(*step.nodes[0]) == CoreKind::kLibrary)
      return false;
    for (const Kernel& kernel : step.kernels) {
      const int buffer = find_buffer(kernel, value.id);
      written |= buffer >= 0 && kernel.buffers[buffer].written;
      if (written && may_fail(kernel)) return false;
    }
  }
  return true;
}

}  // namespace

bool may_fail(const Kernel& kernel) {
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kCheckIndex) return true;
  return false;
}

bool write_in_place(const LoweringContext& context, Steps& steps, const Value& value, const Value& input) {
  const BufferLayout &from = context.layouts[input.id], &to = context.layouts[value.id];
  if (to.buffer != value.id || value.type.dtype != input.type.dtype || !same_layout(value, from, to))
    return false;
  if (!fails_before_written(context, steps, value)) return false;
  Kernel* writer = nullptr;
  for (Step& step : steps.steps) {
    for (Kernel& kernel : step.kernels) {
      const int reads = find_buffer(kernel, input.id), writes = find_buffer(kernel, value.id);
      if (writer && reads >= 0) return false;
      if (writes < 0 || !kernel.buffers[writes].written) continue;
      if (writer || !reads_where_it_writes(kernel, reads, writes)) return false;
      writer = &kernel;
    }
    if (step.kind != Step::kLibrary) continue;
    bool conflict = false;
    graph::for_each_operand(const_cast<Node&>(*step.nodes[0]), [&](Value*& operand) {
      conflict |= writer && reads_in_memory(context, *operand, input.id);
    });
    // A library call writes the value itself, or reads the input behind the write.
    for (const Value* result : step.nodes[0]->results) conflict |= result == &value;
    if (conflict) return false;
  }
  if (!writer) return false;
  for (Step& step : steps.steps)
    for (Kernel& kernel : step.kernels) {
      const int moved = find_buffer(kernel, value.id), same = find_buffer(kernel, input.id);
      if (moved < 0) continue;
      kernel.buffers[moved].plan_buffer = input.id;
      if (same >= 0) merge_buffers(kernel, same, moved);
    }
  return true;
}

std::map<int, int> overwrite_last_reads(Steps& steps, std::map<int, BufferUse>& uses) {
  std::map<int, int> moved;
  int index = 0;
  for (Step& step : steps.steps) {
    for (Kernel& kernel : step.kernels) {
      for (KernelBuffer& buffer : kernel.buffers)
        if (auto found = moved.find(buffer.plan_buffer);
            buffer.kind == BufferKind::kGlobal && found != moved.end())
          buffer.plan_buffer = found->second;
      overwrite_in(kernel, index++, uses, moved);
    }
    if (step.kind == Step::kLibrary) ++index;
  }
  return moved;
}

}  // namespace cdynamo::lowering
