"""pytest -p device_guard: an assertion of a kernel ends a device's context, and every later test of the process fails. A
worker of pytest-xdist ends with the test that did it, and another goes on; CDYNAMO_OUTCOMES names a file that gets each outcome
as it comes, one JSON object a line."""

from __future__ import annotations

import json
import os
import sys

import pytest


def pytest_runtest_logreport(report):
    path = os.environ.get("CDYNAMO_OUTCOMES")
    if (
        not path
        or os.environ.get("PYTEST_XDIST_WORKER")
        or report.skipped
        or not (report.failed or report.when == "call")
    ):
        return
    row = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2)}
    if report.failed:
        row["why"] = str(report.longrepr)[-4000:]
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    torch = sys.modules.get("torch")
    if not os.environ.get("PYTEST_XDIST_WORKER") or torch is None or not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"{item.nodeid} ended the device's context: {error}", file=sys.stderr, flush=True)
        os._exit(1)
