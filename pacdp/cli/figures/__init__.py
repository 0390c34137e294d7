"""Figures of runs and reports."""
