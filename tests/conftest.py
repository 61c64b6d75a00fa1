"""What all Python tests share: fresh caches for each test, default settings after it, and the comparison with eager."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

import cdynamo

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "examples")]


# CDYNAMO_TEST_BACKEND: what `optimize` has for its default backend in this run. tools/test.sh runs the capture tests
# under all of them; the results are the same.
_BACKENDS = {"native": "native", "eager": "eager", "callable": lambda gm, inputs: gm.forward}
_BACKEND = os.environ.get("CDYNAMO_TEST_BACKEND", "native")


def _change_default_backend() -> None:
    from cdynamo import _options

    resolve, chosen = _options.resolve, _BACKENDS[_BACKEND]
    _options.resolve = lambda backend: resolve(chosen if backend == "native" else backend)


if _BACKEND != "native":
    _change_default_backend()

if device := os.environ.get("CDYNAMO_TEST_DEVICE"):
    from devices import make_default

    make_default(device)


def pytest_collection_modifyitems(config, items):
    """Tests that are about the native backend itself are left out where another one runs."""
    if _BACKEND == "native":
        return
    left_out = [item for item in items if item.get_closest_marker("native")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("native")]


def pytest_collection_finish(session):
    """What is there before the first test stays: a gc.collect() in a test looks at what came since, in a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_caches():
    cdynamo.reset()
    yield
    cdynamo.config.recompile_limit = 8
    cdynamo.config.suppress_errors = None
    cdynamo.config.keep_empty_graphs = False
    cdynamo.set_stance("default")


class Counts:
    """The counters since this object was made: counts.graph_breaks and so on."""

    def __init__(self) -> None:
        self._before = cdynamo.counters()

    def __getattr__(self, name: str) -> int:
        return cdynamo.counters()[name] - self._before[name]


@pytest.fixture
def counts() -> Counts:
    return Counts()
