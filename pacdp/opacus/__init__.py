"""Opacus as a way in and out: its engine, its layers as a fast mode, its accountant's interface, its checkpoints."""
