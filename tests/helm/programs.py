"""Runs programs to completion."""

import subprocess
import sys

LIMIT = 600  # seconds per program


def call(command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT, check=False, **more)


def must(command, **more):
    done = call(command, **more)
    if done.returncode:
        sys.exit(f"run: {' '.join(map(str, command[:4]))} failed:\n{done.stdout[-3000:]}")
    return done.stdout
