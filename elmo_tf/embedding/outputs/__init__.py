"""Vectors ─► crash-safe output files: HDF5, Parquet, NumPy."""
