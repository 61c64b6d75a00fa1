#include <absl/strings/str_cat.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "runtime/codegen/llvm_compile.h"
#include "runtime/codegen/masked_memory.h"

namespace cdynamo::runtime {
namespace {

using namespace llvm;

// Throwing unwinds through LLVM's frames. They are compiled without exceptions and with unwind tables, so that the
// unwinder passes them and runs nothing of theirs: no destructor, no unlocking. `compile` knows what that leaves.
[[noreturn]] void on_fatal_error(void*, const char* reason, bool) {
  throw FatalError(absl::StrCat("LLVM: ", reason));
}

std::unique_ptr<TargetMachine> make_machine(const CodeTarget& code) {
  initialize_llvm();
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(code.triple, error);
  if (!target) throw JitError("LLVM has no target for " + code.triple + ": " + error);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  options.EmulatedTLS = false;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(code.triple, code.cpu, code.features,
                                                                     options, Reloc::PIC_, CodeModel::Small,
                                                                     CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) throw JitError("LLVM refused to make a target machine for " + code.cpu);
  return machine;
}

// Machines are not thread safe: each compilation takes one of its target and gives it back.
class MachinePool {
 public:
  static MachinePool& process() {
    static auto* instance = new MachinePool;
    return *instance;
  }
  std::unique_ptr<TargetMachine> take(const CodeTarget& target) {
    {
      std::lock_guard lock(mutex_);
      std::vector<std::unique_ptr<TargetMachine>>& idle = idle_[target.key()];
      if (!idle.empty()) {
        std::unique_ptr<TargetMachine> machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    return make_machine(target);
  }
  void give(const CodeTarget& target, std::unique_ptr<TargetMachine> machine) {
    std::lock_guard lock(mutex_);
    idle_[target.key()].push_back(std::move(machine));
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<TargetMachine>>> idle_;
};

// Emission leaves little to do: loops, vectors, unrolling and hoisting are already as they should be. What
// pays is the removal of repeated and constant work.
struct Optimizer {
  FunctionAnalysisManager functions;
  LoopAnalysisManager loops;
  CGSCCAnalysisManager cgscc;
  ModuleAnalysisManager modules;
  PassBuilder builder;
  FunctionPassManager passes;

  explicit Optimizer(TargetMachine& machine) : builder(&machine) {
    functions.registerPass([&] { return machine.getTargetIRAnalysis(); });
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(cgscc);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, cgscc, modules);
    passes.addPass(PromotePass());
    passes.addPass(EarlyCSEPass());
    passes.addPass(InstCombinePass());
    passes.addPass(SimplifyCFGPass());
  }
  void run(Module& module) {
    for (Function& function : module)
      if (!function.isDeclaration()) passes.run(function, functions);
  }
};

// Code generation of one module as text or as an object.
struct CodeGenerator {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream{bytes};
  legacy::PassManager passes;

  std::string run(Module& module, TargetMachine& machine, CodeGenFileType type) {
    if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
      throw JitError("LLVM cannot emit code for this target");
    passes.run(module);
    return std::string(bytes.data(), bytes.size());
  }
};

// All that one compilation has of LLVM, on the heap: see `compile`.
struct Compilation {
  LLVMContext context;
  std::string errors;  // that LLVM reported and went on
  Module module;
  std::unique_ptr<Module> copy;
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Optimizer> optimizer;
  CodeGenerator assembly, code;

  Compilation(const CodeTarget& target, const std::string& name)
      : module(name, context), machine(MachinePool::process().take(target)) {
    // Without a handler LLVM prints what it reports, and an error ends the process.
    context.setDiagnosticHandlerCallBack(
        [](const DiagnosticInfo* info, void* errors) {
          if (info->getSeverity() != DS_Error) return;
          raw_string_ostream stream(*static_cast<std::string*>(errors));
          DiagnosticPrinterRawOStream printer(stream);
          info->print(printer);
          stream << "; ";
        },
        &errors);
  }
  void check() const {
    if (!errors.empty()) throw JitError(absl::StrCat("LLVM: ", errors));
  }
  std::string run(CodeForm form, std::string* assembly_text, std::string* optimized_ir) {
    std::string broken;
    raw_string_ostream broken_stream(broken);
    if (verifyModule(module, &broken_stream)) throw JitError("generated IR is invalid: " + broken);
    module.setTargetTriple(machine->getTargetTriple().str());
    module.setDataLayout(machine->createDataLayout());
    optimizer = std::make_unique<Optimizer>(*machine);
    optimizer->run(module);
    take_masked_memory_apart(module, *machine);
    check();
    if (optimized_ir) {
      raw_string_ostream stream(*optimized_ir);
      module.print(stream, nullptr);
    }
    if (assembly_text && form == CodeForm::kObject) {
      // Code generation changes the module, so the text is made from a copy.
      copy = CloneModule(module);
      *assembly_text += assembly.run(*copy, *machine, CodeGenFileType::AssemblyFile);
    }
    std::string bytes =
        code.run(module, *machine,
                 form == CodeForm::kObject ? CodeGenFileType::ObjectFile : CodeGenFileType::AssemblyFile);
    check();
    if (assembly_text && form == CodeForm::kAssembly) *assembly_text += bytes;
    return bytes;
  }
};

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_fatal_error_handler(on_fatal_error);
    install_bad_alloc_error_handler(on_fatal_error);
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

void check_llvm(Error error, const char* what) {
  if (!error) return;
  throw JitError(std::string(what) + ": " + toString(std::move(error)));
}

std::string compile(const CodeTarget& target, CodeForm form, const std::string& name,
                    absl::FunctionRef<void(llvm::Module&)> emit, std::string* assembly,
                    std::string* optimized_ir) {
  std::unique_ptr<Compilation> compilation;
  // What was unwound through LLVM's frames leaves LLVM's objects half changed: values that frames which are gone
  // listen to, lists between two states. They are left as they are for ever, the target machine among them.
  auto abandon = [&] { (void)compilation.release(); };
  try {
    initialize_llvm();
    compilation = std::make_unique<Compilation>(target, name);
    emit(compilation->module);
    std::string code = compilation->run(form, assembly, optimized_ir);
    std::unique_ptr<TargetMachine> machine = std::move(compilation->machine);
    compilation.reset();  // before another compilation has the machine: passes refer to it
    MachinePool::process().give(target, std::move(machine));
    return code;
  } catch (const FatalError&) {
    abandon();
    throw;
  } catch (const std::bad_alloc&) {
    abandon();
    throw JitError("LLVM: out of memory");
  }
}

}  // namespace cdynamo::runtime
