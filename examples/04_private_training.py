# %% [markdown]
# # Private training with a certificate you may publish
#
# The examples are private. The network is trained so that its weights say little about any one of them, which costs
# accuracy and buys two things: the promise of privacy, and a certificate from the very examples that trained it.

# %%
import os
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())  # so that nothing of yours is touched

# %%
# !pacdp train dp-sgld-mnist --scale smoke --out runs/p 2>&1 | cat

# %% [markdown]
# At this scale the recipe trains on scikit-learn's digits in seconds. Epsilon and delta bound what an attacker can
# learn; noise and batches come from the operating system and are kept nowhere.
#
# The folder of the run is for your eyes alone, because it holds numbers that were computed from the examples without
# noise. `pacdp export` writes the only folder that you may publish: weights, settings, and certificates whose counts
# had noise added.

# %%
# !pacdp export runs/p release 2>&1 | cat

# %% [markdown]
# The certificate is far above the error that was measured, because 1,437 examples are few beside the noise: it pays for
# the privacy loss and for the noise on the counts. With more examples it comes closer.

# %%
print(*sorted(path.name for path in Path("release").iterdir()), sep="\n")

# %% [markdown]
# Whoever receives the folder recomputes its numbers with code that shares nothing with the code that made them.

# %%
# !pacdp verify release | cat

# %% [markdown]
# What was released is added up in a ledger, the folder `runs/ledger`, which refuses what would pass a limit:
# `pacdp ledger show runs/ledger --delta 1e-5` prints it.
#
# [Private training](../private.md) has the loop in Python, on Opacus; [privacy accounting](../accounting.md) the
# accountant; [secure noise](../noise.md) where the noise comes from.
