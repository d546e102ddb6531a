"""Long contexts asked many questions: seeded generators, samples of known sets, scoring, and who reads and answers."""
