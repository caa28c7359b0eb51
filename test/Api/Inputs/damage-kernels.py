"""Copies a package; in the copy, the kernels are not machine code: damage-kernels.py FROM TO."""

import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as whole, zipfile.ZipFile(sys.argv[2], "w") as damaged:
    for name in whole.namelist():
        damaged.writestr(name, b"garbage" if name.endswith(".o") else whole.read(name))
