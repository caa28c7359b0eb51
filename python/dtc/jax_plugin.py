"""The JAX plugin: `JAX_PLATFORMS=dtc python program.py` runs a program of JAX on dtc.

JAX finds initialize() through the entry point group `jax_plugins`. Environment variables:
DTC_NUM_DEVICES (1), DTC_NUM_THREADS (one per core), DTC_BACKEND (cpu), DTC_PJRT_LIBRARY (the plugin's file).
"""

import os
import pathlib

NAME = "dtc"


def library_path():
    """The plugin's file: as given, beside this module, or in a build tree."""
    given = os.environ.get("DTC_PJRT_LIBRARY")
    if given:
        return given
    here = pathlib.Path(__file__).resolve().parent
    candidates = [here / "libdtc_pjrt.so", here / "lib" / "libdtc_pjrt.so",
                  here.parent.parent / "build" / "release" / "bin" / "libdtc_pjrt.so"]
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    raise FileNotFoundError("libdtc_pjrt.so was not found: set DTC_PJRT_LIBRARY to its path")


def _allow_donation():
    """JAX lets only platforms that it knows donate buffers."""
    from jax._src.interpreters import mlir

    platforms = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(platforms, list) and NAME not in platforms:
        platforms.append(NAME)


def _lower_linear_algebra_like_cpu():
    """The factorizations of JAX's CPU platform are calls of LAPACK, which dtc imports as ops."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    of_cpu = getattr(mlir, "_platform_specific_lowerings", {}).get("cpu", {})
    for name in ("cholesky_p", "eigh_p", "geqrf_p", "householder_product_p", "lu_p", "svd_p", "triangular_solve_p"):
        primitive = getattr(linalg, name, None)
        found = of_cpu.get(primitive) if primitive is not None else None
        if found is not None:
            mlir._platform_specific_lowerings[NAME][primitive] = found


def initialize():
    """Registers the plugin with JAX."""
    from jax._src import xla_bridge

    path = library_path()
    xla_bridge.register_plugin(NAME, priority=500, library_path=path)
    _allow_donation()
    _lower_linear_algebra_like_cpu()
