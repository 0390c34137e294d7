"""All commands of `pacdp`."""

from typing import Annotated

import tyro

from experiments.commands_audit import Audit
from experiments.commands_bounds import Bound, Privacy
from experiments.commands_choices import Choices
from experiments.commands_export import Export
from experiments.commands_ledger import Ledger
from experiments.commands_results import Data, Plot, Report
from experiments.commands_runs import Certify, Demo, Train
from experiments.commands_studies import Experiment, Results
from experiments.commands_verify import Verify

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Choices, tyro.conf.subcommand("choices")]
    | Annotated[Ledger, tyro.conf.subcommand("ledger")]
    | Annotated[Certify, tyro.conf.subcommand("certify")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Audit, tyro.conf.subcommand("audit")]
    | Annotated[Bound, tyro.conf.subcommand("bound")]
    | Annotated[Privacy, tyro.conf.subcommand("privacy")]
    | Annotated[Plot, tyro.conf.subcommand("plot")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Data, tyro.conf.subcommand("data")]
    | Annotated[Experiment, tyro.conf.subcommand("experiment")]
    | Annotated[Results, tyro.conf.subcommand("results")]
)
