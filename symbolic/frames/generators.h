// Generators: a frame that is suspended where it has yielded, and run again by next(), send() and throw().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symbolic/capture/value.h"
#include "symbolic/frames/abandoned_generators.h"
#include "symbolic/frames/frame.h"

namespace cdynamo::symbolic {

class GeneratorValue final : public SymbolicValue {
 public:
  // `function` and `args`: the call that has made it, from which an unstarted one is made again.
  GeneratorValue(std::unique_ptr<SymbolicFrame> frame, ValuePtr function, std::vector<ValuePtr> args);
  ~GeneratorValue() override;

  PyTypeObject* type() const override { return type_; }
  std::string describe() const override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr iterate(Executor& ex) override { return shared_from_this(); }
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr next(Executor& ex) override { return send(ex, nullptr); }
  RecipePtr recipe(Executor& ex) override;
  void forget() override;

  // What it yields next; null when it has returned, and then `returned` is its value. `value` null: None.
  ValuePtr send(Executor& ex, ValuePtr value);
  // `given`: the arguments of throw(), which an iterator of the program's gets as they are.
  ValuePtr throw_into(Executor& ex, const ValuePtr& exception, const CallArgs& given);
  ValuePtr close(
      Executor& ex);  // what it returned when GeneratorExit was raised in it; None where it did not
  ValuePtr returned(Executor& ex) const;
  const std::vector<ValuePtr>& arguments() const { return args_; }
  std::vector<ValuePtr> held() const;  // by its frame, for as long as it has not ended
  const char* state() const;           // as inspect names it: "GEN_CREATED"
  bool has_to_be_closed() const;       // it is suspended in a handler (is_in_handler)
  AbandonedGenerator abandoned() const;
  // The same of one that has not started, which may come to be, and of one that holds such a generator.
  bool may_have_to_be_closed() const;

 private:
  bool closes_another() const;  // when it is closed itself (waits_for_closable)
  bool holds_one_to_be_closed() const;
  ValuePtr resume(Executor& ex, const ValuePtr& value, const ValuePtr& exception);
  ValuePtr delegate_throw(Executor& ex, const ValuePtr& exception, const CallArgs& given, ValuePtr* yielded);
  std::shared_ptr<SymbolicFrame> frame_;  // null: it has ended
  bool started_ = false, running_ = false;
  bool has_failed_ = false;     // an iterator of itertools has raised an exception
  mutable bool asked_ = false;  // holds_one_to_be_closed() is under way
  int64_t started_at_ = -1;     // the root's step; -1: it has not started
  std::shared_ptr<std::vector<AbandonedGenerator>> abandoned_;  // Executor::State::abandoned_generators
  PyTypeObject* type_ = &PyGen_Type;  // what it stands for: an iterator of itertools, or itself
  ValuePtr function_, returned_;
  std::vector<ValuePtr> args_;
  ValuePtr handled_;  // the exception that it was handling when it yielded
  RecipePtr recipe_;
};

// iterator.send(value), or next(iterator) for None: null when exhausted, and then *returned is the value of
// StopIteration.
ValuePtr send_to_iterator(Executor& ex, const ValuePtr& iterator, const ValuePtr& value, ValuePtr* returned);

}  // namespace cdynamo::symbolic
