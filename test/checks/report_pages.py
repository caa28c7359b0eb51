"""Pages of `dtc report` and `dtc diff` in a browser: nothing overlaps or is cut off, at 1280 and at 390 pixels; layers fold and unfold; what
is selected lights up in all panes; the page loads nothing. In headless Chromium, where that is installed."""

import collections
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

MODELS = {
    "mlp": "mlp --parallel dp=2,tp=2",
    "gpt": "gpt --layers 4 --mode train --parallel dp=2,tp=4,sp",
    "moe": "mixtral --layers 2 --parallel dp=2,ep=4",
    "pipeline": "gpt --layers 8 --mode train --parallel pp=4,dp=2 --microbatches 8",
    "stages": "llama --layers 8 --batch 8 --microbatches 4 --mode train --parallel pp=4,tp=2",
    "trained-mlp": "mlp --mode train --parallel dp=2,tp=4",
    "trained-moe": "mixtral --layers 2 --mode train --parallel dp=2,ep=4",
    "ring": "llama --layers 2 --parallel cp=4,tp=2 --context ring",
}
# A convolution over rows that are sharded, with halos.
CONV = """mesh @m = [h=4]

func @main(%x: f32[2, 3, 32, 16] @m{_, _, h, _}, %w: f32[8, 3, 3, 3]) -> (%y: f32[2, 8, 32, 16]) {
  %c = conv %x, %w {padding = [[1, 1], [1, 1]]}
  %y = relu %c
  return %y
}
"""
# Gradients whose sums are one message.
TRAINED = """mesh @m = [dp=2, h=2]

func @net(%x: f32[8, 3, 16, 16] @m{dp, _, h, _}, %k: f32[4, 3, 3, 3], %w: f32[4, 4, 3, 3]) -> (%loss: f32[]) {
  %c = conv %x, %k {padding = [[1, 1], [1, 1]]}
  %r = relu %c
  %s = conv %r, %w {padding = [[1, 1], [1, 1]]}
  %loss = mean %s
  return %loss
}

func @main(%x: f32[8, 3, 16, 16] @m{dp, _, h, _}, %k: f32[4, 3, 3, 3], %w: f32[4, 4, 3, 3])
    -> (%loss: f32[], %dk: f32[4, 3, 3, 3], %dw: f32[4, 4, 3, 3]) {
  %loss, %dk, %dw = value_and_grad @net(%x, %k, %w) {wrt = [1, 2]}
  return %loss, %dk, %dw
}
"""
# Rows that do not divide, and a size that is not bound.
UNEVEN = CONV.replace("32, 16]", "33, 16]")
SYMBOLIC = "mesh @m = [d=2]\n\nfunc @main(%x: f32[B, 8] @m{d, _}, %w: f32[8, 2]) -> (%y: f32[B, 2] @m{_, _}) {\n  %y = matmul %x, %w\n  return %y\n}\n"
WRONG = "mesh @m = [d=2]\n\nfunc @main(%x: f32[4, 8] @m{d, _}, %w: f32[9, 2]) -> (%y: f32[4, 2]) {\n  %y = matmul %x, %w\n  return %y\n}\n"
HALF = CONV.replace("%y = relu %c", "%y = reluu %c")
# Two programs, or two meshes of one.
DIFFS = {
    "mesh": ["mlp.dt", "--b", "--mesh pod=dp:4,tp:1"],
    "models": ["gpt.dt", "pipeline.dt"],
    "equal": ["conv.dt", "conv.dt"],
    "wrong": ["conv.dt", "half.dt"],
    "contract": ["conv.dt", "contract.dt"],
    "shared": ["ring.dt", "gather.dt"],
    "symbolic": ["symbolic.dt", "--b", "--dim B=32"],
}
# What errors of scripts are collected in, before the page's own script.
ERRORS = "<script>window.pageErrors = []; addEventListener('error', (e) => pageErrors.push(e.message));</script>"
MAX_BYTES = 5_000_000


def browser():
    return next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


def misplaced(text):
    """The rows of Communication that the graph, all folded, does not show as often as they have messages. None: it has no graph."""
    program = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1])["programs"][0]
    graph, communication = program.get("graph"), program.get("communication")
    if not graph or not communication:
        return None
    shown = collections.Counter()
    top = graph["drawings"][0]
    for one in top["nodes"] + [e for e in top["edges"] if not e.get("in_box")]:
        shown.update(dict(zip(one.get("collectives", []), one.get("messages", []), strict=True)))
    rows = communication["collectives"]
    return [f"{c['kind']} {c['axes']} of {c.get('value')}: {shown[i]} of {c['messages']} messages" for i, c in enumerate(rows) if shown[i] != c["messages"]]


def check_places(context, name, text):
    wrong = misplaced(text)
    if wrong:
        context.failed(f"graph {name}", "\n".join(wrong))
    elif wrong is not None:
        context.passed()


def looked_at(context, name, page, driver, width, height, folder):
    text = page.read_text()
    driven = folder / f"{name}-{width}.html"
    driven.write_text(text.replace("<script id=", ERRORS + "<script id=", 1).replace("</body>", f"<script>{driver}</script></body>"))
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom",
               f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", driven.as_uri()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        context.failed(f"report {name} {width}", "the browser did not end")
        return
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)
    if not found:
        context.failed(f"report {name} {width}", f"the page did not answer: {done.stderr[-500:]}")
        return
    result = json.loads(html.unescape(found[1]))
    if result["wrong"]:
        context.failed(f"report {name} {width}", "\n".join(result["wrong"]))
    else:
        context.passed()


def check(context):
    driver = (context.root / "test/checks/report_pages.js").read_text()
    dtc = str(context.build / "bin/dtc")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "conv.dt").write_text(CONV)
        (folder / "trained.dt").write_text(TRAINED)
        (folder / "wrong.dt").write_text(WRONG)
        (folder / "half.dt").write_text(HALF)
        (folder / "contract.dt").write_text(CONV.replace(" {", ' {comm = ["none"]} {', 1))
        for name, flags in MODELS.items():
            (folder / f"{name}.dt").write_text(subprocess.run([dtc, "model", *flags.split()], capture_output=True, text=True, check=True).stdout)
        (folder / "uneven.dt").write_text(UNEVEN)
        (folder / "symbolic.dt").write_text(SYMBOLIC)
        (folder / "gather.dt").write_text(re.sub(r'ring = "\w+"', 'ring = "gather"', (folder / "ring.dt").read_text()))
        pages = []
        # A run of the first model, whose page shows its trace.
        trace = folder / "trace.json"
        (folder / "measured.dt").write_text((folder / "mlp.dt").read_text())
        run = [dtc, "run", str(folder / "measured.dt"), "--input", "*=randn(1)", "--trace", str(trace)]
        subprocess.run(run, capture_output=True, check=True)
        for name in [*MODELS, "conv", "trained", "uneven", "symbolic", "wrong", "measured"]:
            page = folder / f"{name}.html"
            flags = ["--trace", str(trace)] if name == "measured" else []
            done = subprocess.run([dtc, "report", str(folder / f"{name}.dt"), "-o", str(page), *flags], capture_output=True, text=True, check=False)
            if done.returncode != (1 if name in ("wrong", "symbolic") else 0) or not page.exists():
                context.failed(f"report {name}", f"exit code {done.returncode}: {done.stderr[-500:]}")
                continue
            text = page.read_text()
            loads = re.findall(r'(?:src|href)="[^"#]|url\((?!#|`?#)[^)]|@import', re.sub(r'<script id="data".*?</script>', "", text, flags=re.S))
            if loads or len(text) > MAX_BYTES:
                context.failed(f"report {name}", f"it loads {loads[:3]}, or has too many bytes: {len(text)}")
            else:
                context.passed()
            check_places(context, name, text)
            pages.append((name, page))
        examples = folder / "example.html"
        for example in sorted((context.root / "examples").glob("*.dt")):
            done = subprocess.run([dtc, "report", str(example), "-o", str(examples)], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                check_places(context, example.name, examples.read_text())
        diffs = []
        for name, words in DIFFS.items():
            page = folder / f"diff-{name}.html"
            files = [str(folder / w) if w.endswith(".dt") else w for w in words]
            done = subprocess.run([dtc, "diff", *files, "-o", str(page)], capture_output=True, text=True, check=False)
            if done.returncode != (1 if name in ("contract", "wrong") else 0) or not page.exists():
                context.failed(f"diff {name}", f"exit code {done.returncode}: {done.stderr[-500:]}")
                continue
            context.passed()
            diffs.append((f"diff-{name}", page))
        if not browser():
            context.note("the pages of dtc report were not looked at: Chromium is not installed")
            return
        for name, page in pages:
            for width, height in ((1280, 800), (390, 800)):
                looked_at(context, name, page, driver, width, height, folder)
        driver = (context.root / "test/checks/diff_pages.js").read_text()
        for name, page in diffs:
            for width, height in ((1280, 800), (390, 800)):
                looked_at(context, name, page, driver, width, height, folder)
