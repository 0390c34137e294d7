"""Many runs: jobs in batches, over processes of this machine or the workers of a cluster."""
