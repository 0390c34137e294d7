# %% [markdown]
# # No data to spare
#
# Every labelled example is dear, and none should be kept away from the training. Two ways certify a learner on
# **all** of its data.
#
# ## A learner that needs few examples
#
# The learner is run on few examples, which it picks itself, and is right on nearly all of the rest. The fewer it
# needed, the smaller its error on new ones. Any learner may stand inside; here it is a support vector machine of
# scikit-learn.

# %%
import sklearn.svm

import bounds
import pacdp
from pacdp.data import load

train, test = load("digits")
found = pacdp.compress(sklearn.svm.SVC(C=10.0, gamma=0.05), train, groups=10, test=test)
print(found.assessment.headline())
print("It kept", found.kept, "of", train.n, "examples.")

# %% [markdown]
# ## Training with noise
#
# The weights are trained with Gaussian noise in every step on all of the data. The squared norms of the gradients are
# what the certificate of the final weights costs; the chain need not have converged.

# %%
import torch

from pacdp.algorithms import SGHMC
from pacdp.features.named import seen_through

data = seen_through(train, "coarse-waves")
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(500, 10))
settings = SGHMC(tau=300.0, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0)
trained = pacdp.train_certified(model, data, settings=settings, steps=20)
print("noise:", trained.certificate.value, trained.certificate.status)

# %% [markdown]
# ## What would keeping examples back have given?
#
# On 1,437 digits a held-out count is hard to beat: half of them for learning, half for counting. Suppose that the
# learner then made 2% of errors.

# %%
print("held out:", bounds.clopper_pearson_upper(int(0.02 * 718), 718, 0.05))

# %% [markdown]
# So keep examples back where the learner does not miss them. Where it does, or where the promise must be about a
# learner that has seen everything, the two ways above are for you. [Certificates of a
# trajectory](../trajectory.md#beside-other-certificates) compares all ways, and [compression](../compression.md) says
# what it takes.
