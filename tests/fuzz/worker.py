"""The process that runs programs: reads a seed and a backend a line, answers with a line of JSON. Started by `runner.py`.

It imports what programs need once, and runs them in a fork of itself: a new one whenever the old one has gone, so that a
process in which nothing has run yet costs milliseconds.
"""

from __future__ import annotations

import json
import os
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


def serve() -> None:
    """Answers requests until there are no more, and ends the process."""
    tell({"process": os.getpid()})
    for line in os.fdopen(os.dup(0), "rb", buffering=0):  # without a buffer: what is not read is the next process's
        tell(answer(json.loads(line)))
    os._exit(0)


if __name__ == "__main__":
    ANSWERS = os.dup(1)  # what programs print to the process's own output is nobody's
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    check.prepare()
    while True:
        process = os.fork()
        if process == 0:
            serve()
        _, status = os.waitpid(process, 0)
        if status == 0:
            break
        tell({"ended": os.waitstatus_to_exitcode(status)})
