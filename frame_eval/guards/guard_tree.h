// GuardTree: the guards of one cache entry as a tree of native checks. Roots are the call's arguments,
// globals, closure; edges are accessors (item, dict key, attribute); leaves check identity, constants, tensor
// metadata.
//
//   GuardTree tree(capture, roots);
//   Bindings bindings;
//   if (tree.check(roots, bindings)) …          // hot: no strings, no Python code
//   else log(tree.first_failure(roots).text);   // the same checks again, this time in words
//
// `check` also fetches what the entry needs: the graph's input objects, their metadata, and the values of
// size symbols.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "frame_eval/guards/guard_node.h"
#include "frame_eval/guards/guard_trace.h"
#include "symbolic/interop/generator_state.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::frame_eval {

struct GuardFailure {
  std::string text;                                // "x.shape[0] was 8, is 16"
  std::vector<symbolic::DynamicHint> now_dynamic;  // what to capture as dynamic the next time
  size_t first_dynamic = 0;                        // those that belong to `text` come first
};

// What a successful check found, and what the graph made of it.
struct Bindings {
  std::vector<PyObject*> inputs;  // one for each graph input; borrowed from the objects that hold them
  // One for each graph input (empty for numbers), then those of guarded tensors that are no inputs.
  std::vector<runtime::TensorView> views;
  std::vector<int64_t> symbols;
  std::vector<int64_t> strides;  // storage that views may point into
  std::vector<PyObject*> slots;  // objects compared with each other
  std::vector<PyRef> owned;      // objects that an accessor made
  std::vector<PyRef> outputs;    // of the graph that runs on them
  // Of what was drawn from: the draws are taken back where the call goes another way after all.
  symbolic::GeneratorStates generators;
  bool remembers = true;  // the check leaves what it found in the tree
};

class GuardTree {
 public:
  // `roots`: those of the call that was captured.
  GuardTree(const symbolic::CaptureResult& capture, const symbolic::Roots& roots);
  ~GuardTree();
  GuardTree(GuardTree&&) noexcept = default;

  // Where it holds, the random numbers that the entry needs have been drawn; where not, generators are as they were.
  // `remembers`: the next check may be quicker for what this one found; not where the entry is likely to be
  // another's.
  bool check(const symbolic::Roots& roots, Bindings& bindings, bool remembers = true) const;
  // A class, function or object that it asks for is gone: it can hold no more.
  bool is_dead() const;
  GuardFailure first_failure(const symbolic::Roots& roots) const;  // draws nothing, either
  std::string str() const;  // one guard a line, for the log topic "guards"

 private:
  // A size or stride that is an expression of symbols.
  struct DynamicExtent {
    int check, dim;
    bool is_stride;
    graph::Sym value;
  };
  // Two places that must hold one object, or two.
  struct IdentityCheck {
    int a, b;  // slots
    bool same;
    std::string a_name, b_name;
  };
  struct SourceHash {
    size_t operator()(const SourcePtr& source) const { return symbolic::hash_source(*source); }
  };
  struct SourceEqual {
    bool operator()(const SourcePtr& a, const SourcePtr& b) const { return symbolic::same_source(*a, *b); }
  };
  // An object that is written to, or one that might be it in another call: of its type, and looked at.
  struct Distinct {
    int slot;
    bool is_written;
    std::string name;
  };
  struct TensorLeaf {
    symbolic::TensorCheck check;
    SourcePtr source;
    int stride_offset = 0;  // where its strides start in Bindings::strides
    int view = -1;          // index in Bindings::views
  };

  GuardNode* node_for(const SourcePtr& source);
  GuardNode* computed_node(const SourcePtr& source);
  int slot_of(const SourcePtr& source);
  void add_guard(const symbolic::Guard& guard, const symbolic::Roots& roots);
  void add_constants(const symbolic::CaptureResult& capture);
  void add_input(const symbolic::GraphInput& input, int index);
  void place_symbol(int symbol);
  static void find_unsettled(GuardNode& node);
  bool check_node(GuardNode& node, PyObject* parent, const symbolic::Roots& roots, Bindings& bindings) const;
  bool check_object(GuardNode& node, PyObject* object, const symbolic::Roots& roots,
                    Bindings& bindings) const;
  bool check_all(const symbolic::Roots& roots, Bindings& bindings, bool remembers) const;
  bool check_roots(const symbolic::Roots& roots, Bindings& bindings) const;
  bool run_trace(const symbolic::Roots& roots, Bindings& bindings) const;
  void record_trace() const;
  void bind_sizes(Bindings& bindings) const;
  PyRef compute(const ComputedNode& computed, Bindings& bindings) const;
  bool compute_numbers(const symbolic::Roots& roots, Bindings& bindings) const;
  bool symbols_in_range(const Bindings& bindings) const;
  bool check_symbols(const Bindings& bindings) const;
  bool check_distinct(const Bindings& bindings) const;
  bool check_overlap(const Bindings& bindings) const;
  bool check_histories(const Bindings& bindings) const;
  bool explain_node(const GuardNode& node, PyObject* parent, const symbolic::Roots& roots, Bindings& bindings,
                    GuardFailure& failure) const;
  bool explain_leaves(const GuardNode& node, PyObject* object, Bindings& bindings,
                      GuardFailure& failure) const;
  std::string explain_aliases(const Bindings& bindings) const;
  void explain(const symbolic::Roots& roots, Bindings& bindings, GuardFailure& failure) const;
  bool explain_computed(const symbolic::Roots& roots, Bindings& bindings, GuardFailure& failure) const;
  void explain_symbols(const Bindings& bindings, GuardFailure& failure) const;

  std::vector<std::unique_ptr<GuardNode>> roots_;
  std::vector<std::unique_ptr<ComputedNode>> computed_;  // operands first
  std::unordered_map<SourcePtr, GuardNode*, SourceHash, SourceEqual>
      nodes_;                 // of the whole tree, while it is made
  mutable GuardTrace trace_;  // of the last walk of the tree; the GIL is held
  // Checks that are under way. An accessor may let another thread in (an object that it makes starts the garbage
  // collector, which runs finalizers): what the first check relies on is not changed by the others.
  mutable int checks_ = 0;
  std::vector<TensorLeaf> tensors_;
  std::vector<IdentityCheck> identity_checks_;
  std::vector<Distinct> distinct_;  // those that are written to first
  size_t num_written_ = 0;          // of these
  std::vector<DynamicExtent> dynamic_extents_;
  std::vector<symbolic::SymbolBinding> symbol_bindings_;
  std::shared_ptr<graph::SymContext> sym_;
  std::vector<int> written_inputs_;  // graph inputs that the graph writes to
  std::vector<int> historical_;  // that have a history which it reads, where it writes to one that has one
  bool guard_torch_state_ = false;
  bool guard_numpy_errors_ = false;  // NumPy reports none (numpy.errstate)
  symbolic::TorchState torch_state_;
  size_t num_inputs_ = 0, num_views_ = 0, num_slots_ = 0, num_strides_ = 0;
  std::vector<std::string> lines_;  // the guards in words
};

}  // namespace cdynamo::frame_eval
