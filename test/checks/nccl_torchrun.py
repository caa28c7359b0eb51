"""Processes that torchrun's variables bring together, without MPI. Part of the check nccl-processes."""

import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

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
        runs.expect(f"variables, {fault.name}", codes[0] == 3 and re.search(r"'all_reduce': no progress for 2 s: no answer from rank 1", err), f"{codes}\n{err}")
    confused(runs, host)
    torchrun = shutil.which("torchrun")
    if not torchrun:
        runs.context.note("torchrun itself was not tried: it was not found")
        return
    done = runs.context.run("env", *runs.env, torchrun, "--nproc-per-node", 4, "--master-port", free_port(), "--no-python", runs.context.dtc, "run", *host,
                            "--backend", "cuda", "--comm", "nccl", cwd=runs.folder, limit=120)
    runs.expect("torchrun", done.returncode == 0 and done.stdout.count("s = 1.0") == 2, f"{done.stdout}{done.stderr[-2000:]}")
