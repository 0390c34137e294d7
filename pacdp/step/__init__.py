"""The private step: whose contributions are summed, how they are clipped, the noise, and the event that this is."""
