"""Self-certified learning: one call that splits, trains and returns a predictor with its certificate; and its plan."""
