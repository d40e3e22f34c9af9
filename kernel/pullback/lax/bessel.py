"""The scaled modified Bessel function of order 0, by Chebyshev series.

Builds on complex.py and elementwise.py. Tested in tests/lax/test_special.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.aval import typeof
from pullback.lax.compare_select import le, select
from pullback.lax.complex import abs
from pullback.lax.elementwise import add, div, max, min, mul, rsqrt, sub

# Chebyshev coefficients of i0e(x) on 0..8, in u = x/4 - 1, and of sqrt(x) i0e(x) beyond, in
# u = 16/x - 1. Computed at 48 Chebyshev points in 80-bit arithmetic from the integral
# i0e(x) = 1/pi * integral of exp(x (cos t - 1)) over 0..pi (DLMF 10.32.1) by the trapezoidal rule.
_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.001639475616941336, -0.0005763755745385825, 0.00018850288509584184, -5.7541950100821216e-05,
    1.6448448070729045e-05, -4.416738358458853e-06, 1.11738753912051e-06, -2.6707938539427057e-07,
    6.046995022551109e-08, -1.300025009983735e-08, 2.659823724730893e-09, -5.189795602521824e-10,
    9.675809035918053e-11, -1.726826307272243e-11, 2.9550527629077007e-12, -4.856448495302659e-13,
    7.676167644229959e-14, -1.1685273517032801e-14, 1.715225906908276e-15, -2.4271672634708824e-16,
    3.3224020323102676e-17,
)  # fmt: skip
_FAR = (
    0.4022452055070544, 0.003369116478255694, 6.889758346916838e-05, 2.8913705208346457e-06,
    2.0489185894699736e-07, 2.2666689904904906e-08, 3.3962320258161508e-09, 4.94060238697574e-10,
    1.1889147192831951e-11, -3.149916534565001e-11, -1.3215811737693706e-11, -1.794178593310843e-12,
    7.180125092577649e-13, 3.852777472057589e-13, 1.5401111059570063e-14, -4.150574831023277e-14,
    -9.554795707549814e-15, 3.811691178980346e-15, 1.77260674219844e-15, -3.425841695828963e-16,
    -2.828055251912134e-16, 3.4604119338495685e-17, 4.4675623425665064e-17,
)  # fmt: skip


def _chebyshev(u: Any, coefficients: tuple[float, ...]) -> Any:
    """The sum of c_n T_n(u), by Clenshaw's recurrence. Source: DLMF 3.11.15."""
    tolerance = float(np.finfo(typeof(u).dtype).eps) / 100
    used = [c for c in coefficients if c > tolerance or -c > tolerance]
    twice = mul(u, 2.0)
    b1: Any = mul(u, 0.0)
    b2: Any = b1
    for c in reversed(used[1:]):
        b1, b2 = add(sub(mul(twice, b1), b2), c), b1
    return add(sub(mul(u, b1), b2), used[0])


def bessel_i0e_series(x: Any) -> Any:
    """e**-|x| I0(x) of float32 or float64 x."""
    x = abs(x)
    near = _chebyshev(sub(mul(min(x, 8.0), 0.25), 1.0), _NEAR)
    large = max(x, 8.0)
    far = mul(_chebyshev(sub(div(16.0, large), 1.0), _FAR), rsqrt(large))
    return select(le(x, 8.0), near, far)
