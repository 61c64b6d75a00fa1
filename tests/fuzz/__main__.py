"""`python -m fuzz`: see the package's head."""

from __future__ import annotations

import argparse
import collections
import math
import sys
import time
import warnings
from pathlib import Path

from fuzz.check import BACKENDS
from fuzz.programs import KINDS, Program, make_program
from fuzz.runner import Find, Worker, search_in
from fuzz.shrink import shrink


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Random programs, compiled against plain Python."
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run programs")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the programs")
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="only programs of this kind; the others have other seeds"
    )
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="only under this backend")
    parser.add_argument("--limit", type=float, default=60, help="seconds a program may take")
    parser.add_argument("--file", type=Path, help="run this program instead of making one")
    parser.add_argument("--no-shrink", action="store_true", help="show programs as they were made")
    parser.add_argument("--show", action="store_true", help="only print the program")
    parser.add_argument("--out", type=Path, help="write finds to files in this folder")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    warnings.simplefilter("ignore")  # what compilers of random text say of it
    kinds, backends = tuple(options.kind or KINDS), tuple(options.backend or BACKENDS)
    if options.show:
        print(make_program(options.seed, kinds).source)
        return 0
    shrinker = Worker(options.python, options.limit)
    counts: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    if options.file:
        return from_file(shrinker, options.file, kinds[0], backends)
    seeds = iter(range(options.seed, options.seed + options.count))
    for _, ran, find in search_in(options.jobs, options.python, options.limit, seeds, kinds, backends):
        counts["run" if ran else "left out"] += 1
        if find:
            counts["finds"] += 1
            print(f"seed {find.seed} ({find.kind}, backend {find.backend}): {find.title}", flush=True)
            left = options.seconds - (time.monotonic() - begun) if options.seconds else math.inf
            if not options.no_shrink and "only after" not in find.what:
                find = shrink(find, shrinker, seconds=min(300, left))
            report(find, options.out)
        if options.seconds and time.monotonic() - begun > options.seconds:
            break
    shrinker.stop()
    print(f"{counts['run']} programs run, {counts['left out']} left out, {counts['finds']} finds in {time.monotonic() - begun:.0f} s")  # fmt: skip
    return counts["finds"] > 0


def report(find: Find, folder: Path | None) -> None:
    print(find, flush=True)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        words = "\n".join("# " + line for line in find.what.split("\n"))
        (folder / f"{find.kind}_{find.seed}.py").write_text(
            f"# seed {find.seed}, backend {find.backend}\n{words}\n{find.source}"
        )


def from_file(worker: Worker, file: Path, kind: str, backends: tuple[str, ...]) -> int:
    program = Program(0, kind, file.read_text())
    found = 0
    for backend in backends:
        _, find = worker.run({"seed": 0, "kind": program.kind, "source": program.source, "backend": backend})
        print(f"{backend}: {find.what if find else 'nothing found'}")
        found += find is not None
    worker.stop()
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
