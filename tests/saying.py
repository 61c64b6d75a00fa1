"""What programs full of graph breaks say: `say` is never captured, so each call of it breaks the graph, and what it was
told is compared."""

from __future__ import annotations

import cdynamo

LOG: list[str] = []


@cdynamo.disable
def say(*words):
    LOG.append(" ".join(map(str, words)))
    return len(words)


class Manager:
    def __init__(self, swallow=False):
        self.swallow = swallow

    def __enter__(self):
        say("enter")
        return self

    def __exit__(self, kind, value, traceback):
        say("exit", kind and kind.__name__)
        return self.swallow


@cdynamo.disable
def shout(*words, **options):
    """print, which compiled code would leave until its graph has run; this breaks the graph."""
    print(*words, **options)
