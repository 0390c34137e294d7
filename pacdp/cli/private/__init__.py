"""Private runs: recipes, training, certificates. Listing the recipes imports no Opacus, training does."""
