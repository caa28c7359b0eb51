# lit: test/<Area>/<thing>.dt (.mlir where it is read by `dtc import`), the first line of each its title. `build/<preset>/dtc-lit test/Area` runs some by hand.
#
#   %dtc      the binary           %dtc-opt   `dtc opt` that also checks that its passes kept the meaning
#   %examples the examples' folder not        demands that a command exits 1, 2 or 3; `not --exit N` exactly N
#
# Every command is stopped after a time limit, which fails the test.
import os
import shutil

import lit.formats

config.name = "dtc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".dt", ".mlir", ".test"]
config.excludes = ["unit", "fuzz", "checks", "tools", "Inputs"]
config.test_source_root = config.dtc_source_root + "/test"
config.test_exec_root = config.dtc_build_root + "/test"

sanitized = bool(config.dtc_sanitize)
limit = "timeout -s KILL %d " % (300 if sanitized else 150)
dtc = limit + config.dtc_build_root + "/bin/dtc"
must_fail = config.test_source_root + "/tools/must-fail "
config.substitutions.append((r"\bnot (?=(--exit \d+ )?(%dtc|%gpus))", must_fail))
config.substitutions.append(("%dtc-opt", dtc + " opt" + config.dtc_opt_checks))
config.substitutions.append(("%dtc-unit", limit + config.dtc_build_root + "/bin/dtc-unit"))
config.substitutions.append(("%dtc-binary", config.dtc_build_root + "/bin/dtc"))
config.substitutions.append(("%dtc", dtc))
# `%gpus N %dtc …`: with N GPUs that are stubs of our own (test/stub), CUDA's libraries among them.
stub = config.dtc_build_root + "/stub"
config.substitutions.append(("%stub", stub))
config.substitutions.append((r"%gpus (\d+)", r"env LD_LIBRARY_PATH=%s DTC_STUB_GPUS=\1" % stub))
# `%mpirun N %dtc …`: in N processes, more than there are cores.
mpi = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1",
       "OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_hwloc_base_binding_policy=none"]
config.substitutions.append((r"%mpirun (\d+)", r"env %s mpirun -n \1" % " ".join(mpi)))
config.substitutions.append(("%examples", config.dtc_source_root + "/examples"))

path = [config.test_source_root + "/tools", config.dtc_llvm_tools, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(p for p in path if p)
# The kernel cache of the tests is theirs alone; nothing in a home folder is read or written.
config.environment["XDG_CACHE_HOME"] = config.test_exec_root + "/cache"
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]


def nvrtc_is_here():
    import glob

    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/lib64", "/usr/local/cuda*/lib*", "/usr/lib/*"]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return any(glob.glob(os.path.join(folder, "libnvrtc.so*")) for folder in folders if folder)


# What a test may ask for in a `REQUIRES:` line.
if nvrtc_is_here():
    config.available_features.add("nvrtc")
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")
if os.path.exists(config.dtc_build_root + "/bin/dtc-jit-clang.so"):
    config.available_features.add("jit")
if os.path.exists(stub + "/libcuda.so.1") and "jit" in config.available_features:
    config.available_features.add("stub")
if os.path.exists(config.dtc_build_root + "/bin/dtc-onednn.so"):
    config.available_features.add("onednn")
if shutil.which("mpirun") and os.path.exists(config.dtc_build_root + "/bin/dtc-mpi.so"):
    config.available_features.add("mpi")
if shutil.which("bible"):  # of the package bible-kjv: the text of examples/text
    config.available_features.add("bible")
processor = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
for flag, feature in (("avx512_vnni", "vnni"), ("avx512bw", "avx512")):
    if flag in processor:
        config.available_features.add(feature)
config.available_features.add("sanitized" if sanitized else "fast")
