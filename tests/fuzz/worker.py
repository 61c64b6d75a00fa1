"""The process that runs programs: reads a seed and a backend a line, answers with a line of JSON. Started by `runner.py`."""

from __future__ import annotations

import json
import os
import sys
import traceback

from fuzz import check
from fuzz.programs import Program, make_program


def answer(request: dict) -> dict:
    """{"seed", "source", "found"}: what was run, and the mismatch or None; "found" is left out where nothing was run."""
    if "source" in request:
        program, expected = Program(request["seed"], request["kind"], request["source"]), None
    else:
        program = make_program(request["seed"], tuple(request["kinds"]))
        expected = ()
    told = {"seed": program.seed, "kind": program.kind}
    try:
        expected = check.run_plain(program) if expected is None else check.settle(program)
    except check.TooSlow:
        return told
    except Exception:
        return told  # a text that shrinking made: nothing to compare with
    tell({**told, "source": program.source})  # before what may crash
    try:
        found = check.mismatch(program, request["backend"], expected)
    except BaseException:
        found = "internal error\n" + traceback.format_exc()
    check.forget()
    return {**told, "found": found}


def tell(message: dict) -> None:
    os.write(ANSWERS, (json.dumps(message) + "\n").encode())


if __name__ == "__main__":
    ANSWERS = os.dup(1)  # what programs print to the process's own output is nobody's
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    check.prepare()
    tell({"ready": True})
    for line in sys.stdin:
        tell(answer(json.loads(line)))
