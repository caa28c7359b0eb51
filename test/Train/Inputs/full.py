"""Runs a command whose files can have at most N bytes, as on a full disk: full.py N COMMAND..."""

import resource
import signal
import subprocess
import sys


def limit():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))


sys.exit(subprocess.run(sys.argv[2:], preexec_fn=limit, restore_signals=False).returncode)
