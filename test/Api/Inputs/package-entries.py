"""Lists the entries of a package, or writes a changed copy: package-entries.py FILE [--change KIND OUT]."""

import json
import sys
import zipfile

LOCAL_BYTES = 30


def data_offset(file, info):
    file.seek(info.header_offset)
    local = file.read(LOCAL_BYTES)
    return info.header_offset + LOCAL_BYTES + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")


def show(path):
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            name = info.filename
            if name.startswith("weights/"):
                name += f" {info.file_size} bytes, " + ("aligned" if data_offset(file, info) % 64 == 0 else "not aligned")
            print(name, "ELF" if archive.read(info).startswith(b"\x7fELF") else "")
        for w in json.loads(archive.read("manifest.json"))["weights"]:
            print(f"weight {w['argument']}: {w['dtype']}{w['shape']} in {w['entry']}")


def change(path, kind, out):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(data)
                weights = manifest["weights"]
                if kind == "shape":
                    weights[0]["shape"] = [2, 3]
                elif kind == "entry":
                    weights[0]["entry"] = "weights/7"
                elif kind == "unlisted":
                    manifest["weights"] = [w for w in weights if w["entry"] != "weights/1"]
                data = json.dumps(manifest)
            packed = kind == "compressed" and name == "weights/0"
            new.writestr(name, data, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)


if len(sys.argv) == 2:
    show(sys.argv[1])
else:
    change(sys.argv[1], sys.argv[3], sys.argv[4])
