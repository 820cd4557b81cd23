"""The formulas in plain NumPy, in float64, one token after the other: what the library must equal.

Weights are named as in the published files, so that nothing here depends on the library.
"""
