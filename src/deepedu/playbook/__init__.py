"""Experience becomes rules: an append-only book of bullets, and what may change it."""
