"""The ledger: documents, generations and cached vectors in a SQL database."""

from knowport.adapters.ledger.sql import SqlLedger

__all__ = ["SqlLedger"]
