"""Privacy accounting: what a composed mechanism promises, bounded from above, and from below to say how tightly."""
