"""DeepEdu: an AI tutor that a school runs on its own machines."""

__version__ = "0.1.0"
