"""Running the command in tests: inside this process, or in one of its own that meets a signal at an exact place.

`DRIVER` starts the command with a trap, so that nothing depends on how fast the machine is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from minitrain import cli
from tiny_run import tree

posix = pytest.mark.skipif(os.name != "posix", reason="signals are as POSIX has them")


def minitrain(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refusal(*arguments: str | Path, below: Path) -> str:
    """The one line with which the command refuses; nothing below `below` may have changed."""
    before = tree(below)
    result = minitrain(*arguments)
    assert tree(below) == before
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("minitrain: ")
    return line.removeprefix("minitrain: ")


DRIVER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start its background jobs without
import minitrain.run as run
from minitrain.cli import main

def strike(number):
    os.kill(os.getpid(), number)

def at_step(number, wanted):
    train = run.train
    def trapped(*args, on_step=None, **kwargs):
        def trap(step, loss):
            if step == wanted:
                strike(number)
        return train(*args, on_step=trap, **kwargs)
    run.train = trapped

def at_call(number, name, wanted):
    function, calls = getattr(run, name), []
    def trapped(*args, **kwargs):
        calls.append(name)
        if len(calls) == wanted:
            strike(number)
        return function(*args, **kwargs)
    setattr(run, name, trapped)

def at_replace(number, ending, wanted):
    replace, calls = os.replace, []
    def trapped(source, target):
        calls.extend([1] if str(target).endswith(ending) else [])
        if len(calls) == wanted:
            strike(number)
        return replace(source, target)
    os.replace = trapped

exec(sys.argv.pop(1))
main()
"""


def minitrain_with_trap(trap: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", DRIVER, trap, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
