"""Coverage: how often bounds fail on many data sets whose truth is known."""
