"""How the documentation site is made of the repository; no part of what is installed."""
