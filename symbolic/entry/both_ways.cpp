// A branch on data, `if x.max() > 1: x = x / x.max()`: both ways are captured, and what differs where they meet is selected by the
// condition. Only where eager cannot tell: neither way writes, draws random numbers or may raise an error, gradients flow to the same
// tensors from both (one that only the other way reads has none in eager, not zeros), and both are small. Anything else breaks the graph
// at the branch.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/builder.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/interop/torch_access.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/possible_alias.h"
#include "symbolic/tensors/ways.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr size_t kMostOperators = 64;  // core operators of both ways
constexpr const char* kRegion = "one way of a branch";

[[noreturn]] void refuse_ways(std::string why) {
  BreakRecord record;
  record.what = std::move(why);
  throw GraphBreak{std::move(record)};
}

// ---- the condition

// A bool that is read, a comparison of what is read, or a tensor of one element: as a tensor. Null for what is known now.
ValuePtr condition_tensor(Executor& ex, const ValuePtr& given) {
  if (!torch_access::tensor_type()) return nullptr;
  if (auto* read = dynamic_cast<DataBoolValue*>(given.get())) {
    const FrameworkRules rules(ex, graph::Framework::kTorch);
    return recorded_call(ex, "call_function", PyRef::borrow(library_object("torch", "scalar_tensor")),
                         positional({given}), [&] {
                           graph::Value* tensor = append_call1(ex, "clone", {read->value()});
                           tensor->type.weak = false;
                           return make_tensor(ex, tensor);
                         });
  }
  auto* tensor = dynamic_cast<TensorValue*>(given.get());
  return tensor && tensor->array_type().numel().maybe_constant() == 1 ? given : nullptr;
}

// ---- what the ways compute

// Cheap, and no error at run time: no index is looked at (but for one that is in range where the way is not taken), nothing is called.
bool is_harmless(graph::CoreKind kind) {
  return kind == graph::CoreKind::kGone || kind == graph::CoreKind::kPointwise ||
         kind == graph::CoreKind::kCast || graph::is_view(kind) || kind == graph::CoreKind::kConcat ||
         kind == graph::CoreKind::kReduction;
}

[[noreturn]] void refuse_call(const graph::OpDef& op) {
  refuse_ways(
      absl::StrCat("one way of it calls ", std::string(op.name), ", which may take long or raise an error"));
}

// The core operators that a captured one stands for are counted; a refusal where one is not harmless.
size_t count_operators(Executor& ex, const graph::Node& node) {
  graph::Graph& captured = ex.graph();
  if (node.op->family == graph::Family::kLibrary) refuse_call(*node.op);
  const bool may_index = tensor_capture(ex).reads_of_ways.contains(node.results.at(0));
  graph::Graph scratch(captured.sym);
  scratch.framework = captured.framework;
  scratch.torch_float = captured.torch_float;
  graph::Builder builder(scratch, graph::Level::kCore);
  builder.call(*node.op, node.overload, node.args);
  for (const auto& core : scratch.nodes)
    if (!is_harmless(core->op->core.kind) && !(may_index && core->op->name == "core.index"))
      refuse_call(*core->op);
  return scratch.nodes.size();
}

void check_operators(Executor& ex, size_t first_node) {
  graph::Graph& graph = ex.graph();
  size_t count = 0;
  for (auto node = std::next(graph.nodes.begin(), static_cast<ptrdiff_t>(first_node));
       node != graph.nodes.end(); ++node)
    count += count_operators(ex, **node);
  if (count > kMostOperators) refuse_ways("its ways are too long to compute both");
}

// ---- running a way

struct State {
  int64_t changes;
  bool grad_mode, autocast;
  bool operator==(const State&) const = default;
};
State state_of(Executor& ex) {
  const TensorCapture& capture = tensor_capture(ex);
  return {changes_so_far(ex), capture.grad_mode, capture.autocast.enabled()};
}

// What a frame holds before the branch, and where a way of it has come to: the place where both meet, or the end of the function.
struct Held {
  explicit Held(const SymbolicFrame& frame)
      : locals(frame.locals),
        stack(frame.stack),
        pending(frame.pending),
        unrolling(frame.unrolling),
        result(frame.result) {}
  void give_to(SymbolicFrame& frame) const {
    frame.locals = locals;
    frame.stack = stack;
    frame.pending = pending;
    frame.unrolling = unrolling;
    frame.result = result;
    frame.exit = FrameExit::kNone;
  }
  std::vector<ValuePtr> locals, stack;
  std::vector<SourcePtr> pending;
  Unrolling unrolling;
  ValuePtr result;
};

Held run_way(Executor& ex, SymbolicFrame& frame, const Held& before, graph::Value* condition, bool if_true,
             int from, int meeting) {
  const int branch = frame.pc;
  if (from <= branch && from != meeting) refuse_ways("one way of it is a loop");
  before.give_to(frame);
  frame.pc = from;
  const State state = state_of(ex);
  enter_way(ex, condition, if_true);
  run_until(ex, frame, meeting);
  leave_way(ex);
  const bool has_arrived =
      meeting == kEndOfFunction ? frame.exit == FrameExit::kReturn : frame.exit == FrameExit::kNone;
  if (!has_arrived) refuse_ways("its ways do not meet");
  if (!(state_of(ex) == state)) refuse_ways("one way of it writes, or draws random numbers");
  Held arrival(frame);
  frame.pc = branch;
  return arrival;
}

// ---- where they meet

class Meeting {
 public:
  Meeting(Executor& ex, ValuePtr condition, int first_value, int64_t step)
      : ex_(ex), condition_(std::move(condition)), first_value_(first_value), step_(step) {}

  ValuePtr select(const ValuePtr& taken, const ValuePtr& other) {
    if (taken == other) return taken;
    if (!taken || !other) refuse_ways("a variable is assigned in one way of it only");
    if (is_array(taken) && is_array(other)) return select_tensor(taken, other);
    if (is_same_constant(taken, other)) return taken;
    TupleValue *left = new_tuple_in(taken), *right = new_tuple_in(other);
    if (!left || !right || left->size(ex_) != right->size(ex_))
      refuse_ways("its ways give other objects than tensors");
    std::vector<ValuePtr> items;
    for (size_t i = 0; i < left->size(ex_); ++i)
      items.push_back(select(left->item(ex_, i), right->item(ex_, i)));
    return new_tuple(std::move(items));
  }

  // Eager may have one object where the graph has two.
  void note_aliases() const {
    for (size_t i = 0; i < selected_.size(); ++i) {
      const Selected& one = selected_[i];
      for (const graph::Value* from : {one.taken, one.other})
        if (is_older(from)) note_possible_alias(ex_, from, one.result, "CD0001", step_);
      for (size_t j = 0; j < i; ++j)
        if (shares(one, selected_[j]))
          note_possible_alias(ex_, selected_[j].result, one.result, "CD0001", step_);
    }
  }

 private:
  struct Selected {
    const graph::Value *taken, *other, *result;
    ValuePtr object;
  };

  ValuePtr select_tensor(const ValuePtr& taken, const ValuePtr& other) {
    const graph::Value *left = graph_value(taken), *right = graph_value(other);
    for (const Selected& known : selected_)
      if (known.taken == left && known.other == right) return known.object;
    if (taken->type() != torch_access::tensor_type() || other->type() != torch_access::tensor_type())
      refuse_ways("its ways give tensors of several classes");
    const std::vector<const graph::Value*> of_one_way = check_gradients(left, right);
    ValuePtr result = polyfill(ex_, PythonSide::kTorchPolyfills, "selected_by")
                          ->call(ex_, positional({condition_, taken, other}));
    selected_.push_back({left, right, graph_value(result), result});
    for (const graph::Value* value : of_one_way)
      note_possible_alias(ex_, value, graph_value(result), "CD0001", step_);
    return result;
  }

  // Whether a tensor gets a gradient, and whose hooks see it, is as in eager. What only one way reads may not be asked for its gradient.
  std::vector<const graph::Value*> check_gradients(const graph::Value* taken,
                                                   const graph::Value* other) const {
    if (!taken->requires_grad && !other->requires_grad) return {};
    const TensorCapture& capture = tensor_capture(ex_);
    const auto is_leaf = [&](const graph::Value* value) {
      return !value->node || capture.storage_of.contains(value) || capture.made_leaves.contains(value);
    };
    for (const graph::Value* value : {taken, other})
      if (is_older(value) && (is_leaf(value) || is_leaf(base_of(capture, value))))
        refuse_ways("one way of it gives a tensor that was there before, and needs gradients");
    const std::vector<const graph::Value*> only = differentiated_in_one_way(taken, other, first_value_);
    if (std::ranges::any_of(only, is_leaf)) refuse_ways("its ways give gradients to other tensors");
    const auto& nodes = ex_.graph().nodes;
    const int first_write = only.empty() ? first_value_ : 0;
    if (std::ranges::any_of(nodes, [&](const auto& node) {
          return node->in_place && node->results.at(0)->id >= first_write;
        }))
      refuse_ways("it needs gradients of what is written in place");
    if (!only.empty() && (only.size() > kMostOperators || !ex_.state().hooked.empty()))
      refuse_ways("its ways give gradients to other tensors");
    return only;
  }

  static bool is_same_constant(const ValuePtr& taken, const ValuePtr& other) {
    PyObject *left = constant_object(taken), *right = constant_object(other);
    if (!left || !right || taken->source || other->source) return false;
    const bool is_text = PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right);
    const bool is_number = PyLong_CheckExact(left) && PyLong_CheckExact(right);
    return left == right || ((is_text || is_number) && PyObject_RichCompareBool(left, right, Py_EQ) == 1);
  }

  // Made in a way: nobody else holds it.
  static TupleValue* new_tuple_in(const ValuePtr& value) {
    auto* tuple = dynamic_cast<TupleValue*>(value.get());
    return tuple && !tuple->source ? tuple : nullptr;
  }

  bool is_older(const graph::Value* value) const {
    const TensorCapture& capture = tensor_capture(ex_);
    return base_of(capture, value)->id < first_value_ || capture.storage_of.count(value) > 0;
  }

  bool shares(const Selected& one, const Selected& other) const {
    const TensorCapture& capture = tensor_capture(ex_);
    return base_of(capture, one.taken) == base_of(capture, other.taken) ||
           base_of(capture, one.other) == base_of(capture, other.other);
  }

  Executor& ex_;
  ValuePtr condition_;
  int first_value_;
  int64_t step_;
  std::vector<Selected> selected_;
};

// The slots that the frame may read from `meeting` on.
std::vector<bool> slots_read(const SymbolicFrame& frame, int meeting) {
  if (meeting == kEndOfFunction) return std::vector<bool>(frame.locals.size(), false);
  return live_slots(frame.code->object(), frame.code->program, meeting);
}

void meet(Executor& ex, SymbolicFrame& frame, Held taken, Held other, int meeting, Meeting& values) {
  if (meeting == kEndOfFunction) {
    frame.result = values.select(taken.result, other.result);
    frame.exit = FrameExit::kReturn;
    return;
  }
  if (taken.stack.size() != other.stack.size()) refuse_ways("its ways do not meet");
  const std::vector<bool> read = slots_read(frame, meeting);
  frame.locals.assign(read.size(), nullptr);
  frame.pending.assign(read.size(), nullptr);
  // An argument that one way has looked at is looked at for both.
  const auto look_at = [&](Held& arrival, int slot) {
    if (!(frame.pending[slot] = arrival.pending[slot])) return;
    arrival.locals[slot] = frame.local(ex, slot);
    frame.locals[slot] = nullptr;
  };
  for (int slot = 0; slot < std::ssize(read); ++slot) {
    if (taken.pending[slot] && taken.pending[slot] == other.pending[slot]) {
      frame.pending[slot] = taken.pending[slot];
      continue;
    }
    look_at(taken, slot);
    look_at(other, slot);
    if (taken.locals[slot] == other.locals[slot])
      frame.locals[slot] = taken.locals[slot];
    else if (read[slot])
      frame.locals[slot] = values.select(taken.locals[slot], other.locals[slot]);
  }
  frame.stack.clear();
  for (size_t i = 0; i < taken.stack.size(); ++i) frame.push(values.select(taken.stack[i], other.stack[i]));
}

void take_both(Executor& ex, SymbolicFrame& frame, int jump_at, const ValuePtr& condition) {
  const Program& program = frame.code->program;
  const Instruction& jump = program.code[jump_at];
  const int meeting = meeting_of(program, jump_at);
  if (meeting == kNoMeeting) refuse_ways("its ways do not meet");
  const int if_true = jump.op == Op::POP_JUMP_IF_TRUE ? jump.arg : jump_at + 1;
  const int if_false = jump.op == Op::POP_JUMP_IF_TRUE ? jump_at + 1 : jump.arg;
  const size_t first_node = ex.graph().nodes.size();
  Meeting values(ex, condition, ex.graph().next_value_id(), current_root_step(ex));
  const Held before(frame);
  ex.enter_isolated_region(kRegion, ex.isolated_region() ? ex.isolated_region()->region : 0, /*pure=*/true);
  ex.state().isolated_regions.back().may_be_left_out = true;
  graph::Value* truth =
      graph_value(polyfill(ex, PythonSide::kTorchPolyfills, "truth_of")->call(ex, positional({condition})));
  Held taken = run_way(ex, frame, before, truth, true, if_true, meeting);
  Held other = run_way(ex, frame, before, truth, false, if_false, meeting);
  ex.leave_isolated_region();
  check_operators(ex, first_node);
  before.give_to(frame);
  meet(ex, frame, std::move(taken), std::move(other), meeting, values);
  values.note_aliases();
  if (meeting != kEndOfFunction) frame.jump(meeting);
}

// The place of a branch, for a break to stand at whatever it was met by.
class Place {
 public:
  Place(Executor& ex, SymbolicFrame& frame)
      : ex_(ex),
        frame_(frame),
        step_(frame.step),
        pc_(frame.pc),
        steps_(ex.state().root_trace.size()),
        regions_(ex.state().isolated_regions.size()),
        ways_(tensor_capture(ex).ways.size()),
        break_step_(ex.state().break_step),
        raise_step_(ex.state().root_raise_step),
        last_raised_(ex.state().last_raised) {}

  void go_back() const {
    Executor::State& state = ex_.state();
    frame_.step = step_;
    frame_.pc = pc_;
    state.root_trace.resize(steps_);
    state.root_values.resize(steps_);
    state.root_handled.resize(steps_);
    state.isolated_regions.resize(regions_);
    while (tensor_capture(ex_).ways.size() > ways_) leave_way(ex_);
    state.stopped_frames.clear();
    state.break_step = break_step_;
    state.root_raise_step = raise_step_;
    state.last_raised = last_raised_;
  }

 private:
  Executor& ex_;
  SymbolicFrame& frame_;
  int64_t step_;
  int pc_;
  size_t steps_, regions_, ways_;
  int64_t break_step_;
  int raise_step_;
  ValuePtr last_raised_;
};

}  // namespace

bool take_both_ways(Executor& ex, SymbolicFrame& frame, int jump_at, const ValuePtr& given) {
  Executor::State& state = ex.state();
  const Executor::IsolatedRegion* region = ex.isolated_region();
  if (state.branches || (region && region->what != kRegion)) return false;
  const Op op = frame.code->program.code[jump_at].op;
  if (op != Op::POP_JUMP_IF_TRUE && op != Op::POP_JUMP_IF_FALSE) return false;
  const ValuePtr condition = condition_tensor(ex, given);
  if (!condition) return false;
  const Place place(ex, frame);
  std::string why;
  try {
    with_errors_as_breaks(ex, [&] { take_both(ex, frame, jump_at, condition); });
    return true;
  } catch (const GraphBreak& broken) {
    why = broken.record.what;
  } catch (const PythonRaise&) {
    why = "one way of it raises an exception";
  } catch (const StopReached&) {
    why = "the graph breaks in one way of it";
  }
  place.go_back();
  break_graph("CD0001", absl::StrCat(given->describe(), " (", why, ")"));
}

}  // namespace cdynamo::symbolic
