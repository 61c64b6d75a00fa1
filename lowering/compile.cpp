// The pipeline of lowering:
//
//   device_of         is it all on one device?              device_parts.cpp
//   target_of         the device's target                   target.h, cpu/target.cpp
//   pad_products      matrices for tensor cores             graph/passes/pad_products.cpp
//   lay_out_channels_last  copies for convolutions        graph/passes/channels_last.cpp
//   LoweringContext   what is known of the graph            fusion/lowering_context.cpp
//   fuse              nodes -> steps of kernels and calls   fusion/fusion.cpp, kernel_builder.cpp, element_emitter.cpp
//   plan_arena        where intermediates live              fusion/memory_plan.cpp
//   Target::emit      kernels -> machine code               cpu/schedule.cpp, cpu/emit_cpu.cpp
//   the plan          what the executor runs                below
#include "lowering/compile.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "graph/passes/channels_last.h"
#include "graph/passes/pad_products.h"
#include "lowering/cpu/target.h"
#include "lowering/device_parts.h"
#include "lowering/fusion/in_place.h"
#include "lowering/fusion/memory_plan.h"
#include "lowering/fusion/sequential_kernels.h"
#include "lowering/gpu/target.h"
#include "lowering/target.h"
#include "runtime/cuda/transfer.h"

namespace cdynamo::lowering {
namespace {

using runtime::PlanStep;

// Buffer ids: values' ids; after them one for each output that is copied; negative ones are temporaries of
// split reductions.
class PlanMaker {
 public:
  PlanMaker(const Target& target, const graph::Graph& core, const CompileOptions& options,
            CompileReport* report, const graph::ChannelsLast& channels_last)
      : target_(target), core_(core), options_(options), report_(report), context_(core, target) {
    context_.channels_last = channels_last.values;
    context_.turned = channels_last.turned;
    for (size_t i = 0; i < core.inputs.size(); ++i) input_of_[core.inputs[i]->id] = static_cast<int>(i);
  }

  std::unique_ptr<runtime::Executable> run() {
    steps_ = fuse(context_, report_ ? &report_->fusion : nullptr);
    add_copies();
    drop_empty_kernels();
    collect_uses();
    overwrite_intermediates();
    find_brought();
    const ArenaPlan arena = plan_arena(context_, arena_uses_);
    emit_kernels();
    runtime::Plan plan = make_plan(arena);
    plan.replays_launches = options_.replays_launches;
    plan.times_algorithms = options_.times_algorithms;
    plan.debugs = options_.debugs;
    std::unique_ptr<runtime::Executable> executable = target_.make_executable(std::move(plan));
    describe_outputs(*executable);
    return executable;
  }

 private:
  // --- outputs and mutations that no step writes by itself ---

  void add_copies() {
    std::set<int> owned;
    for (size_t i = 0; i < core_.outputs.size(); ++i) {
      const Value& output = *core_.outputs[i];
      const int owner = output_owner(i);
      if (owner >= 0 && owned.insert(owner).second) {
        output_of_[owner] = static_cast<int>(i);
        continue;
      }
      const int copy = core_.next_value_id() + static_cast<int>(i);
      output_of_[copy] = static_cast<int>(i);
      if (context_.is_empty(output)) continue;
      add_copy(output, {copy, output.type.strides, Sym()});
    }
    add_mutations();
  }

  // Written last, when everything has been read; what is itself read of a mutated input first goes to a
  // temporary.
  void add_mutations() {
    std::map<int, BufferLayout> staged;  // by value id
    std::vector<std::pair<const Value*, const Value*>> writes;
    std::set<int> written;
    for (const auto& mutation : core_.mutations) {
      const Value* input = core_.inputs.at(mutation.input);
      if (mutation.value == input || context_.is_empty(*input)) continue;
      writes.push_back({input, mutation.value});
      written.insert(input->id);
    }
    std::erase_if(writes,
                  [&](const auto& write) { return try_in_place(*write.first, *write.second, writes); });
    for (auto [input, value] : writes) {
      if (!reads_any(*value, written) || staged.count(value->id)) continue;
      const int id = kTemporary - static_cast<int>(steps_.temporaries.size());
      steps_.temporaries.push_back({value->type.dtype, product(value->type.sizes)});
      staged[value->id] = {id, graph::contiguous_strides(value->type.sizes), Sym()};
      add_copy(*value, staged[value->id]);
    }
    for (auto [input, value] : writes) {
      auto found = staged.find(value->id);
      add_copy(*value, context_.layouts[input->id], found == staged.end() ? nullptr : &found->second);
    }
  }

  bool try_in_place(const Value& input, const Value& value,
                    const std::vector<std::pair<const Value*, const Value*>>& writes) {
    if (!value.node || context_.is_inline(*value.node) || output_of_.count(value.id)) return false;
    // Other mutations read the old content when they are written, later; a value written twice has two homes.
    for (auto [other_input, other] : writes)
      if (other_input != &input && (other == &value || reads_any(*other, {input.id}))) return false;
    if (!write_in_place(context_, steps_, value, input)) return false;
    context_.layouts[value.id] = context_.layouts[input.id];
    return true;
  }

  bool reads_any(const Value& value, const std::set<int>& inputs) const {
    if (!value.node) return inputs.count(value.id) > 0;
    if (!context_.is_inline(*value.node)) return false;
    bool found = false;
    graph::for_each_operand(*value.node, [&](Value*& operand) { found |= reads_any(*operand, inputs); });
    return found;
  }

  // The value whose memory is the output's: it was laid out with the output's strides.
  int output_owner(size_t index) const {
    if (const Value* owner = steps_.output_owners[index]) return owner->id;
    const Value& output = *core_.outputs[index];
    BufferLayout layout = context_.layouts[output.id];
    if (layout.buffer < 0 && !resolve_view(context_, output, &layout)) return -1;
    if (layout.buffer < 0 || is_input(layout.buffer) || !(layout.offset == Sym())) return -1;
    const Value& owner = *core_.value(layout.buffer);
    if (!(owner.type.numel() == output.type.numel())) return -1;
    for (size_t d = 0; d < output.type.sizes.size(); ++d)
      if (!(output.type.sizes[d] == Sym(1)) && !(layout.strides[d] == output.type.strides[d])) return -1;
    return layout.buffer;
  }

  bool is_input(int buffer) const { return input_of_.contains(buffer); }

  void add_copy(const Value& value, const BufferLayout& destination, const BufferLayout* source = nullptr) {
    Step step;
    step.kernels.push_back(build_copy(context_, value, destination, source));
    steps_.steps.push_back(std::move(step));
  }

  void drop_empty_kernels() {
    for (Step& step : steps_.steps)
      std::erase_if(step.kernels, [](const Kernel& kernel) {
        for (const Sym& extent : kernel.outer)
          if (extent == Sym()) return true;
        return kernel.phases.empty();
      });
  }

  // --- lives ---

  void use(int id, DType dtype, const Sym& elements, int step) {
    if (is_input(id) || output_of_.count(id)) return;
    auto [found, is_new] =
        arena_uses_.try_emplace(id, BufferUse{dtype, elements * Sym(runtime::bytes(dtype)), step, step});
    found->second.last_step = std::max(found->second.last_step, step);
  }

  Sym elements_of(int id) const {
    if (id <= kTemporary) return steps_.temporaries.at(kTemporary - id).size;
    return product(core_.value(id)->type.sizes);
  }

  void collect_uses() {
    int index = 0;
    for (const Step& step : steps_.steps) {
      if (step.kind == Step::kLibrary) {
        for_each_library_value(*step.nodes[0], [&](const Value& value) {
          const BufferLayout layout = layout_of(value);
          use(layout.buffer, value.type.dtype, elements_of(layout.buffer), index);
        });
        ++index;
        continue;
      }
      for (const Kernel& kernel : step.kernels) {
        for (const KernelBuffer& buffer : kernel.buffers)
          if (buffer.kind == BufferKind::kGlobal && (buffer.plan_buffer < core_.next_value_id()))
            use(buffer.plan_buffer, buffer.dtype, elements_of(buffer.plan_buffer), index);
        ++index;
      }
    }
  }

  void overwrite_intermediates() {
    const std::map<int, int> moved = overwrite_last_reads(steps_, arena_uses_);
    for (BufferLayout& layout : context_.layouts)
      if (auto found = moved.find(layout.buffer); found != moved.end()) layout.buffer = found->second;
  }

  // Results in memory of the library's own have no place in the arena.
  void find_brought() {
    for (const Step& step : steps_.steps) {
      if (step.kind != Step::kLibrary || !target_.brings_memory(context_.kind(*step.nodes[0]))) continue;
      for (const Value* value : step.nodes[0]->results)
        if (!is_left_out(*value) && is_whole_buffer(*value) && arena_uses_.erase(value->id) > 0)
          brought_.insert(value->id);
    }
  }

  bool is_whole_buffer(const Value& value) const {
    const BufferLayout& layout = context_.layouts[value.id];
    return layout.buffer == value.id && layout.offset == Sym();
  }

  // The memory of the result may be the call's own: an intermediate's, or that of an output which is just this value.
  bool may_bring(const Value& value) const {
    if (is_left_out(value) || !is_whole_buffer(value)) return false;
    const auto output = output_of_.find(value.id);
    return brought_.contains(value.id) ||
           (output != output_of_.end() && core_.outputs[output->second] == &value);
  }

  template <typename F>
  void for_each_library_value(const Node& node, F&& fn) const {
    graph::for_each_operand(const_cast<Node&>(node), [&](Value*& value) { fn(*value); });
    for (const Value* value : node.results)
      if (!is_left_out(*value)) fn(*value);
  }

  // A result that nobody reads and that the library need not write.
  bool is_left_out(const Value& value) const {
    return value.node->op->core.call->may_omit_results && !context_.is_output[value.id] &&
           context_.users[value.id].empty();
  }

  BufferLayout layout_of(const Value& value) const {
    BufferLayout layout = context_.layouts[value.id];
    if (layout.buffer < 0 && !resolve_view(context_, value, &layout))
      throw graph::InternalError("an operand of a library call is not in memory: " + value.name);
    return layout;
  }

  // --- code ---

  void emit_kernels() {
    std::vector<Kernel> kernels;
    for (const Step& step : steps_.steps)
      kernels.insert(kernels.end(), step.kernels.begin(), step.kernels.end());
    for (const Kernel& kernel : kernels) {
      const std::vector<std::string> problems = verify(kernel);
      if (!problems.empty())
        throw graph::InternalError("broken kernel: " + problems[0] + "\n" + print(kernel));
    }
    EmitOptions emit_options{.use_disk_cache = options_.use_disk_cache,
                             .offers_variants = options_.times_algorithms};
    if (report_ && options_.keep_text) {
      emit_options.keep_text = true;
      emit_options.loop_ir = &report_->loop_ir;
      emit_options.llvm_ir = &report_->llvm_ir;
      emit_options.assembly = &report_->assembly;
    }
    if (!kernels.empty()) module_ = target_.emit(kernels, *core_.sym, emit_options);
    if (report_) {
      report_->kernels = static_cast<int>(kernels.size());
      report_->kernels_compiled = module_ ? module_->kernels_compiled : 0;
      report_->kernels_from_disk = module_ ? module_->kernels_from_disk : 0;
    }
  }

  // --- the plan ---

  int plan_buffer(int id, const ArenaPlan& arena) {
    auto [found, is_new] = buffer_index_.try_emplace(id, static_cast<int>(plan_.buffers.size()));
    if (!is_new) return found->second;
    runtime::PlanBuffer buffer;
    if (auto output = output_of_.find(id); output != output_of_.end()) {
      buffer = {runtime::PlanBuffer::kOutput, output->second};
    } else if (auto input = input_of_.find(id); input != input_of_.end()) {
      buffer = {runtime::PlanBuffer::kInput, input->second};
    } else if (brought_.count(id)) {
      buffer = {runtime::PlanBuffer::kFromLibrary};
    } else {
      buffer = {runtime::PlanBuffer::kArena, 0, sizes_.add(arena.offsets.at(id)),
                sizes_.add(arena_uses_.at(id).bytes)};
    }
    plan_.buffers.push_back(buffer);
    return found->second;
  }

  runtime::Plan make_plan(const ArenaPlan& arena) {
    size_t next_kernel = 0;
    for (const Step& step : steps_.steps) {
      if (step.kind == Step::kLibrary) add_library_step(*step.nodes[0], arena);
      for (const Kernel& kernel : step.kernels)
        add_kernel_step(kernel, module_->kernels.at(next_kernel++), arena);
    }
    if (!arena_uses_.empty()) plan_.arena_bytes = sizes_.add(arena.bytes);
    plan_.sizes = sizes_.take();
    plan_.code = std::shared_ptr<void>(std::move(module_));
    if (report_) {
      report_->plan = arena.text;
      for (const PlanStep& step : plan_.steps) {
        report_->plan += std::string(step.library          ? "call "
                                     : step.barrier_before ? "barrier, kernel "
                                                           : "kernel ") +
                         step.name + "\n";
        report_->library_calls += step.library != nullptr;
      }
    }
    return std::move(plan_);
  }

  // The lines of the program that the nodes come from, each once.
  std::string origin_of(const std::vector<const Node*>& nodes) const {
    constexpr size_t kMost = 6;
    std::vector<std::string> lines;
    for (const Node* node : nodes) {
      if (node->location < 0 || node->location >= static_cast<int>(core_.locations.size())) continue;
      const graph::SourceLocation& at = core_.locations[node->location];
      const std::string line = at.file + ":" + std::to_string(at.line);
      if (lines.size() < kMost && std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
    std::string origin;
    for (const std::string& line : lines) origin += (origin.empty() ? "" : ", ") + line;
    return origin;
  }

  void add_kernel_step(const Kernel& kernel, const CompiledKernel& compiled, const ArenaPlan& arena) {
    PlanStep step{.name = kernel.name, .origin = origin_of(kernel.nodes)};
    MemorySet reads, writes;
    bool writes_input = false;
    for (const KernelBuffer& buffer : kernel.buffers) {
      if (buffer.kind != BufferKind::kGlobal) continue;
      step.buffers.push_back(plan_buffer(buffer.plan_buffer, arena));
      add_memory(buffer.written ? writes : reads, buffer.plan_buffer, arena);
      writes_input |= buffer.written && is_input(buffer.plan_buffer);
    }
    step.barrier_before = reads.meets(region_writes_) || writes.meets(region_writes_) ||
                          writes.meets(region_reads_) ||
                          (writes_input && region_may_fail_);  // other threads may have failed
    if (step.barrier_before) {
      region_reads_ = region_writes_ = {};
      region_may_fail_ = false;
    }
    region_may_fail_ |= may_fail(kernel);
    region_reads_.merge(reads);
    region_writes_.merge(writes);
    step.launch = launch_of(compiled, kernel);
    if (!compiled.variants.empty() && find_overwritten(kernel, step.overwritten)) {
      for (const CompiledKernel& variant : compiled.variants)
        step.variants.push_back(launch_of(variant, kernel));
      step.variants_key = compiled.variants_key;
    }
    plan_.steps.push_back(std::move(step));
  }

  runtime::Launch launch_of(const CompiledKernel& compiled, const Kernel& kernel) {
    return {.code = compiled.code,
            .items = sizes_.add(product(compiled.grid)),
            .scratch_bytes = sizes_.add(compiled.scratch_bytes),
            .cost_per_item = compiled.cost_per_item,
            .may_fail = may_fail(kernel),
            .block = compiled.block};
  }

  // Of the kernel's buffers those that it reads and writes; false where it cannot run several times for the sake of its time: what is
  // read and written is the program's, or holds indices.
  bool find_overwritten(const Kernel& kernel, std::vector<int>& overwritten) const {
    std::set<int> read, written;
    for (const Phase& phase : kernel.phases)
      for (const Stmt& stmt : phase.body) {
        if (stmt.buffer < 0 || kernel.buffers[stmt.buffer].kind != BufferKind::kGlobal) continue;
        const int id = kernel.buffers[stmt.buffer].plan_buffer;
        if (stmt.kind == StmtKind::kLoad || stmt.adds) read.insert(id);
        if (stmt.kind == StmtKind::kStore) written.insert(id);
      }
    int position = 0;
    for (const KernelBuffer& buffer : kernel.buffers) {
      if (buffer.kind != BufferKind::kGlobal) continue;
      if (read.contains(buffer.plan_buffer) && written.contains(buffer.plan_buffer)) {
        if (!arena_uses_.contains(buffer.plan_buffer) || may_fail(kernel)) return false;
        overwritten.push_back(position);
      }
      ++position;
    }
    return true;
  }

  // A value's own memory, or bytes of the arena, which other values have at other times.
  void add_memory(MemorySet& set, int id, const ArenaPlan& arena) const {
    auto offset = arena.offsets.find(id);
    if (is_input(id))
      set.add_input();
    else if (offset != arena.offsets.end())
      set.add_arena(offset->second, arena_uses_.at(id).bytes);
    else
      set.add_own(id);
  }

  runtime::PlanOperand operand(const Value* value, const ArenaPlan& arena) {
    runtime::PlanOperand result;
    if (!value) return result;
    const BufferLayout layout = layout_of(*value);
    result.buffer = plan_buffer(layout.buffer, arena);
    result.dtype = value->type.dtype;
    result.offset = sizes_.add(layout.offset);
    for (const Sym& size : value->type.sizes) result.sizes.push_back(sizes_.add(size));
    for (const Sym& stride : layout.strides) result.strides.push_back(sizes_.add(stride));
    return result;
  }

  void add_library_step(const Node& node, const ArenaPlan& arena) {
    region_reads_ = region_writes_ = {};
    PlanStep step{
        .name = std::string(node.op->name), .origin = origin_of({&node}), .user_call = node.user_call};
    step.library = target_.library(context_.kind(node));
    const graph::Args args = args_of(node);
    const graph::CallDef& call = *node.op->core.call;
    for (std::string_view name : call.tensors) add_operands(step, args[name], arena);
    for (std::string_view name : call.integers) add_integers(step, args[name]);
    for (std::string_view name : call.numbers) step.numbers.push_back(args.number(name));
    if (!call.text.empty()) step.text = args.string(call.text);
    if (args.schema().find("call") >= 0) step.user_call = static_cast<int>(args.constant("call"));
    step.num_inputs = static_cast<int>(step.operands.size());
    for (const Value* value : node.results)
      step.operands.push_back(operand(is_left_out(*value) ? nullptr : value, arena));
    if (target_.brings_memory(context_.kind(node)))
      for (const Value* value : node.results) step.brings.push_back(may_bring(*value));
    plan_.steps.push_back(std::move(step));
  }

  void add_operands(PlanStep& step, const graph::Arg& arg, const ArenaPlan& arena) {
    if (const auto* list = std::get_if<std::vector<Value*>>(&arg)) {
      for (const Value* value : *list) step.operands.push_back(operand(value, arena));
      return;
    }
    const auto* value = std::get_if<Value*>(&arg);
    step.operands.push_back(operand(value ? *value : nullptr, arena));
  }

  void add_integers(PlanStep& step, const graph::Arg& arg) {
    if (const auto* list = std::get_if<std::vector<Sym>>(&arg)) {
      for (const Sym& entry : *list) step.integers.push_back(sizes_.add(entry));
    } else if (const auto* flag = std::get_if<bool>(&arg)) {
      step.integers.push_back(sizes_.add(Sym(*flag ? 1 : 0)));
    } else {
      step.integers.push_back(sizes_.add(std::get<Sym>(arg)));
    }
  }

  void describe_outputs(runtime::Executable& executable) const {
    executable.num_inputs = static_cast<int>(core_.inputs.size());
    executable.num_symbols = static_cast<int>(core_.sym->symbols().size());
    for (const Value* output : core_.outputs) {
      runtime::OutputSpec spec{.dtype = output->type.dtype, .device = output->type.device};
      for (const Sym& size : output->type.sizes) spec.sizes.push_back(size_expr(size));
      for (const Sym& stride : output->type.strides) spec.strides.push_back(size_expr(stride));
      executable.outputs.push_back(std::move(spec));
    }
  }

  const Target& target_;
  const graph::Graph& core_;
  const CompileOptions& options_;
  CompileReport* report_;
  LoweringContext context_;
  Steps steps_;
  std::map<int, int> output_of_;  // buffer id -> output
  std::map<int, BufferUse> arena_uses_;
  std::set<int> brought_;
  std::unique_ptr<CompiledModule> module_;
  SizeTable sizes_;
  runtime::Plan plan_;
  std::map<int, int> buffer_index_;
  std::map<int, int> input_of_;             // value id -> input
  MemorySet region_reads_, region_writes_;  // of kernels since the last barrier
  bool region_may_fail_ = false;            // a kernel since the last barrier checks indices
};

std::atomic<const Target*> host_target = nullptr;

}  // namespace

void CompileReport::add(const CompileReport& other) {
  kernels += other.kernels;
  kernels_compiled += other.kernels_compiled;
  kernels_from_disk += other.kernels_from_disk;
  library_calls += other.library_calls;
  fusion += other.fusion;
  loop_ir += other.loop_ir;
  llvm_ir += other.llvm_ir;
  assembly += other.assembly;
  plan += other.plan;
}

void replace_cpu_target(const Target* target) { host_target = target; }

const Target& target_of(runtime::Device device) {
  if (device.type != runtime::DeviceType::kCPU) return gpu_target(device.index);
  const Target* replacement = host_target;
  return replacement ? *replacement : cpu_target();
}

bool gains_by_channels_last(const graph::Node& convolution) {
  return target_of(convolution.results[0]->type.device).gains_by_channels_last(convolution);
}

bool gains_by_attention(const graph::AttentionShape& shape) {
  return target_of(shape.query.device).gains_by_attention(shape);
}

std::unique_ptr<runtime::Executable> compile(const graph::Graph& core, const CompileOptions& options,
                                             CompileReport* report) {
  if (const std::optional<runtime::Device> device = device_of(core))
    return compile_for(target_of(*device), core, options, report);
  return compile_parts(core, {target_of, runtime::cuda::device_memory()}, options, report);
}

std::unique_ptr<runtime::Executable> compile_for(const Target& target, const graph::Graph& core,
                                                 const CompileOptions& options, CompileReport* report) {
  const std::unique_ptr<graph::Graph> padded = graph::pad_products(
      core, [&](const graph::PaddedProduct& product) { return target.gains_by_padding(product); });
  const graph::Graph& products = padded ? *padded : core;
  const graph::ChannelsLast channels_last = graph::lay_out_channels_last(
      products, [&](const graph::Node& node) { return target.gains_by_channels_last(node); });
  return PlanMaker(target, channels_last.core ? *channels_last.core : products, options, report,
                   channels_last)
      .run();
}

}  // namespace cdynamo::lowering
