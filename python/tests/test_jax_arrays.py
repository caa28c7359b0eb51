"""Arrays and lowered programs of JAX on its own platform. Skipped without JAX."""

import unittest

import dtc
import numpy as np
from programs import importable, unary


@unittest.skipUnless(importable("jax"), "needs JAX")
class Jax(unittest.TestCase):
    def test_values(self):
        import jax
        import jax.numpy as jnp

        f = dtc.compile(jax.jit(lambda x: jnp.sin(x) @ x.T).lower(jnp.ones((4, 4))))
        x = jax.random.normal(jax.random.key(0), (4, 4))
        y = f(x)
        self.assertIsInstance(y, jax.Array)
        np.testing.assert_allclose(y, jnp.sin(x) @ x.T, rtol=1e-5)

    def test_dtypes(self):
        import jax.numpy as jnp

        for name, dtype in (("bf16", jnp.bfloat16), ("f8e4m3", jnp.float8_e4m3fn), ("f8e5m2", jnp.float8_e5m2)):
            f = dtc.compile(unary("flip", name).replace("%x\n", "%x {dims = [0]}\n"))
            y = f(jnp.arange(4).astype(dtype))
            self.assertEqual(y.dtype, dtype)
            np.testing.assert_array_equal(np.asarray(y).astype(np.float32), np.arange(4)[::-1])
        with self.assertRaisesRegex(TypeError, "'x' has no memory"):
            dtc.compile(unary("neg", "i8"))(jnp.zeros(4, jnp.int4))

    def test_names_of_arguments(self):
        import jax

        def step(params, x):
            return x @ params["w"] + params["b"]

        params = {"w": np.ones((4, 3), np.float32), "b": np.ones(3, np.float32)}
        f = dtc.compile(jax.jit(step).lower(params, np.ones((2, 4), np.float32)))
        self.assertEqual([v.name for v in f.arguments], ["params_b", "params_w", "x"])
        self.assertEqual([v.user_name for v in f.arguments], ["params['b']", "params['w']", "x"])
        y = f(x=np.ones((2, 4), np.float32), params_w=params["w"], params_b=params["b"])
        np.testing.assert_array_equal(np.asarray(y), np.full((2, 3), 5, np.float32))
        with self.assertRaisesRegex(dtc.ProgramError, "argument %params_w: expected"):
            f(params["b"], params["b"], np.ones((2, 4), np.float32))

    def test_deleted(self):
        import jax.numpy as jnp

        x = jnp.ones(4)
        x.delete()
        with self.assertRaisesRegex(TypeError, "'x' has no memory"):
            dtc.compile(unary("neg"))(x)


if __name__ == "__main__":
    unittest.main()
