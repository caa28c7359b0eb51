"""The JAX plugin: `JAX_PLATFORMS=dtc python program.py` runs a program of JAX on dtc.

JAX finds initialize() through the entry point group `jax_plugins`. Environment variables:
DTC_NUM_DEVICES (1), DTC_NUM_THREADS (one per core), DTC_BACKEND (cpu), DTC_PJRT_LIBRARY (path of libdtc.so).
"""

import contextlib
import ctypes
import functools
import itertools
import logging
import os
import pathlib
import threading
import traceback
import uuid
import weakref

NAME = "dtc"

# Below that of JAX's CPU platform, 0: installing the package does not change a program's default platform.
PRIORITY = -100


def library_path():
    """The library that has the plugin: as given, beside this module, or in a build tree."""
    given = os.environ.get("DTC_PJRT_LIBRARY")
    if given:
        return given
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "lib", here, here.parent.parent / "build" / "release" / "bin"):
        for candidate in sorted(folder.glob("libdtc.so*")):
            return str(candidate)
    raise FileNotFoundError("libdtc.so was not found: set DTC_PJRT_LIBRARY to its path")


def _allow_donation():
    """JAX lets only platforms that it knows donate buffers."""
    from jax._src.interpreters import mlir

    platforms = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(platforms, list) and NAME not in platforms:
        platforms.append(NAME)


# Of JAX's modules, the primitives that are lowered as on JAX's CPU platform. The factorizations there are calls of
# LAPACK, which dtc imports as ops.
_LOWERED_LIKE_CPU = {
    "jax._src.lax.linalg": ("cholesky_p", "eigh_p", "geqrf_p", "householder_product_p", "lu_p", "svd_p",
                            "triangular_solve_p"),
    "jax._src.debugging": ("debug_callback_p", "debug_print_p"),
    "jax._src.checkify": ("check_p",),
}


class _Lowerings(dict):
    """The lowerings for this platform. A primitive that has lowerings for single platforms only, of JAX or of another
    package, is lowered as on JAX's CPU platform."""

    def __missing__(self, primitive):
        from jax._src.interpreters import mlir

        if primitive in getattr(mlir, "_lowerings", {}):  # one for any platform
            raise KeyError(primitive)
        return mlir._platform_specific_lowerings["cpu"][primitive]

    def __contains__(self, primitive):
        try:
            self[primitive]
        except KeyError:
            return False
        return True


def _lower_like_cpu():
    import importlib

    from jax._src.interpreters import mlir

    of_platforms = getattr(mlir, "_platform_specific_lowerings", None)
    if of_platforms is None:
        return
    of_cpu = of_platforms["cpu"]
    of_platforms[NAME] = _Lowerings(of_platforms[NAME])
    for module, names in _LOWERED_LIKE_CPU.items():
        module = importlib.import_module(module)
        for name in names:
            primitive = getattr(module, name, None)
            found = of_cpu.get(primitive) if primitive is not None else None
            if found is not None:
                of_platforms[NAME][primitive] = found


# Of JAX's modules, the primitives that JAX's CPU platform computes for a program of dtc: no op of dtc does. With a
# condition on the parameters: otherwise, JAX's lowering for any platform is used.
_COMPUTED_ON_CPU = {
    "jax._src.lax.linalg": {"eig_p": None, "geqp3_p": None, "hessenberg_p": None, "schur_p": None,
                            "tridiagonal_p": None, "tridiagonal_solve_p": lambda p: p.get("perturb_singular")},
    "jax._src.buffer_callback": {"buffer_callback_p": None},  # whose function gets buffers of that platform
}


def _compute_on_cpu(functions):
    """Makes such primitives calls of the host, as callbacks are."""
    import importlib

    import jax
    from jax._src import config, sharding_impls
    from jax._src.interpreters import mlir

    def lowering(primitive, condition, otherwise):
        def compute(params, *operands):
            cpu = jax.local_devices(backend="cpu")[0]
            with config.enable_x64(True), jax.default_device(cpu):  # operands keep their dtypes
                results = primitive.bind(*[jax.device_put(x, cpu) for x in operands], **params)
            return list(results) if primitive.multiple_results else [results]

        def lower(ctx, *operands, **params):
            if condition is not None and not condition(params):
                return otherwise(ctx, *operands, **params)
            function = _HostFunction(functools.partial(compute, params), tuple(ctx.avals_in), tuple(ctx.avals_out))
            ctx.module_context.add_keepalive(function)
            manual = isinstance(ctx.module_context.axis_context, sharding_impls.SPMDAxisContext)
            types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
            return list(mlir.custom_call(functions.add(function, manual), operands=list(operands),
                                         result_types=types,
                                         has_side_effect=params.get("has_side_effect", False)).results)

        return lower

    anywhere = getattr(mlir, "_lowerings", {})
    for module, conditions in _COMPUTED_ON_CPU.items():
        module = importlib.import_module(module)
        for name, condition in conditions.items():
            primitive = getattr(module, name, None)
            found = anywhere.get(primitive) if primitive is not None else None
            if primitive is None or (condition is not None and found is None):
                continue
            otherwise = getattr(found, "rule", found)
            mlir.register_lowering(primitive, lowering(primitive, condition, otherwise), platform=NAME)


def _run_exported_for_cpu():
    """Programs that were exported for JAX's CPU platform have nothing that dtc lacks: they are lowered alike."""
    import dataclasses

    from jax._src.export import _export
    from jax._src.interpreters import mlir

    primitive = getattr(_export, "call_exported_p", None)
    of_jax = getattr(_export, "_call_exported_lowering", None)
    if primitive is None or of_jax is None:
        return

    def lowering(ctx, *args, exported):
        if NAME not in exported.platforms and "cpu" in exported.platforms:
            platforms = tuple(NAME if p == "cpu" else p for p in exported.platforms)
            exported = dataclasses.replace(exported, platforms=platforms)
        return of_jax(ctx, *args, exported=exported)

    mlir.register_lowering(primitive, lowering, platform=NAME)


class _PythonSignals(ctypes.Structure):
    """The functions of Python with which the library lets signals, such as that of Ctrl-C, end a run."""

    _functions = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_Restore",
                  "Py_AddPendingCall")
    _fields_ = [("main_thread", ctypes.c_ulong), *((name, ctypes.c_void_p) for name in _functions)]


def _end_runs_at_signals(library):
    signals = _PythonSignals(threading.main_thread().ident)
    for name in _PythonSignals._functions:
        setattr(signals, name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p))
    _end_runs_at_signals.kept = signals  # the library has its address
    ctypes.CDLL(library).dtc_internal_set_python_signals(ctypes.byref(signals))


class _HostFunctions:
    """The Python functions that compiled programs call, by the target of their custom calls.

    A program that another process has compiled must not find a function of this one: targets have a random part.
    """

    # How the program holds element types that dtc does not have.
    _held_as = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8", "float4_e2m1fn": "float32",
                "float8_e3m4": "float32", "float8_e4m3": "float32", "float8_e4m3b11fnuz": "float32",
                "float8_e4m3fnuz": "float32", "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32"}

    def __init__(self, library):
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p),
                                ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
        self._functions = weakref.WeakValueDictionary()
        self._process = uuid.uuid4().hex
        self._next = itertools.count()
        self._entry = kind(self._call)  # kept: the library has its address
        self._library = ctypes.CDLL(library)
        self._library.dtc_internal_set_host_functions(self._entry)

    def add(self, function, per_device):
        """The target of calls of this function, as long as it lives."""
        kind = "host_per_device" if per_device else "host"
        target = f"{NAME}.{kind}.{self._process}.{next(self._next)}"
        self._functions[target] = function
        return target

    def _call(self, target, operands, results, error, error_size):
        try:
            function = self._functions.get(target.decode())
            if function is None:
                return 2
            function(operands, results)
            return 0
        except BaseException as e:  # pylint: disable=broad-except
            text = "".join(traceback.format_exception(type(e), e, e.__traceback__)).encode(errors="replace")[-error_size + 1:] + b"\0"
            ctypes.memmove(error, text, len(text))
            if isinstance(e, Exception) or threading.current_thread() is not threading.main_thread():
                return 1
            self._keep(e)
            return 3

    def _keep(self, exception):
        """Ctrl-C and exit() end the program, not only the run: the exception is raised again after the run."""
        raised = [ctypes.py_object(x) for x in (type(exception), exception, exception.__traceback__)]
        for x in raised:
            ctypes.pythonapi.Py_IncRef(x)
        self._library.dtc_internal_keep_raised(*raised)


@contextlib.contextmanager
def _without_mesh():
    """The mesh of the thread that runs a program is of other devices than those on which its callbacks compute."""
    from jax._src import config, mesh

    states = {name: getattr(config, name, None) for name in ("abstract_mesh_context_manager", "device_context")}
    empty = {"abstract_mesh_context_manager": mesh.empty_abstract_mesh, "device_context": mesh.empty_concrete_mesh}
    before = {name: state.swap_local(empty[name]) for name, state in states.items() if state is not None}
    try:
        yield
    finally:
        for name, value in before.items():
            states[name].set_local(value)


class _HostFunction:
    """A callback of JAX on the memory of operands and results."""

    def __init__(self, callback, operand_avals, result_avals):
        self._callback, self._operands, self._results = callback, operand_avals, result_avals

    def _array(self, address, aval):
        import numpy as np

        held = np.dtype(_HostFunctions._held_as.get(np.dtype(aval.dtype).name, aval.dtype))
        count = int(np.prod(aval.shape, dtype=np.int64)) * held.itemsize
        if count == 0:
            return np.empty(aval.shape, held)
        memory = (ctypes.c_char * count).from_address(address)
        return np.frombuffer(memory, held).reshape(aval.shape)

    def __call__(self, operands, results):
        with _without_mesh():
            self._run(operands, results)

    def _run(self, operands, results):
        import numpy as np
        from jax._src import dtypes

        given = [self._array(operands[i], a).astype(a.dtype) for i, a in enumerate(self._operands)]
        values = self._callback(*given)
        if len(values) != len(self._results):
            raise RuntimeError("Mismatched number of outputs from callback. "
                               f"Expected: {len(self._results)}, Actual: {len(values)}")
        for i, (value, aval) in enumerate(zip(values, self._results)):
            value = dtypes.canonicalize_value(np.asarray(value))
            for what in ("shape", "dtype"):
                if getattr(value, what) != getattr(aval, what):
                    raise RuntimeError(f"Incorrect output {what} for return value #{i}: "
                                       f"Expected: {getattr(aval, what)}, Actual: {getattr(value, what)}")
            if value.size:
                self._array(results[i], aval)[...] = value


def _call_python(functions):
    """Makes callbacks of JAX custom calls, whose order is that of the program: tokens are passed on."""
    from jax._src import callback as jax_callback
    from jax._src import sharding_impls
    from jax._src.interpreters import mlir

    of_jax = jax_callback.emit_python_callback

    def emit_python_callback(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect,
                             returns_token=True, partitioned=False, sharding=None):
        context = ctx.module_context
        if tuple(context.platforms) != (NAME,):
            return of_jax(ctx, callback, token, operands, operand_avals, result_avals,
                          has_side_effect=has_side_effect, returns_token=returns_token, partitioned=partitioned,
                          sharding=sharding)
        manual = isinstance(context.axis_context, sharding_impls.SPMDAxisContext)
        if partitioned and not manual:
            raise NotImplementedError(f"Partitioned callback not implemented on {NAME} backend.")
        function = _HostFunction(callback, tuple(operand_avals), tuple(result_avals))
        context.add_keepalive(function)
        call = mlir.custom_call(functions.add(function, manual), operands=list(operands),
                                result_types=[mlir.aval_to_ir_type(context, a) for a in result_avals],
                                has_side_effect=has_side_effect)
        return list(call.results), token, None

    import jax.interpreters.mlir as public

    for module in (jax_callback, public):
        if getattr(module, "emit_python_callback", None) is of_jax:
            module.emit_python_callback = emit_python_callback


def _layouts_are_names():
    """JAX asks executables for their layouts; the interface of plugins has none for arguments, so that jaxlib would
    parse the program of each executable again. Layouts are those that the user gives, or else row-major."""
    from jax._src import layout
    from jax._src.interpreters import pxla

    of_jax = getattr(pxla, "_get_layouts_from_executable", None)
    if of_jax is None:
        return

    def row_major(aval):
        return layout.Layout(tuple(range(len(getattr(aval, "shape", (0,))))), (), 0)  # a token has no shape

    def chosen(given, aval):
        if not isinstance(given, layout.Layout):
            return row_major(aval)
        return layout.Layout(given.major_to_minor, given.tiling or (), given.sub_byte_element_size_in_bits)

    def layouts(xla_executable, in_layouts, out_layouts, num_ordered_effects, in_avals, out_avals):
        if xla_executable.local_devices()[0].platform != NAME:
            return of_jax(xla_executable, in_layouts, out_layouts, num_ordered_effects, in_avals, out_avals)
        return [chosen(*pair) for pair in zip(in_layouts, in_avals)], [chosen(*pair) for pair in zip(out_layouts, out_avals)]

    pxla._get_layouts_from_executable = layouts


def _use_persistent_cache():
    """JAX's cache of executables is for platforms that it knows. Programs that call functions of this process are not
    stored."""
    import types

    from jax._src import compilation_cache, compiler, config

    of_jax, compile_of_jax = compilation_cache.is_cache_used, compiler.compile_or_get_cached

    def is_cache_used(backend):
        known = types.SimpleNamespace(platform="cpu") if backend.platform == NAME else backend
        return of_jax(known)

    def compile_or_get_cached(backend, computation, devices, compile_options, host_callbacks, executable_devices,
                              *others, **named):
        if backend.platform == NAME and compilation_cache.is_cache_used(backend):
            text = computation.operation.get_asm(large_elements_limit=16)
            if f"@{NAME}.host" in text or f'"{NAME}.host' in text:
                level = logging.WARNING if config.explain_cache_misses.value else logging.DEBUG
                compiler.logger.log(level, "Not writing persistent cache entry for %s because it uses host callbacks",
                                    computation.operation.attributes["sym_name"])
                return compiler.backend_compile_and_load(backend, computation, executable_devices, compile_options,
                                                         host_callbacks)
        return compile_of_jax(backend, computation, devices, compile_options, host_callbacks, executable_devices,
                              *others, **named)

    compilation_cache.is_cache_used = is_cache_used
    compiler.compile_or_get_cached = compile_or_get_cached


def _keep_cpu():
    """Callbacks get their arguments as arrays of JAX's CPU platform, which is initialized with this one. The
    configuration is the user's, and stays as it is."""
    from jax._src import xla_bridge

    of_jax = xla_bridge.expand_platform_alias

    def expand(platform):
        if platform != NAME:
            return of_jax(platform)
        xla_bridge.expand_platform_alias = of_jax  # JAX asks once, when it initializes platforms
        return [NAME, "cpu"]

    if xla_bridge.config.jax_platforms.value == NAME:
        xla_bridge.expand_platform_alias = expand


def _quiet_unless_asked_for():
    """JAX initializes every platform if none is chosen: dtc then neither warns nor fails."""
    import dataclasses

    from jax._src import xla_bridge

    registered = getattr(xla_bridge, "_backend_factories", {}).get(NAME)
    if dataclasses.is_dataclass(registered) and not xla_bridge.config.jax_platforms.value:
        xla_bridge._backend_factories[NAME] = dataclasses.replace(registered, experimental=False, fail_quietly=True)


def _take_branches_for_cpu():
    """`lax.platform_dependent` without a default: the branch for JAX's CPU platform, unless there is one for dtc."""
    from jax._src.interpreters import mlir
    from jax._src.lax.control_flow import conditionals

    def with_dtc(platforms):
        if platforms is None or any(p is None or NAME in p for p in platforms):
            return platforms
        return tuple((*p, NAME) if "cpu" in p else p for p in platforms)

    def register(primitive, parameter):
        found = getattr(mlir, "_lowerings", {}).get(primitive)
        of_jax = getattr(found, "rule", found)
        if of_jax is None:
            return

        def lowering(ctx, *operands, **params):
            params[parameter] = with_dtc(params.get(parameter))
            return of_jax(ctx, *operands, **params)

        mlir.register_lowering(primitive, lowering, platform=NAME)

    register(getattr(conditionals, "platform_index_p", None), "platforms")
    register(getattr(conditionals, "cond_p", None), "branches_platforms")


def _partition_custom_functions():
    """A function with a rule of its own for XLA's partitioner is equal to its body, which dtc partitions."""
    from jax._src import core, custom_partitioning
    from jax._src.interpreters import mlir

    def lowering(ctx, *operands, call, **_):
        return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *operands)

    mlir.register_lowering(custom_partitioning.custom_partitioning_p, lowering, platform=NAME)


def initialize():
    """Registers the plugin with JAX."""
    from jax._src import xla_bridge

    path = library_path()
    xla_bridge.register_plugin(NAME, priority=PRIORITY, library_path=path)
    _quiet_unless_asked_for()
    _allow_donation()
    _lower_like_cpu()
    _layouts_are_names()
    _run_exported_for_cpu()
    _end_runs_at_signals(path)
    functions = _HostFunctions(path)
    _call_python(functions)
    _compute_on_cpu(functions)
    _partition_custom_functions()
    _take_branches_for_cpu()
    _use_persistent_cache()
    _keep_cpu()
