"""No function over about 60 lines, no file over about 600: a table is hiding in it. Fails at 80 and 700, lists before."""

import re

FUNCTION_LISTED, FUNCTION_FAILS = 60, 80
FILE_LISTED, FILE_FAILS = 600, 700
NO_FUNCTION = re.compile(r"^\s*(?:if|else|for|while|switch|do|try|catch|namespace|struct|class|enum|union|extern|case)\b")


def depth(lines):
    plain = [re.sub(r"'[()]'", "", line) for line in lines]  # characters are no parentheses
    return sum(line.count("(") - line.count(")") for line in plain)


def functions(lines):
    """(first line, number of lines, its head) of each function; relies on clang-format's layout, which is checked."""
    index = 0
    while index < len(lines):
        line = lines[index]
        opens = line.endswith("{") and not line.lstrip().startswith("//")
        # A head may be broken over lines; its last one closes the parentheses that its first one opens.
        if opens and re.search(r"\)[^=;]*\{$", line) and not NO_FUNCTION.match(line):
            first = index
            while first > 0 and (depth(lines[first : index + 1]) < 0 or lines[first].lstrip().startswith(": ")
                                 or lines[first - 1].endswith(",")):
                first -= 1
            if NO_FUNCTION.match(lines[first]) or lines[first].lstrip().startswith("}"):
                index += 1
                continue
            indent = re.match(r"\s*", lines[first])[0]
            end = next((i for i in range(index + 1, len(lines)) if re.match(rf"{indent}\}}", lines[i])), None)
            if end is not None:
                yield first + 1, end - first + 1, lines[first].strip()
        index += 1


def check(context):
    for path in context.files("lib/*.cpp", "lib/*.h", "include/dtc/*.h", "tools/*.cpp", "tools/*.h", "test/*.py",
                              "test/unit/*.cpp", "scripts/*"):
        text = (context.root / path).read_text(errors="replace")
        # A raw string, of IR for example, is no function.
        text = re.sub(r'R"\((.*?)\)"', lambda m: '""' + "\n" * m[1].count("\n"), text, flags=re.S)
        lines = text.splitlines()
        fails = []
        if len(lines) > FILE_FAILS:
            fails.append(f"{len(lines)} lines")
        elif len(lines) > FILE_LISTED:
            context.note(f"{path} has {len(lines)} lines")
        if path.endswith((".cpp", ".h")):
            for first, length, head in functions(lines):
                if length > FUNCTION_FAILS:
                    fails.append(f"line {first}: a function of {length} lines: {head[:70]}")
                elif length > FUNCTION_LISTED:
                    context.note(f"{path}:{first}: a function of {length} lines: {head[:70]}")
        if fails:
            context.failed(f"size {path}", "; ".join(fails))
        else:
            context.passed()
