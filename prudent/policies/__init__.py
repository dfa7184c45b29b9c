"""A policy outside training: loaded, exported, filmed."""
