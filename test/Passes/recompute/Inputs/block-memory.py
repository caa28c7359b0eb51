"""The memory of one block of a GPT beside its weights, in units of s b h / t bytes, from the plans of two depths."""

import json
import sys

few, many, blocks, seq, batch, hidden, tp = [*sys.argv[1:3], *map(int, sys.argv[3:])]
peaks = [json.load(open(path))["memory"]["peak_bytes"] for path in (few, many)]
weights = 2 * 12 * hidden * hidden // tp  # bf16; biases and norms are below the last digit that is printed
print(f"{((peaks[1] - peaks[0]) / blocks - weights) / (seq * batch * hidden / tp):.0f} sbh/t")
