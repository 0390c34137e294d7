"""Whether the tests of ``bounds`` notice a change of it: ``python -m tests.mutation``; see docs/mutation.md."""
