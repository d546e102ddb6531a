"""A whole school at once: its people, its application in a process of its own, pupils who ask, and a crash."""
