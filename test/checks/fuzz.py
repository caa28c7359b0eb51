"""Runs each parser under libFuzzer for a bounded time (DTC_FUZZ_SECONDS each), with the tests' texts as a corpus.

The seed is fixed, so that the result depends on the commit only; DTC_FUZZ_SEED=0 uses a random one.

Uses a separate build (cmake --preset fuzz) with the sanitizers, which is built here, unless Clang is missing."""

import io
import json
import os
import re
import shutil
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader

SECONDS = int(os.environ.get("DTC_FUZZ_SECONDS", "15"))
SEED = os.environ.get("DTC_FUZZ_SEED", "1")


def modules(context):
    """The programs of the tree, one module each."""
    for path in context.files("*.dt"):
        text = (context.root / path).read_text(errors="replace")
        for part in re.split(r"^// -----.*$", text, flags=re.M):
            part = re.sub(r"^\s*//.*\n", "", part, flags=re.M)
            if len(part) < 1500:
                yield part.encode()


def imports(context):
    """The programs of the importer's tests."""
    for path in context.files("test/Import/*.mlir"):
        yield re.sub(r"^// .*\n", "", (context.root / path).read_text(), flags=re.M).encode()


def artifacts(context):
    """The portable artifacts of the importer's tests."""
    for path in context.files("test/Import/Inputs/*.mlirbc", "test/Import/Inputs/*.jax_export"):
        yield (context.root / path).read_bytes()


def logs(context):
    """Logs of runs, with steps that were evaluated and numbers of all sizes."""
    lines = [{"step": i + 1, "loss": 5 / (i + 1), "lr": 1e-3, "tokens_per_s": 1e5, "seconds": 0.1, "peak_bytes": 2**30} for i in range(5)]
    for line in lines[1::2]:
        line |= {"eval_loss": 2.5, "eval_accuracy": 0.5}
    yield "\n".join(map(json.dumps, lines)).encode()
    yield b'{"step": 0, "loss": "nan"}\n{"step": 7, "loss": "inf", "x": -1e300}\n{"step": 9223372036854775807, "x": 1e-300}\n{"step": 1'
    yield b'{"step": 3, "x": [1, {"loss": 2}], "y": null, "z": true}\n'


def audits(context):
    """The HLO texts of the tests of audit."""
    for path in context.files("test/Audit/Inputs/*.hlo"):
        yield (context.root / path).read_bytes()


def words(context, flag):
    """The values of a flag in the tests' RUN lines."""
    found = set()
    for path in context.files("test/*.dt", "test/*.test"):
        for run in re.findall(r"RUN:(.*)$", (context.root / path).read_text(errors="replace"), re.M):
            found |= {a or b for a, b in re.findall(rf"(?<!\S){flag} (?:'([^']*)'|(\S+))", run)}
    return [word.encode() for word in sorted(found)]


def npy(shape, data, code="<f4", order="False"):
    head = f"{{'descr': '{code}', 'fortran_order': {order}, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npys(_):
    return [npy("(2,)", bytes(8)), npy("()", b"\x01", "|b1"), npy("(2, 2)", bytes(16), ">i4", "True"),
            npy("(2,)", bytes(4), "<u2"), npy("(1,)", bytes(2), "|V2"), npy("(0, 3)", b"", "<f8")]


def npzs(context):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for zip64 in (False, True):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", method) as archive:
                for number, data in enumerate(npys(context)[:3]):
                    with archive.open(f"t{number}.npy", "w", force_zip64=zip64) as entry:
                        entry.write(data)
            yield out.getvalue()


def safetensors(_):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for header in ({}, {"x": entry}, {"__metadata__": {"format": "pt"}, "x": entry},
                   {"x": entry, "y": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]}}):
        text = json.dumps(header).encode()
        size = max([t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"], default=0)
        yield struct.pack("<Q", len(text)) + text + bytes(size)
    yield json.dumps({"metadata": {"total_size": 8}, "weight_map": {"x": "a.safetensors"}}).encode()


def checkpoints(_):
    data = {"position": 8, "seed": 3, "order": "shuffled",
            "sources": [{"argument": "x", "samples": 9, "window": 4, "stride": 4, "offset": 0}]}
    piece = {"offset": [0, 0], "shape": [2, 2], "sha256": "00"}
    for tensors in ([], [{"name": "w", "dtype": "f32", "shape": [2, 2], "shards": [piece]}],
                    [{"name": "w", "dtype": "c64", "shape": [2, 4], "shards": [piece, {**piece, "offset": [0, 2]}]}]):
        yield json.dumps({"format": 2, "step": 2, "entry": "main", "command": ["dtc"], "data": data, "tensors": tensors,
                          "bytes": 9}).encode()


def queries(_):
    """Queries of clients of a store: of the protocol of PyTorch's TCPStore."""
    text = lambda t: struct.pack("<Q", len(t)) + t  # noqa: E731
    begin = b"\0" + struct.pack("<I", 0x3C85F7CE)
    yield begin + b"\1" + text(b"key") + text(b"value") + b"\3" + text(b"key") + b"\5" + struct.pack("<Q", 1) + text(b"key")
    yield begin + b"\4" + text(b"n") + struct.pack("<q", 7) + b"\4" + text(b"n") + struct.pack("<q", -9)
    yield b"\1" + struct.pack("<Q", 2**63) + b"\5" + struct.pack("<Q", 3)


def snapshots(_):
    """A saved program, and a report of `dtc explain`."""
    argument = {"name": "%x", "op": "argument", "type": "f32[4, 8]", "annotation": "@m{dp, tp}", "location": "p.dt:2:3"}
    matmul = {"name": "%y", "op": "matmul", "type": "f32[4, 4]", "operands": [0, 0], "attributes": "{a = 1} (_, 0.5)"}
    sum_ = {"kind": "all_reduce", "axes": "dp, tp", "value": "%y", "op": "matmul", "bytes": 64, "count": 3, "seconds": 1e-6,
            "exposed": 1e-6, "layer": "blocks_{0..3}", "statements": [1]}
    compiled = [{**argument, "sharding": "@m{(dp, tp), _}", "from": [1], "origin": 0},
                {**matmul, "sharding": "@m{dp, _ | sum(tp)}", "generated": True, "seconds": 1e-6, "origin": 1}]
    yield json.dumps({"snapshot": 1, "dtc": "0.1.0", "extent": "compiled", "settings": {"mesh m": "dp=2, tp=1"},
                      "written": [argument, matmul], "statements": compiled, "collectives": [sum_], "other_seconds": 1e-9,
                      "memory": {"peak_bytes": 99, "alive": [{"value": "%y", "what": "value", "bytes": 64}]}}).encode()
    yield json.dumps({"collectives": [{"kind": "all_gather", "axes": ["tp"], "value": "%x", "bytes_received": 8, "count": 2,
                                       "seconds": 1e-6, "generated": True}],
                      "limits": [{"exposed_seconds": 1e-6}], "total": {"compute_seconds": 1e-6, "complete": True}}).encode()


def packages(_):
    manifest = {"format": 1, "dtc": "0.1.0", "target": "cpu", "cpu": "avx2", "optLevel": 1, "entry": "main"}
    for kernels in (0, 2):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("manifest.json", json.dumps(manifest))
            archive.writestr("program.dt", "func @main() {\n  return\n}\n")
            for number in range(kernels):
                archive.writestr(f"kernels/{number:064x}.o", b"\x7fELF")
        yield out.getvalue()


def protos(_):
    """Messages with a field of each wire type, nested and packed."""
    simple = b"\x08\x96\x01" + b"\x15" + struct.pack("<f", 1.5) + b"\x19" + struct.pack("<d", -2.0) + b"\x22\x03abc"
    return [simple, b"\x2a" + bytes([len(simple)]) + simple, b"\x32\x03\x01\x96\x01", b"\x2a\x02\x2a\x00",
            b"\x3a\x08" + struct.pack("<2f", 1, 2), b"\x08" + b"\xff" * 9 + b"\x01"]


def pt2s(context):
    """The programs of the tests, as text and as archives."""
    for path in context.files("test/Torch/*.test"):
        out = context.root / "build/fuzz/seed.pt2"
        made = context.run("python3", context.root / "test/Torch/Inputs/make-pt2.py", context.root / path, out, limit=60)
        if made.returncode == 0:
            yield out.read_bytes()
            with zipfile.ZipFile(out) as archive:
                yield archive.read("model/models/model.json")


def models(context):
    """The models of the importer's tests."""
    tool = SourceFileLoader("onnx_text", str(context.root / "test/tools/onnx-text")).load_module()
    for path in context.files("test/Onnx/*.test"):
        text = (context.root / path).read_text()
        if "ir_version" in text:
            yield tool.message(tool.tokens(text), tool.MODEL)


# By parser: its initial corpus, and the maximum input length.
CORPORA = {"checkpoint": (checkpoints, 2048), "hlo": (audits, 4096), "metrics": (logs, 1024), "ir": (modules, 4096), "mlir": (imports, 4096), "vhlo": (artifacts, 2048), "npy": (npys, 1024), "npz": (npzs, 2048), "package": (packages, 2048), "onnx": (models, 4096), "proto": (protos, 256), "safetensors": (safetensors, 1024),
           "pt2": (pt2s, 40960),
           "snapshot": (snapshots, 2048), "store": (queries, 256),
           "inputs": (lambda context: words(context, "--input") + words(context, "--data"), 256),
           "pipeline": (lambda context: words(context, "-p"), 256)}


def fuzz(context, reader, build):
    """libFuzzer adds its findings to a folder that is kept between runs."""
    seeds, found, crashes = build / f"seeds-{reader}", build / f"found-{reader}", build / f"crash-{reader}-"
    shutil.rmtree(seeds, ignore_errors=True)
    seeds.mkdir(parents=True)
    found.mkdir(exist_ok=True)
    begin, longest = CORPORA[reader]
    for number, seed in enumerate(begin(context)):
        (seeds / str(number)).write_bytes(seed)
    words_file = context.root / f"test/fuzz/{reader}.dict"
    options = [f"-dict={words_file}"] if words_file.exists() else []
    done = context.run(build / "bin" / f"dtc-fuzz-{reader}", f"-max_total_time={SECONDS}", f"-seed={SEED}", f"-max_len={longest}",
                       "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={crashes}", "-verbosity=0", *options,
                       found, seeds, limit=SECONDS + 120)
    if done.returncode:
        kept = re.search(r"Test unit written to (\S+)", done.stderr)
        what = re.search(r"(SUMMARY: .*|ERROR: .*)", done.stderr)
        from_where = done.stderr[what.start():] if what else done.stderr
        context.failed(f"fuzz {reader}", f"{what[1] if what else 'failed'}; the input: {kept[1] if kept else '?'}\n"
                       + from_where[:3000])
    else:
        context.passed()


def check(context):
    readers = [p.split("fuzz-")[-1][:-4] for p in context.files("test/fuzz/fuzz-*.cpp")]
    if not (shutil.which("clang++-19") or shutil.which("clang++-18")):
        context.note("fuzzing needs Clang, which is not installed")
        return
    build = context.root / "build/fuzz"
    made = context.run("scripts/build.sh", "fuzz", "dtc-fuzz", limit=1200)
    if made.returncode:
        context.failed("fuzz", f"the fuzz preset does not build\n{made.stdout[-2000:]}{made.stderr[-1000:]}")
        return
    for reader in set(readers) - set(CORPORA):
        context.failed(f"fuzz {reader}", "has no corpus in test/checks/fuzz.py")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda reader: fuzz(context, reader, build), [r for r in readers if r in CORPORA]))
