"""Plots of training runs, token similarities, layer mixes and sample efficiency."""
