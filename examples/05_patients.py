# %% [markdown]
# # Patients, not images
#
# A study has many images of each patient. Images of one patient are alike, so that a bound that counts images
# believes in more evidence than there is. Here people are counted, and the certificate is about a new person.
#
# The data are the NIH's blood cells of malaria patients where the folder that `PACDP_DATA` names has them; otherwise
# they are drawn, so that this page runs everywhere.

# %%
import os

import numpy as np
import sklearn.linear_model

import pacdp
from pacdp.data import load


def cells():
    """Inputs [n, features], labels [n] and people [n], for learning and for counting; no person is in both."""
    train, test = load("malaria")
    small = [
        part.inputs.reshape(part.n, 10, 5, 10, 5).mean(axis=(2, 4)).reshape(part.n, -1)
        for part in (train, test)
    ]
    return tuple(zip(small, (train.labels, test.labels), (train.people, test.people), strict=True))


def drawn():
    """The same from a random number generator: a person's images share a shift."""
    rng = np.random.default_rng(0)
    found = []
    for first, people in ((0, 160), (160, 40)):
        who = np.repeat(np.arange(first, first + people), rng.integers(20, 200, people))
        labels = rng.integers(0, 2, len(who))
        shift = rng.normal(0.0, 0.7, (first + people, 5))[who]
        found.append((labels[:, None] + shift + rng.normal(0.0, 0.5, (len(who), 5)), labels, who))
    return tuple(found)


here = os.path.isfile(
    os.path.join(os.environ.get("PACDP_DATA", ""), "malaria_cells", "malaria_cells_50x50_gray.npz")
)
(inputs, labels, _), (new_inputs, new_labels, new_people) = cells() if here else drawn()
print("blood cells:" if here else "drawn data:", len(labels), "images to learn from")
print("and", len(new_labels), "images of", len(set(new_people)), "new people")

# %%
model = sklearn.linear_model.LogisticRegression(max_iter=200).fit(inputs, labels)
answers = model.predict(new_inputs)
print("measured share of wrong images:", round(float(np.mean(answers != new_labels)), 4))

# %% [markdown]
# ## Counting images, and counting people

# %%
images = pacdp.certify_predictions(new_labels, answers, ask="error")
people = pacdp.certify_predictions(new_labels, answers, people=new_people, ask="error")
print(images.headline())
print()
print(people.headline())

# %% [markdown]
# The second sentence is the one to publish. Its number is larger, because there are only so many patients and they
# differ. The first is false in its hypothesis: the images are not independent records.
#
# [People](../people.md) says which of two risks is meant, what to do where people have different numbers of images,
# and how to train so that a whole person is hidden.
