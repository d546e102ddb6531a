"""The school: its people, classes and rosters, and what is kept of them."""
