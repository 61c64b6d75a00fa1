#include "runtime/host/jit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <atomic>
#include <thread>

namespace cdynamo::runtime {
namespace {

using testing::HasSubstr;

// int64_t kernel(int64_t x): what `body` makes of x.
template <typename Body>
auto function(Body body) {
  return [body](llvm::Module& module) {
    llvm::IRBuilder<> builder(module.getContext());
    auto* type = llvm::FunctionType::get(builder.getInt64Ty(), {builder.getInt64Ty()}, false);
    auto* kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module);
    builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", kernel));
    builder.CreateRet(body(builder, kernel->getArg(0)));
  };
}

llvm::Value* add_one(llvm::IRBuilder<>& builder, llvm::Value* x) {
  return builder.CreateAdd(x, builder.getInt64(1));
}

// An intrinsic of another target: instruction selection ends LLVM's process.
llvm::Value* thread_index(llvm::IRBuilder<>& builder, llvm::Value* x) {
  llvm::Value* index = builder.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  return builder.CreateAdd(x, builder.CreateZExt(index, builder.getInt64Ty()));
}

// A register that is none: code generation reports it, and without a handler LLVM's context ends the process.
llvm::Value* no_register(llvm::IRBuilder<>& builder, llvm::Value* x) {
  auto* type = llvm::FunctionType::get(builder.getVoidTy(), {x->getType()}, false);
  builder.CreateCall(llvm::InlineAsm::get(type, "", "{nosuchregister}", true), {x});
  return x;
}

void expect_works() {
  auto code = load_object(compile("works", function(add_one)), {"kernel"});
  EXPECT_EQ(reinterpret_cast<int64_t (*)(int64_t)>(code->address(0))(41), 42);
}

std::string failure_of(auto emit) {
  try {
    compile("fails", emit);
  } catch (const JitError& error) {
    return error.message;
  }
  return "no failure";
}

TEST(Jit, CompilesAndRuns) {
  expect_works();
  std::string assembly, ir;
  compile("texts", function(add_one), &assembly, &ir);
  EXPECT_THAT(assembly, HasSubstr("kernel:"));
  EXPECT_THAT(ir, HasSubstr("add i64"));
}

TEST(Jit, WhatLlvmWouldAbortOnIsAnErrorAndTheNextCompilationWorks) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(failure_of(function(thread_index)), HasSubstr("LLVM: Cannot select"));
    expect_works();
  }
}

TEST(Jit, WhatLlvmWouldExitOnIsAnErrorAndTheNextCompilationWorks) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(failure_of(function(no_register)), HasSubstr("couldn't allocate"));
    expect_works();
  }
}

TEST(Jit, RefusesInvalidModules) {
  auto no_terminator = [](llvm::Module& module) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), false);
    auto* kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module);
    llvm::BasicBlock::Create(module.getContext(), "entry", kernel);
  };
  EXPECT_THAT(failure_of(no_terminator), HasSubstr("generated IR is invalid"));
  expect_works();
}

TEST(Jit, RunningOutOfMemoryIsAnErrorAndTheNextCompilationWorks) {
  EXPECT_THAT(failure_of([](llvm::Module&) { throw std::bad_alloc(); }), HasSubstr("out of memory"));
  expect_works();
}

TEST(Jit, FailuresOfSeveralThreadsDoNotDisturbOthers) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 5; ++j) {
        if (i % 2) {
          expect_works();
        } else {
          EXPECT_THAT(failure_of(function(thread_index)), HasSubstr("Cannot select"));
          EXPECT_THAT(failure_of(function(no_register)), HasSubstr("couldn't allocate"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Jit, DescribesTheHost) {
  const HostTarget& host = host_target();
  EXPECT_FALSE(host.cpu.empty());
  EXPECT_NE(host.key().find(host.cpu), std::string::npos);
  EXPECT_TRUE(host.vector_bytes == 16 || host.vector_bytes == 32 || host.vector_bytes == 64);
}

TEST(Jit, RefusesWhatIsNoObject) {
  EXPECT_THROW(load_object("not an object file", {"kernel"}), JitError);
  EXPECT_THROW(load_object("", {"kernel"}), JitError);
  // An ELF header and nothing after it.
  EXPECT_THROW(load_object(std::string_view("\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\1\0>\0", 20), {"kernel"}),
               JitError);
}

TEST(Jit, RefusingIsSafeFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        try {
          load_object("garbage", {"kernel"});
        } catch (const JitError&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 80);
}

}  // namespace
}  // namespace cdynamo::runtime
