#include "symbolic/tensors/torch_generator.h"

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/generator_handle.h"
#include "symbolic/values/random_generator.h"
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
  // Null: captured code has made it.
  PyObject* real_object() const override { return is_made_here() ? nullptr : generator_.get(); }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_) recipe_ = is_made_here() ? recipe_of_made(ex) : source_recipe(source);
    return recipe_;
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    const std::string known = PyUnicode_AsUTF8(name);
    if (known == "device") return device(ex);
    if (known == "manual_seed" && is_made_here() && !draws_in_graph) return seeding();
    break_graph("CD0412", absl::StrCat("torch.Generator.", known));
  }

  ValuePtr device(Executor& ex) {
    const PyRef found = checked(PyObject_GetAttrString(generator_.get(), "device"));
    return ex.wrap(found.get(), attribute_source(source, interned("device")));
  }

  PyObject* generator() const { return generator_.get(); }
  bool draws_in_graph = false;  // what is said to it before the graph runs comes too early

 private:
  bool is_made_here() const { return source->kind == SourceKind::kComputed; }
  RecipePtr recipe_of_made(Executor& ex) const;
  ValuePtr seeding();

  PyRef generator_;
  RecipePtr recipe_;
};

graph::Value* add_generator_input(Executor& ex, const SourcePtr& source) {
  graph::TensorType handle;
  handle.dtype = graph::DType::kI64;
  return ex.add_input(InputKind::kTorchGenerator, source, std::move(handle));
}

RecipePtr TorchGeneratorValue::recipe_of_made(Executor& ex) const {
  return input_recipe(ex, add_generator_input(ex, source));
}

constexpr const char* kManualSeed = "manual_seed";

// generator.manual_seed, bound to one that captured code has made.
class SeedingMethod final : public DrawingMethod {
 public:
  explicit SeedingMethod(ValuePtr generator) : DrawingMethod(std::move(generator), kManualSeed) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override { return "torch.Generator.manual_seed"; }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    const auto& generator = dynamic_cast<const TorchGeneratorValue&>(*generator_);
    const ValuePtr seed = bind_arguments(ex, kManualSeed, args, {"seed"})[0];
    DrawOperands operands = operands_of_draw(generator.source, generator.generator());
    PyObject* function = _PyType_Lookup(generator.type(), interned(kManualSeed));
    // Where PyTorch raises, it is to do so itself.
    if (generator.draws_in_graph || seed->type() != &PyLong_Type || !add_number(ex, operands, seed) ||
        !draw_next(ex, std::move(operands), function))
      break_graph("CD0412", describe());
    return generator_;
  }
};

ValuePtr TorchGeneratorValue::seeding() { return std::make_shared<SeedingMethod>(shared_from_this()); }

}  // namespace

ValuePtr make_torch_generator(Executor& ex, PyObject* cls, const CallArgs& args) {
  const ValuePtr device = bind_arguments(ex, "torch.Generator", args, {"device?"})[0];
  DrawOperands operands;
  if (device) {
    PyObject* constant = constant_object(device);
    const PyRef name = constant ? checked(PyObject_Str(constant)) : PyRef();
    if (!name || PyUnicode_CompareWithASCIIString(name.get(), "cpu") != 0)
      break_graph("CD0412", "a torch.Generator that is made for " + device->describe());
    operands.operands.push_back({.source = nullptr, .integer = {}, .constant = PyRef::borrow(constant)});
    operands.now.push_back(PyRef::borrow(constant));
  }
  if (!generator_handle(checked(PyObject_CallNoArgs(cls)).get()))
    break_graph("CD0412", "a torch.Generator, which this PyTorch's C interface does not take");
  const std::optional<Draw> made = draw_next(ex, std::move(operands), cls);
  if (!made) break_graph("CD0412", "torch.Generator");
  guard_exact_type(ex, made->drawn.get(), made->source);
  return std::make_shared<TorchGeneratorValue>(made->drawn.get(), made->source);
}

ValuePtr wrap_torch_generator(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!source || reinterpret_cast<PyObject*>(Py_TYPE(object)) != library_object("torch", "Generator"))
    return nullptr;
  guard_exact_type(ex, object, source);
  return std::make_shared<TorchGeneratorValue>(object, source);
}

graph::Value* generator_input(Executor& ex, const ValuePtr& value) {
  auto* generator = dynamic_cast<TorchGeneratorValue*>(value.get());
  if (!generator || !generator_handle(generator->generator())) return nullptr;
  const ValuePtr device = generator->device(ex);
  const PyRef type = checked(PyObject_GetAttrString(constant_object(device), "type"));
  if (PyUnicode_CompareWithASCIIString(type.get(), "cpu") != 0) return nullptr;
  // A checkpoint would draw further numbers when it runs again.
  if (const auto* region = ex.isolated_region()) break_graph("CD0419", region->what);
  generator->draws_in_graph = true;
  return add_generator_input(ex, generator->source);
}

}  // namespace cdynamo::symbolic
