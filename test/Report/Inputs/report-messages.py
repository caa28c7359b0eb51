"""Of each collective in a report's JSON: its messages, and the executions of its steps in the schedule."""

import json
import sys
from collections import Counter

program = json.load(open(sys.argv[1]))["programs"][0]
table = program["schedule"][0]["steps"]
at, times = table["columns"].index("collective"), table["columns"].index("times")
steps = Counter()
for row in table["rows"]:
    steps[row[at]] += row[times]
communication = program["communication"]
for i, one in enumerate(communication["collectives"] if isinstance(communication, dict) else communication):
    print(f"{one['value']}: {one['messages']} messages, {steps[i]} steps", "" if steps[i] == one["messages"] else "differs")
