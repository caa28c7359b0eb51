"""Runs a command line with a terminal as its streams, and shows what it wrote there with control characters spelled out."""

import os
import pty
import sys

child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
written = b""
try:
    while data := os.read(terminal, 1 << 16):
        written += data
except OSError:  # the last who had the other end is gone
    pass
print(repr(written.decode())[1:-1].replace("\\r\\n", "\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
