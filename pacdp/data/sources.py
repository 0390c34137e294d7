"""What is registered: the files of each dataset, byte for byte, and who serves or made them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What a file must be: its length in bytes and its sha256 in lowercase hex."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetEntry:
    """The files of one dataset by name, and where they come from.

    Attributes:
        files: what each file must be.
        mirrors: folders on the web that serve them, best first; none if nobody serves these very bytes.
        source: without mirrors, whose data they are and where the original is; it ends a sentence.
    """

    files: Mapping[str, FileEntry]
    mirrors: tuple[str, ...] = ()
    source: str = ""


# Yann LeCun, Corinna Cortes, Christopher Burges. The md5 sums that circulate belong to the same bytes.
_MNIST = DatasetEntry(
    files=MappingProxyType(
        {
            "train-images-idx3-ubyte.gz": FileEntry(
                size=9_912_422, sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
            ),
            "train-labels-idx1-ubyte.gz": FileEntry(
                size=28_881, sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
            ),
            "t10k-images-idx3-ubyte.gz": FileEntry(
                size=1_648_877, sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
            ),
            "t10k-labels-idx1-ubyte.gz": FileEntry(
                size=4_542, sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
            ),
        }
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",  # the origin; plain http is safe because the sha256 decides
    ),
)

# Chhavi Yadav, Leon Bottou: Cold Case: The Lost MNIST Digits (NeurIPS 2019)
_MNIST_WRITERS = DatasetEntry(
    files=MappingProxyType(
        {
            "qmnist-train-labels-idx2-int.gz": FileEntry(
                size=463_024, sha256="2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f"
            ),
            "qmnist-test-labels-idx2-int.gz": FileEntry(
                size=526_800, sha256="9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06"
            ),
        }
    ),
    mirrors=(
        "https://raw.githubusercontent.com/facebookresearch/qmnist/master/",
        "https://github.com/facebookresearch/qmnist/raw/master/",
    ),
)

# Alex Krizhevsky, Vinod Nair, Geoffrey Hinton; the archive's md5 is the published c32a1d4ab5d03f1284b67883e8d87530
_CIFAR10 = DatasetEntry(
    files=MappingProxyType(
        {
            "cifar-10-binary.tar.gz": FileEntry(
                size=170_052_171, sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
            )
        }
    ),
    mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
)

_CIFAR10_UNPACKED = DatasetEntry(
    files=MappingProxyType(
        {
            f"{name}.bin": FileEntry(size=30_730_000, sha256=sha256)
            for name, sha256 in {
                "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            }.items()
        }
    ),
    source="it is a member of cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html)",
)

_MALARIA = DatasetEntry(
    files=MappingProxyType(
        {
            "malaria_cells_50x50_gray.npz": FileEntry(
                size=33_985_535, sha256="0b74a94bd5e6da82ba4f0766cfa67dc1cba4954e7ae685fa1d3beca7da268554"
            )
        }
    ),
    source="it is derived from the malaria cell images of the NIH's National Library of Medicine "
    "(https://lhncbc.nlm.nih.gov/LHC-research/LHC-projects/image-processing/malaria-datasheet.html)",
)

_XRAYS = DatasetEntry(
    files=MappingProxyType(
        {
            "metadata.csv": FileEntry(
                size=512_511, sha256="d26ea9527a9af7d9d26e8e0f7640af8ebcfcb49d646c57bea65e085febc56751"
            )
        }
    ),
    source="it lists the chest X-rays of Kermany et al. 2018 (https://doi.org/10.17632/rscbjbr9sj) scaled to 224x224 "
    "pixels and lies beside their folder images",
)

REGISTRY: Mapping[str, DatasetEntry] = MappingProxyType(
    {
        "mnist": _MNIST,
        "mnist_writers": _MNIST_WRITERS,
        "cifar10": _CIFAR10,
        "cifar10/cifar-10-batches-bin": _CIFAR10_UNPACKED,
        "malaria_cells": _MALARIA,
        "chest_xray": _XRAYS,
    }
)
"""Datasets by the name of their folder."""
