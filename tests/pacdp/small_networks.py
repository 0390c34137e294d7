"""Networks that a test writes in a line."""

from torch.nn import Module


class Made(Module):
    """These parts, and outputs that ``way`` makes of them and of the inputs."""

    def __init__(self, way, **parts):
        super().__init__()
        self.way = way
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.way(self, x)
