"""`pacdp certify --predictions`: tables and evaluation logs as they lie on a disk, certified without torch."""
