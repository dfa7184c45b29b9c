"""Figures and tables from run folders. Reads files, computes nothing anew, imports no JAX."""
