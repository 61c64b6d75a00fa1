// What a capture is asked for (CaptureRequest) and what it gives (CaptureResult), as plain data: the graph, the guards,
// what to build after the graph has run, which side effects to replay, where it stopped. The vocabulary between
// symbolic and frame_eval.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/types.h"
#include "symbolic/bytecode/control_flow.h"
#include "symbolic/capture/source.h"
#include "symbolic/interop/cached_function.h"
#include "symbolic/interop/set_layout.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::symbolic {

// ---- guards

enum class GuardKind : uint8_t {
  kType,      // type(x) is object
  kIdentity,  // x is object
  kEquals,    // type(x) is type(object) and x == object; floats bit by bit; for int, float, str, bytes, bool,
              // None, tuples of them; a set or frozenset: the same elements (by identity or as above)
  kSetLayout,  // x is a set whose table is laid out as object's (interop/set_layout.h)
  kLength,     // len(x) == index, x a list, tuple, dict or set; of a subclass's instance: of its underlying
               // storage
  kDictKeys,   // list(x) == object (a tuple), compared by identity, then equality of str/int keys; subclasses
               // as above
  kKeyAbsent,  // object not in x, x a dict (storage of a subclass's instance too)
  kAttributeAbsent,  // x (an instance with a dict) has no own attribute `object`
  kTypeUnchanged,    // x is a class: none of its attributes, or its bases', has changed (type version)
  kNotSubclass,  // x, a class, is not registered with `object`, an abstract base class (interop/abstract_class.h)
  kTensor,       // metadata of a torch.Tensor or numpy.ndarray: TensorGuard in interop/tensor_access.h
  kDynamicInt,    // exact int, or of the NumPy type `object`, that fits int64: its value is symbol `index`
  kDynamicFloat,  // exact float: its value is a graph input
  kFunctionCode,  // x is a function whose __code__ is object, with as many defaults; index kSameDefaults: with the
                  // same ones
  kSameObject,       // x is the object that `other` names: one value stood for both
  kDistinctObjects,  // x is not the object that `other` names: they were compared. No `other`: x, which is
                     // written to (index 1), is no other object of these; or is none of the written (index 0)
  kDiesQuietly,      // no code runs where x dies, if the call alone holds it (interop/finalizers.h)
  kDistinctTensors,  // tensors among the graph inputs do not overlap in memory where one of them is written
};

constexpr int kSameDefaults = 1;

struct Guard {
  GuardKind kind;
  SourcePtr source;
  ConstantRef object;
  int index = -1;
  TensorGuard tensor;
  SourcePtr other;  // kSameObject
  std::string why;  // "model.py:12: if self.training"
};

// ---- what to build after the graph has run

struct Recipe;
using RecipePtr =
    std::shared_ptr<Recipe>;  // one pointer, one object: shared recipes are built once (identity is kept)

enum class RecipeKind : uint8_t {
  kSource,        // load from a source
  kConstant,      // `object`
  kTensor,        // output `index` of the captured graph, as `object` type (torch.Tensor or numpy.ndarray)
  kNumpyScalar,   // output `index` (0-dim), as a NumPy scalar
  kPythonScalar,  // output `index` (0-dim), as float, int or bool
  kInt,           // the value of `size`
  kInput,         // input `index` of the captured graph
  kTuple,
  kList,
  kSet,
  kFrozenSet,  // items, added one by one or as `layout` says, in the order of iteration
  kDict,       // items: key, value, key, value ...
  kSlice,      // items: start, stop, step
  kCall,  // items[0](*items[1:]) : types and functions of C that run no user code (range, iter, structseq,
          // namedtuple …)
  kFunction,     // items: code, globals, name, defaults or None, kwdefaults or None, closure cells...
  kCell,         // a new cell; items: contents or nothing
  kBoundMethod,  // items: function, self
  kNewObject,    // object.__new__(type) of `object`; attributes come as side effects
  kNull,         // an empty stack slot
};

struct Recipe {
  RecipeKind kind;
  SourcePtr source;
  ConstantRef object;
  int index = -1;
  graph::Sym size;
  std::vector<RecipePtr> items;
  std::shared_ptr<const SetLayout> layout;
};

enum class EffectKind : uint8_t {
  kSetAttribute,  // target.key = value   (type(target).__setattr__ is object's; nn.Module's own rules were
                  // inlined)
  kDeleteAttribute,
  kSetItem,  // target[key] = value, target an exact dict or list
  kDeleteItem,
  kReplaceList,  // target[:] = value (a kList recipe)
  kExtendList,   // target.extend(value)
  kReplaceDict,  // target.clear(); target.update(value)
  kReplaceSet,   // target's table becomes that of value (a kSet recipe)
  kSetGlobal,    // target (a dict)[key] = value
  kDeleteGlobal,
  kSetCell,  // target.cell_contents = value; value null: emptied
  kCall,  // target(*value.items), the last named by key, a tuple or null: its result is not used, its order counts
};

struct Effect {
  EffectKind kind;
  RecipePtr target, key, value;
};

// ---- graph inputs

enum class InputKind : uint8_t { kTorchTensor, kNumpyArray, kFloat, kNumpyScalar, kTorchGenerator };

struct GraphInput {
  InputKind kind;
  SourcePtr source;
  graph::Value* value;  // the captured graph's input; of a number 0-dim, of a generator its handle
};

// Ints beyond this are constants, so that sums and products of symbols are mostly known to fit into 64 bits.
constexpr int64_t kLargestSymbol = int64_t{1} << 53;
// Where the value of a size symbol is found at run time.
struct SymbolBinding {
  int input = -1;  // >= 0: graph input whose size (dim) it is
  int dim = -1;
  SourcePtr source;  // else an int; none: the graph reads it from a tensor
};

// ---- graph breaks

struct UserFrame {
  std::string file, function, text;
  int line = 0;
  bool operator==(const UserFrame&) const = default;
};

struct BreakRecord {
  std::string id;                // stable: "CD0012"; rows in symbolic/capture/graph_breaks.def
  std::string what;              // "call of print"
  std::string why;               // "it writes to a file, which a graph cannot"
  std::string instead;           // what to write instead
  std::vector<UserFrame> stack;  // outermost first
  // The call ends in an exception of the program's own, in Python as here: no break of the graph to one who asks for one graph.
  bool is_error_of_program() const { return id == "CD0101" || id == "CD0111" || id == "CD0403"; }
};

// ---- request and result

// What an earlier miss taught: sizes, ints and floats that changed are captured as dynamic.
struct DynamicHint {
  std::string source;  // Source::name()
  int dim = -1;        // -1: an int or float
};

// A loop with a graph break in it is cut at its header: Python takes its turns, and the pieces between the breaks are
// compiled once.
struct LoopCut {
  int header = 0;      // an instruction
  bool pays = false;   // a piece of it computes something
  bool whole = false;  // none does: Python executes all turns that are left
};

struct CaptureRequest {
  PyCodeObject* code = nullptr;
  Roots roots;
  // Layout of roots.arguments: `num_positional` values, then one for each of kwnames. bound: they are the
  // argument slots of `code` as a frame has them (defaults filled in, *args and **kwargs packed).
  Py_ssize_t num_positional = 0;
  PyObject* kwnames = nullptr;
  bool bound = false;
  bool owns_arguments = false;  // of a resume function: nothing else holds its arguments
  bool assume_dynamic = false;  // dynamic=True
  bool assume_static = false;   // dynamic=False
  std::vector<DynamicHint> dynamic;
  // Calls (by Node::user_call, with the reason) that an earlier attempt to compile could not differentiate:
  // the graph breaks before them.
  std::vector<std::pair<int, std::string>> refused_calls;
  // The loops of `code`; null: those that its program shows. A resume function is entered inside of some.
  std::shared_ptr<const std::vector<Loop>> loops;
  std::vector<LoopCut> cuts;  // by earlier captures
  std::vector<std::string>
      counters;  // arguments that change from turn to turn of a loop: numbers in them are dynamic
  // Whether frames of the code that Python runs are compiled; null: none but the root's. Only such frames are handed over in the
  // middle of a call.
  bool (*compiles)(PyCodeObject* code) = nullptr;
  // Numbers of tensors may be read while the graph runs (symbolic/tensors/data_numbers.h).
  bool reads_data = true;
  // The graph is compiled by cdynamo, and not handed to a backend in Python.
  bool is_native = true;
  // Loops that cost much to unroll and gain little are left to Python (symbolic/frames/unrolling.h); not where the program
  // demands one graph.
  bool leaves_loops = true;
  // Also every loop of more nodes: an earlier attempt to compile took too long.
  bool leaves_long_loops = false;
  static constexpr int64_t kNodesOfShortLoop = 64;
};

struct LibraryCall;  // symbolic/tensors/library_calls.h

// A frame that is handed to Python. Of the results it has one for each item of the stack from the bottom, one for each of
// `local_slots`, and if it is not the root's one more: the globals.
struct BrokenFrame {
  PyRef code;
  // Instruction index in decode(code). Python executes it next; where a frame follows it is the call of that one's function,
  // whose operands are off the stack.
  int at = -1;
  int stack_depth = 0;
  std::vector<int> local_slots;  // co_localsplus slots that hold a value there (cells as cells)
  size_t num_results(bool is_root) const { return stack_depth + local_slots.size() + !is_root; }
};

enum class End : uint8_t { kReturn, kBreak, kSkipFrame };

struct CaptureResult {
  End end = End::kSkipFrame;
  std::string skip_reason;  // kSkipFrame: why the frame is left to Python
  bool refused = false;     // kSkipFrame: no code of this kind is captured, whatever it computes
  bool callees_too =
      false;  // kSkipFrame: the functions that it calls run in Python as well (a gradient is asked for)
  bool unrolls_long_loop = false;  // of more than CaptureRequest::kNodesOfShortLoop nodes
  bool retry_later = false;        // kSkipFrame for this call only (e.g. tracing is active)

  std::shared_ptr<graph::Graph> graph;  // captured level; may have no nodes
  std::vector<GraphInput> inputs;
  std::vector<SymbolBinding> symbols;  // one for each symbol of graph->sym
  std::vector<Guard> guards;
  // Random numbers, in the order in which the program draws them from its generators (Computation::draw). They are drawn where the
  // guards that need none of them hold, before the graph runs; where the entry does not fit after all they are taken back.
  std::vector<SourcePtr> draws;
  bool uses_torch = false;        // global torch state (grad mode, autocast ...) has to be guarded
  bool changes_autocast = false;  // `user_calls` are to run under autocast states that they do not tell
  PyRef user_calls;               // list, by Node::user_call: see fx_records in symbolic/tensors/user_call.h
  std::vector<int> freed_calls;   // Node::user_call: what they saved a backward within the graph has freed

  std::shared_ptr<CacheFills> cache_fills;                  // null: none
  std::vector<std::shared_ptr<LibraryCall>> library_calls;  // what the graph's core.library nodes name

  std::vector<Effect> effects;
  std::vector<RecipePtr> results;  // kReturn: one. kBreak: what the frames need
  // kBreak:
  std::vector<BrokenFrame>
      frames;                 // the root's, and then of each function that it is in the middle of calling
  std::vector<LoopCut> cuts;  // those of the request, and what this capture has added
  // Python executes all of a loop, from where the root frame breaks, and the frame is resumed at these
  // ways out. The ways out that are not listed are left to Python as well.
  bool whole_loop = false;
  std::vector<WayOut> ways_out;
  std::vector<BreakRecord> breaks;  // one for a kBreak; may hold more that were met on the way
};

}  // namespace cdynamo::symbolic
