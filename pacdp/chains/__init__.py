"""The engine of Langevin chains: many at once, keyed random numbers, fused updates. It knows no algorithm."""

from pacdp.chains.diagnosis import Diagnosis as Diagnosis
from pacdp.chains.graphs import Replayed as Replayed
from pacdp.chains.layout import Layout as Layout
from pacdp.chains.memory import require_memory as require_memory
from pacdp.chains.network import Batching as Batching
from pacdp.chains.network import resident as resident
from pacdp.chains.run import SQUARED_NORMS as SQUARED_NORMS
from pacdp.chains.run import Chunk as Chunk
from pacdp.chains.run import Trace as Trace
from pacdp.chains.run import run_chains as run_chains
from pacdp.chains.update import langevin as langevin
from pacdp.chains.update import normal_like as normal_like
from pacdp.random.keys import BATCH as BATCH
from pacdp.random.keys import CERTIFY as CERTIFY
from pacdp.random.keys import NOISE as NOISE
from pacdp.random.keys import OUTER_NOISE as OUTER_NOISE
from pacdp.random.keys import PRIOR as PRIOR
from pacdp.random.keys import PROBE as PROBE
from pacdp.random.keys import Keys as Keys
from pacdp.random.keys import SecretKeys as SecretKeys
from pacdp.random.keys import keys_of as keys_of
