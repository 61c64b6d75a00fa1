#include "lowering/device_parts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/op.h"
#include "lowering/fusion/memory_plan.h"

namespace cdynamo::lowering {
namespace {

using graph::CoreKind;
using graph::Graph;
using graph::Node;
using graph::Sym;
using graph::Value;
using runtime::Device;

bool is_transfer(const Node& node) { return node.op->core.kind == CoreKind::kTransfer; }
bool reads_symbol(const Node& node) { return node.op->core.kind == CoreKind::kReadInt; }
bool is_between_parts(const Node& node) { return is_transfer(node) || reads_symbol(node); }
int symbol_read(const Node& node) { return std::get<Sym>(node.args.at(1)).node()->symbol; }

template <typename F>
void for_each_read(const Node& node, F&& fn) {
  graph::for_each_operand(const_cast<Node&>(node), [&](Value*& operand) { fn(operand); });
}

// Where each node runs: where its results are. What the CPU makes for nodes of another device alone, from nothing, is made there.
absl::flat_hash_map<const Node*, Device> place_nodes(const Graph& core) {
  absl::flat_hash_map<const Node*, Device> placed;
  absl::flat_hash_map<const Value*, std::vector<Device>> readers;
  for (const Value* output : core.outputs) readers[output].push_back(output->type.device);
  for (const auto& mutation : core.mutations) readers[mutation.value].push_back(mutation.value->type.device);
  for (auto it = core.nodes.rbegin(); it != core.nodes.rend(); ++it) {
    const Node& node = **it;
    Device device = node.results.at(0)->type.device;
    if (device == Device{} && !is_transfer(node)) {
      std::optional<Device> other;
      bool agree = true;
      for (const Value* result : node.results)
        for (Device reader : readers[result]) {
          agree &= !other || *other == reader;
          other = reader;
        }
      if (other && agree) device = *other;
    }
    placed[&node] = device;
    const auto reads_on = [&](const Value* operand) {
      readers[operand].push_back(is_transfer(node) ? operand->type.device : device);
    };
    for_each_read(node, reads_on);
  }
  for (const auto& node : core.nodes)
    for_each_read(*node, [&](const Value* operand) {
      const Device from = operand->node ? placed.at(operand->node) : operand->type.device;
      if (!is_transfer(*node) && !(from == placed.at(node.get())))
        throw graph::Unsupported(std::string(node->op->name) + " of tensors on different devices");
    });
  return placed;
}

bool device_less(Device a, Device b) { return a.type != b.type ? a.type < b.type : a.index < b.index; }

// May it end in an error when it runs?
bool may_fail(const Node& node) {
  const CoreKind kind = node.op->core.kind;
  return !(kind == CoreKind::kPointwise || kind == CoreKind::kCast || kind == CoreKind::kReduction ||
           kind == CoreKind::kScan || kind == CoreKind::kRunningCounts || kind == CoreKind::kCompress ||
           kind == CoreKind::kConcat || graph::is_view(kind));
}

// A part, or what stands between two: a copy, a number that becomes a symbol.
struct Segment {
  Device device;
  std::vector<const Node*> nodes;
  const Node* between = nullptr;
};

// The symbols that the node's sizes and arguments are made of; core.read_int makes one itself.
std::vector<bool> symbols_of(const Node& node, size_t count) {
  std::vector<bool> symbols(count);
  if (reads_symbol(node)) return symbols;
  for (const graph::Arg& arg : node.args) {
    if (const auto* size = std::get_if<Sym>(&arg)) graph::mark_symbols(*size, symbols);
    if (const auto* sizes = std::get_if<std::vector<Sym>>(&arg))
      for (const Sym& size : *sizes) graph::mark_symbols(size, symbols);
  }
  for (const Value* result : node.results)
    for (const Sym& size : result->type.sizes) graph::mark_symbols(size, symbols);
  return symbols;
}

// What is known by when, as parts are put into their order.
class Readiness {
 public:
  explicit Readiness(const Graph& core) : values_(core.inputs.begin(), core.inputs.end()) {
    const std::vector<graph::SymbolInfo>& infos = core.sym->symbols();
    std::vector<bool> from_data;
    for (const graph::SymbolInfo& info : infos) from_data.push_back(info.from_data);
    for (const auto& node : core.nodes) {
      if (reads_symbol(*node)) pending_.insert(symbol_read(*node));
    }
    std::map<Device, const Value*, decltype(&device_less)> drawn(device_less);
    for (const auto& node : core.nodes) {
      if (node->op->core.kind != CoreKind::kRandom) continue;
      const Value*& before = drawn[node->results.at(0)->type.device];
      if (before) drawn_before_[node.get()] = before;
      before = node->results.at(0);
    }
    if (pending_.empty()) return;
    for (const auto& node : core.nodes) {
      const std::vector<bool> used = symbols_of(*node, infos.size());
      for (size_t i = 0; i < used.size(); ++i)
        if (used[i] && from_data[i]) needs_[node.get()].push_back(static_cast<int>(i));
    }
    // From the end: what a number is read of.
    for (auto it = core.nodes.rbegin(); it != core.nodes.rend(); ++it) {
      bool wanted = reads_symbol(**it);
      for (const Value* result : (*it)->results) wanted |= for_numbers_.contains(result);
      if (!wanted) continue;
      for_each_read(**it, [&](const Value* operand) { for_numbers_.insert(operand); });
      if (const auto before = drawn_before_.find(it->get()); before != drawn_before_.end())
        for_numbers_.insert(before->second);
    }
  }

  bool can_run(const Node& node) const {
    bool all = true;
    for_each_read(node, [&](const Value* operand) { all &= values_.contains(operand); });
    if (const auto before = drawn_before_.find(&node); before != drawn_before_.end())
      all &= values_.contains(before->second);
    if (const auto needs = needs_.find(&node); needs != needs_.end())
      for (int symbol : needs->second) all &= !pending_.contains(symbol);
    return all;
  }
  // As long as numbers are to be read, nothing else is computed: the rest fuses with what comes after.
  bool is_due(const Node& node) const {
    return pending_.empty() || reads_symbol(node) ||
           std::ranges::any_of(node.results,
                               [&](const Value* result) { return for_numbers_.contains(result); });
  }
  void note(const Node& node) {
    values_.insert(node.results.begin(), node.results.end());
    if (reads_symbol(node)) pending_.erase(symbol_read(node));
  }

 private:
  absl::flat_hash_set<const Value*> values_, for_numbers_;
  absl::flat_hash_set<int> pending_;  // symbols that are to be read
  absl::flat_hash_map<const Node*, std::vector<int>> needs_;
  absl::flat_hash_map<const Node*, const Value*> drawn_before_;  // random numbers come in the graph's order
};

// In an order that data allows, with few parts: each takes all that can run on its device by then.
std::vector<Segment> make_segments(const Graph& core,
                                   const absl::flat_hash_map<const Node*, Device>& placed) {
  std::vector<Segment> segments;
  Readiness ready(core);
  std::vector<const Node*> waiting;
  for (const auto& node : core.nodes) waiting.push_back(node.get());
  std::vector<Device> devices;
  for (const Node* node : waiting)
    if (std::ranges::find(devices, placed.at(node)) == devices.end()) devices.push_back(placed.at(node));
  std::ranges::sort(devices, device_less);
  const auto take = [&](auto&& wanted, auto&& add) {
    std::erase_if(waiting, [&](const Node* node) {
      if (!wanted(*node) || !ready.is_due(*node) || !ready.can_run(*node)) return false;
      add(node);
      ready.note(*node);
      return true;
    });
  };
  while (!waiting.empty()) {
    const size_t before = waiting.size();
    const auto add_between = [&](const Node* node) {
      segments.push_back({.device = placed.at(node), .nodes = {}, .between = node});
    };
    for (Device device : devices) {
      take(is_between_parts, add_between);
      Segment part{.device = device, .nodes = {}};
      take([&](const Node& node) { return !is_between_parts(node) && placed.at(&node) == device; },
           [&](const Node* node) { part.nodes.push_back(node); });
      if (!part.nodes.empty()) segments.push_back(std::move(part));
    }
    if (waiting.size() == before)
      throw graph::InternalError("a graph of several parts goes round in circles");
  }
  return segments;
}

// What was assumed of a number that is read, and of those that were read before it.
class Assumptions {
 public:
  Assumptions(std::shared_ptr<graph::SymContext> sym, int symbol, std::vector<bool> unread)
      : sym_(std::move(sym)), symbol_(symbol), unread_(std::move(unread)) {}

  const char* find_broken(const int64_t* symbols) {
    // In the first call all has been assumed, by what is compiled after this graph too.
    std::call_once(known_, [&] { find_guards(); });
    for (const graph::SymGuard& guard : guards_)
      if (!graph::holds(*sym_, guard, symbols)) return guard.reason.c_str();
    return nullptr;
  }

 private:
  void find_guards() {
    for (const graph::SymGuard& guard : sym_->guards()) {
      std::vector<bool> used(sym_->symbols().size());
      graph::mark_symbols(guard.left, used);
      graph::mark_symbols(guard.right, used);
      bool known = used[symbol_];
      for (size_t i = 0; i < unread_.size(); ++i) known &= !(used[i] && unread_[i]);
      if (known) guards_.push_back(guard);
    }
  }

  const std::shared_ptr<graph::SymContext> sym_;
  const int symbol_;
  const std::vector<bool> unread_;
  std::once_flag known_;
  std::vector<graph::SymGuard> guards_;
};

class PartsMaker {
 public:
  PartsMaker(const Graph& core, const Devices& devices, const CompileOptions& options, CompileReport* report)
      : core_(core),
        devices_(devices),
        options_(options),
        report_(report),
        segments_(make_segments(core, place_nodes(core))) {}

  std::unique_ptr<runtime::Executable> run() {
    for (size_t i = 0; i < core_.inputs.size(); ++i)
      slots_[core_.inputs[i]] = add_slot(runtime::PartSlot::kInput, static_cast<int>(i), *core_.inputs[i]);
    find_readers();
    for (size_t i = 0; i < segments_.size(); ++i) add_segment(i);
    add_copies();
    add_assumptions();
    std::unique_ptr<runtime::Executable> executable =
        runtime::make_parts_executable(std::move(plan_), devices_.memory);
    executable->num_inputs = static_cast<int>(core_.inputs.size());
    executable->num_symbols = static_cast<int>(core_.sym->symbols().size());
    for (const Value* output : core_.outputs) executable->outputs.push_back(spec_of(*output));
    return executable;
  }

 private:
  static runtime::OutputSpec spec_of(const Value& value) {
    runtime::OutputSpec spec{
        .dtype = value.type.dtype, .device = value.type.device, .sizes = {}, .strides = {}};
    for (const Sym& size : value.type.sizes) spec.sizes.push_back(size_expr(size));
    for (const Sym& stride : value.type.strides) spec.strides.push_back(size_expr(stride));
    return spec;
  }

  int add_slot(runtime::PartSlot::Where where, int index, const Value& value) {
    plan_.slots.push_back({where, index, spec_of(value)});
    return static_cast<int>(plan_.slots.size()) - 1;
  }

  // The first output that a value is, or memory while the call runs.
  int slot_of(const Value& value) {
    if (const auto found = slots_.find(&value); found != slots_.end()) return found->second;
    const auto output = std::ranges::find(core_.outputs, &value);
    const bool is_output = output != core_.outputs.end();
    return slots_[&value] = add_slot(is_output ? runtime::PartSlot::kOutput : runtime::PartSlot::kTemporary,
                                     is_output ? static_cast<int>(output - core_.outputs.begin()) : 0, value);
  }

  void find_readers() {
    for (size_t i = 0; i < segments_.size(); ++i) {
      const auto note = [&](const Value* operand) { last_reader_[operand] = i; };
      if (segments_[i].between) for_each_read(*segments_[i].between, note);
      for (const Node* node : segments_[i].nodes) for_each_read(*node, note);
    }
    for (const Value* output : core_.outputs) read_at_end_.insert(output);
    // A part writes to inputs itself where nothing reads them later, and nothing that runs later may fail.
    size_t first_safe = 0;
    for (size_t i = 0; i < segments_.size(); ++i)
      if ((segments_[i].between && reads_symbol(*segments_[i].between)) ||
          std::ranges::any_of(segments_[i].nodes, [](const Node* node) { return may_fail(*node); }))
        first_safe = i;
    for (const auto& mutation : core_.mutations) {
      const Value* input = core_.inputs[mutation.input];
      const auto in = segment_of(mutation.value);
      const auto read = last_reader_.find(input);
      const bool by_part = in && *in >= first_safe && (read == last_reader_.end() || read->second <= *in) &&
                           !read_at_end_.contains(input);
      if (by_part)
        written_by_part_.insert({input, *in});
      else
        read_at_end_.insert(mutation.value);
    }
  }

  // Unset: an input, or what a copy gives.
  std::optional<size_t> segment_of(const Value* value) const {
    for (size_t i = 0; i < segments_.size(); ++i)
      if (value->node && std::ranges::find(segments_[i].nodes, value->node) != segments_[i].nodes.end())
        return i;
    return std::nullopt;
  }

  void add_segment(size_t index) {
    const Segment& segment = segments_[index];
    runtime::PartStep step;
    if (segment.between && reads_symbol(*segment.between)) {
      step.from = slot_of(*std::get<Value*>(segment.between->args[0]));
      step.symbol = symbol_read(*segment.between);
    } else if (const Node* transfer = segment.between) {
      step.from = slot_of(*std::get<Value*>(transfer->args[0]));
      step.to = slot_of(*transfer->results[0]);
    } else {
      const std::unique_ptr<Graph> part = make_part(index, step);
      CompileReport report;
      step.executable =
          compile_for(devices_.target(segment.device), *part, options_, report_ ? &report : nullptr);
      if (report_) report_->add(report);
    }
    plan_.steps.push_back(std::move(step));
  }

  // The nodes of a segment as a graph of their own, and the slots of its inputs and outputs.
  std::unique_ptr<Graph> make_part(size_t index, runtime::PartStep& step) {
    auto part = std::make_unique<Graph>(core_.sym);
    part->framework = core_.framework;
    part->torch_float = core_.torch_float;
    part->locations = core_.locations;
    absl::flat_hash_map<const Value*, Value*> inside;
    const auto enter = [&](const Value* value) {
      Value*& found = inside[value];
      if (found) return found;
      step.inputs.push_back(slot_of(*value));
      return found = part->add_input(value->type, value->name);
    };
    for (const Node* node : segments_[index].nodes) {
      std::vector<graph::TensorType> types;
      for (const Value* result : node->results) types.push_back(result->type);
      Node* copy = part->add_node(node->op, node->overload, node->args, std::move(types));
      graph::for_each_operand(*copy, [&](Value*& operand) { operand = enter(operand); });
      copy->location = node->location;
      copy->user_call = node->user_call;
      copy->region = node->region;
      for (size_t i = 0; i < node->results.size(); ++i) inside[node->results[i]] = copy->results[i];
    }
    for (const Node* node : segments_[index].nodes)
      for (const Value* result : node->results) {
        const auto read = last_reader_.find(result);
        if ((read == last_reader_.end() || read->second <= index) && !read_at_end_.contains(result)) continue;
        part->outputs.push_back(inside.at(result));
        step.outputs.push_back(slot_of(*result));
      }
    for (const auto& mutation : core_.mutations) {
      const Value* input = core_.inputs[mutation.input];
      if (!written_by_part_.contains({input, index})) continue;
      enter(input);
      const auto at = std::ranges::find(part->inputs, inside.at(input)) - part->inputs.begin();
      part->mutations.push_back({static_cast<int>(at), inside.at(mutation.value)});
    }
    return part;
  }

  // Outputs that are inputs, or other outputs too; what is written to inputs, last of all.
  void add_copies() {
    const auto add_copy = [&](int from, int to) {
      runtime::PartStep step;
      step.from = from;
      step.to = to;
      plan_.steps.push_back(std::move(step));
    };
    for (size_t i = 0; i < core_.outputs.size(); ++i) {
      const int from = slot_of(*core_.outputs[i]);
      const runtime::PartSlot& slot = plan_.slots[from];
      if (slot.where == runtime::PartSlot::kOutput && slot.index == static_cast<int>(i)) continue;
      add_copy(from, add_slot(runtime::PartSlot::kOutput, static_cast<int>(i), *core_.outputs[i]));
    }
    for (const auto& mutation : core_.mutations) {
      const Value* input = core_.inputs[mutation.input];
      const auto in = segment_of(mutation.value);
      if (!in || !written_by_part_.contains({input, *in}))
        add_copy(slot_of(*mutation.value), slot_of(*input));
    }
  }

  // What was assumed of numbers is checked where the last of them is read.
  void add_assumptions() {
    const graph::SymContext& sym = *core_.sym;
    std::vector<bool> unread;
    for (const graph::SymbolInfo& info : sym.symbols()) unread.push_back(info.from_data);
    for (runtime::PartStep& step : plan_.steps) {
      if (step.symbol < 0) continue;
      step.min = sym.symbols()[step.symbol].min;
      step.max = sym.symbols()[step.symbol].max;
      unread[step.symbol] = false;
      auto assumptions = std::make_shared<Assumptions>(core_.sym, step.symbol, unread);
      step.broken_assumption = [assumptions](const int64_t* symbols) {
        return assumptions->find_broken(symbols);
      };
    }
  }

  const Graph& core_;
  const Devices& devices_;
  const CompileOptions& options_;
  CompileReport* report_;
  std::vector<Segment> segments_;
  runtime::PartsPlan plan_;
  absl::flat_hash_map<const Value*, int> slots_;
  absl::flat_hash_map<const Value*, size_t> last_reader_;  // segments
  absl::flat_hash_set<const Value*> read_at_end_;
  std::set<std::pair<const Value*, size_t>> written_by_part_;
};

}  // namespace

std::optional<Device> device_of(const Graph& core) {
  const auto on_cpu = [](const Value* value) { return value->type.device == Device{}; };
  if (std::ranges::any_of(core.nodes, [](const auto& node) { return reads_symbol(*node); }))
    return std::nullopt;
  if (std::ranges::all_of(core.inputs, on_cpu) && std::ranges::all_of(core.nodes, [&](const auto& node) {
        return std::ranges::all_of(node->results, on_cpu);
      }))
    return Device{};
  const auto placed = place_nodes(core);
  std::optional<Device> device;
  bool one = true;
  const auto visit = [&](Device found) {
    one &= !device || *device == found;
    device = found;
  };
  for (const auto& node : core.nodes) {
    visit(placed.at(node.get()));
    one &= !is_transfer(*node);
  }
  for (const Value* output : core.outputs)
    if (!output->node) visit(output->type.device);
  for (const auto& mutation : core.mutations)
    if (!mutation.value->node) visit(mutation.value->type.device);
  if (!one) return std::nullopt;
  return device.value_or(Device{});
}

std::unique_ptr<runtime::Executable> compile_parts(const Graph& core, const Devices& devices,
                                                   const CompileOptions& options, CompileReport* report) {
  return PartsMaker(core, devices, options, report).run();
}

}  // namespace cdynamo::lowering
