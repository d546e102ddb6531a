"""Tracks and measures of the bench ``selfimprove``."""
