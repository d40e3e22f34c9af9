"""Whether outputs must be the same from run to run: no times, cell numbers or machine names.

Tested with the views and magics that ask.
"""

from __future__ import annotations

import os

DETERMINISTIC_VARIABLE = "PULLBACK_DETERMINISTIC"


def is_deterministic() -> bool:
    """True if outputs shall carry no times, addresses, cell numbers or machine names."""
    return os.environ.get(DETERMINISTIC_VARIABLE, "") not in ("", "0")
