"""Auto-bidding: an open simulator of target-ROI advertising, and learning from its logs."""
