"""Reference formulas in plain NumPy and float64, token by token. The library must equal them.

Weights are named as in the published files, so this package does not depend on the library's names.
"""
