"""Risk certificates of whole recipes, from data to number."""
