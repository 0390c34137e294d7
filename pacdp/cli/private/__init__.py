"""Private runs: recipes, training, certificates. Listing the recipes imports no Opacus, training does."""

PRIVATE = (
    "Private, not to be published: this depends on the training data beyond what epsilon covers (errors "
    "counted without noise, hashes of the data). pacdp export writes the only folder that may leave."
)
"""What stands on everything that a private run leaves behind."""
