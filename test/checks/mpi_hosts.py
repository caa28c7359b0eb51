"""Runs of several hosts: network namespaces with names of their own, Open MPI's TCP between them, and a switch that delays
and loses frames (test/tools/lossy-switch; not every kernel has tc's netem).

- With delay and loss, results have the bits of one process.
- A cut link, and a host whose processes are all killed, end the job on the other hosts with the host's name;
  `dtc launch` ends an mpirun that waits for the lost host, and starts the job again on the hosts that are left."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import mpi, mpi_faults

DELAY_MS, LOSS = 3, 0.01


class Network:
    """Namespaces `h1`, `h2`, … with the addresses 10.77.0.1, 10.77.0.2, …, and one of the switch; removed at the end."""

    def __init__(self, context, hosts, folder):
        self.context, self.hosts, self.folder = context, hosts, folder
        self.prefix = f"dtc{os.getpid()}"
        self.switch = None

    def ip(self, *arguments):
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"`ip {' '.join(arguments)}`: {done.stderr.strip()}")

    def within(self, host):
        return f"{self.prefix}h{host}"

    def __enter__(self):
        names, ports = f"{self.prefix}s", [f"p{i}" for i in range(1, self.hosts + 1)]
        try:
            self.ip("netns", "add", names)
            for i, port in enumerate(ports, 1):
                own = self.within(i)
                self.ip("netns", "add", own)
                self.ip("link", "add", "eth0", "netns", own, "type", "veth", "peer", "name", port, "netns", names)
                self.ip("-n", names, "link", "set", port, "up")
                self.ip("-n", own, "link", "set", "lo", "up")
                self.ip("-n", own, "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
                self.ip("-n", own, "link", "set", "eth0", "up")
            tool = self.context.root / "test/tools/lossy-switch"
            self.switch = subprocess.Popen(["ip", "netns", "exec", names, tool, str(DELAY_MS), str(LOSS), *ports],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if self.switch.stdout.readline() != "ready\n":
                raise OSError(f"the switch does not start: {self.switch.stderr.read()[-300:]}")
            # What mpirun calls in place of ssh: AGENT HOST COMMAND…
            agent = self.folder / "agent.sh"
            agent.write_text('#!/bin/sh\nhost=${1##*.}\nshift\n'
                             f'exec ip netns exec "{self.prefix}h$host" unshare -u sh -c '
                             '\'hostname "$0"; exec sh -c "$1"\' "node$host" "$*"\n')
            agent.chmod(0o755)
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.switch:
            self.switch.kill()
            self.switch.wait()
        for name in [*map(self.within, range(1, self.hosts + 1)), f"{self.prefix}s"]:
            self.kill(name)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def processes(self, name):
        return subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()

    def kill(self, name):
        for pid in self.processes(name):
            subprocess.run(["kill", "-9", pid], capture_output=True)

    def cut(self, host):
        self.ip("-n", f"{self.prefix}s", "link", "set", f"p{host}", "down")

    def command(self, *words):
        """On the first host."""
        return ["ip", "netns", "exec", self.within(1), "unshare", "-u", "sh", "-c", 'hostname node1; exec "$@"', "sh",
                *map(str, words)]

    def mpirun(self, count, hosts):
        tcp = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24",
               "--mca", "oob_tcp_if_include", "10.77.0.0/24"]
        agent = ["--mca", "plm_rsh_agent", self.folder / "agent.sh", "--mca", "plm_rsh_no_tree_spawn", "1"]
        return ["mpirun", *agent, *tcp, "-n", count, "--host", hosts]


def address_list(count):
    return ",".join(f"10.77.0.{i}:1" for i in range(1, count + 1))


def slow_link(runs, net):
    """The bits of one process, and clocks that are compared over the slow link."""
    text, alone, own = runs.folder / "gpt-3.dt", runs.folder / "alone.npz", runs.folder / "hosts.npz"
    fixed = [text, *mpi.INPUTS, "--reduction-order", "fixed"]
    runs.context.run(runs.context.dtc, "run", *fixed, "--output", alone)
    done = runs.context.run("env", *runs.env, *net.command(*net.mpirun(3, address_list(3)), runs.context.dtc, "run", *fixed,
                                                            "--comm", "mpi", "--output", own), limit=120)
    same = done.returncode == 0 and own.exists() and own.read_bytes() == alone.read_bytes()
    runs.expect("three hosts, delay and loss", same, f"code {done.returncode}\n{done.stderr[-3000:]}")


WAITS = r"error: .*rank 2 on node3(?s:.*)waits for ranks? [0-9, ]*2[0-9, ]* at \S+\.dt:\d+:\d+: '\w+'"

# A connection that is refused: the host answers.
PROBE = """python3 -c 'import socket
try: socket.create_connection(("{host}", 9), 2)
except ConnectionRefusedError: pass'"""


def lost_host(runs, net, lose, name, named):
    """The third host is lost during a run; the output names it in time, and the job starts again on hosts that answer."""
    out = runs.folder / f"{name}.txt"
    job = [runs.context.dtc, "launch", "--restarts", "1", "--delay", "0", "--processes", "3,1", "--hosts", address_list(3), "--probe", PROBE,
           "--", *net.mpirun("{n}", "{hosts}"),
           runs.context.dtc, "run", runs.folder / "gpt-3.dt", *mpi.INPUTS, "--comm", "mpi", "--comm-timeout", mpi_faults.TIMEOUT,
           "--print", "loss", "--repeat", "400"]
    with out.open("w") as to:
        process = subprocess.Popen(["env", *runs.env, *net.command(*job)], stdout=to, stderr=subprocess.STDOUT)
        time.sleep(5)
        lose()
        begin, said_after = time.monotonic(), None
        while process.poll() is None and time.monotonic() - begin < 120:
            if not said_after and re.search(named, out.read_text()):
                said_after = time.monotonic() - begin
            time.sleep(0.1)
        if process.poll() is None:
            process.kill()
    text = out.read_text()
    again = "attempt 2 of 2" in text and "loss = " in text
    in_time = said_after is not None and said_after <= mpi_faults.TIMEOUT + mpi_faults.GRACE
    runs.expect(name, process.returncode == 0 and again and in_time,
                f"code {process.returncode}, the host was named after {said_after} s\n{text[-4000:]}")
    left = [p for host in (1, 2) for p in net.processes(net.within(host))]
    runs.expect(f"{name}: no process is left", not left, f"{left}")


def available(context):
    """Prints why not."""
    if not mpi.available(context):
        return False
    for tool in ("ip", "unshare"):
        if not shutil.which(tool):
            context.note(f"no runs of several hosts: `{tool}` was not found")
            return False
    return True


def check(context, short=False):
    if not available(context):
        return
    with tempfile.TemporaryDirectory() as made:
        runs = mpi.Runs(context, Path(made))
        try:
            with Network(context, 3, runs.folder) as net:
                mpi_faults.write_models(context, runs.folder, ["gpt-3.dt"])
                slow_link(runs, net)
                if not short:
                    lost_host(runs, net, lambda: net.cut(3), "a cut link", WAITS)
            if not short:
                with Network(context, 3, runs.folder) as net:
                    lost_host(runs, net, lambda: net.kill(net.within(3)), "a host that is killed", "node3|10.77.0.3")
        except OSError as e:
            context.note(f"no runs of several hosts: namespaces are not permitted here: {e}")
