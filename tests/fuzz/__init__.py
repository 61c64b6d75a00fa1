"""A fuzzer of programs: random Python functions, compiled against plain Python.

    PYTHONPATH=tests python -m fuzz --seed 7                      # one program; --show prints it, --help lists the options
    PYTHONPATH=tests python -m fuzz --count 10000 --jobs 4 --out finds     # many, each find made small and written to a file
    PYTHONPATH=tests python -m fuzz --python build/venv-3.12/bin/python --kind torch --backend eager --count 500
    PYTHONPATH=tests python -m fuzz --file finds/torch_7.py       # a program from a file

`grammar.py` is the language as tables of rows, `programs.py` fills rows in, so that a seed gives a program: a function `f` with
loops, handlers, managers, generators, closures, containers, objects and arrays, a thing that no graph holds at random places, and
calls with arguments that change from one to the next. `worker.py` is the process that runs programs (a crash or a hang there is a
find like any other), `check.py` runs each plain and compiled, `compare.py` says what is compared: results with types, dtypes,
shapes, strides and shared memory, output, exceptions with messages and the program's lines of the traceback, what became of the
arguments, gradients, and references that are left. `runner.py` feeds workers, `shrink.py` makes finds small, and
`special_values.py` and `growth.py` are fuzzers of expressions on NaN and signed zeros, and of compile time.

tests/symbolic/test_values_fuzz.py, which came first, puts its `print`s between the statements of a function and never into a block:
no loop of its thousands of programs was left to Python with code after it, where 3.12 crashed. Here each place of a program is one
to break at: every body, whatever it belongs to, may have a break before each of its statements, and values may be passed through
one. Tests with which the grammar was made are in test_fuzz.py: they demand that each block is met with a break in it and code after.
"""
