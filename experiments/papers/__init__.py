"""Papers, one module or package each: the studies behind their tables and figures."""
