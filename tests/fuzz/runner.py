"""Runs programs in a process of their own: a crash or a hang is a find like a wrong result."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent.parent
START_SECONDS = 120
PROGRAMS_A_WORKER = 1000  # then a new one: what a process gathers slows it down, and is another test's concern


@dataclasses.dataclass
class Find:
    seed: int
    kind: str
    backend: str
    source: str
    what: str

    @property
    def title(self) -> str:
        """The find's kind in a few words; shrinking keeps it."""
        words = self.what.split("\n")
        if words[0].startswith("internal error"):
            return "internal error " + words[-2].split(":")[0]
        return words[0].split(": ")[-1]

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.kind}, backend {self.backend}): {self.what}\n\n{self.source}"


class Worker:
    """A process of `python` that answers one request after the other."""

    def __init__(self, python: str, seconds: float) -> None:
        self.python, self.seconds = python, seconds
        self.process: subprocess.Popen | None = None
        self.done = 0

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile()
        path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONHASHSEED": "0", "CDYNAMO_LOGS": ""}
        self.process = subprocess.Popen(
            [self.python, "-X", "faulthandler", "-W", "ignore", "-m", "fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **settings},
            bufsize=0,
        )
        self.buffer = b""
        self.done = 0
        if self.read(START_SECONDS) != {"ready": True}:
            raise RuntimeError(f"the worker did not start:\n{self.stderr()}")

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-6000:].decode(errors="replace")

    def read(self, seconds: float) -> dict | str:
        """The next message; "crash" or "hang" where none comes."""
        stream = self.process.stdout
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0, until - time.monotonic())):
                    return "hang"
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    return "crash"
                self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def run(self, request: dict) -> tuple[bool, Find | None]:
        """Whether the program could be run, and what was found."""
        if self.process is None or self.done >= PROGRAMS_A_WORKER:
            self.stop()
            self.start()
        self.done += 1
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        told: dict = {"source": request.get("source", "")}
        while True:
            message = self.read(self.seconds)
            if isinstance(message, str):
                find = self.lost(message, request, told)
                return bool(find.source), find if find.source else None  # else plain Python itself did not come back
            told.update(message)
            if "found" in message or "source" not in message:
                break
        found = told.get("found")
        if not found:
            return "found" in told, None
        return True, Find(told["seed"], told["kind"], request["backend"], told["source"], found)

    def lost(self, how: str, request: dict, told: dict) -> Find:
        if how == "hang":
            self.process.send_signal(signal.SIGABRT)  # the fault handler shows where it is
            time.sleep(0.5)
        self.process.kill()
        code = self.process.wait()
        what = f"{how}\n  exit status {code}\n{self.stderr()}"
        self.process = None
        return Find(request["seed"], told.get("kind", ""), request["backend"], told["source"], what)


def search(worker: Worker, seeds: Iterator[int], kinds: tuple[str, ...], backends: tuple[str, ...]) -> Iterator[tuple[int, bool, Find | None]]:  # fmt: skip
    """(seed, whether it ran, find) of each; a find is run again alone, since what ran before may have caused it."""
    for seed in seeds:
        request = {"seed": seed, "kinds": kinds, "backend": backends[seed // len(kinds) % len(backends)]}
        ran, find = worker.run(request)
        if find:
            worker.stop()
            _, again = worker.run(request)
            if not again:
                find.what += "\n  (only after the programs before it in one process)"
        yield seed, ran, find
