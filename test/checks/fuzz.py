"""Each reader under libFuzzer for a bounded time (DTC_FUZZ_SECONDS each), from the tests' own texts as a corpus.

Another build (cmake --preset fuzz) with the sanitizers; it is made here, unless it cannot be (no Clang)."""

import os
import re
import shutil

SECONDS = int(os.environ.get("DTC_FUZZ_SECONDS", "20"))


def corpus(context, folder):
    """The seeds, one module each; libFuzzer adds what it finds to another folder, which stays between runs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in context.files("*.dt"):
        text = (context.root / path).read_text(errors="replace")
        for number, part in enumerate(re.split(r"^// -----.*$", text, flags=re.M)):
            part = re.sub(r"^\s*//.*\n", "", part, flags=re.M)
            if len(part) < 1500:
                (folder / f"{path.replace('/', '-')}-{number}").write_text(part)


def fuzz(context, binary, build):
    name = binary.name
    seeds, found, crashes = build / "seeds", build / f"found-{name}", build / f"crash-{name}-"
    corpus(context, seeds)
    found.mkdir(exist_ok=True)
    done = context.run(binary, f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=10", "-rss_limit_mb=2048",
                       f"-dict={context.root}/test/fuzz/ir.dict", f"-artifact_prefix={crashes}", "-verbosity=0",
                       found, seeds, limit=SECONDS + 120)
    if done.returncode:
        kept = re.search(r"Test unit written to (\S+)", done.stderr)
        what = re.search(r"(SUMMARY: .*|ERROR: .*)", done.stderr)
        context.failed(f"fuzz {name}", f"{what[1] if what else 'failed'}; the input: {kept[1] if kept else '?'}\n"
                       + done.stderr[-3000:])
    else:
        context.passed()


def check(context):
    targets = [p.split("/")[-1][:-4] for p in context.files("test/fuzz/fuzz-*.cpp")]
    if not (shutil.which("clang++-19") or shutil.which("clang++-18")):
        context.note("fuzzing needs Clang, which is not here")
        return
    build = context.root / "build/fuzz"
    made = context.run("scripts/build.sh", "fuzz", "dtc-fuzz", limit=1200)
    if made.returncode:
        context.failed("fuzz", f"the fuzz preset does not build\n{made.stdout[-2000:]}{made.stderr[-1000:]}")
        return
    for target in targets:
        fuzz(context, build / "bin" / f"dtc-{target}", build)
