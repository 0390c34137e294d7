# %% [markdown]
# # Certify a network that you trained
#
# A network was trained by code of your own. You kept some labelled examples away from it. How wrong can it be on new
# ones?

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pacdp
from bounds.numbers import up
from pacdp.data import Rows, load, make_splits

data, test = load("digits")
parts = make_splits(data.n, sizes={"learnt": 637, "counted": 800}, seed=0)
inputs, labels = torch.tensor(data.inputs), torch.tensor(data.labels)
learnt = torch.tensor(parts["learnt"].indices)

# %% [markdown]
# The network has batch normalisation and dropout, as many have. Both are off while it is certified, because it is in
# eval mode.

# %%
generator = torch.Generator().manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(512, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
for _ in range(300):
    batch = learnt[torch.randint(len(learnt), (64,), generator=generator)]
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
    optimizer.step()
network = network.eval()

# %% [markdown]
# ## The certificate
#
# The examples that the network did not learn from are counted, batch by batch, as a loader gives them. `seen` names the
# rows that it did learn from, by their hashes; that none of them is among the counted ones is then proved and no
# longer declared.

# %%
counted = torch.tensor(parts["counted"].indices)
loader = DataLoader(TensorDataset(inputs[counted], labels[counted]), batch_size=100)
found = pacdp.certify(network, loader, seen=Rows.of(inputs[learnt], labels[learnt]))
print(found.headline())

# %%
made = found.certificates[0]
for each in made.hypotheses:
    print(f"{each.name}: {each.standing}, {each.by}")

# %% [markdown]
# ## Does it hold here?
#
# The 360 digits of scikit-learn's test part took no part in any of this. The error measured on them should lie below
# the certificate, and in nearly all repetitions it does.

# %%
with torch.no_grad():
    wrong = (network(torch.tensor(test.inputs)).argmax(dim=1) != torch.tensor(test.labels)).sum()
print(f"measured: {int(wrong)} of {test.n} wrong, a share of {int(wrong) / test.n:.4f}")
print("certified: at most", up(made.value))

# %% [markdown]
# [Certify a network that you trained](../your_network.md) has the other ways: batches in keywords, regression,
# scikit-learn, weights in a file, random weights and a prior, training with noise on all of the data.
