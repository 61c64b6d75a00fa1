"""A package's own tests, each test function compiled: those whose outcome is another than plain Python's.

    python tests/sweeps/package_tests.py                                    # NumPy's
    python tests/sweeps/package_tests.py numpy.lib scipy.signal --jobs 8
    python tests/sweeps/package_tests.py numpy.lib.tests.test_histograms --show

A module runs in two processes of pytest, plain and compiled, and a crash or a hang costs that module. The package has to
be installed with its tests, as NumPy's and SciPy's wheels have them, and with what these import (pytest, hypothesis).
Floating-point warnings are not given by compiled code: tests that ask for them differ.
Last line: 'N same, M differ, K modules crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 900  # for a module

_outcomes: dict[str, tuple[str, str]] = {}


# ---- the plugin of pytest, in the processes that run the tests


def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Calls the test function compiled; None lets pytest call it."""
    if os.environ["CDYNAMO_SWEEP"] == "plain":
        return None
    import cdynamo

    cdynamo.reset()
    cdynamo.config.suppress_errors = False
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    cdynamo.optimize(pyfuncitem.obj)(**arguments)
    return True


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        text = str(report.longrepr) if report.outcome == "failed" else ""
        _outcomes.setdefault(report.nodeid, (report.outcome, text))


def pytest_sessionfinish() -> None:
    Path(os.environ["CDYNAMO_SWEEP_OUTCOMES"]).write_text(json.dumps(_outcomes))


# ---- the process that starts them


@dataclasses.dataclass
class Found:
    module: str
    same: int = 0
    crash: str = ""
    differing: list[tuple[str, str, str, str]] = dataclasses.field(default_factory=list)  # test, plain, compiled, text


def modules_of(name: str) -> list[str]:
    """The test modules below a package, or the module itself."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"there is no {name}")
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return [name]
    root = origin.parent
    paths = sorted(root.glob("**/test_*.py"))
    return [".".join((name, *path.relative_to(root).with_suffix("").parts)) for path in paths]


def run(module: str, mode: str, folder: str) -> tuple[dict[str, tuple[str, str]] | None, str]:
    """The outcome of each test, None where there is none, and the end of what was printed."""
    outcomes = Path(folder, f"{module}.{mode}.json")
    here = Path(__file__).resolve()
    paths = [str(here.parent), str(here.parents[2] / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "CDYNAMO_SWEEP": mode, "CDYNAMO_SWEEP_OUTCOMES": str(outcomes)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    options = ["-q", "-p", here.stem, "-p", "no:cacheprovider", "-o", "addopts=", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *options, "--pyargs", module]
    try:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"not done in {SECONDS} seconds"
    if not outcomes.exists():
        return None, f"exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
    return json.loads(outcomes.read_text()), ""


def compare(module: str, folder: str) -> Found:
    found = Found(module)
    plain, _ = run(module, "plain", folder)
    if not plain:  # its tests are not for this machine
        return found
    compiled, text = run(module, "compiled", folder)
    if compiled is None:
        found.crash = text
        return found
    for test, (outcome, _) in plain.items():
        got, text = compiled.get(test, ("missing", ""))
        if got == outcome:
            found.same += 1
        else:
            found.differing.append((test, outcome, got, text))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=["numpy"], help="packages or test modules")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="how each differing test failed")
    options = parser.parse_args()
    modules = [module for package in options.packages for module in modules_of(package)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for found in pool.map(lambda module: compare(module, folder), modules):
            results.append(found)
            if found.crash:
                print(f"{found.module}: {found.crash}", flush=True)
            for test, plain, compiled, text in found.differing:
                print(f"{found.module}{test}: {plain}, compiled {compiled}", flush=True)
                if options.show:
                    print(text, flush=True)
    differ, crashed = sum(len(found.differing) for found in results), sum(bool(found.crash) for found in results)
    print(f"{sum(found.same for found in results)} same, {differ} differ, {crashed} modules crashed")
    return 1 if differ or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
