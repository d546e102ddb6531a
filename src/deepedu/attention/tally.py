"""What a method did, in numbers."""

from dataclasses import dataclass


@dataclass
class Tally:
    """What a method did, summed over layers.

    ``retrieval_calls`` are passes over cached keys (or their summaries) to choose rows; ``blocks`` are the base blocks
    those choices served; ``rows_read`` counts the rows of every selection, sinks and local among them, the mean over
    heads; ``cache_hits`` are decode steps that reused an earlier choice.
    """

    retrieval_calls: int = 0
    blocks: int = 0
    rows_read: int = 0
    cache_hits: int = 0

    @property
    def mean_cluster_blocks(self) -> float:
        """Base blocks served per retrieval call; 0 before the first."""
        return self.blocks / self.retrieval_calls if self.retrieval_calls else 0.0

    def add(self, other: "Tally") -> None:
        """Adds another tally to this one."""
        self.retrieval_calls += other.retrieval_calls
        self.blocks += other.blocks
        self.rows_read += other.rows_read
        self.cache_hits += other.cache_hits
