"""The runtime on jaxlib: devices, arrays, shardings, compilation, dispatch."""
