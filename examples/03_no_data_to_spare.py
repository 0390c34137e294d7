# %% [markdown]
# # No data to spare
#
# Every labelled example is dear. How many should be kept away from the training, and are there ways that keep none?
#
# ## What to expect, before anything is trained
#
# A plan compares the routes to a certificate by their formulas. What it assumes is printed beside each number; it is a
# forecast and certifies nothing.

# %%
import pacdp
from pacdp.selfcert.plan import plan_routes

plan = plan_routes(n=1437, expected_error=0.02)
for route in plan.routes:
    print(
        f"{route.route}, {route.split}: {route.train} to train, {route.bound} to certify, at most {route.value:.4f}"
    )
print("\n".join(plan.assumed))

# %% [markdown]
# ## All in one call
#
# `self_certify` splits the data, trains, and keeps the smallest certificate. That choice is paid for.

# %%
from sklearn.svm import SVC

from pacdp.data import load

train, test = load("digits")
made = pacdp.self_certify(
    SVC(C=10.0, gamma=0.05), (train.inputs.reshape(train.n, -1), train.labels), seed=0
)
print(made)
wrong = (made.predict(test.inputs.reshape(test.n, -1)) != test.labels).mean()
print(f"measured on {test.n} other digits: {wrong:.4f}")

# %% [markdown]
# The next two ways certify a learner on **all** of its data.
#
# ## A learner that needs few examples
#
# The learner is run on few examples, which it picks itself, and is right on nearly all of the rest. The fewer it
# needed, the smaller its error on new ones. Any learner may stand inside; here it is a support vector machine of
# scikit-learn.

# %%
found = pacdp.compress(SVC(C=10.0, gamma=0.05), train, groups=10, test=test)
print(found.report.headline())
print("It kept", found.kept, "of", train.n, "examples.")

# %% [markdown]
# ## Training with noise
#
# The weights are trained with Gaussian noise in every step on all of the data. The squared norms of the gradients are
# what the certificate of the final weights costs; the chain need not have converged.

# %%
import torch

from pacdp.algorithms import SGHMC
from pacdp.certify.trajectory import train_certified
from pacdp.features.named import seen_through

data = seen_through(train, "coarse-waves")
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(500, 10))
settings = SGHMC(tau=300.0, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0)
trained = train_certified(model, data, settings=settings, steps=20)
print("noise:", trained.certificate.value, trained.certificate.status)

# %% [markdown]
# ## What would keeping examples back have given?
#
# On 1,437 digits a held-out count is hard to beat, as the plan forecast and the call above found. So keep examples
# back where the learner does not miss them. Where it does, or where the promise must be about a learner that has seen
# everything, the two ways above are for you. [Certificates of a trajectory](../trajectory.md#beside-other-certificates)
# compares all ways, and [compression](../compression.md) says what it takes.
