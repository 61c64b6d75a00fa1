# make demo           set up, build, run examples/tour.py
# make test           set up, build, run every test on Python 3.11, 3.12 and 3.13, lint and format check
# make test-long      the fuzzers, gradients of all samples, 10,000 training steps
# make test-gpu       tests/gpu, on a machine with a CUDA device
# make bench-gpu      benchmarks/gpu.py, there
# make test-versions  tests/python with the oldest torch that is supported and with the newest
# make asan, tsan     tests in builds with sanitizers (build/asan, build/tsan)
# make wheel          a wheel with LLVM inside, in dist/
.PHONY: demo test test-long test-gpu bench-gpu test-versions asan tsan wheel setup build clean format

PY := .venv/bin/python

demo: build
	$(PY) examples/tour.py

test: build
	bash tools/test.sh

test-long: build
	$(PY) -m pytest tests -m long --override-ini addopts=-q

test-gpu: build
	$(PY) -m pytest tests/gpu -rs

bench-gpu: build
	$(PY) benchmarks/gpu.py

test-versions: build
	bash tools/versions.sh

asan tsan: setup
	bash tools/sanitize.sh $@

setup:
	bash tools/setup.sh

build: setup
	bash tools/build.sh $(PY)

wheel: setup
	bash tools/wheel.sh

format:
	git ls-files '*.cpp' '*.h' '*.c' | xargs clang-format-19 -i
	$(PY) -m ruff format python tests examples benchmarks tools
	$(PY) -m ruff check --fix python tests examples benchmarks tools

clean:
	rm -rf build dist .venv
