"""Attacks on training from the outside, and what they refute of its promises."""
