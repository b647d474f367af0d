"""Runs `dragoman adapt` in processes that a test can kill.

Importing PyTorch takes seconds, so this script imports it once and forks a process for each line of
arguments (JSON) on stdin. It answers with the process id, and then with the exit code.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

import torch

from dragoman.cli import app
from dragoman.cli.display import adaptation  # noqa: F401  (imported once)

# A process must not have started threads when it is forked.
torch.set_num_threads(1)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def _run(arguments: list[str]) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, opened in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(opened, descriptor)
    sys.argv = ["dragoman", *arguments]
    code = 1
    try:
        app.main()
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    for line in sys.stdin:
        process = os.fork()
        if not process:
            _run(json.loads(line))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
