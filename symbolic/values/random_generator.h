// Python's random numbers: an instance of random.Random that comes in, and the functions of the module random, which are methods of one.
// What a method draws is an input of the graph, or a symbol: the program's own generator draws it at each call, before the graph runs
// (CaptureResult::draws). Capture itself draws from another one in the same state. A number decides what the program does as one that is
// computed does, by a guard, so each way is an entry; where there are too many, or the very number matters, the graph breaks.
#pragma once

#include "graph/sizes/sym.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/generator_state.h"

namespace cdynamo::symbolic {

ValuePtr wrap_random_generator(Executor& ex, PyObject* object, const SourcePtr& source);  // null: it is none
// random.Random(seed) of a known seed: what it draws is known, and it does not leave. Null: otherwise.
ValuePtr make_random_generator(Executor& ex, const CallArgs& args);
// The method `function` of the class random.Random, bound; null: no generator, or another function.
ValuePtr method_of_generator(Executor& ex, const ValuePtr& generator, PyObject* function);

bool is_random(const SourcePtr& source);
bool is_random(Executor& ex, const graph::Sym& number);
// An int that is found there, at random, within bounds; `number` in this call.
ValuePtr random_int(Executor& ex, const SourcePtr& source, int64_t number, int64_t least, int64_t most);
void note_random(Executor& ex, const graph::Sym& symbol);
// How many numbers the expression may be, as far as that is known.
int64_t number_of_values(Executor& ex, const graph::Sym& number);
// The program goes one of so many ways. Breaks the graph where they are too many.
void decide_at_random(Executor& ex, int64_t ways);

}  // namespace cdynamo::symbolic
