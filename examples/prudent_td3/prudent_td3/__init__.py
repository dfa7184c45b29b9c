"""A constrained TD3 (`td3_lag`) and a task (`pump`), which prudent finds by their entry points."""
