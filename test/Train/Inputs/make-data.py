"""Writes the data of the tests to a folder: make-data.py FOLDER"""

import os
import shutil
import struct
import sys

folder = sys.argv[1]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)


def npy(name, code, shape, data):
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    with open(f"{folder}/{name}", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)


def raw(name, data):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)


npy("x.npy", "<f4", (5, 2), struct.pack("<10f", *(v for i in range(5) for v in (i, 10 * i))))
npy("y.npy", "|u1", (5,), bytes(range(5)))  # labels, of which an i32 argument holds all values
npy("four.npy", "|u1", (4,), bytes(4))
npy("f8.npy", "<f8", (5,), bytes(40))
raw("short.npy", open(f"{folder}/x.npy", "rb").read()[:-3])
raw("text.bin", bytes(i * 7 % 251 for i in range(400)))
raw("held.bin", bytes(i * 5 % 251 for i in range(90)))
raw("i32.bin", struct.pack("<23i", *range(23)))
raw("cut.bin", struct.pack("<23i", *range(23))[:-1])
