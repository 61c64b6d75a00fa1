// NativeGraph: the native backend's graph, machine code that is called on the memory of the inputs.
#pragma once

#include <memory>
#include <vector>

#include "frame_eval/execution/compiled_graph.h"
#include "frame_eval/execution/drawn_generators.h"
#include "frame_eval/execution/executable_call.h"
#include "frame_eval/execution/training_function.h"
#include "frame_eval/execution/view_form.h"
#include "graph/autograd/autograd.h"
#include "graph/passes.h"
#include "symbolic/torch/library_call.h"

namespace cdynamo::frame_eval {

union ScalarCell {
  int64_t integer;
  double real;
  void* handle;
};

struct FreshOutput {
  OutputForm form = OutputForm::kTorchTensor;
  FreshTensor tensor;
};

class NativeGraph : public CompiledGraph {
 public:
  NativeGraph(const symbolic::CaptureResult& capture, std::vector<OutputForm> forms, graph::Prepared prepared,
              std::shared_ptr<runtime::Executable> executable, std::shared_ptr<TrainingFunction> training);
  bool run(Bindings& bindings, std::vector<PyRef>& outputs) override;

 private:
  PyRef make_output(size_t i, const Bindings& bindings, const std::vector<PyRef>& fresh,
                    void* const* data) const;
  // Memory of the fresh output `i`; a number lies in `cell`.
  bool allocate(size_t i, const int64_t* symbols, PyRef& fresh, void** data, ScalarCell* cell) const;
  bool execute_and_note_writes(runtime::Call& call, const Bindings& bindings, std::vector<PyRef>& fresh,
                               const AllocateOutput& allocate, CallFailure* failure) const;
  bool run_any(Bindings& bindings, std::vector<PyRef>& outputs);
  bool run_plain(Bindings& bindings, std::vector<PyRef>& outputs);
  // Always false, with the error that is set; or throws RunInPython, where plain Python is to run the call.
  bool fail(CallFailure failure, const DrawnGenerators::Saved& generators);
  bool is_repeatable(CallFailure failure) const;
  std::vector<PyRef> copies_of_overwritten(const Bindings& bindings) const;
  bool attach_history(const Bindings& bindings, const std::vector<PyRef>& overwritten,
                      std::vector<PyRef>& fresh) const;
  void note_stale_calls();
  PyRef view_of(PyObject* base, size_t output, const int64_t* symbols) const;
  PyRef view_on(PyObject* base, size_t output, const int64_t* symbols) const;
  bool make_stale_views(const Bindings& bindings, std::vector<PyRef>& outputs) const;
  void note_writes_after_views(const std::vector<PyRef>& outputs) const;
  bool make_outputs(const Bindings& bindings, const std::vector<PyRef>& overwritten,
                    std::vector<PyRef>& fresh, void* const* data, std::vector<PyRef>& outputs) const;
  bool can_read_histories(const Bindings& bindings) const;
  void note_histories(const symbolic::CaptureResult& capture);
  void take_for_fresh();
  void note_draws(const symbolic::CaptureResult& capture, const graph::Graph& core);
  void note_writes(const symbolic::CaptureResult& capture, const graph::Graph& core);

  std::shared_ptr<runtime::Executable> executable_;
  std::shared_ptr<TrainingFunction> training_;  // null where no gradient is asked for
  std::shared_ptr<graph::SymContext> sym_;
  std::vector<graph::OutputAlias> outputs_;
  std::vector<bool> requires_grad_;  // by output, as in eager
  bool any_history_ = false;         // of them
  std::vector<ViewForm> views_;      // by output
  std::vector<int> read_histories_;  // inputs whose histories eager reads
  bool writes_ = false, draws_ = false, any_stale_ = false;
  std::vector<OutputForm> forms_;
  std::vector<FreshOutput> fresh_;
  std::vector<std::pair<int, runtime::DType>>
      numbers_;  // graph inputs that are numbers of Python's or NumPy's, or generators
  std::vector<symbolic::InputKind> input_kinds_;
  std::vector<int> written_;        // torch tensors whose count of writes moves on
  DrawnGenerators may_draw_twice_;  // where Python runs the call again, after numbers were drawn
  std::vector<std::shared_ptr<symbolic::LibraryCall>> library_calls_;
  bool in_order_ = true;  // every output is fresh, in order
  // Besides: all are arrays or tensors, and nothing is written, drawn, read back or differentiated.
  bool is_plain_ = false;
  bool allocates_late_ = false;
  bool mixes_arrays_ = false;  // inputs or results are arrays
};

}  // namespace cdynamo::frame_eval
