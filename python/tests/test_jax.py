"""Arrays of JAX, by DLPack both ways. Skipped without JAX."""

import unittest

import toroid
from support import PROGRAMS, written

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None


@unittest.skipIf(jax is None, "needs JAX: pip install jax")
class Jax(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        jax.config.update("jax_enable_x64", True)
        cls.scaled = toroid.compile(PROGRAMS / "scaled.txt")

    def test_in_and_out(self):
        y = self.scaled(jnp.ones((2, 3)).astype(jnp.float32))
        self.assertIsInstance(y, jax.Array)
        self.assertEqual(y.tolist(), [[1, 2, 3]] * 2)
        again = jax.jit(lambda x: x + 1)(self.scaled(jax.jit(lambda x: x * 2)(y)))
        self.assertEqual(again.tolist(), [[3, 9, 19]] * 2)

    def test_nothing_is_copied(self):
        model = toroid.compile(PROGRAMS / "exponents.txt")
        x = jnp.zeros(1048576, jnp.float32)
        self.assertEqual(model.memory(x)["temporaries"], 0)
        result = model.with_options(results="toroid")(x)
        for array in result.jax(), jax.dlpack.from_dlpack(result):
            self.assertEqual(array.unsafe_buffer_pointer(), result.data_ptr)
        y = model(x)
        del model, result
        self.assertEqual(float(y.sum()), 1048576)

    def test_all_dtypes(self):
        kinds = "float32 f32 float64 f64 float16 f16 bfloat16 bf16 int8 i8 int16 i16 int32 i32 int64 i64 uint8 u8 bool bool".split()
        names, shorts = kinds[::2], kinds[1::2]
        inputs = ", ".join(f"x{i}: {short}[2, 3]" for i, short in enumerate(shorts))
        lines = "\n".join(f"  y{i}: {short}[3, 2] strides [1, 3] = aten::t(x{i})" for i, short in enumerate(shorts))
        results = ", ".join(f"y{i}" for i in range(len(shorts)))
        with written(f"graph({inputs}) {{\n{lines}\n  return {results}\n}}\n") as path:
            model = toroid.compile(path)
        given = [jnp.arange(6).reshape(2, 3).astype(name) for name in names]
        for name, x, y in zip(names, given, model(*given)):
            self.assertEqual(str(y.dtype), name)
            self.assertTrue(bool((y == x.T).all()))

    def test_results_of_other_libraries(self):
        self.assertIsInstance(self.scaled.with_options(results="numpy")(jnp.ones((2, 3), jnp.float32)), __import__("numpy").ndarray)
        x = __import__("numpy").ones((2, 3), "float32")
        self.assertIsInstance(self.scaled.with_options(results="jax")(x), jax.Array)

    def test_what_is_refused(self):
        with written('graph(x: f32[3]) {\n  y: f32[3] = aten::add.Scalar(x, 1)\n  return y -> input "x"\n}\n') as path:
            adds = toroid.compile(path)
        with self.assertRaisesRegex(toroid.InputError, "the model writes to its input 'x', and an array of type 'ArrayImpl' cannot be"):
            adds(jnp.zeros(3, jnp.float32))
        with self.assertRaisesRegex(toroid.InputTypeError, "input '.*' is a value that JAX traces: .* jax.pure_callback"):
            jax.jit(self.scaled)(jnp.ones((2, 3), jnp.float32))

    def test_in_a_callback_of_jit(self):
        @jax.jit
        def f(x):
            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            return jax.pure_callback(lambda each: self.scaled(each), shape, x * 2) + 1

        self.assertEqual(f(jnp.ones((2, 3), jnp.float32)).tolist(), [[3, 5, 7]] * 2)


if __name__ == "__main__":
    unittest.main()
