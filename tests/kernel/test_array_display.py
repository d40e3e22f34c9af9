"""How arrays look as results: the model, the HTML, and the bundle that the kernel sends."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser

import matplotlib.image
import ml_dtypes
import numpy as np
import pytest

from pullback.ipython import array_display as ad


def summary(values, device="cpu:0"):
    """The summary of a NumPy array, as `describe` makes it of an engine array."""

    class Stand:
        shape, dtype, size = values.shape, values.dtype, values.size

        def __array__(self, dtype=None, copy=None):
            return values

        def devices(self):
            class Device:
                platform, id = device.split(":")[0], int(device.split(":")[1])

            return {Device()}

    return ad.describe(Stand())


class Checker(HTMLParser):
    """Every element closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        if tag != "img":
            self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parse(text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def test_a_small_matrix_is_a_table_with_type_device_and_range():
    found = summary(np.array([[1.0, -2.5], [3.25, 4.0]], np.float32))
    checker = parse(ad.to_html(found))
    assert "float32[2,2] · cpu:0 · values from -2.5 to 4" in checker.text
    assert sum(tag == "td" and "style" in attrs for tag, attrs in checker.seen) == 4
    assert sum(attrs.get("scope") == "row" for _, attrs in checker.seen) == 2


def test_a_large_matrix_is_a_heat_map_with_an_alternative_text():
    found = summary(np.arange(200.0 * 30).reshape(200, 30))
    checker = parse(ad.to_html(found, name="x<y"))
    scale, picture = (attrs for tag, attrs in checker.seen if tag == "img")
    assert scale["alt"] == "light is low, dark is high"
    assert picture["alt"].startswith("Heat map of x<y: float64[200,30]")
    assert "x<y" not in ad.to_html(found, name="x<y")
    assert (picture["width"], picture["height"]) == ("240", "384")
    assert "48 × 30 block means" in checker.text


def test_a_heat_map_is_a_png_that_others_read():
    checker = parse(ad.to_html(summary(np.array([[0.0, np.nan] + [1.0] * 20]))))
    source = [attrs["src"] for tag, attrs in checker.seen if tag == "img"][1]
    data = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    pixels = matplotlib.image.imread(io.BytesIO(data), format="png")
    assert pixels.shape[:2] == (1, 22)
    as_text = ["#" + "".join(f"{round(float(v) * 255):02x}" for v in p[:3]) for p in pixels[0]]
    assert as_text[:3] == [ad.colour(0.0)[0], "#9aa0a6", ad.colour(1.0)[0]]


def test_a_long_vector_is_one_row():
    checker = parse(ad.to_html(summary(np.linspace(0, 1, 1000))))
    picture = [attrs for tag, attrs in checker.seen if tag == "img"][1]
    assert (picture["width"], picture["height"]) == (str(48 * 16), "16")


@pytest.mark.parametrize(
    "values",
    [np.float32(1).reshape(()), np.zeros((2, 3, 4)), np.zeros((0, 3)), np.zeros(0)],
    ids=["scalar", "rank 3", "no rows", "empty"],
)
def test_text_alone_serves_other_shapes(values):
    assert summary(values) is None


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint32, np.float16, ml_dtypes.bfloat16,
                                   ml_dtypes.float8_e4m3fn, np.complex64])  # fmt: skip
def test_every_kind_of_number_has_a_table(dtype):
    checker = parse(ad.to_html(summary(np.array([0, 1, 1]).astype(dtype))))
    assert sum(tag == "td" for tag, _ in checker.seen) == 3


def test_values_that_are_not_finite_are_counted_and_kept_out_of_the_range():
    found = summary(np.array([np.nan, 1.0, np.inf, 2.0]))
    assert (found.low, found.high, found.n_not_finite) == (1.0, 2.0, 2)
    text = ad.to_html(found)
    assert "2 not finite" in text and text.count("#9aa0a6") == 2


def test_a_matrix_of_nan_only_is_drawn_without_a_range():
    found = summary(np.full((2, 2), np.nan))
    assert found.low is None
    parse(ad.to_html(found))
    parse(ad.to_html(summary(np.full((100, 100), np.nan))))


def test_large_integers_keep_all_digits():
    big = 2**53 + 1
    assert f">{big}<" in ad.to_html(summary(np.array([big, 0])))


def test_the_widest_floats_do_not_overflow():
    top = np.finfo(np.float64).max
    parse(ad.to_html(summary(np.array([-top, 0.0, top]))))


def test_the_same_array_gives_the_same_bytes():
    values = np.random.default_rng(0).normal(size=(60, 60))
    assert ad.to_html(summary(values)) == ad.to_html(summary(values))


def test_text_on_every_colour_is_readable():
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for fraction in np.linspace(0, 1, 101):
        low, high = sorted(map(luminance, ad.colour(float(fraction))))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_the_ramp_is_ordered_in_grey():
    greys = [
        sum(
            int(ad.colour(f)[0][i : i + 2], 16) * w for i, w in ((1, 0.299), (3, 0.587), (5, 0.114))
        )
        for f in np.linspace(0, 1, 51)
    ]
    assert all(a > b for a, b in zip(greys, greys[1:], strict=False))


def test_the_kernel_sends_text_and_html(kernel):
    result = kernel.run("import jax.numpy as jnp\njnp.arange(6.0).reshape(2, 3)")
    bundle = result.displays[-1]
    assert bundle["text/plain"].startswith("Array([[0., 1., 2.],")
    assert "float32[2,3]" in bundle["text/html"]
    assert "text/html" not in kernel.run("jnp.float32(3.0) + 1").displays[-1]


def test_a_tracer_is_shown_as_text(kernel):
    code = (
        "import jax, jax.numpy as jnp\n"
        "@jax.jit\ndef f(x):\n    display(x)\n    return x\n"
        "y = f(jnp.ones(3))"
    )
    result = kernel.run(code)
    assert "f32[3]" in result.text
    assert "text/html" not in result.displays[-1]
