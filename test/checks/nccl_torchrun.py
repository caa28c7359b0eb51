"""Processes that torchrun's variables bring together, without MPI. Part of the check nccl-processes."""

import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import mpi

LIMIT = 30  # seconds


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def processes(runs, count, arguments, change=lambda rank, variables: variables, missing=(), command=None):
    """Of `dtc run` with these arguments, or of a command: the exit codes of processes started by hand, the output of the first, and all that they say."""
    port, started = free_port(), []
    command = command or [runs.context.dtc, "run", *map(str, arguments), "--backend", "cuda", "--comm", "nccl"]
    for rank in range(count):
        if rank in missing:
            continue
        variables = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        set_ = [f"{k}={v}" for k, v in change(rank, variables).items()]
        started.append(subprocess.Popen(["env", *runs.env, *set_, *command],
                                        cwd=runs.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    done = []
    for p in started:
        try:
            out, err = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
        done.append((p.returncode, out, err))
    return [code for code, _, _ in done], done[0][1], "".join(err for _, _, err in done)


def impostor(port, message):
    """Comes to the store of rank 0 as rank 1, connects to rank 0 beside strangers, and sends a message."""
    text = lambda t: struct.pack("<Q", len(t)) + t  # noqa: E731

    def take(s, count):
        got = b""
        while len(got) < count:
            got += s.recv(count - len(got)) or b"?" * count
        return got

    for _ in range(200):
        try:
            store = socket.create_connection(("localhost", port), 20)
            break
        except OSError:
            time.sleep(0.05)
    store.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\1" + text(b"dtc///1") + text(b"127.0.0.1 1 other"))
    for _ in range(200):
        store.sendall(b"\5" + struct.pack("<Q", 1) + text(b"dtc///0"))
        if take(store, 1) == b"\0":
            break
        time.sleep(0.05)
    store.sendall(b"\3" + text(b"dtc///0"))
    address, at, _ = take(store, *struct.unpack("<Q", take(store, 8))).split()
    silent, garbage, own = [socket.create_connection((address.decode(), int(at)), 20) for _ in range(3)]
    garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
    own.sendall(struct.pack("<II", 0x64746331, 1) + message)
    own.settimeout(20)
    try:
        while own.recv(4096):
            pass
    except OSError:
        pass
    for s in (silent, garbage, own, store):
        s.close()


def confused(runs, host):
    """Malformed messages end the run; other programs that connect do not delay it."""
    for name, message in (("size", struct.pack("<iiQ", 0, 1, 2**62)), ("channel", struct.pack("<iiQ", 7, 1, 8)), ("end", b"half")):
        port = free_port()
        begun = time.time()
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(impostor, port, message)
            codes, _, err = processes(runs, 2, [*host, "--comm-timeout", 5], lambda rank, v: {**v, "MASTER_PORT": port}, missing=[1])
            other.result()
        why = "no answer from rank 1" if name == "end" else "rank 1 sends what is not a message of dtc"
        runs.expect(f"impostor, {name}", codes == [3] and why in err and time.time() - begun < 20, f"{codes}\n{err}")


# PyTorch's client, with a store that dtc serves.
CLIENT = """import sys, datetime, torch.distributed as d
s = d.TCPStore("localhost", int(sys.argv[1]), None, False, datetime.timedelta(seconds=5))
s.set("a", "1"); assert s.get("a") == b"1"
assert s.add("n", 2) == 2 and s.add("n", -5) == -3
assert s.compare_set("c", "", "x") == b"x" and s.compare_set("c", "x", "y") == b"y" and s.compare_set("c", "z", "x") == b"y"
keys = s.num_keys(); s.set("b", "2"); assert s.num_keys() == keys + 1
assert s.delete_key("b") and not s.delete_key("b")
assert s.check(["a", "n"]) and not s.check(["a", "b"])
s.append("a", "23"); assert s.get("a") == b"123"
s.multi_set(["p", "q"], ["7", "8"]); assert s.multi_get(["q", "p"]) == [b"8", b"7"]
s.wait(["a", "q"])
try:
    s.wait(["never"], datetime.timedelta(seconds=1)); raise SystemExit("did not wait")
except d.DistStoreError as e:
    assert "imeout" in str(e) or "imed out" in str(e), e
assert s.get("p") == b"7"
prefixed = d.PrefixStore("job", s); prefixed.set("k", "v"); assert s.get("job/k") == b"v"
print("ok")
try:
    s.queue_push("queue", "1"); s.queue_len("queue")
except Exception as e:
    print("refused")
"""

# PyTorch's server.
SERVER = """import sys, time, datetime, torch.distributed as d
s = d.TCPStore("localhost", 0, None, True, datetime.timedelta(seconds=30), wait_for_workers=False, use_libuv=sys.argv[1] == "uv")
print(s.port, flush=True); sys.stdin.read()
"""


def pytorch(runs, host, python):
    """The stores of dtc and of PyTorch serve each other's clients."""
    for name, text in (("client.py", CLIENT), ("server.py", SERVER)):
        (runs.folder / name).write_text(text)
    port = free_port()
    with ThreadPoolExecutor(1) as pool:  # rank 0 serves while it waits for rank 1
        first = pool.submit(processes, runs, 2, [*host, "--comm-timeout", 20], lambda rank, v: {**v, "MASTER_PORT": port}, missing=[1])
        done = runs.context.run(python, runs.folder / "client.py", port, limit=60)
        codes, _, err = first.result()
    runs.expect("PyTorch's client", done.returncode == 0 and done.stdout == "ok\nrefused\n", f"{done.stdout}{done.stderr[-3000:]}")
    runs.expect("a query that the store refuses", codes == [3] and err.count("sent query 14 of PyTorch's TCPStore, which dtc does not support") == 1, err)
    for kind in ("uv", "threads"):
        server = subprocess.Popen([python, runs.folder / "server.py", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = server.stdout.readline().strip()
        codes, out, err = processes(runs, 2, host, lambda rank, v: {**v, "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"})
        server.communicate("")
        runs.expect(f"PyTorch's server, {kind}", codes == [0, 0] and out.count("s = 1.0") == 2, f"{port} {codes}\n{out}{err}")


def python_with_torch(runs):
    torchrun = shutil.which("torchrun")
    python = Path(torchrun).with_name("python") if torchrun else shutil.which("python3")
    done = runs.context.run(python, "-c", "import torch.distributed as d; print(d.is_available())", limit=120)
    return python if done.stdout == "True\n" else None


def run(runs):
    (runs.folder / "torchrun.dt").write_text(mpi.HOST_OP)
    host = ["torchrun.dt", "--input", "*=const(0.125)"]
    for count in (2, 4):
        codes, out, err = processes(runs, count, host)
        runs.expect(f"variables {count}", codes == [0] * count and out.count("s = 1.0") == 2, f"{codes}\n{out}{err}")
    codes, _, err = processes(runs, 2, ["torchrun.dt", "--input", "*=const(0.25)"])
    runs.expect("variables, expect_close", codes == [1, 1] and err.count("error:") == 1, f"{codes}\n{err}")
    for name, change, why in (
            ("MASTER_PORT", lambda rank, v: {k: x for k, x in v.items() if k != "MASTER_PORT"}, "MASTER_PORT is not set"),
            ("RANK", lambda rank, v: {**v, "RANK": rank + 2}, "RANK=2: expected a number from 0 to 1"),
            ("no RANK 0", lambda rank, v: {**v, "RANK": 1}, "cannot connect to localhost")):
        codes, _, err = processes(runs, 2, [*host, "--comm-timeout", 2], change)
        runs.expect(f"variables, {name}", set(codes) <= {2, 3} and why in err, f"{codes}\n{err}")
    codes, _, err = processes(runs, 4, [*host, "--comm-timeout", 4], lambda rank, v: {**v, "RANK": min(rank, 2)})
    runs.expect("variables, RANK 2 twice", set(codes) <= {2, 3} and "two processes have RANK=2" in err, f"{codes}\n{err}")
    codes, _, err = processes(runs, 2, [*host, "--comm-timeout", 2], missing=[1])
    runs.expect("a process that does not come", codes == [3] and "rank 1 of 2 has not come to the store at localhost" in err, f"{codes}\n{err}")
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        codes, _, err = processes(runs, 2, [*host, "--comm-timeout", 2], lambda rank, v: {**v, "MASTER_PORT": taken.getsockname()[1]})
        runs.expect("a port in use", 3 in codes and "cannot listen on port" in err, f"{codes}\n{err}")
    for fault in (signal.SIGKILL, signal.SIGSTOP):
        codes, _, err = processes(runs, 2, [*host, "--comm-timeout", 2], lambda rank, v: {**v, "DTC_STUB_NCCL_FAULT": f"2:0:{int(fault)}"})
        runs.expect(f"variables, {fault.name}", codes[0] == 3 and re.search(r"'all_reduce': (a connection was closed|no progress for 2 s): no answer from rank 1", err), f"{codes}\n{err}")
    confused(runs, host)
    if python := python_with_torch(runs):
        pytorch(runs, host, python)
    else:
        runs.context.note("PyTorch's own store was not tried: there is no Python with torch")
    torchrun = shutil.which("torchrun")
    if not torchrun:
        runs.context.note("torchrun itself was not tried: it was not found")
        return
    done = runs.context.run("env", *runs.env, torchrun, "--nproc-per-node", 4, "--master-port", free_port(), "--no-python", runs.context.dtc, "run", *host,
                            "--backend", "cuda", "--comm", "nccl", cwd=runs.folder, limit=120)
    runs.expect("torchrun", done.returncode == 0 and done.stdout.count("s = 1.0") == 2, f"{done.stdout}{done.stderr[-2000:]}")
