// From a captured graph to machine code: prepare -> lower -> link, all in this process.

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "frame_eval/execution/native_graph.h"
#include "frame_eval/reports/events.h"
#include "graph/index_operands.h"
#include "graph/op.h"
#include "symbolic/interop/counters.h"
#include "symbolic/interop/logs.h"

namespace cdynamo::frame_eval {
namespace {

using graph::OutputAlias;
using symbolic::Topic;

// Is there a result whose history has to reach back through the graph?
bool asks_for_gradients(const graph::Graph& captured, const std::vector<OutputAlias>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (captured.outputs[i]->requires_grad &&
        (outputs[i].kind == OutputAlias::kFresh || outputs[i].kind == OutputAlias::kViewOfOutput))
      return true;
  return false;
}

std::shared_ptr<runtime::Executable> compile_core(const graph::Graph& core, Mode mode,
                                                  lowering::CompileReport& report) {
  const lowering::CompileOptions options{.use_disk_cache = global_config().disk_cache,
                                         .keep_text = log_enabled(Topic::kOutputCode),
                                         .replays_launches = replays_launches(mode),
                                         .times_algorithms = times_algorithms(mode),
                                         .debugs = global_config().debug};
  std::shared_ptr<runtime::Executable> executable = lowering::compile(core, options, &report);
  symbolic::counters().kernels_compiled += report.kernels_compiled;
  symbolic::counters().kernels_from_disk += report.kernels_from_disk;
  symbolic::counters().library_calls_compiled += report.library_calls;
  if (log_enabled(Topic::kFusion)) log(Topic::kFusion, report.fusion);
  if (log_enabled(Topic::kOutputCode)) log(Topic::kOutputCode, report.loop_ir + "\n" + report.llvm_ir);
  return executable;
}

// What is written to through `.data` is read by eager's backward with the new content, by a compiled one with that of
// before: the write comes in another graph.
void refuse_writes_past_history(const graph::Graph& captured, const TrainingFunction& training) {
  for (const graph::CapturedWrite& write : graph::captured_writes(captured)) {
    const graph::ViewHistory history = graph::view_history(write.target);
    if (history.has_own_counter() && std::ranges::any_of(training.overwritten(), [&](int input) {
          return captured.inputs[input] == history.root;
        }))
      throw graph::NoDerivative("it writes through .data to what a gradient is computed from",
                                write.node->user_call);
  }
}

// An output that counts its writes for itself is written to later past the history of what it looks at. Where a backward reads
// that through this very output, eager would refuse to.
void note_exposed(const graph::Graph& captured, size_t output, const OutputAlias& alias,
                  graph::PartitionOptions& options) {
  const graph::ViewHistory history = graph::view_history(captured.outputs[output]);
  if (!history.has_own_counter()) return;
  const bool of_input = alias.kind == OutputAlias::kInput || alias.kind == OutputAlias::kViewOfInput;
  (of_input ? options.exposed_inputs : options.exposed_outputs).push_back(alias.index);
  bool is_read = false;
  for (const auto& node : captured.nodes)
    if (std::ranges::any_of(node->results, &graph::Value::requires_grad))
      graph::for_each_operand(*node, [&](const graph::Value* operand) {
        is_read |= graph::view_history(operand).counter == history.counter;
      });
  if (is_read) (of_input ? options.copied_inputs : options.copied_outputs).push_back(alias.index);
}

// What gradients may be computed from: storages by their first tensors, and whether one is looked at by way of `.data` alone.
struct ReadStorage {
  bool past_history = true;
  std::vector<const graph::Value*> counters;  // whose counts of writes it is read with
};

absl::flat_hash_map<const graph::Value*, ReadStorage> storages_read(const graph::Graph& captured) {
  absl::flat_hash_map<const graph::Value*, ReadStorage> storages;
  for (const auto& node : captured.nodes) {
    if (std::ranges::none_of(node->results, &graph::Value::requires_grad)) continue;
    graph::for_each_operand(*node, [&](const graph::Value* operand) {
      const graph::ViewHistory history = graph::view_history(operand);
      ReadStorage& storage = storages[history.root];
      storage.past_history &= history.has_own_counter();
      if (history.has_own_counter()) storage.counters.push_back(history.counter);
    });
  }
  absl::erase_if(storages, [](const auto& each) { return !each.second.past_history; });
  return storages;
}

// Writes to these are not counted for a backward that reads their `.data`.
void note_uncounted(const graph::Graph& captured, const std::vector<OutputAlias>& outputs,
                    graph::PartitionOptions& options) {
  const auto storages = storages_read(captured);
  for (size_t i = 0; i < captured.inputs.size(); ++i)
    if (storages.contains(captured.inputs[i])) options.uncounted_inputs.push_back(static_cast<int>(i));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].kind != OutputAlias::kFresh && outputs[i].kind != OutputAlias::kViewOfOutput) continue;
    const graph::ViewHistory history = graph::view_history(captured.outputs[i]);
    const auto found = storages.find(history.root);
    if (found != storages.end() && !absl::c_linear_search(found->second.counters, history.counter))
      options.uncounted_outputs.push_back(outputs[i].index);
  }
}

std::shared_ptr<TrainingFunction> compile_training(const symbolic::CaptureResult& capture,
                                                   const graph::Prepared& prepared,
                                                   const symbolic::LibraryCalls* library, CompileFn compile,
                                                   NativeReport& report) {
  const graph::Graph& captured = *capture.graph;
  std::vector<bool> wanted, history, differentiable(prepared.core->outputs.size());
  graph::PartitionOptions options{.memory_budget = global_config().memory_budget,
                                  .gains_by_channels_last = lowering::gains_by_channels_last};
  for (const graph::Value* input : captured.inputs) {
    wanted.push_back(input->requires_grad);
    history.push_back(input->has_history);
  }
  for (size_t i = 0; i < prepared.outputs.size(); ++i) {
    const OutputAlias& alias = prepared.outputs[i];
    if (captured.outputs[i]->requires_grad &&
        (alias.kind == OutputAlias::kFresh || alias.kind == OutputAlias::kViewOfOutput))
      differentiable[alias.index] = true;
    note_exposed(captured, i, alias, options);
  }
  note_uncounted(captured, prepared.outputs, options);
  // Whether a gradient that the program has taken depends on an input is known only now.
  if (std::ranges::any_of(captured.nodes,
                          [](const auto& node) { return node->op->name == "autograd.grad"; })) {
    const std::vector<bool> behind = graph::inputs_behind(*prepared.core, differentiable);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && behind[i];
  }
  const std::vector<bool> freed =
      graph::freed_outputs(*prepared.core, wanted, differentiable, capture.freed_calls);
  auto training = TrainingFunction::make(prepared.core->clone(), std::move(wanted), std::move(differentiable),
                                         std::move(history), options, std::move(compile), freed);
  refuse_writes_past_history(captured, *training);
  if (stages_are_noted() || log_enabled(Topic::kAot)) {
    const std::unique_ptr<graph::Graph> joint = graph::make_joint_graph(training->plan());
    if (log_enabled(Topic::kAot)) log(Topic::kAot, "joint\n" + graph::print_readable(*joint));
    report.note_stage("joint", *joint, library);
  }
  return training;
}

}  // namespace

std::unique_ptr<CompiledGraph> compile_native(const symbolic::CaptureResult& capture,
                                              std::vector<OutputForm> forms, Mode mode,
                                              NativeReport& report) {
  const graph::Graph& captured = *capture.graph;
  graph::output_unread_lookups(*capture.graph);
  const bool any_gradient = std::any_of(captured.outputs.begin(), captured.outputs.end(),
                                        [](const graph::Value* output) { return output->requires_grad; });
  const graph::DumpFn dump = [](const char* stage, const graph::Graph& graph) {
    if (log_enabled(Topic::kAot)) log(Topic::kAot, std::string(stage) + "\n" + graph::print_readable(graph));
  };
  graph::Prepared prepared = graph::prepare(captured, dump, any_gradient, lowering::gains_by_attention);
  if (graph::output_dropped_lookups(*capture.graph, *prepared.core))
    prepared = graph::prepare(captured, dump, any_gradient, lowering::gains_by_attention);
  forms.resize(captured.outputs.size(), OutputForm::kUnused);
  // Backwards that are compiled later are no part of this report any more.
  auto whole = std::make_shared<NativeReport*>(&report);
  const std::shared_ptr<const symbolic::LibraryCalls> library =
      capture.library_calls.empty() ? nullptr
                                    : std::make_shared<symbolic::LibraryCalls>(capture.library_calls);
  const CompileFn compile = [whole, dump, library, mode](const char* name, const graph::Graph& core) {
    dump(name, core);
    if (*whole) (*whole)->note_stage(name, core, library.get());
    lowering::CompileReport part;
    auto executable = compile_core(core, mode, part);
    executable->library_context = library;
    if (*whole) (*whole)->lowering.add(part);
    return executable;
  };
  std::shared_ptr<TrainingFunction> training;
  if (any_gradient && asks_for_gradients(captured, prepared.outputs))
    training = compile_training(capture, prepared, library.get(), compile, report);
  else if (graph::remove_detach(*prepared.core))
    graph::optimize(*prepared.core, {}, false, lowering::gains_by_attention);
  auto executable = training ? training->forward() : compile("inference", *prepared.core);
  *whole = nullptr;
  return std::make_unique<NativeGraph>(capture, std::move(forms), std::move(prepared), std::move(executable),
                                       std::move(training));
}

}  // namespace cdynamo::frame_eval
