# %% [markdown]
# # Reproduce a paper's figure
#
# Figure 1 of Dziugaite and Roy (ICML 2018) shows how much networks fit true and random labels. The runs of this
# repository took two processor cores and their rows are kept beside the code, so that the figure is drawn again in a
# second. It needs a checkout, because the studies of papers are not part of the installed package.

# %%
import tempfile
from pathlib import Path

import experiments
from experiments.claims import judge
from experiments.registry import studies
from experiments.runner import read_table

figure_1 = studies()["random-labels"]
results = Path(experiments.__file__).parent / "results" / "random-labels"
table = read_table(results)
print(figure_1.paper)
print(table.height, "rows with the columns", ", ".join(table.columns[:8]), "and others")

# %%
drawn = figure_1.draw(table, Path(tempfile.mkdtemp()))

# %%
from IPython.display import Image

Image(filename=str(drawn[0]), width=900)

# %% [markdown]
# ## What the paper says, and what these rows say
#
# A sentence of the paper is a relation between numbers of the table. It holds, does not hold, or is open where chance
# could decide.

# %%
for sentence in figure_1.sentences:
    seen = judge(sentence, table)
    print(seen.word, "|", sentence.printed)
    print("   ", seen.said)

# %% [markdown]
# To run everything anew: `pacdp experiment random-labels --workers 2`. [Results](../results.md) has every study.
