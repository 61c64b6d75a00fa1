"""What all Python tests share: fresh caches for each test, default settings after it, and the comparison with eager."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cdynamo

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


@pytest.fixture(autouse=True)
def fresh_caches():
    cdynamo.reset()
    yield
    cdynamo.config.recompile_limit = 8
    cdynamo.config.suppress_errors = True
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
