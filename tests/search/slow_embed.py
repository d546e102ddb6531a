"""Embeds one library slowly, so that a test can kill it half-way: ``python slow_embed.py DATA_DIR PAUSE_S``."""

import sys
import time
from pathlib import Path

from small_library import HashEmbedder, Library

from deepedu.search.embed import embed_missing


class SlowEmbedder(HashEmbedder):
    def embed_passages(self, texts):
        time.sleep(float(sys.argv[2]))
        return super().embed_passages(texts)


if __name__ == "__main__":
    library = Library(Path(sys.argv[1]))
    outcome = embed_missing(library.db, SlowEmbedder(), lambda event: print(event.done, flush=True))  # noqa: T201
    print(outcome.status, flush=True)  # noqa: T201
