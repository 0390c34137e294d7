"""Certify any learner on all of its data: it is run on few examples, which it picks itself, and is right on the rest.

No prior, no privacy, no stationarity and no example held out. The theorem with its proof is in docs/guarantees.md,
"Sample compression"; how to use it, in docs/compression.md.
"""

from pacdp.compress.blind import Looks as Looks
from pacdp.compress.certify import Compressed as Compressed
from pacdp.compress.certify import compress as compress
from pacdp.compress.chain import Adam as Adam
from pacdp.compress.chain import Chained as Chained
from pacdp.compress.chain import KernelRidge as KernelRidge
from pacdp.compress.learner import Estimator as Estimator
from pacdp.compress.learner import Groups as Groups
from pacdp.compress.learner import Learner as Learner
from pacdp.compress.learner import Stop as Stop
from pacdp.compress.learner import Torch as Torch
from pacdp.compress.view import View as View
