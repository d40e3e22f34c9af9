"""The notebook side: the kernel, its shell, its installer and what they show of arrays.

Builds on the engine and pullback.views; tested in tests/kernel.
"""
