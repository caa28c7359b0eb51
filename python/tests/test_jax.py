"""Programs of JAX on the plugin. Skipped without JAX. Each case has a process of its own: JAX has one platform."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN = """
import sys
sys.path.insert(0, {package!r})
import jax_plugin
jax_plugin.initialize()
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import io_callback
x = jnp.arange(6, dtype=jnp.float32)
i32 = jax.ShapeDtypeStruct((), jnp.int32)
assert jax.devices()[0].platform == "dtc"
"""


@unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
class Callbacks(unittest.TestCase):
    def check(self, program, printed, devices=1, begin=BEGIN, platforms="dtc"):
        begin = begin.format(package=str(ROOT / "python" / "dtc"))
        environment = dict(os.environ, JAX_PLATFORMS=platforms, DTC_NUM_DEVICES=str(devices))
        ran = subprocess.run([sys.executable, "-c", begin + textwrap.dedent(program)], env=environment, timeout=300,
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.split(), printed.split())

    def test_pure(self):
        self.check("""
            def double(v):
                return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(v.shape, v.dtype), v,
                                         vmap_method="sequential")
            print(jax.jit(lambda v: double(v) + 1)(x).tolist())
            print(jax.jit(jax.vmap(double))(x).tolist())
            print(lax.scan(lambda c, v: (c + double(v), None), 0.0, x)[0])
            """, "[1.0, 3.0, 5.0, 7.0, 9.0, 11.0] [0.0, 2.0, 4.0, 6.0, 8.0, 10.0] 30.0")

    def test_order(self):
        self.check("""
            def say(i):
                print(int(i))
                return np.int32(i)
            f = jax.jit(lambda n: lax.fori_loop(0, 3, lambda i, c: c + io_callback(say, i32, i, ordered=True), n))
            print("sum", f(10), f(20))
            """, "0 1 2 0 1 2 sum 13 23")

    def test_interrupt(self):
        self.check("""
            import os, signal, threading, time
            def step(i, v):
                return jnp.sin(v) + v.sum()
            f = jax.jit(lambda v: lax.fori_loop(0, 10**8, step, v))
            begin = time.monotonic()
            def sent(signum, call, *arguments):
                timer = threading.Timer(0.3, os.kill, (os.getpid(), signum))
                timer.start()
                try:
                    return call(*arguments)
                except BaseException as e:
                    return type(e).__name__
                finally:
                    timer.join()
            print(sent(signal.SIGINT, f, x), sent(signal.SIGINT, f.lower(x).compile(), x))
            def late(*_):
                raise TimeoutError
            signal.signal(signal.SIGUSR1, late)
            print(sent(signal.SIGUSR1, f, x))
            signal.signal(signal.SIGUSR1, lambda *_: print("seen"))  # the run goes on
            g = jax.jit(lambda v: lax.while_loop(lambda c: c[0] < 10**6, lambda c: (c[0] + 1, step(0, c[1])), (0, v))[0])
            print(sent(signal.SIGUSR1, g, x), jnp.sum(x))
            assert time.monotonic() - begin < 60
            """, "KeyboardInterrupt KeyboardInterrupt TimeoutError seen 1000000 15.0")

    def test_raised_in_callback(self):
        self.check("""
            import signal
            def called(v, how):
                f = jax.jit(lambda v: jax.pure_callback(lambda v: how(), jax.ShapeDtypeStruct((6,), jnp.float32), v))
                try:
                    f(v).block_until_ready()
                except BaseException as e:
                    return type(e).__name__
            import os, sys, time
            def interrupt():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(30)
            print(called(x, interrupt), called(x, lambda: sys.exit(3)), called(x, lambda: 1 // 0), jnp.sum(x))
            """, "KeyboardInterrupt SystemExit JaxRuntimeError 15.0")

    def test_lowering_for_cpu_alone(self):
        self.check("""
            from jax.extend.core import Primitive
            from jax.interpreters import mlir
            def primitive(name):
                p = Primitive(name)
                p.def_abstract_eval(lambda v: v)
                p.def_impl(lambda v: jax.jit(p.bind)(v))
                return p
            twice, thrice = primitive("twice"), primitive("thrice")
            mlir.register_lowering(twice, mlir.lower_fun(lambda v: v * 2, False), platform="cpu")
            mlir.register_lowering(thrice, mlir.lower_fun(lambda v: v * 4, False), platform="cpu")
            mlir.register_lowering(thrice, mlir.lower_fun(lambda v: v * 3, False))
            print(jnp.sum(twice.bind(x)), jnp.sum(jax.jit(thrice.bind)(x)))
            """, "30.0 45.0")

    def test_buffers(self):
        self.check("""
            from jax.experimental.buffer_callback import buffer_callback
            def double(context, out, v):
                np.asarray(out)[...] = np.asarray(v) * 2
            f = buffer_callback(double, jax.ShapeDtypeStruct((6,), jnp.float32))
            print(jax.jit(lambda v: f(v) + 1)(x).tolist())
            g = buffer_callback(lambda *_: print("called"), (), has_side_effect=True)
            jax.jit(lambda v: g(v))(x)
            """, "[1.0, 3.0, 5.0, 7.0, 9.0, 11.0] called")

    def test_persistent_cache(self):
        self.check("""
            import os, tempfile
            from jax.experimental.compilation_cache import compilation_cache
            with tempfile.TemporaryDirectory() as folder:
                jax.config.update("jax_compilation_cache_dir", folder)
                jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
                jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
                compilation_cache.reset_cache()
                counts = []
                def f(v): return v * 3
                def g(v): return io_callback(lambda v: np.int32(v.sum()), i32, v)
                for h in (f, f, g):
                    jax.clear_caches()
                    print(jax.jit(h)(x).sum())
                    print(len([n for n in os.listdir(folder) if n.startswith(("jit_f", "jit_g")) and n.endswith("-cache")]))
            """, "45.0 1 45.0 1 15 1")

    def test_sparse_solver(self):
        if not importlib.util.find_spec("scipy"):
            self.skipTest("SciPy is not installed")
        self.check("""
            from jax.experimental.sparse.linalg import spsolve
            data, columns, rows = jnp.array([2., 1., 4.]), jnp.array([0, 0, 1]), jnp.array([0, 1, 3])
            print(spsolve(data, columns, rows, jnp.array([2., 9.])).tolist())
            """, "[1.0, 2.0]")

    def test_layouts_of_users(self):
        self.check("""
            from jax.experimental.layout import Format, Layout
            columns = Format(Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
            m = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), columns)
            f = jax.jit(lambda v: v.T * 2, in_shardings=columns, out_shardings=columns)
            y = f(m)
            print(m.format.layout.major_to_minor, y.format.layout.major_to_minor, np.asarray(y).tolist())
            print(f.lower(m).compile()(m).format.layout.major_to_minor, (m + 1).tolist(), np.asarray(m).tolist())
            """, "(1, 0) (1, 0) [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]] (1, 0) [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]"
                 " [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]")

    def test_without_operands(self):
        self.check("""
            count = iter(range(9))
            f = jax.jit(lambda: io_callback(lambda: np.int32(next(count)), i32))
            print(f(), f(), f())
            """, "0 1 2")

    def test_print(self):
        self.check("""
            def f(v):
                jax.debug.print("v={}", v)
                return v * v
            jax.jit(jax.grad(f))(3.0)
            jax.effects_barrier()
            """, "v=3.0")

    def test_errors(self):
        self.check("""
            def fail(v):
                raise ValueError("not today")
            try:
                jax.jit(lambda v: jax.pure_callback(fail, jax.ShapeDtypeStruct(v.shape, v.dtype), v))(x)
            except jax.errors.JaxRuntimeError as e:
                print("not today" in str(e))
            """, "True")

    def test_recursion(self):
        self.check("""
            def itself(v):
                return np.asarray(f(jax.device_put(np.asarray(v), x.device)))
            f = jax.jit(lambda v: jax.pure_callback(itself, jax.ShapeDtypeStruct(v.shape, v.dtype), v)).lower(x).compile()
            try:
                f(x)
            except jax.errors.JaxRuntimeError as e:
                print("runs the same program" in str(e))
            """, "True")

    def test_devices(self):
        self.check("""
            from jax.sharding import NamedSharding, PartitionSpec as P
            mesh = jax.make_mesh((2,), ("d",))
            a = jax.device_put(x, NamedSharding(mesh, P("d")))
            def same(v):
                print(np.asarray(v).shape)
                return np.asarray(v)
            def call(v):
                return jax.pure_callback(same, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
            print(jax.jit(call)(a).tolist())
            each = jax.shard_map(call, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
            print(jax.jit(each)(a).tolist())
            """, "(6,) [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] (3,) (3,) [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]", devices=2)

    def test_mesh_of_the_caller(self):
        self.check("""
            from jax.sharding import AxisType, PartitionSpec as P
            with jax.set_mesh(jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,))):
                a = jax.device_put(x, P("d"))
                def call(v):
                    return jax.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
                print(jax.jit(jax.shard_map(call, in_specs=P("d"), out_specs=P("d")))(a).tolist())
                print(jax.sharding.get_abstract_mesh().axis_names)
            """, "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] ('d',)", devices=2)

    def test_whole_axes_of_results(self):
        self.check("""
            from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
            one = Mesh(np.array(jax.devices()[::-1]), ("a",))
            two = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)
            def show(mesh, spec, shape, f):
                v = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
                y = f(jax.device_put(v, NamedSharding(mesh, spec)))
                print(y.sharding.mesh == mesh, *y.sharding.spec, np.array_equal(y, f(v)))
            show(one, P("a"), (16, 4), lambda v: v.reshape(4, 16))
            show(one, P("a"), (16, 4), jax.jit(lambda v: v.reshape(8, 8).T * 2))
            show(one, P("a"), (16, 4), jax.grad(lambda v: (v.reshape(4, 16) ** 2).sum()))
            show(two, P("dp", None, "tp"), (8, 12, 32), jax.jit(lambda v: v.reshape(8, 12, 2, 16)))
            show(two, P(("dp", "tp")), (16, 4), jax.jit(lambda v: v.reshape(2, 32)))
            show(two, P(("tp", "dp")), (16, 4), jax.jit(lambda v: v.reshape(4, 16)))
            """, "True True True None a True True True True dp True True dp tp True True tp dp True", devices=8)

    def test_two_meshes(self):
        """Shardings on a mesh come back as they are asked for, whatever mesh the arguments are on."""
        self.check("""
            from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
            devices = np.array(jax.devices())
            one, two = Mesh(devices, ("d",)), Mesh(devices.reshape(2, 4), ("x", "y"))
            three = Mesh(devices.reshape(2, 2, 2), ("a", "b", "c"))
            n = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)
            of = [(one, P("d")), (two, P("x")), (two, P("y", "x")), (two, P(("y", "x"))), (three, P("c", ("a", "b"))),
                  (three, P(None, "b")), (two, P())]
            def put(s):
                return jax.device_put(n, NamedSharding(*s))
            bad = []
            for a in of:
                for b in of:
                    y = NamedSharding(*b)
                    r = jax.jit(lambda a, b: (a + b, a.T), out_shardings=(y, None))(put(a), put(b))
                    c = jax.jit(lambda a: lax.with_sharding_constraint(a + 1, y) * 2)(put(a))
                    m = jax.jit(lambda a: a, out_shardings=y, donate_argnums=0)(put(a))
                    same = r[0].sharding == y and m.sharding == y and c.sharding.is_equivalent_to(y, 2)
                    right = [np.array_equal(r[0], n + n), np.array_equal(r[1], n.T), np.array_equal(c, 2 * n + 2), np.array_equal(m, n)]
                    if not same or not all(right):
                        bad.append((a, b, c.sharding, same, right))
            print(len(bad), *bad[:3])
            print(float((put(of[0]) + put(of[1])).sum()))
            """, "0 16256.0", devices=8)

    def test_platform_is_not_the_default(self):
        self.check("""
            print(jax.devices()[0].platform, jax.jit(jnp.sin)(1.0).device.platform, jax.devices("dtc")[0].platform)
            print(jax.jit(lambda v: v + 1)(jax.device_put(1.0, jax.devices("dtc")[0])))
            """, "cpu cpu dtc 2.0", begin=BEGIN[:BEGIN.index("x =")], platforms="")

    def test_token(self):
        self.check("""
            from jax.sharding import AxisType, PartitionSpec as P
            mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
            def f(v):
                io_callback(lambda v: None, (), v, ordered=True)
                return v + 1
            print(jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d")))(x).tolist())
            print(jax.config.jax_platforms, jax.devices("cpu")[0].platform)
            """, "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] dtc cpu", devices=2)

    def test_layouts(self):
        self.check("""
            c = jax.jit(lambda v: (v, v.sum())).lower(x).compile()
            print(c.input_formats[0][0].layout.major_to_minor, [f.layout.major_to_minor for f in c.output_formats])
            """, "(0,) [(0,), ()]")

    def test_checks(self):
        self.check("""
            from jax.experimental import checkify
            jax.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
            @jax.jit
            def f(v):
                checkify.check(v > 0, "not positive")
                return v
            print(f(2.0))
            try:
                f(-2.0)
            except Exception as e:
                print("not positive" in str(e))
            """, "2.0 True")

    def test_computed_on_cpu(self):
        self.check("""
            from jax.scipy import linalg
            a = np.array([[1, 2], [3, 4]], np.float32)
            w, v = jax.jit(jnp.linalg.eig)(a)
            print(jnp.abs(a @ v - v * w).max() < 1e-5, w.dtype)
            t, z = jax.jit(jax.vmap(linalg.schur))(jnp.stack([a, a.T]))
            print(jnp.abs(z[0] @ t[0] @ z[0].T - a).max() < 1e-5)
            jax.config.update("jax_enable_x64", True)
            print(jax.jit(jnp.linalg.eigvals)(np.float64(a)).dtype)
            """, "True complex64 True complex128")

    def test_custom_partitioning(self):
        self.check("""
            from jax.experimental.custom_partitioning import custom_partitioning
            from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
            f = custom_partitioning(lambda v: v * 2)
            f.def_partition(infer_sharding_from_operands=lambda *_: 1 / 0, partition=lambda *_: 1 / 0,
                            sharding_rule="i -> i")
            x = jax.device_put(x, NamedSharding(jax.make_mesh((2,), ("i",)), P("i")))
            y = jax.jit(f)(x)
            print(y.sharding.spec[0], y.tolist())
            """, "i [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]", devices=2)

    def test_memory_kinds(self):
        self.check("""
            device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
            host = device.with_memory_kind("pinned_host")
            y = jax.device_put(x, host)
            f = jax.jit(lambda v: (jax.device_put(v, device).sum(), jax.device_put(v + 1, host)))
            for v in (y, *f(y), jax.device_put(y, device)):
                print(v.sharding.memory_kind, v.sum())
            """, "pinned_host 15.0 device 15.0 pinned_host 21.0 device 15.0")

    def test_branches_for_platforms(self):
        self.check("""
            def f(v, **more):
                return lax.platform_dependent(v, cpu=lambda v: v + 1, cuda=lambda v: v + 2, **more)
            print(jax.jit(f)(1), jax.jit(lambda v: f(v, dtc=lambda v: v + 3))(1))
            print(jax.jit(lambda v: f(v, default=lambda v: v + 4))(1))
            """, "2 4 5")

    def test_exported_for_cpu(self):
        self.check("""
            exported = jax.export.export(jax.jit(lambda v: jnp.linalg.cholesky(v) + 1), platforms=("tpu", "cpu"))
            f = jax.export.deserialize(exported(jnp.eye(2)).serialize()).call
            print(f(4 * jnp.eye(2)).tolist())
            try:
                jax.jit(jax.export.export(jax.jit(jnp.sin), platforms=("tpu",))(x).call)(x)
            except ValueError as e:
                print("exported" in str(e))
            """, "[[3.0, 1.0], [1.0, 3.0]] True")

    def test_donated_twice(self):
        self.check("""
            try:
                jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))(x, x)
            except ValueError as e:
                print("twice" in str(e))
            except jax.errors.JaxRuntimeError as e:
                print("twice" in str(e))
            """, "True")


if __name__ == "__main__":
    unittest.main()
