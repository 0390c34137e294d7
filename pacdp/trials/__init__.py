"""The one room that tries whether an example's output, loss and gradient are its own, and whether a pass writes.

Certificates, clipping and Monte Carlo all rest on it. A network that mixes examples only in batches of nine and more,
or only beyond some value, passes a trial on three rows of data. Here batches of several sizes are tried, up to the
largest that will be used, in other orders, beside other examples and beside extreme ones. BatchNorm (with weights or
without), batch means, losses over pairs: with any of them one changed example moves the gradients of all others, and
a clipped sum moves by up to |B|·C where the accountant assumes C. A pass that writes into a weight, a buffer or an
attribute is worse: what it writes leaves without noise.

Trials can refute independence; they cannot prove it. What can be compared while a run goes on is compared then
(:class:`Unmoved`).
"""

from pacdp.trials.draws import kept_draws as kept_draws
from pacdp.trials.gradients import named_outputs as named_outputs
from pacdp.trials.gradients import require_independent_examples as require_independent_examples
from pacdp.trials.gradients import require_rows as require_rows
from pacdp.trials.made_up import MOST as MOST
from pacdp.trials.made_up import SIZES as SIZES
from pacdp.trials.made_up import made_up_batch as made_up_batch
from pacdp.trials.made_up import made_up_labels as made_up_labels
from pacdp.trials.made_up import made_up_targets as made_up_targets
from pacdp.trials.made_up import moved_to as moved_to
from pacdp.trials.made_up import pool as pool
from pacdp.trials.made_up import pool_for as pool_for
from pacdp.trials.made_up import require_arithmetic as require_arithmetic
from pacdp.trials.made_up import with_another as with_another
from pacdp.trials.made_up import with_other_weights as with_other_weights
from pacdp.trials.outputs import column as column
from pacdp.trials.outputs import later_answers as later_answers
from pacdp.trials.outputs import own_answers as own_answers
from pacdp.trials.outputs import own_rows as own_rows
from pacdp.trials.outputs import require_alone as require_alone
from pacdp.trials.outputs import require_own_losses as require_own_losses
from pacdp.trials.outputs import require_own_outputs as require_own_outputs
from pacdp.trials.outputs import require_true_slope as require_true_slope
from pacdp.trials.outputs import settle as settle
from pacdp.trials.outputs import twin as twin
from pacdp.trials.reachable import require_own_memory as require_own_memory
from pacdp.trials.writes import Unmoved as Unmoved
from pacdp.trials.writes import Unwritten as Unwritten
from pacdp.trials.writes import kept_inputs as kept_inputs
from pacdp.trials.writes import require_given_weights as require_given_weights
from pacdp.trials.writes import require_no_writes as require_no_writes
from pacdp.trials.writes import require_unwritten as require_unwritten
