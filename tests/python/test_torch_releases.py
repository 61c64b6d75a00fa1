"""What is said of a torch that is newer or older than those that cdynamo is tested with, and what works then."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

PROGRAM = """
import sys
import torch
import cdynamo

if sys.argv[1:]:
    torch.__version__ = sys.argv[1]

@cdynamo.optimize
def f(x, y):
    return (x + 1).relu() @ y

@cdynamo.optimize
def g(x):
    return torch.sin(x).sum()

x, y = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
for _ in range(3):
    torch.testing.assert_close(f(x, y), (x + 1).relu() @ y)
    torch.testing.assert_close(g(x), torch.sin(x).sum())
torch.nn.Linear(4, 2)(x).sum().backward()
f(x, y).sum().backward()
print(cdynamo.counters()["graphs_compiled"])
"""


def run(*arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def test_the_release_that_is_here():
    assert run() == ("2", "")


def test_a_newer_release_works_and_is_said_once():
    graphs, log = run("2.99.0a0+git1234")
    assert graphs == "2"
    assert log == "torch 2.99.0a0+git1234 is newer than 2.15, the newest that cdynamo was tested with"


@pytest.mark.parametrize("version", ["2.10.0", "1.13.1+cu117"])
def test_an_older_release_runs_in_python_and_is_said_once(version):
    graphs, log = run(version)
    assert graphs == "0"
    assert (
        log == f"torch {version} is older than 2.11, the oldest that cdynamo compiles for: its programs run in Python"
    )
