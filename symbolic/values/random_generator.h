// Python's random numbers: an instance of random.Random that comes in, and the functions of the module random, which are methods of one.
// What a method draws is an input of the graph, or a symbol: the program's own generator draws it at each call, before the graph runs
// (CaptureResult::draws). Capture itself draws from another one in the same state. A number decides what the program does as one that is
// computed does, by a guard, so each way is an entry; where there are too many, or the very number matters, the graph breaks.
#pragma once

#include <functional>

#include "graph/sizes/sym.h"
#include "symbolic/capture/source.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/generator_state.h"

namespace cdynamo::symbolic {

// A generator of random numbers, whose methods draw.
class DrawingGenerator : public SymbolicValue {
 public:
  DrawingGenerator(PyObject* generator, SourcePtr from);
  PyTypeObject* type() const override { return Py_TYPE(generator_.get()); }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;  // one that captured code has made has none
  // The method `function` of the class, bound; null: one that is not captured.
  virtual ValuePtr method_called(Executor& ex, const char* name, PyObject* function) = 0;
  PyObject* generator() const { return generator_.get(); }

 private:
  PyRef generator_;
  RecipePtr recipe_;
};
PyObject* drawing_generator_of(const ValuePtr& generator);

// One of its methods, bound.
class DrawingMethod : public SymbolicValue {
 public:
  DrawingMethod(ValuePtr generator, const char* name) : generator_(std::move(generator)), name_(name) {}
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  RecipePtr recipe(Executor& ex) override;

 protected:
  ValuePtr generator_;
  const char* name_;

 private:
  RecipePtr recipe_;
};

// What a method of a generator gives.
struct Draw {
  SourcePtr source;
  PyRef drawn;  // in this call
};
// Operands of a draw, the generator's place first, and what they are in this call: the stand-in for the generator first.
struct DrawOperands {
  std::vector<Computation::Operand> operands;
  std::vector<PyRef> now;
  PyRef keywords;  // as in Computation
  int steps = 1;
};
DrawOperands operands_of_draw(const SourcePtr& generator, PyObject* stand_in);
// False: no number that is known when the call begins.
bool add_number(Executor& ex, DrawOperands& to, const ValuePtr& value);
// Null: Python raises an error, or they are too many.
std::optional<Draw> draw_next(Executor& ex, DrawOperands operands, PyObject* function);
ValuePtr drawn_float(Executor& ex, const Draw& draw);
// list[:] = [list[place] for place in order], where `draw` gives a tuple of them for the list's length. False: that is not known, or
// they are too many.
bool reorder_list(Executor& ex, const ValuePtr& list,
                  const std::function<Draw(const ValuePtr& length)>& draw);

ValuePtr wrap_random_generator(Executor& ex, PyObject* object, const SourcePtr& source);  // null: it is none
// random.Random(seed) of a known seed: what it draws is known, and it does not leave. Null: otherwise.
ValuePtr make_random_generator(Executor& ex, const CallArgs& args);
// The method `function` of a generator's class, bound; null: no generator, or another function.
ValuePtr method_of_generator(Executor& ex, const ValuePtr& generator, PyObject* function);

bool is_random(const SourcePtr& source);
bool is_random(Executor& ex, const graph::Sym& number);
// An int that is found there, at random, within bounds; `number` in this call.
// `type`: NumPy's; null: Python's.
ValuePtr random_int(Executor& ex, const SourcePtr& source, int64_t number, int64_t least, int64_t most,
                    PyTypeObject* type = nullptr);
void note_random(Executor& ex, const graph::Sym& symbol);
// How many numbers the expression may be, as far as that is known.
int64_t number_of_values(Executor& ex, const graph::Sym& number);
// The program goes one of so many ways. Breaks the graph where they are too many.
void decide_at_random(Executor& ex, int64_t ways);

}  // namespace cdynamo::symbolic
