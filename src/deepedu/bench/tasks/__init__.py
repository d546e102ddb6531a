"""The benches: one module each, named by its file."""
