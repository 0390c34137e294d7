"""What is kept on disk: atomic files, append-only chained lines, checkpoints and the ledger of what was released."""
