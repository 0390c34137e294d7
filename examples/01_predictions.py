# %% [markdown]
# # Certify predictions
#
# You have a model and a file of its answers on examples that it did not learn from. This page turns that file into
# statements that you can publish. The model here is scikit-learn's logistic regression; any other would do, since
# only its answers are read.

# %%
import sklearn.linear_model

import pacdp
from bounds.numbers import down, up
from pacdp.data import load

train, test = load("digits")
model = sklearn.linear_model.LogisticRegression(max_iter=300).fit(
    train.inputs.reshape(train.n, -1), train.labels
)
answers = model.predict(test.inputs.reshape(test.n, -1))

# %% [markdown]
# One call takes the labels and the answers. The first thing that it says is the error on new data.

# %%
found = pacdp.certify_predictions(test.labels, answers)
print(found.headline())

# %% [markdown]
# The sentence ends with what it takes for true. That new data are of the same kind as these examples cannot be proved
# by anybody; the certificate says that it is declared.
#
# Everything in the report holds **together** with 95% confidence: you may quote all of it.

# %%
for each in found.statements[:12]:
    ends = [f"at least {down(each.lower)}"] if each.lower is not None else []
    ends += [f"at most {up(each.upper)}"] if each.upper is not None else []
    print(f"{each.quantity:24} measured {each.measured:.4f}, {', '.join(ends)}")

# %% [markdown]
# ## Groups
#
# A model may be good on average and bad for some. Here the groups are the halves of the ten digits, so that the
# largest gap between groups says how much worse the model may be on one half than on the other.

# %%
halves = ["0 to 4" if label < 5 else "5 to 9" for label in test.labels]
found = pacdp.certify_predictions(test.labels, answers, groups=halves)
gap = found.statement("largest gap between groups")
print("The largest gap between the groups is at most", up(gap.upper))

# %% [markdown]
# With probabilities in place of answers the report has calibration as well. [Certify predictions](../predictions.md)
# lists every statement, the columns of a file, and what is refused. From a terminal: `pacdp certify --predictions
# answers.csv`.
