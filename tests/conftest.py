"""Settings for the whole suite: eight CPU devices, so that sharding is tested in the same process."""

import os

os.environ.setdefault("PULLBACK_NUM_CPU_DEVICES", "8")
