"""How a run is carried out, which may not decide its numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pacdp.cli.serial import Values, record

Scale = Literal["smoke", "cpu", "gpu", "paper"]
Report = Callable[[int, int, Values | None], None]
"""Called as report(step, steps, row): the row, of a batch's first run, is None between records."""


def silent(step: int, steps: int, row: Values | None) -> None:
    """Report to nobody."""


def require_unset(how: Any, *names: str, by: str) -> None:
    """Refuse what has no effect, lest it be taken for what was done.

    Args:
        how: a record of which each field has a default.
        names: of its fields.
        by: who does without them.

    Raises:
        ValueError: one of these fields was given.
    """
    for name in names:
        if getattr(how, name) != getattr(type(how)(), name):
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is not used {by}: leave it out")


@record
class Runtime:
    """How a run is carried out; only ``bfloat16`` and ``tf32`` change what it computes beyond floating-point order."""

    device: str = "cpu"
    """A torch device, such as cpu or cuda."""
    threads: int = 0
    """CPU threads of torch; 0 leaves torch's own choice."""
    data_root: str | None = None
    """Folder of the data sets; by default PACDP_DATA, then the user's cache, then a download."""
    checkpoint_seconds: float = 10.0
    """Least time between two checkpoints."""
    batching: Literal["auto", "loop", "vmap"] = "auto"
    """How many chains share a pass: loop takes them one by one, vmap all at once; auto chooses by device."""
    bfloat16: bool = False
    """Activations in bfloat16, in training and in recorded risks; weights, noise and the loss of the outputs stay
    float32. Recorded, and a resumed run must agree."""
    tf32: bool = False
    """Products of float32 matrices and convolutions on a GPU with 10 bits of mantissa; without it all 23 are kept, by
    cuDNN too. Not where gradients are clipped or their norms kept. Recorded, and a resumed run must agree."""
    deterministic: bool = False
    """Refuse kernels whose result depends on scheduling (GPU)."""

    def apply(self) -> None:
        """Set what torch keeps for the whole process.

        Raises:
            ValueError: there is no such device here.
        """
        import torch  # for which a command's help does not wait

        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            said = str(error).strip().splitlines()[0]
            raise ValueError(
                f"--device {self.device} is not to be had here ({said}): cpu always is"
            ) from error
        if self.threads:
            torch.set_num_threads(self.threads)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        if self.deterministic:
            torch.use_deterministic_algorithms(True)

    def require_float32(self, *, clipped: bool, kept: bool) -> None:
        """Sums whose records' norms something rests on are taken in float32 alone.

        Raises:
            ValueError: less is asked for.
        """
        if self.tf32 and (clipped or kept):
            what = "clipped" if clipped else "summed with their norms kept (keep_norms)"
            raise ValueError(
                f"leave out --tf32: gradients are {what}, and that is done in float32 alone"
            )

    def recorded(self) -> Values:
        """What may change the numbers of a run, for its checkpoint."""
        more = {"tf32": True} if self.tf32 else {}  # earlier checkpoints do not name it
        return {"batching": self.batching, "bfloat16": self.bfloat16, **more}


@record
class Certifying:
    """How a checkpoint is certified, whatever kind of run left it."""

    failure_prob: float | None = None
    """The probability with which each certificate may fail, before it is divided by --tried; by default the run's, or
    0.05."""
    tried: int = 1
    """How many settings were tried on the examples that the bound counts before these were chosen: certificates pay for
    each. Nothing is to be paid for settings that were chosen on other examples."""
    seed: int = 0
    std: float | None = None
    """Standard deviation of every weight of a Gaussian around the weights, in posterior and prior, fixed before looking
    at the bound's examples; 0.01 by default. For private runs, and weights of your own with --prior."""
    progress: Callable[[int, int], None] | None = None

    @property
    def spread(self) -> float:
        """The standard deviation of every weight of a Gaussian around the weights."""
        return 0.01 if self.std is None else self.std


@record
class Training(Runtime):
    """How runs are trained: on what, from where they stand in their folders, and who counts and hears of it."""

    resume: bool = False
    """Go on with the run that --out holds, where its last checkpoint stands."""
    force: bool = False
    """Overwrite the run in --out, as soon as the new one can start."""
    ledger: Path | None = None
    """The privacy ledger that counts the steps of a run that promises privacy, before their noise is drawn; by default
    the folder ledger beside --out. Data sets that share rows share a ledger."""
    report: Report = silent
    progressbar: Callable[[], Any] = bool
    """Makes what shows a download, should the data need one (:class:`pacdp.data.Progress`), or False."""
