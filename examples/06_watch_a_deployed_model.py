# %% [markdown]
# # Watch a deployed model
#
# A certificate is about data of the same kind as those behind it. After deployment that can be watched, and a
# threshold chosen beforehand can keep a risk below a target.
#
# ## Choose when to answer
#
# A predictor may abstain where it is not sure. Below, its error among the answers that it gives is to stay at most
# 10%. The thresholds were listed before looking.

# %%
import numpy as np

import bounds

rng = np.random.default_rng(0)
confidence = rng.random(4000)
errors = rng.random(4000) < 0.3 * (1.0 - confidence)
found = bounds.control_selective_risk(
    confidence=confidence,
    losses=errors,
    thresholds=[0.9, 0.8, 0.7, 0.6, 0.5],
    target=0.1,
    failure_prob=0.05,
)
print(found)
print("share of examples that are answered:", found.share)

# %% [markdown]
# ## Watch the losses
#
# The monitor gives limits for the running risk that hold at all times together, so that you may look after every
# loss. It sounds a false alarm with probability at most 1%, while the risk stays at what was promised. First the
# model works as promised; then something changes.

# %%
monitor = bounds.Monitor.start(found.certificate, failure_prob=0.05, false_alarm_prob=0.01)
good = monitor.observe(rng.random(500) < 0.04)
print("as promised: alarm", good.alarm, "limits", round(good.lower, 4), round(good.upper, 4))
bad = good.observe(rng.random(500) < 0.25)
print(
    "after a change: alarm at loss number",
    bad.alarm,
    "limits",
    round(bad.lower, 4),
    round(bad.upper, 4),
)

# %%
import matplotlib.pyplot as plt

lower, upper, at = [], [], range(50, 1001, 50)
state, losses = monitor, np.concatenate([rng.random(500) < 0.04, rng.random(500) < 0.25])
for start in range(0, 1000, 50):
    state = state.observe(losses[start : start + 50])
    lower.append(state.lower)
    upper.append(state.upper)
fig, axes = plt.subplots(figsize=(6, 3))
axes.fill_between(at, lower, upper, alpha=0.3, label="limits of the running risk")
axes.axhline(monitor.promised, color="black", linestyle="--", label="promised")
axes.axvline(state.alarm, color="tab:red", label="alarm")
axes.set_xlabel("losses seen")
axes.set_ylabel("risk")
axes.legend()

# %% [markdown]
# ## Without labels
#
# Labels may never come. Scores that need no label can still be compared with those behind the certificate. A small
# p-value refutes that both are of one kind; a large one shows nothing.

# %%
print("same kind: p =", bounds.exchangeable(old=confidence[:2000], new=confidence[2000:]).p_value)
print(
    "other kind: p =",
    bounds.exchangeable(old=confidence[:2000], new=confidence[2000:] ** 2).p_value,
)

# %% [markdown]
# [Choose a threshold, then watch](../control.md) has the table of functions, and late labels.
