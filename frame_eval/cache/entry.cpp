// One cache entry: run the graph, rebuild what Python sees, go on in Python where the graph broke.
#include "frame_eval/cache/entry.h"

#include "frame_eval/cache/owner.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/resume/continuation.h"

namespace cdynamo::frame_eval {
namespace {

bool same_names(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

}  // namespace

bool ArgumentForm::is(Py_ssize_t positional, PyObject* names, bool are_bound) const {
  return num_positional == positional && bound == are_bound && same_names(kwnames.get(), names);
}

Entry::Entry(const symbolic::CaptureResult& capture, const symbolic::Roots& roots)
    : end(capture.end),
      guards(capture, roots),
      rebuild(capture.results, capture.effects, capture.graph ? capture.graph->sym : nullptr),
      num_outputs(capture.graph ? capture.graph->outputs.size() : 0) {}

Entry::~Entry() = default;

PyRef Entry::run(Owner& owner, const symbolic::Roots& roots, Bindings& bindings, OwnedArguments owned) {
  std::vector<PyRef> outputs;
  if (graph && !graph->run(bindings, outputs)) return {};
  if (end == symbolic::End::kReturn && rebuild.single_output() >= 0)
    return std::move(outputs[rebuild.single_output()]);
  std::vector<PyRef> results;
  if (!rebuild.run(roots, bindings, outputs, results)) return {};
  if (end == symbolic::End::kReturn) return std::move(results[0]);
  // What the rest does not need may be freed while it runs.
  outputs.clear();
  bindings.owned.clear();
  owned.drop();
  return continuation->run(owner.shared_from_this(), roots, std::move(results));
}

}  // namespace cdynamo::frame_eval
