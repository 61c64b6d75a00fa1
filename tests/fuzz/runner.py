"""Runs programs in a process of their own: a crash or a hang is a find like a wrong result."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent.parent
START_SECONDS = 120
PROGRAMS_A_FORK = 1000  # then a new one: what a process gathers slows it down, and is another test's concern


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
    """A process of `python` that answers one request after the other, in a fork that is replaced where it has crashed."""

    def __init__(self, python: str, seconds: float) -> None:
        self.python, self.seconds = python, seconds
        self.process: subprocess.Popen | None = None
        self.fork = 0  # the process that runs programs
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
        self.meet_fork()

    def meet_fork(self) -> None:
        message = self.read(START_SECONDS)
        if not isinstance(message, dict) or "process" not in message:
            raise RuntimeError(f"the worker did not start:\n{self.stderr()}")
        self.fork, self.done = message["process"], 0
        self.errors.seek(0)
        self.errors.truncate()

    def renew(self) -> None:
        """The next program is run by a process that has run none."""
        if self.process and self.done:
            os.kill(self.fork, signal.SIGKILL)
            self.read(START_SECONDS)
            self.meet_fork()

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-6000:].decode(errors="replace")

    def read(self, seconds: float) -> dict | None:
        """The next message; None where it takes longer, or the worker is gone."""
        stream = self.process.stdout
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0, until - time.monotonic())):
                    return None
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    return None
                self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def stop(self) -> None:
        if self.process:
            self.process.stdin.close()  # both processes end
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.kill(self.fork, signal.SIGKILL)
                self.process.kill()
                self.process.wait()
            self.process = None

    def run(self, request: dict) -> tuple[bool, Find | None]:
        """Whether the program could be run, and what was found."""
        if self.process is None:
            self.start()
        if self.done >= PROGRAMS_A_FORK:
            self.renew()
        self.done += 1
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        told: dict = {"source": request.get("source", "")}
        while True:
            message = self.read(self.seconds)
            if message is None or "ended" in message:
                find = self.lost(message, request, told)
                return bool(find.source), find if find.source else None  # else plain Python itself did not come back
            told.update(message)
            if "found" in message or "source" not in message:
                break
        found = told.get("found")
        if not found:
            return "found" in told, None
        return True, Find(told["seed"], told["kind"], request["backend"], told["source"], found)

    def lost(self, ended: dict | None, request: dict, told: dict) -> Find:
        how = "crash" if ended else "hang"
        if not ended:
            os.kill(self.fork, signal.SIGABRT)  # the fault handler shows where it is
            ended = self.read(1)
        if not ended:
            os.kill(self.fork, signal.SIGKILL)
            ended = self.read(START_SECONDS) or {}
        what = f"{how}\n  exit status {ended.get('ended')}\n{self.stderr()}"
        self.meet_fork()
        return Find(request["seed"], told.get("kind", ""), request["backend"], told["source"], what)


def search(worker: Worker, seeds: Iterator[int], kinds: tuple[str, ...], backends: tuple[str, ...]) -> Iterator[tuple[int, bool, Find | None]]:  # fmt: skip
    """(seed, whether it ran, find) of each; a find is run again alone, since what ran before may have caused it."""
    for seed in seeds:
        request = {"seed": seed, "kinds": kinds, "backend": backends[seed // len(kinds) % len(backends)]}
        ran, find = worker.run(request)
        if find:
            worker.renew()
            _, again = worker.run(request)
            if not again:
                find.what += "\n  (only after the programs before it in one process)"
        yield seed, ran, find


def search_in(jobs: int, python: str, seconds: float, seeds: Iterator[int], kinds: tuple[str, ...], backends: tuple[str, ...]) -> Iterator[tuple[int, bool, Find | None]]:  # fmt: skip
    """`search` with so many workers at once."""
    rows: queue.SimpleQueue = queue.SimpleQueue()
    lock, over = threading.Lock(), threading.Event()

    def shared() -> Iterator[int]:
        while not over.is_set():
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            yield seed

    def work() -> None:
        worker = Worker(python, seconds)
        try:
            for row in search(worker, shared(), kinds, backends):
                rows.put(row)
        except Exception as error:
            rows.put(error)
        finally:
            worker.stop()
            rows.put(None)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        while jobs:
            row = rows.get()
            if isinstance(row, Exception):
                raise row
            if row is None:
                jobs -= 1
            else:
                yield row
    finally:
        over.set()
        for thread in threads:
            thread.join()
