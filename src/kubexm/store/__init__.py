"""What is kept of runs, and how it is read back. Knows events, not the engine that makes them."""

from kubexm.store.journal_file import JournalReader, read_journal, to_line
from kubexm.store.step_log import StepLog, step_logs

__all__ = ["JournalReader", "StepLog", "read_journal", "step_logs", "to_line"]
