"""Vectors ─► files that a kill cannot damage: HDF5, Parquet, NumPy."""
