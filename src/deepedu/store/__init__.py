"""Everything that is kept: books, passages, vectors, conversations. One database in one data folder."""

from deepedu.store.database import Database
from deepedu.store.lease import Lease

__all__ = ["Database", "Lease"]
