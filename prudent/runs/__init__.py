"""A run's folder: its record, checkpoints, snapshots, and how it goes on."""
