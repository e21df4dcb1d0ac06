"""The Python package: einkorn.grad, value_and_grad and the gradients of operators, against central differences and
formulas. Run by tests/package.sh, with EINKORN_SOURCE the folder of the sources. Needs numpy."""
import os
import threading
import unittest

import numpy as np

import einkorn
from einkorn import grad, op, value_and_grad

DIGITS = os.path.join(os.environ["EINKORN_SOURCE"], "examples/digits/digits.onnx")
MODEL = b"""graph "two" ir 8 opset 17 {
  input x: f64[N, 3]
  input s: f64[1]
  const w: f64[3, 2] = [0.5, -1, 0.25, 2, 1, -0.5]
  h: f64[N, 2] = MatMul(x, w) "product"
  t: f64[N, 2] = Tanh(h) "tanh"
  y: f64[N, 2] = Mul(t, s) "scaled"
  output y
  output t
}
"""
RMS = """op RmsNorm<T: float>(X: T[a..., n], g: T[n]; eps: float = 1e-5) -> Y: T[a..., n] {
  S[i...]    = sum[k] X[i..., k] * X[i..., k]
  Y[i..., k] = X[i..., k] / sqrt(S[i...] / T(size(n)) + T(eps)) * g[k]
}"""
SQUARE = "op Square<T: float>(X: T[n...]) -> Y: T[n...] { Y[i...] = X[i...] * X[i...] }"
tanh, log, softmax = op(name="Tanh"), op(name="Log"), op(name="Softmax")
total, reshape, concat, transpose = op(name="ReduceSum"), op(name="Reshape"), op(name="Concat"), op(name="Transpose")
X = np.random.default_rng(0).standard_normal((2, 3))
Y = np.random.default_rng(1).standard_normal((2, 3))


def differences(f, x, h=1e-5):
    """The gradient of the sum of f at x by central differences."""
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        above, below = x.copy(), x.copy()
        above[i] += h
        below[i] -= h
        out[i] = (np.sum(f(above)) - np.sum(f(below))) / (2 * h)
    return out


class Functions(unittest.TestCase):
    def close(self, a, b, rtol=1e-12):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)

    def test_arithmetic(self):
        for f, of in ((lambda x: x * x * x, 3 * X**2), (lambda x: 2 - 3 * x + 1 / (x + 4), -3 - 1 / (X + 4)**2),
                      (lambda x: -(x - 1)**2 / 2, 1 - X), (lambda x: 2 ** x, 2 ** X * np.log(2)),
                      (lambda x: x @ Y.T, np.tile(Y.sum(0), (2, 1))), (lambda x: Y * x + Y, Y),
                      (lambda x: Y.T @ x, np.tile(Y.sum(1)[:, None], (1, 3)))):
            self.close(grad(f)(X), of)

    def test_types(self):
        for dtype in np.float32, np.float64:
            value, found = value_and_grad(lambda x: tanh(2 * x) + 1)(X.astype(dtype))
            self.assertEqual((value.dtype, found.dtype), (dtype, dtype))
            self.close(found, 2 - 2 * np.tanh(2 * X)**2, 1e-5)
        self.assertEqual(grad(lambda x: x * x)(3.0), 6)
        with self.assertRaisesRegex(einkorn.EinkornError, "a type of floats is needed"):
            grad(lambda x: x + x)(np.arange(3))

    def test_operators(self):
        for f in (lambda x: softmax(x, axis=0) * Y, lambda x: log(x * x + 1), lambda x: total(x * x, [1], keepdims=0),
                  lambda x: reshape(x, [3, -1])**2, lambda x: concat(x, x * Y, Y, axis=1)**2,
                  lambda x: transpose(x, perm=[1, 0])**2, lambda x: op(name="Clip")(x, np.float64(-1), np.float64(1)),
                  lambda x: op(name="LeakyRelu")(x, alpha=0.25), lambda x: op(name="Gelu")(x, approximate="tanh")):
            numbers = differences(lambda a: np.asarray(self.values(f, a)), X)
            self.close(grad(f)(X), numbers, 1e-7)

    @staticmethod
    def values(f, x):
        return value_and_grad(f)(x)[0]

    def test_own(self):
        rms, square = op(RMS), op(SQUARE)
        g = np.array([1.0, 2, 3])
        self.close(rms.grad(X, g, eps=0.5), differences(lambda x: rms(x, g, eps=0.5), X), 1e-7)
        by_both = rms.grad(X, g, argnums=(0, 1))
        self.close(by_both[1], differences(lambda a: rms(X, a), g), 1e-7)
        self.close(grad(lambda x: square(square(rms(x, g))))(X), differences(lambda x: rms(x, g)**4, X), 1e-6)

    def test_arguments(self):
        def f(x, y, power=1):
            return x * y**power
        self.close(grad(f, argnums=1)(X, Y, power=3), 3 * X * Y**2)
        self.close(np.array(grad(f, argnums=(1, 0))(X, X)), np.array([X, X]))  # one array, two arguments
        self.close(grad(lambda x, y: y * y)(X, Y), 0 * X)
        with self.assertRaisesRegex(TypeError, "argnums 2"):
            grad(f, argnums=2)(X, Y)

    def test_second(self):
        self.close(grad(grad(lambda x: x**3))(X), 6 * X)
        t = np.tanh(X)
        self.close(grad(grad(tanh))(X), -2 * t * (1 - t**2))
        self.close(grad(grad(grad(tanh)))(X), (6 * t**2 - 2) * (1 - t**2))
        value, found = value_and_grad(lambda x: grad(tanh)(x) + x)(X)
        self.close(value, 1 - t**2 + X)
        self.close(found, -2 * t * (1 - t**2) + 1)
        # the product of a second derivative and a vector
        slope = grad(lambda x: log(total(op(name="Exp")(x))))
        self.close(grad(lambda x: slope(x) * Y)(X), self.log_sum_exp(X, Y), 1e-10)
        # by an argument alone, whatever else was made of the same value
        self.close(grad(lambda x: grad(lambda a: a * (x * x))(x))(X), 2 * X)

    @staticmethod
    def log_sum_exp(x, v):
        p = np.exp(x) / np.exp(x).sum()
        return p * v - p * (p * v).sum()

    def test_other_arrays(self):
        """Arrays beside the arguments are read in each call."""
        other = Y.copy()
        f = grad(lambda x: x * other)
        self.close(f(X), Y)
        other[:] = 3
        self.close(f(X), 3 + 0 * X)
        self.close(f(X[:1]), np.full((1, 3), 6))  # other sizes: this one row meets both of the other array

    def test_threads(self):
        f, found = grad(lambda x: tanh(x) * x), {}
        one = f(X)

        def work(i):
            found[i] = all((f(X) == one).all() for _ in range(20))
        some = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in some:
            t.start()
        for t in some:
            t.join()
        self.assertEqual(found, {0: True, 1: True, 2: True})

    def test_refused(self):
        kept = []
        for f, error, says in ((lambda x: Y, TypeError, "gave ndarray"), (lambda x: (x, x), TypeError, "gave tuple"),
                               (lambda x: x if x else x, TypeError, "no contents"),
                               (lambda x: np.tanh(x), TypeError, "Traced|tanh"),
                               (lambda x: float(x), TypeError, "no contents"),
                               (lambda x: kept.append(x) or x, None, None),
                               (lambda x: x * kept[0], einkorn.UsageError, "outside"),
                               (lambda x: softmax(x, axes=1), TypeError, "no input or attribute 'axes'"),
                               (lambda x: x * Y[:, :2], einkorn.EinkornError, "Mul")):
            if not error:
                grad(f)(X)
                continue
            with self.subTest(says), self.assertRaisesRegex(error, says):
                grad(f)(X)


class Models(unittest.TestCase):
    def test_model(self):
        with einkorn.compile(DIGITS) as m:
            image = np.load(os.path.join(os.path.dirname(DIGITS), "all.npz"))["in_0"][:2]
            loss = lambda x, digit: op(name="NegativeLogLikelihoodLoss")(log(m(x)), digit)
            digit = np.array([3, 8])
            value, found = value_and_grad(loss)(image, digit)
            self.assertAlmostEqual(float(value), -np.log(m(image)[[0, 1], digit]).mean(), places=4)
            step = 0.05 * found / np.linalg.norm(found)
            change = value_and_grad(loss)(image + step, digit)[0] - value_and_grad(loss)(image - step, digit)[0]
            self.assertAlmostEqual(float(change) / 0.1, np.linalg.norm(found), delta=0.05 * np.linalg.norm(found))
            self.assertEqual(grad(m)(image).shape, image.shape)

    def test_outputs(self):
        """A model with several inputs, outputs and constants, twice in a function, beside another."""
        m, other = einkorn.compile(MODEL), einkorn.compile(MODEL.replace(b"0.5, -1", b"1, 1"))
        s = np.array([1.5])

        def f(x):
            y, t = m(x, s)
            again, _ = other(s=s, x=x * 2)
            return y * t + again + m(x, s=np.array([2.0]))[0]

        def plain(x):
            y, t = m(x, s)
            return y * t + other(x * 2, s)[0] + m(x, np.array([2.0]))[0]
        np.testing.assert_allclose(value_and_grad(f)(X)[0], plain(X), rtol=1e-12)
        np.testing.assert_allclose(grad(f)(X), differences(plain, X), rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(grad(lambda x, y: m(x, y)[0], argnums=1)(X, s), [m(X, s)[1].sum()], rtol=1e-12)
        for wrong in (lambda x: m(x), lambda x: m(x, s, s), lambda x: m(x, x=x), lambda x: m(x, z=s)):
            with self.assertRaisesRegex(TypeError, "the inputs of the model are x, s"):
                grad(wrong)(X)

    def test_definitions(self):
        """The operators that a model was compiled with are those of its derivative, too."""
        text = b"graph \"g\" ir 8 opset 17 { input x: f64[N, 3] y: f64[N, 3] = Square(x) output y }"
        m = einkorn.compile(text, ops=op(SQUARE))
        np.testing.assert_allclose(grad(m)(X), 2 * X)


if __name__ == "__main__":
    unittest.main()
