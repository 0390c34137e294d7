"""The private step: whose contributions are summed, the norm they are clipped to, the noise, and the event that it is."""
