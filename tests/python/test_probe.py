"""What is asked of torch when it is first met."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")


def run(program):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "TimeoutError"])
def test_a_signal_while_torch_is_probed_is_the_programs(error):
    """As a handler raises it: the program sees it, and torch's programs are compiled all the same."""
    said = run(f"""
        import torch, cdynamo

        real = torch.empty_strided

        def interrupted(*args, **kwargs):
            torch.empty_strided = real
            raise {error}("stop")

        torch.empty_strided = interrupted
        fast = cdynamo.optimize(lambda x: x.sin() + 1)
        x = torch.ones(3)
        try:
            fast(x)
        except {error} as raised:
            print(type(raised).__name__, raised)
        print(torch.equal(fast(x), x.sin() + 1))
        print(cdynamo.counters()["graphs_compiled"] > 0)
    """)
    assert said == [error, "stop", "True", "True"]
