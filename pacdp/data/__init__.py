"""Data: readers, downloads with checksums, datasets by name with their people, splits, row hashes, random labels."""

from pacdp.data.dataset import Dataset as Dataset
from pacdp.data.dataset import random_labels as random_labels
from pacdp.data.dataset import randomise as randomise
from pacdp.data.dataset import require_other_people as require_other_people
from pacdp.data.datasets import ALL_NAMES as ALL_NAMES
from pacdp.data.datasets import NAMES as NAMES
from pacdp.data.datasets import load as load
from pacdp.data.errors import DataError as DataError
from pacdp.data.registry import REGISTRY as REGISTRY
from pacdp.data.registry import DatasetEntry as DatasetEntry
from pacdp.data.registry import FileEntry as FileEntry
from pacdp.data.registry import Progress as Progress
from pacdp.data.registry import locate as locate
from pacdp.data.rows import Rows as Rows
from pacdp.data.rows import require_apart as require_apart
from pacdp.data.rows import require_covers as require_covers
from pacdp.data.rows import require_plain as require_plain
from pacdp.data.splits import Split as Split
from pacdp.data.splits import index_hash as index_hash
from pacdp.data.splits import make_splits as make_splits
from pacdp.data.splits import require_disjoint as require_disjoint
