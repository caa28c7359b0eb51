"""The command `dtc` of the package: replaces this process by the binary within the package."""

import os
import sys


def main() -> None:
    binary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "dtc")
    os.execv(binary, ["dtc", *sys.argv[1:]])


if __name__ == "__main__":
    main()
