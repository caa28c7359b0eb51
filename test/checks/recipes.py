"""docs/parallelism.md holds: the recipes of parallel training, and products of them.

Of each row of its tables, the training step that its flags make is
- run for 50 steps, and its losses are compared with those of one device: equal to rounding, and equal to the last bit
  with `--reduction-order fixed` where the table says so;
- in the table of costs, compiled, and its collectives (messages and bytes received by kind) and the bytes of its weights
  and optimizer state are compared with the table, and the table with the closed forms of the page.

The memory beside the state is not more than that of the recipe that it improves: DDP, or tensor parallelism."""

import collections
import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

STEPS = 50
ROUNDING = 1e-5  # of a loss, which is about 5
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")
COMMON = "--mode train --optimizer adamw"
COSTS = "--seq 64 --batch 16"  # enough rows per device for the usual collectives to be the cheapest
CURVES = "--seq 16 --batch 8"  # quick
INPUTS = {
    "gpt": ["*ln*_w=const(1)", "*_b=zeros"],
    "mixtral": ["*norm=const(1)"],
}

# The sample: two layers, 16 sequences of 64 positions, f32.
L, B, S, H, FFN, VOCAB, HEADS = 2, 16, 64, 64, 256, 256, 4
MATRICES = L * 12 * H * H + (VOCAB + S) * H  # elements
VECTORS = L * 13 * H + 2 * H
STREAM = 4 * B * S * H  # bytes of the residual stream
TABLE = 4 * VOCAB * H
EXPERTS, TOP_K, EXPERT_FFN, SLOTS = 8, 2, 128, 20


def gathered(devices, size):
    """Bytes that a device receives in an all_gather to `size` bytes, or a reduce_scatter of them."""
    return size * (devices - 1) // devices


def reduced(devices, size):
    return 2 * gathered(devices, size)


def closed_forms():
    """By row of the table of costs: {kind: bytes}, the bytes of the state, and the recipe whose memory beside the state
    is an upper bound."""
    n, m, small = 4, 4 * MATRICES, 4 * (VECTORS + 1)
    state = 12 * (MATRICES + VECTORS)
    sharded = 12 * (MATRICES // n + VECTORS)
    zero1 = 4 * MATRICES + 8 * MATRICES // n + 12 * VECTORS
    statistics = (n - 1) * 5 * 4 * B * S  # of softmax and loss over a sharded vocabulary
    stream, table = gathered(n, STREAM), gathered(n, TABLE)
    without_positions = 4 * (MATRICES - S * H + VECTORS + 1)
    shard, lse = STREAM // n, 4 * B * HEADS * S // n
    tensor = L * 12 * H * H + VOCAB * H  # elements that tp shards
    biases = L * 7 * H
    of_tensor = 12 * ((tensor + biases) // n + VECTORS - biases)
    of_context = 12 * (MATRICES - S * H + S * H // n + VECTORS)
    gradients = {"all_reduce": reduced(n, without_positions)}
    attention = L * (4 * H * H + H * EXPERTS) + 2 * VOCAB * H
    norms = (2 * L + 1) * H
    buffers = 4 * EXPERTS * SLOTS * B * H // n
    return {
        "DDP": ({"all_reduce": reduced(n, m + small)}, state, "DDP"),
        "ZeRO-1": ({"reduce_scatter": gathered(n, m), "all_gather": gathered(n, m), "all_reduce": reduced(n, small)}, zero1, "DDP"),
        "ZeRO-2": ({"reduce_scatter": 2 * gathered(n, m), "all_gather": gathered(n, m), "all_reduce": reduced(n, small)}, zero1, "DDP"),
        "ZeRO-3": ({"reduce_scatter": gathered(n, m), "all_gather": 2 * gathered(n, m), "all_reduce": reduced(n, small)}, sharded, "DDP"),
        "HSDP": ({"reduce_scatter": gathered(2, m), "all_gather": 2 * gathered(2, m),
                  "all_reduce": reduced(2, m // 2) + reduced(n, small)}, 12 * (MATRICES // 2 + VECTORS), "DDP"),
        "tensor": ({"all_reduce": (4 * L + 2) * 2 * stream, "all_gather": statistics}, of_tensor + 12 * S * H, "tensor"),
        "sequence": ({"all_gather": (6 * L + 2) * stream + table + statistics, "reduce_scatter": (4 * L + 1) * stream + table,
                      "all_reduce": reduced(n, 4 * (VECTORS - biases))}, of_tensor + 12 * S * H // n, "tensor"),
        "ring": ({"p2p": L * ((11 + 6 * (n - 1)) * shard + 3 * lse), **gradients}, of_context, "ring"),
        "gather": ({"all_gather": L * 2 * 2 * (n - 1) * shard, "reduce_scatter": L * 2 * (n - 1) * shard, **gradients},
                            of_context, "ring"),
        "Ulysses": ({"all_to_all": L * (8 * gathered(n, shard) + gathered(n, lse)), **gradients}, of_context, "ring"),
        "expert": ({"all_to_all": L * 4 * gathered(n, buffers), "all_reduce": reduced(n, 4 * (attention + norms + 1))},
                   12 * (attention + norms + L * 3 * EXPERTS * H * EXPERT_FFN // n), "expert"),
    }


def rows_of(page, heading):
    """The cells of the table below a heading, by column, without backquotes."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    names, *rows = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines if "---" not in line]
    return [dict(zip(names, row)) for row in rows]


def flags_of(row):
    """`gpt dp=4 --zero 1` stands for `dtc model gpt --parallel dp=4 --zero 1`."""
    family, rest = row["model"].split(" ", 1)
    return f"{family} --parallel {rest}"


class Recipes:
    def __init__(self, context, folder):
        self.context, self.folder, self.references, self.lock = context, folder, {}, threading.Lock()
        self.text = context.root / "docs" / "ir.md"  # to train on: its bytes

    def dtc(self, *arguments, text=None):
        done = self.context.run(self.context.dtc, *arguments, text=text, limit=120)
        if done.returncode:
            raise RuntimeError(f"dtc {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr[-1000:]}")
        return done.stdout

    def model(self, flags, shape):
        """The program; flags begin with the family."""
        return self.dtc("model", *f"{flags} {shape} {COMMON}".split())

    def losses(self, flags, order):
        family = flags.split()[0]
        window = re.search(r"--seq (\d+)", CURVES)[1]
        log = self.folder / (re.sub(r"\W+", "-", f"{flags} {order}") + ".jsonl")
        inputs = [f"--input={one}" for one in ["step=const(1)", "m_*=zeros", "v_*=zeros", *INPUTS[family], "weights=randn(7,0.05)"]]
        data = [f"--data=tokens={self.text}:window={window},dtype=u8", f"--data=labels={self.text}:window={window},offset=1,dtype=u8"]
        self.dtc("run", "-", "--loop", STEPS, "--log", log, "--print", "loss", "--reduction-order", order, *inputs, *data,
                 text=self.model(flags, CURVES))
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    @staticmethod
    def on_one_device(flags):
        return re.sub(r" --(parallel|zero|context) \S+", "", flags)

    def curve_complaint(self, row):
        flags = flags_of(row)
        one = self.on_one_device(flags)
        for order in ("any", "fixed"):
            with self.lock:
                if (one, order) not in self.references:
                    self.references[one, order] = self.losses(one, order)
            expected, found = self.references[one, order], self.losses(flags, order)
            if len(found) != STEPS or not found[-1] < found[0] - 1:
                return f"{STEPS} steps do not learn: {found[:1]} … {found[-1:]}"
            apart = max(abs(a - b) for a, b in zip(expected, found))
            if apart > ROUNDING:
                return f"--reduction-order {order}: losses differ by {apart} from one device"
            if order == "fixed" and (apart == 0) != (row["bits"] == "equal"):
                return f"--reduction-order fixed: losses differ by {apart}, but the table says '{row['bits']}'"
        return None

    def collectives(self, program):
        """{kind: (messages, bytes)} of one step."""
        report = json.loads(self.dtc("audit", "-", "--json", text=self.dtc("compile", "-", "--emit", "ir", text=program)))
        found = collections.defaultdict(lambda: [0, 0])
        for one in report["collectives"]:
            found[one["kind"]][0] += one["count"]
            found[one["kind"]][1] += one["count"] * one["bytes_received"]
        return found

    def memory(self, program):
        """(the lower bound of the plan, the bytes of weights and state)"""
        report = json.loads(self.dtc("compile", "-", "--stats", "--json", "-o", self.folder / "schedule.dt", text=program))["memory"]
        state = [a for a in report["alive"] if a["what"] == "argument" and a["value"] not in ("%tokens", "%labels", "%step")]
        return report["bound_bytes"], sum(a["bytes"] for a in state)

    def beside(self, row):
        """The bytes beside the state."""
        bound, state = self.memory(self.model(flags_of(row), COSTS))
        return bound - state

    def cost_complaint(self, row, form, bounding):
        flags = flags_of(row)
        expected, state, _ = form
        program = self.model(flags, COSTS)
        found = self.collectives(program)
        for kind in KINDS:
            cell = f"{found[kind][0]}: {found[kind][1]}" if kind in found else ""
            if row[kind] != cell:
                return f"{kind}: the table says '{row[kind]}', dtc audit '{cell}'"
            if found[kind][1] != expected.get(kind, 0):
                return f"{kind}: {found[kind][1]} bytes; the closed form is {expected.get(kind, 0)}"
        if set(found) - set(KINDS) - {"all_slice"}:
            return f"unexpected collectives: {sorted(found)}"
        bound, arguments = self.memory(program)
        if not arguments == state == int(row["state"]):
            return f"state: {arguments} bytes; the closed form is {state}, the table says {row['state']}"
        most = self.beside(bounding)
        if bound - state > 1.01 * most:
            return f"{bound - state} bytes beside the state; {bounding['recipe']} has {most}"
        return None


def check(context):
    folder = context.build / "test" / "recipes"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page = (context.root / "docs" / "parallelism.md").read_text()
    recipes, forms = Recipes(context, folder), closed_forms()
    costs, products = rows_of(page, "Costs"), rows_of(page, "Products")
    if {row["recipe"] for row in costs} != set(forms):
        context.failed("recipes", f"the table of costs has other rows than test/checks/recipes.py: {sorted(forms)}")
        return

    named = {row["recipe"]: row for row in costs}

    def complaint(job):
        try:
            return job()
        except (RuntimeError, KeyError, ValueError) as error:
            return str(error)

    jobs = [(f"{row['recipe']}: costs", lambda row=row: recipes.cost_complaint(row, forms[row["recipe"]], named[forms[row["recipe"]][2]]))
            for row in costs]
    jobs += [(f"{row['model']}: losses", lambda row=row: recipes.curve_complaint(row)) for row in costs + products]
    with ThreadPoolExecutor(2) as pool:
        for (name, _), why in zip(jobs, pool.map(lambda job: complaint(job[1]), jobs)):
            if why:
                context.failed(f"recipes {name}", why)
            else:
                context.passed()
