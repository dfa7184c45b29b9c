"""Runs and the values they take on each task."""
