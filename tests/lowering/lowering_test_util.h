// Compiles a core graph, runs it on buffers of given strides and compares with the interpreter of graphs.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "graph/builder.h"
#include "graph/interpreter.h"
#include "lowering/compile.h"
#include "runtime/gemm/half.h"
#include "tests/lowering/guarded_memory.h"
#include "tests/lowering/interpreted_target.h"

namespace cdynamo::lowering::testing {

using graph::Builder;
using graph::DenseTensor;
using graph::DType;
using graph::Graph;
using graph::Sym;
using graph::Value;

inline graph::TensorType tensor_type(std::vector<Sym> sizes, DType dtype = DType::kF32) {
  graph::TensorType type;
  type.dtype = dtype;
  type.strides = graph::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

inline double read_number(const char* at, DType dtype) {
  auto as = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (dtype) {
    case DType::kBool: return as(uint8_t{}) != 0;
    case DType::kU8: return as(uint8_t{});
    case DType::kI8: return as(int8_t{});
    case DType::kU16: return as(uint16_t{});
    case DType::kI16: return as(int16_t{});
    case DType::kU32: return as(uint32_t{});
    case DType::kI32: return as(int32_t{});
    case DType::kU64: return as(uint64_t{});
    case DType::kI64: return as(int64_t{});
    case DType::kF16: return as(runtime::Float16{});
    case DType::kBF16: return as(runtime::BFloat16{});
    case DType::kF32: return as(float{});
    case DType::kF64: return as(double{});
  }
  return 0;
}

inline void write_number(char* at, DType dtype, double value) {
  auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case DType::kBool: return put(static_cast<uint8_t>(value != 0));
    case DType::kU8: return put(static_cast<uint8_t>(value));
    case DType::kI8: return put(static_cast<int8_t>(value));
    case DType::kU16: return put(static_cast<uint16_t>(value));
    case DType::kI16: return put(static_cast<int16_t>(value));
    case DType::kU32: return put(static_cast<uint32_t>(value));
    case DType::kI32: return put(static_cast<int32_t>(value));
    case DType::kU64: return put(static_cast<uint64_t>(value));
    case DType::kI64: return put(static_cast<int64_t>(value));
    case DType::kF16: return put(runtime::Float16::from(static_cast<float>(value)));
    case DType::kBF16: return put(runtime::BFloat16::from(static_cast<float>(value)));
    case DType::kF32: return put(static_cast<float>(value));
    case DType::kF64: return put(value);
  }
}

// A tensor in memory of its own, with strides.
struct Buffer {
  DType dtype;
  std::vector<int64_t> sizes, strides;
  GuardedMemory bytes;

  Buffer(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides)
      : dtype(dtype),
        sizes(std::move(sizes)),
        strides(std::move(strides)),
        bytes(bytes_of(dtype, this->sizes, this->strides), 0x55) {}
  static size_t bytes_of(DType dtype, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides) {
    int64_t span = 1;
    for (size_t d = 0; d < sizes.size(); ++d)
      span += std::max<int64_t>(0, sizes[d] - 1) * std::abs(strides[d]);
    return static_cast<size_t>(span * runtime::bytes(dtype));
  }

  template <typename F>
  void each(F&& fn) {
    int64_t total = 1;
    for (int64_t size : sizes) total *= size;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = sizes.size(); d-- > 0;) {
        offset += rest % sizes[d] * strides[d];
        rest /= sizes[d];
      }
      fn(static_cast<size_t>(i), bytes.data() + offset * runtime::bytes(dtype));
    }
  }
  void write(const DenseTensor& from) {
    each([&](size_t i, char* at) { write_number(at, dtype, from.number(i)); });
  }
  DenseTensor read() {
    DenseTensor result(dtype, sizes);
    each([&](size_t i, char* at) { result.set(i, read_number(at, dtype)); });
    return result;
  }
  runtime::TensorView view() {
    return {.data = bytes.data(),
            .sizes = sizes.data(),
            .strides = strides.data(),
            .rank = static_cast<int32_t>(sizes.size()),
            .dtype = dtype};
  }
};

inline std::vector<int64_t> evaluate(const Graph& graph, const std::vector<Sym>& sizes,
                                     const std::vector<int64_t>& symbols) {
  std::vector<int64_t> result;
  for (const Sym& size : sizes) result.push_back(graph.sym->evaluate(size, symbols.data()));
  return result;
}

// Small whole and half numbers: sums are exact or nearly so; indices are made by the tests themselves.
inline DenseTensor random_tensor(DType dtype, std::vector<int64_t> sizes, std::mt19937& rng) {
  DenseTensor result(dtype, std::move(sizes));
  std::uniform_real_distribution<double> real(-2, 2);
  std::uniform_int_distribution<int> integer(runtime::info(dtype).is_signed ? -4 : 0,
                                             dtype == DType::kBool ? 1 : 5);
  for (size_t i = 0; i < result.elements.size(); ++i)
    result.set(i, runtime::is_float(dtype) ? real(rng) : integer(rng));
  return result;
}

inline void expect_close(const DenseTensor& got, const DenseTensor& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.sizes, want.sizes) << what;
  int wrong = 0;
  for (size_t i = 0; i < want.elements.size() && wrong < 5; ++i) {
    const double a = got.number(i), b = want.number(i);
    if (a == b || (a != a && b != b)) continue;
    const double allowed = runtime::is_float(want.dtype) ? tolerance * std::max(1.0, std::abs(b)) : 0;
    if (std::abs(a - b) <= allowed) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << a << ", should be " << b;
    ++wrong;
  }
}

inline double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-12 : dtype == DType::kF16 ? 4e-3 : dtype == DType::kBF16 ? 3e-2 : 2e-5;
}

struct RunResult {
  CompileReport report;
  runtime::RunError error;
  std::vector<DenseTensor> outputs;
};

// Runs with memory that comes and goes: an input is overwritten as soon as it is released, an output before it is first written.
inline void run_releasing(runtime::Executable& executable, std::vector<Buffer>& in, std::vector<Buffer>& out,
                          const std::vector<int64_t>& symbols, runtime::RunError* error) {
  struct Context {
    std::vector<Buffer>&in, &out;
  } context{in, out};
  runtime::MemoryCallbacks memory{&context,
                                  [](void* at, int output) -> void* {
                                    Buffer& buffer = static_cast<Context*>(at)->out[output];
                                    std::fill(buffer.bytes.begin(), buffer.bytes.end(), 0x55);
                                    return buffer.bytes.data();
                                  },
                                  [](void* at, int input) {
                                    Buffer& buffer = static_cast<Context*>(at)->in[input];
                                    std::fill(buffer.bytes.begin(), buffer.bytes.end(), 0x7f);
                                  }};
  std::vector<runtime::TensorView> views;
  for (Buffer& buffer : in) views.push_back(buffer.view());
  executable.run({.inputs = views.data(), .symbols = symbols.data(), .memory = &memory}, error);
}

// Compiles, runs on `inputs` and compares outputs and mutated inputs with the interpreter of graphs.
using CompileFn = std::function<std::unique_ptr<runtime::Executable>(CompileReport*)>;
inline RunResult run_and_compare(const Graph& graph, const CompileFn& compile,
                                 const std::vector<DenseTensor>& inputs, std::vector<int64_t> symbols = {}) {
  RunResult result;
  if (symbols.empty())
    for (const auto& symbol : graph.sym->symbols()) symbols.push_back(symbol.hint);
  std::unique_ptr<runtime::Executable> executable = compile(&result.report);
  std::vector<Buffer> in, out;
  std::vector<runtime::TensorView> views;
  std::vector<void*> pointers;
  std::vector<DenseTensor> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.emplace_back(inputs[i].dtype, inputs[i].sizes,
                    evaluate(graph, graph.inputs[i]->type.strides, symbols));
    in.back().write(inputs[i]);
    seen.push_back(in.back().read());  // a stride of 0 leaves fewer elements
  }
  for (Buffer& buffer : in) views.push_back(buffer.view());
  for (const runtime::OutputSpec& spec : executable->outputs) {
    std::vector<int64_t> sizes, strides;
    for (const auto& size : spec.sizes) sizes.push_back(size.evaluate(symbols.data()));
    for (const auto& stride : spec.strides) strides.push_back(stride.evaluate(symbols.data()));
    out.emplace_back(spec.dtype, sizes, strides);
  }
  for (Buffer& buffer : out) pointers.push_back(buffer.bytes.data());
  const runtime::Call call{.inputs = views.data(), .symbols = symbols.data(), .outputs = pointers.data()};
  const std::string text = result.report.fusion + result.report.loop_ir + result.report.plan;
  if (!executable->run(call, &result.error)) return result;
  const graph::InterpretResult want = graph::interpret_all(graph, seen, symbols);
  for (size_t i = 0; i < out.size(); ++i) {
    result.outputs.push_back(out[i].read());
    expect_close(result.outputs.back(), want.outputs[i], tolerance_of(out[i].dtype),
                 "output " + std::to_string(i) + "\n" + text);
  }
  for (size_t i = 0; i < in.size(); ++i)
    expect_close(in[i].read(), want.inputs[i], tolerance_of(in[i].dtype),
                 "input " + std::to_string(i) + "\n" + text);
  if (!graph.mutations.empty()) return result;
  run_releasing(*executable, in, out, symbols, &result.error);
  for (size_t i = 0; i < out.size(); ++i)
    expect_close(out[i].read(), result.outputs[i], 0,
                 "output " + std::to_string(i) + " of the second run\n" + text);
  return result;
}

// The same for `target`, by default the interpreter of kernels.
inline RunResult compile_and_compare(const Graph& graph, const std::vector<DenseTensor>& inputs,
                                     std::vector<int64_t> symbols = {},
                                     const Target& target = interpreted_target()) {
  const auto compile = [&](CompileReport* report) {
    return compile_for(target, graph, {.keep_text = true}, report);
  };
  return run_and_compare(graph, compile, inputs, std::move(symbols));
}

}  // namespace cdynamo::lowering::testing
