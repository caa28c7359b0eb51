"""Runs a command, sends it a signal once its log has lines, and prints how it ended: interrupt.py SIGNAL LOG COMMAND..."""

import os
import signal
import subprocess
import sys
import time

run = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
while run.poll() is None and not (os.path.exists(sys.argv[2]) and os.path.getsize(sys.argv[2])):
    time.sleep(0.01)
run.send_signal(signal.Signals[sys.argv[1]])
out, err = run.communicate(timeout=120)
print(out, err, f"exit code {run.returncode}", sep="")
