// One cache entry: run the graph, rebuild what Python sees, go on in Python where the graph broke.
#include "frame_eval/cache/entry.h"

#include <utility>

#include "frame_eval/cache/owner.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/resume/continuation.h"
#include "symbolic/interop/cached_function.h"

namespace cdynamo::frame_eval {
bool same_names(PyObject* a, PyObject* b) {
  if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

Entry::Entry(const symbolic::CaptureResult& capture, const symbolic::Roots& roots)
    : end(capture.end),
      guards(capture, roots),
      rebuild(capture.results, capture.effects, capture.graph ? capture.graph->sym : nullptr),
      num_outputs(capture.graph ? capture.graph->outputs.size() : 0) {
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    const symbolic::SourceKind kind = capture.inputs[i].source->kind;
    if (kind != symbolic::SourceKind::kArgument && kind != symbolic::SourceKind::kConstant)
      inputs_to_hold.push_back(static_cast<int>(i));
  }
}

Entry::~Entry() = default;

PyRef Entry::run(Owner& owner, const symbolic::Roots& roots, Bindings& bindings, OwnedArguments owned) {
  std::vector<PyRef>& outputs = bindings.outputs;
  std::vector<PyRef> made;
  const bool is_output = end == symbolic::End::kReturn && rebuild.single_output() >= 0;
  if (!is_output) rebuild.read_sources(roots, made);
  for (int input : inputs_to_hold) bindings.owned.push_back(PyRef::borrow(bindings.inputs[input]));
  if (graph && !graph->run(bindings, outputs)) {
    cache_fills.reset();
    return {};
  }
  if (const auto fills = std::exchange(cache_fills, nullptr)) fills->keep();
  if (is_output) return std::move(outputs[rebuild.single_output()]);
  std::vector<PyRef> results;
  if (!rebuild.run(std::move(made), bindings, outputs, results)) return {};
  if (end == symbolic::End::kReturn) return std::move(results[0]);
  // What the rest does not need may be freed while it runs.
  outputs.clear();
  bindings.owned.clear();
  owned.drop();
  return continuation->run(owner.shared_from_this(), roots, std::move(results), owned.locals);
}

}  // namespace cdynamo::frame_eval
