"""Writes archives as other programs write them: .npz as numpy.savez does (zip64 sizes in the entries' own headers), deflated
and stored, and .safetensors with metadata, in one file and in two with an index. Usage: make-archives.py FOLDER"""

import io
import json
import struct
import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)


def npy(shape, values, code="<f4", kind="f"):
    head = str({"descr": code, "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{kind}", *values)


def npz(path, method):
    with zipfile.ZipFile(path, "w", method, allowZip64=True) as archive:
        for name, data in {"x": npy((5, 2), range(10)), "unused": npy((1,), [9])}.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as entry:
                entry.write(data)


npz(folder / "stored.npz", zipfile.ZIP_STORED)
npz(folder / "deflated.npz", zipfile.ZIP_DEFLATED)
streamed = io.BytesIO()  # sizes after the data, as for a pipe


class Pipe(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        return streamed.write(data)


with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("x.npy", npy((5, 2), range(10)))
(folder / "streamed.npz").write_bytes(streamed.getvalue())


def safetensors(path, tensors):
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


x = ("F32", [5, 2], struct.pack("<10f", *range(10)))
w = ("BF16", [3], struct.pack("<3H", 0x3F80, 0x4000, 0x4040))
b = ("BOOL", [3], b"\x01\x00\x01")
safetensors(folder / "all.safetensors", {"x": x, "layers.0.w": w, "mask": b})
safetensors(folder / "m-1.safetensors", {"x": x})
safetensors(folder / "m-2.safetensors", {"layers.0.w": w, "mask": b})
index = {"metadata": {"total_size": 49}, "weight_map": {"x": "m-1.safetensors", "layers.0.w": "m-2.safetensors",
                                                       "mask": "m-2.safetensors"}}
(folder / "m.safetensors.index.json").write_text(json.dumps(index))
