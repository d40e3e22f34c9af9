"""`%devices`: where programs can run.

Builds on xla/client.py. Tested in tests/magics/test_devices.py.
"""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments

from pullback.views.html import Bundle
from pullback.views.program_view import view_table
from pullback.views.text import count_text, table
from pullback.xla import client
from pullback_magics.options import parse_line
from pullback_magics.output import is_deterministic

_MEMORY = ("memory in use", "memory limit")


def _bytes_text(n: Any) -> str:
    return "" if n is None else f"{int(n) / 2**20:,.1f} MiB"


def devices_view(platform: str | None = None) -> Bundle:
    """The devices as a table; the default one is marked."""
    found = client.devices(platform)
    default = client.default_device()
    title = f"{count_text(len(found), 'device')} on platform {found[0].platform}"
    statistics = [{} if is_deterministic() else (d.memory_stats() or {}) for d in found]
    with_memory = any(statistics)
    header = ["device", "kind", "process", *(_MEMORY if with_memory else ()), "default"]
    rows = []
    for device, memory in zip(found, statistics, strict=True):
        kind = device.platform if is_deterministic() else device.device_kind
        row = [f"{device.platform}:{device.id}", kind, str(device.process_index)]
        if with_memory:
            row += [_bytes_text(memory.get("bytes_in_use")), _bytes_text(memory.get("bytes_limit"))]
        rows.append([*row, "yes" if device == default else ""])
    return view_table(title, header, rows, f"{title}\n{table(rows, header)}")


@magics_class
class DeviceMagics(Magics):
    """`%devices`."""

    shell: Any

    @magic_arguments()
    @argument("platform", nargs="?", help="such as cpu or cuda (default: the current one)")
    @output_can_be_silenced
    @line_magic
    def devices(self, line: str) -> Any:
        """List the devices that programs can run on.

        Example::

            %devices

        The same from Python: ``pullback.magics.devices()``.
        """
        parsed = parse_line(DeviceMagics.devices, "%devices", line)
        platform = parsed.expression or None
        try:
            return devices_view(platform)
        except RuntimeError as e:
            raise parsed.fault(str(e).split("\n")[0], parsed.expression) from None
