"""Public results, frozen: what a reorganisation must not change, and a list of what a mended fault may."""
