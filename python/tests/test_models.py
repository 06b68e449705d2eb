"""Compiling, loading and calling, without PyTorch; with NumPy where it is there."""

import asyncio
import contextlib
import copy
import gc
import importlib.util
import logging
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

import support
import toroid
from support import DIGITS, PROGRAMS, floats, integers, numpy, values


class Case(unittest.TestCase):
    """A folder for each class, and the programs, compiled once."""

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = cls._folder.name
        cls.scaled = toroid.compile(PROGRAMS / "scaled.txt", os.path.join(cls.folder, "scaled.so"))
        cls.counter = toroid.compile(PROGRAMS / "counter.txt")

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()


class PlayedGpu(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("TOROID_PLAYED_GPU"), "TOROID_PLAYED_GPU names no library")
    def test_calls_wait_where_no_stream_orders_their_results(self):
        played = dict.fromkeys(("TOROID_CUDA_DRIVER", "TOROID_NVRTC", "TOROID_CUBLASLT"), os.environ["TOROID_PLAYED_GPU"])
        environment = {**os.environ, **played, "TOROID_CUDA_ARCH": ""}
        tests = support.ROOT / "python" / "tests"
        done = subprocess.run([sys.executable, "played_gpu.py"], cwd=tests, env=environment, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr.decode())


class Calls(Case):
    def test_compile_load_and_call(self):
        x = floats(2, 3)
        expected = [[0.5, 1.0, 1.5]] * 2
        self.assertEqual(values(self.scaled(x)), expected)
        self.assertEqual(values(self.scaled(x=x)), expected)
        self.assertEqual(values(toroid.load(self.scaled._path)(x)), expected)
        self.assertEqual(values(self.scaled.run(x)["out0"]), expected)

    def test_a_real_model(self):
        model = toroid.compile(DIGITS)
        result = model(floats(1, 1, 8, 8))
        self.assertEqual(result.shape, (1, 10))
        self.assertIn("toroid.Model", repr(model))
        self.assertIn("<table>", model._repr_html_())
        self.assertGreater(len(model.weights), 0)
        profile = model.profile(floats(1, 1, 8, 8), runs=2)
        self.assertTrue(all(step.calls % 2 == 0 for step in profile.steps))
        self.assertAlmostEqual(sum(step.share for step in profile.steps), 1)
        self.assertIn("us a call", str(profile))
        trace = os.path.join(self.folder, "trace.json")
        profile.chrome_trace(trace)
        self.assertGreater(os.path.getsize(trace), 100)

    def test_results_are_toroids_for_buffers_that_nobody_knows(self):
        result = self.scaled(floats(1, 3))
        self.assertIsInstance(result, toroid.Tensor)
        self.assertEqual(
            (result.shape, result.strides, result.dtype, result.device, result.nbytes, result.size, len(result)),
            ((1, 3), (3, 1), "float32", "cpu", 12, 3, 1),
        )
        self.assertEqual(result.__dlpack_device__(), (1, 0))
        with self.assertRaisesRegex(BufferError, "not to another device"):
            result.__dlpack__(dl_device=(2, 0))

    def test_memory_of_results_outlives_the_model(self):
        view = memoryview(toroid.compile(PROGRAMS / "scaled.txt")(floats(1, 3)))
        gc.collect()
        self.assertEqual(view.tolist(), [[0.5, 1.0, 1.5]])

    def test_state(self):
        counter, other = self.counter.context(), self.counter.context()
        one = integers([1, 0, 0, 0])
        self.assertEqual([values(counter(one))[0] for _ in range(3)], [101**2, 102**2, 103**2])
        self.assertEqual(values(other(one))[0], 101**2)
        self.assertEqual(values(counter.buffer("count"))[0], 103)
        counter.reset("count")
        self.assertEqual(values(counter(one))[0], 101**2)
        self.assertEqual(counter.num_contexts, 1)
        with self.assertRaisesRegex(toroid.NotFoundError, "no weight or buffer called 'size'"):
            counter.buffer("size")

    def test_a_buffer_that_nobody_writes_to_is_no_state(self):
        path = os.path.join(self.folder, "constant.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                'buffer 0 "b": f32[3] = [1, 2, 3]\ngraph(x: f32[3]) {\n  b: f32[3] = constant(0)\n'
                "  y: f32[3] = aten::add.Tensor(x, b)\n  return y\n}\n"
            )
        model = toroid.compile(path)
        self.assertEqual(values(model(floats(3))), [1.5, 2.5, 3.5])
        self.assertEqual([each.is_mutable for each in model.weights], [False])
        self.assertIs(copy.copy(model).weights[0].is_mutable, False)

    def test_random_numbers(self):
        model = toroid.compile(PROGRAMS / "random.txt")
        x = floats(300)
        model.seed(3)
        first, second = values(model(x)), values(model(x))
        model.seed(3)
        self.assertEqual(values(model(x)), first)
        self.assertNotEqual(first, second)

    def test_weights(self):
        model = toroid.load(self.scaled._path)
        self.assertEqual(values(model.weight("w")), [1, 2, 3])
        model.swap_weights({"w": floats(3, value=2)})
        self.assertEqual(values(model(floats(1, 3))), [[1, 1, 1]])
        with self.assertRaisesRegex(toroid.InputError, "f32"):
            model.swap_weights({"w": integers([1, 2, 3])})
        self.assertEqual([(each.name, each.shape, each.is_mutable) for each in model.weights], [("w", (3,), False)])

    def test_descriptions(self):
        self.assertEqual([(each.name, each.type) for each in self.scaled.inputs], [("x", "f32[s0, 3]")])
        self.assertEqual([(each.name, each.least, each.most) for each in self.scaled.symbols], [("s0", 1, 64)])
        self.assertEqual(self.scaled.memory(floats(4, 3))["outputs"], 48)

    def test_timeout(self):
        model = toroid.compile(PROGRAMS / "loop.txt").with_options(timeout=1e-9)
        with self.assertRaises(toroid.DeadlineError) as raised:
            model(floats(64, 64))
        self.assertIsInstance(raised.exception, TimeoutError)

    def test_save(self):
        path = os.path.join(self.folder, "saved.so")
        self.scaled.save(path)
        self.assertEqual(values(toroid.load(path)(floats(1, 3))), [[0.5, 1.0, 1.5]])
        with self.assertRaisesRegex(toroid.NotFoundError, "has no package"):
            toroid.compile(PROGRAMS / "scaled.txt").save(path)

    def test_explain(self):
        explained = toroid.explain(DIGITS, all=True)
        self.assertIn("aten::linear", str(explained))
        self.assertIsInstance(explained.data, list)
        with self.assertRaisesRegex(toroid.ToroidError, "No such file"):
            toroid.explain("no.pt2")


class WrongInputs(Case):
    def refused(self, kind, words, *args, **kwargs):
        with self.assertRaisesRegex(kind, words) as raised:
            self.scaled(*args, **kwargs)
        self.assertIsInstance(raised.exception, toroid.ToroidError)

    def test_are_refused_with_a_class_and_words(self):
        self.refused(toroid.InputError, "input 'x' has dtype i32, the program needs f32", integers([1, 2, 3]))
        self.refused(toroid.InputError, "rank|sizes|dimension", floats(3))
        self.refused(toroid.InputError, "", floats(2, 4))
        self.refused(toroid.InputTypeError, "input 'x' is no array but of type 'str'", "x")
        self.refused(toroid.InputTypeError, "no array but of type 'list'", [[1.0, 2.0, 3.0]])
        self.refused(TypeError, "dtype float32, and got a number of Python's type 'bool'", True)
        self.refused(TypeError, "of type 'NoneType'", None)
        self.refused(toroid.ArgumentError, "takes 1 arguments, and got 2", floats(1, 3), floats(1, 3))
        self.refused(toroid.ArgumentError, "argument 'x' is missing")
        self.refused(toroid.ArgumentError, "no argument 'y'; it has 'x'", y=floats(1, 3))
        self.refused(toroid.ArgumentError, "'x' is given twice", floats(1, 3), x=floats(1, 3))
        self.refused(ValueError, "format 'c'|dtype", memoryview(b"abc").cast("c"))

    @unittest.skipIf(numpy is None, "needs NumPy")
    def test_of_numpy_are_refused(self):
        x = numpy.ones((2, 3), numpy.float32)
        self.refused(toroid.InputError, "dtype f64", x.astype(numpy.float64))
        self.refused(toroid.InputError, "format '>f'", x.astype(">f4"))
        self.refused(toroid.InputError, "format", numpy.array([["a"]]))
        fields = numpy.zeros((2, 3), numpy.dtype([("a", numpy.float32), ("b", numpy.int8)]))
        self.refused(toroid.InputError, "no multiple of its elements' size", fields["a"])

    def test_files(self):
        path = os.path.join(self.folder, "spoilt.so")
        with open(self.scaled._path, "rb") as file:
            data = bytearray(file.read())
        data[1000] ^= 1
        with open(path, "wb") as file:
            file.write(data)
        with self.assertRaises(toroid.PackageError):
            toroid.load(path)
        with self.assertRaisesRegex(toroid.SetupError, "No such file"):
            toroid.load("no.so")
        with self.assertRaises(toroid.PackageError):
            toroid.compile(__file__)
        with self.assertRaisesRegex(toroid.ArgumentError, "not of type 'int'"):
            toroid.compile(3)
        for entries, kind, words in (["constants.pkl", "data.pkl"], toroid.UnsupportedError, "TorchScript.*torch.export.export"), (
            ["data.pkl"],
            toroid.PackageError,
            "torch.save",
        ):
            archive = os.path.join(self.folder, "archive.pt")
            with zipfile.ZipFile(archive, "w") as file:
                for name in entries:
                    file.writestr("model/" + name, b"")
            with self.assertRaisesRegex(kind, words):
                toroid.compile(archive)

    def test_without_a_compiler(self):
        code = "import toroid, sys; from support import *; print(values(toroid.compile(sys.argv[1], cache=False)(floats(1, 3))))"
        done = subprocess.run(
            [sys.executable, "-c", code, str(PROGRAMS / "scaled.txt")],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": "/nowhere", "TOROID_CXX": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        if importlib.util.find_spec("ziglang"):
            self.assertEqual((done.stdout, done.returncode), ("[[0.5, 1.0, 1.5]]\n", 0), done.stderr)
        else:
            self.assertRegex(done.stderr, "SetupError: no C\\+\\+ compiler found.*\n?.*pip install ziglang")

    def test_of_the_command(self):
        done = subprocess.run([sys.executable, "-m", "toroid", "version"], capture_output=True, text=True)
        self.assertRegex(done.stdout, r"^toroid \d+\.\d+")
        done = subprocess.run([sys.executable, "-m", "toroid", "compile"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("MODEL", done.stderr)


class Trees(Case):
    def compiled(self, name, **how):
        path = os.path.join(self.folder, name + ".pt2")
        support.with_trees(DIGITS, path, **how)
        return toroid.compile(path)

    def test_of_arguments_and_results(self):
        leaf = support.leaf()
        model = self.compiled(
            "trees",
            arguments=[support.sequence(leaf, kind="builtins.list")],
            keywords={},
            results=support.mapping(out=support.sequence(leaf)),
            names=["images"],
        )
        x = floats(2, 1, 8, 8)
        result = model([x])
        self.assertEqual(list(result), ["out"])
        self.assertEqual(result["out"][0].shape, (2, 10))
        self.assertEqual(model(images=[x])["out"][0].shape, (2, 10))
        for wrong, words in ((x, "argument 'images' is of type 'memoryview', and was a sequence of 1"), ([x, x], "a list of 2")):
            with self.assertRaisesRegex(toroid.InputError, words):
                model(wrong)

    def test_of_keywords_and_constants(self):
        leaf = support.leaf()
        model = self.compiled(
            "keywords",
            arguments=[],
            keywords={"batch": support.mapping(image=leaf), "scale": leaf, "mode": leaf},
            results=leaf,
            names=["batch", "scale", "mode"],
            constants=[{"as_float": 2.0}, {"as_string": "fast"}],
        )
        x = floats(1, 1, 8, 8)
        self.assertEqual(model(batch={"image": x}).shape, (1, 10))
        self.assertEqual(model({"image": x}, 2.0, mode="fast").shape, (1, 10))
        with self.assertRaisesRegex(toroid.InputError, "argument 'scale' is 3.0, and the program is for 2.0"):
            model({"image": x}, scale=3.0)
        with self.assertRaisesRegex(toroid.InputError, "had 'image'"):
            model({"picture": x})

    def test_in_a_package(self):
        leaf = support.leaf()
        path = os.path.join(self.folder, "in.pt2")
        support.with_trees(DIGITS, path, arguments=[leaf], keywords={}, results=support.mapping(logits=leaf), names=["image"])
        toroid.compile(path, os.path.join(self.folder, "in.so"))
        model = toroid.load(os.path.join(self.folder, "in.so"))
        self.assertEqual(model(image=floats(1, 1, 8, 8))["logits"].shape, (1, 10))

    def test_that_are_spoilt(self):
        path = os.path.join(self.folder, "spoilt.pt2")
        support.with_trees(DIGITS, path, arguments=[], keywords={}, results=support.leaf(), names=[])
        with self.assertLogs("toroid", "WARNING") as logs:
            model = toroid.compile(path)
        self.assertIn("called with its inputs one by one", logs.output[0])
        self.assertEqual(model(floats(1, 1, 8, 8)).shape, (1, 10))


class Processes(Case):
    def test_a_hundred_threads(self):
        x = floats(8, 3)
        expected = values(self.scaled(x))
        wrong, barrier = [], threading.Barrier(100)

        def call():
            barrier.wait()
            for _ in range(50):
                if values(self.scaled(x)) != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=call) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_threads_share_state(self):
        counter = self.counter.context()
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(__import__("concurrent.futures").futures.ThreadPoolExecutor(16))
            list(pool.map(lambda _: counter(integers([1, 0, 0, 0])), range(200)))
        self.assertEqual(values(counter.buffer("count"))[0], 300)

    def test_async(self):
        async def calls():
            return await asyncio.gather(*(self.scaled.run_async(floats(1, 3)) for _ in range(20)))

        self.assertEqual([values(each) for each in asyncio.run(calls())], [[[0.5, 1.0, 1.5]]] * 20)
        self.assertEqual(values(self.scaled.submit(floats(1, 3)).result()), [[0.5, 1.0, 1.5]])

    def test_fork(self):
        wide = toroid.compile(PROGRAMS / "exponents.txt")
        x = floats(1048576, value=0)
        wide(x)
        self.scaled.submit(floats(1, 3)).result()
        child = os.fork()
        if child == 0:
            import signal

            signal.alarm(60)
            right = memoryview(wide(x))[7] == 1 and values(self.scaled.submit(floats(1, 3)).result()) == [[0.5, 1.0, 1.5]]
            right = right and values(toroid.compile(PROGRAMS / "random.txt")(floats(300))) != []
            os._exit(0 if right else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(memoryview(wide(x))[7], 1)

    def test_pickle_and_copy(self):
        for other in pickle.loads(pickle.dumps(self.scaled)), copy.copy(self.scaled), copy.deepcopy(self.scaled):
            self.assertEqual(values(other(floats(1, 3))), [[0.5, 1.0, 1.5]])
        with self.assertRaisesRegex(TypeError, "has no|without a package"):
            pickle.dumps(toroid.compile(PROGRAMS / "scaled.txt"))
        with self.assertRaisesRegex(TypeError, "model.context"):
            copy.copy(self.counter)
        for refused in pickle.dumps, copy.copy:
            with self.assertRaisesRegex(TypeError, "not pickled or copied"):
                refused(self.scaled(floats(1, 3)))

    def test_nothing_leaks(self):
        def megabytes():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize() / 2**20

        def rounds(count):
            for _ in range(count):
                model = toroid.load(self.scaled._path, threads=1)
                model(floats(4, 3))
                model.context()(floats(1, 3))

        rounds(50)
        before, open_before = megabytes(), len(os.listdir("/proc/self/fd"))
        rounds(10_000 if support.IS_FULL else 200)
        self.assertLess(megabytes() - before, 4)
        self.assertEqual(len(os.listdir("/proc/self/fd")), open_before)

    def test_threads_stay_on_processors(self):
        with self.assertRaisesRegex(toroid.ArgumentError, "give `threads` too"):
            self.scaled.with_options(processors=[0])
        with self.assertRaisesRegex(toroid.ArgumentError, "may not run on"):
            self.scaled.context(threads=2, processors=[2**20])(floats(1, 3))
        last = max(os.sched_getaffinity(0))
        self.scaled(floats(1, 3))  # so that threads that all models share are there
        before = set(os.listdir("/proc/self/task"))
        model = self.scaled.context(threads=2, processors=[last, last])
        model(floats(1, 3))
        started, places = set(os.listdir("/proc/self/task")) - before, []
        end = time.monotonic() + 10
        while {last} not in places and time.monotonic() < end:  # a thread moves when it begins to run
            places = [os.sched_getaffinity(int(thread)) for thread in started]
        self.assertIn({last}, places)

    def test_the_gil_is_released(self):
        wide = toroid.compile(PROGRAMS / "exponents.txt").with_options(threads=1)
        x, done, seen = floats(1048576), threading.Event(), []

        def count():
            while not done.is_set():
                seen.append(time.monotonic())

        thread = threading.Thread(target=count)
        thread.start()
        begin = time.monotonic()
        while time.monotonic() - begin < 0.2:
            wide(x)
        end = time.monotonic()
        done.set()
        thread.join()
        self.assertGreater(sum(begin < at < end for at in seen), 100)

    def test_log_and_progress(self):
        told = []
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "m.txt"), "w", encoding="utf-8") as file:
                file.write((PROGRAMS / "loop.txt").read_text())
            toroid.compile(os.path.join(folder, "m.txt"), cache=False, progress=lambda *step: told.append(step))
        self.assertTrue(all(done <= total for _, done, total in told))
        self.assertEqual(logging.getLogger("toroid").name, "toroid")


@unittest.skipIf(numpy is None, "needs NumPy")
class NumPy(Case):
    def test_in_and_out(self):
        x = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
        y = self.scaled(x)
        self.assertIsInstance(y, numpy.ndarray)
        self.assertTrue(y.flags.writeable)
        numpy.testing.assert_array_equal(y, x * [1, 2, 3])
        numpy.testing.assert_array_equal(self.scaled(x[::-2]), x[::-2] * [1, 2, 3])
        numpy.testing.assert_array_equal(self.scaled(numpy.asfortranarray(x)), y)
        x.flags.writeable = False
        numpy.testing.assert_array_equal(self.scaled(x), y)

    def test_results_share_toroids_memory(self):
        result = self.scaled.with_options(results="toroid")(numpy.ones((2, 3), numpy.float32))
        for array in numpy.asarray(result), numpy.from_dlpack(result), result.numpy():
            self.assertEqual(array.__array_interface__["data"][0], result.data_ptr)

    def test_inputs_are_not_copied(self):
        model = toroid.compile(PROGRAMS / "exponents.txt")
        x = numpy.zeros(1048576, numpy.float32)
        # 4 MiB come out of a call and are given back; with a copy of the input there were 4 more.
        needed = model.memory(x)
        self.assertEqual((needed["temporaries"], needed["outputs"]), (0, 4 * 1048576))
        shared = numpy.frombuffer(memoryview(x), numpy.float32)
        shared[3] = 1.0
        self.assertAlmostEqual(float(model(x)[3]), 2.7182817, 5)

    def test_zero_sized_and_numbers(self):
        with self.assertRaises(toroid.InputError):
            self.scaled(numpy.zeros((0, 3), numpy.float32))


if __name__ == "__main__":
    unittest.main()
