#include "symbolic/tensors/torch_generator.h"

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/generator_handle.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

class TorchGeneratorValue final : public SymbolicValue {
 public:
  TorchGeneratorValue(PyObject* generator, SourcePtr from) : generator_(PyRef::borrow(generator)) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(generator_.get()); }
  std::string describe() const override { return "torch.Generator"; }
  PyObject* real_object() const override { return generator_.get(); }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override {
    if (!recipe_) recipe_ = source_recipe(source);
    return recipe_;
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    if (PyUnicode_CompareWithASCIIString(name, "device") != 0)
      break_graph("CD0412", absl::StrCat("torch.Generator.", PyUnicode_AsUTF8(name)));
    return device(ex);
  }

  ValuePtr device(Executor& ex) {
    const PyRef found = checked(PyObject_GetAttrString(generator_.get(), "device"));
    return ex.wrap(found.get(), attribute_source(source, interned("device")));
  }

 private:
  PyRef generator_;
  RecipePtr recipe_;
};

}  // namespace

ValuePtr wrap_torch_generator(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!source || reinterpret_cast<PyObject*>(Py_TYPE(object)) != library_object("torch", "Generator"))
    return nullptr;
  guard_exact_type(ex, object, source);
  return std::make_shared<TorchGeneratorValue>(object, source);
}

graph::Value* generator_input(Executor& ex, const ValuePtr& value) {
  auto* generator = dynamic_cast<TorchGeneratorValue*>(value.get());
  if (!generator || !generator_handle(generator->real_object())) return nullptr;
  const ValuePtr device = generator->device(ex);
  const PyRef type = checked(PyObject_GetAttrString(constant_object(device), "type"));
  if (PyUnicode_CompareWithASCIIString(type.get(), "cpu") != 0) return nullptr;
  // A checkpoint would draw further numbers when it runs again.
  if (const auto* region = ex.isolated_region()) break_graph("CD0419", region->what);
  graph::TensorType handle;
  handle.dtype = graph::DType::kI64;
  return ex.add_input(InputKind::kTorchGenerator, generator->source, std::move(handle));
}

}  // namespace cdynamo::symbolic
