"""The private algorithms that have recipes: a line each. What their numbers mean stands in the algorithm's own file."""

from typing import get_args

from pacdp.algorithms.dp_adam import DPAdam as DPAdam
from pacdp.algorithms.dp_bbp import DPBBP as DPBBP
from pacdp.algorithms.dp_mc_dropout import DPMCDropout as DPMCDropout
from pacdp.algorithms.dp_sgd import DPSGD as DPSGD
from pacdp.algorithms.dp_sgld import DPSGLD as DPSGLD
from pacdp.algorithms.dp_sgld_head import DPSGLDHead as DPSGLDHead
from pacdp.algorithms.p3sgd import P3SGD as P3SGD
from pacdp.algorithms.user_dp_sgd import UserDPSGD as UserDPSGD

Method = DPSGD | DPAdam | DPSGLD | DPSGLDHead | DPBBP | DPMCDropout | P3SGD | UserDPSGD
METHODS: dict[str, Method] = {
    "dp-sgd": DPSGD(learning_rate=2.0),
    "dp-adam": DPAdam(learning_rate=0.002),
    "dp-sgld": DPSGLD(
        convention="gradient-slot",
        step_size=2.2,
        decay=0.33,
        decay_offset=500.0,
        temperature=2.7,
        snapshots=20,
    ),
    "dp-sgld-head": DPSGLDHead(),
    "dp-bbp": DPBBP(learning_rate=2.0),
    "dp-mc-dropout": DPMCDropout(learning_rate=2.0),
    "p3sgd": P3SGD(local_batch_size=32),
    "user-dp-sgd": UserDPSGD(learning_rate=1.0),
}
"""Settings of the recipes, by the algorithm's name in them."""
NAMES: dict[str, str] = {one.__name__: one.NAME for one in get_args(Method)}
"""By what JSON calls the record, the algorithm's name as the field writes it."""
