"""The two networks. Both take uint8 images [N, 28, 28] and scale them inside the graph.

`x / 255` and no mean: zero stays the images' own black background, padding is black, and the
uint8 input is exactly the quantized input of the int8 graph (scale 1/255, zero point 0).
"""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as f


def _conv_bn_relu(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


def _pooled(block: nn.Sequential, x: Tensor) -> Tensor:
    """`block`, then the greatest of each 2 x 2. While it learns, ReLU comes last: the same values and the
    same gradients, and a quarter of the work. The graph that is exported has it with its convolution,
    where a quantizer wants it.
    """
    if not block.training:
        return f.max_pool2d(block(x), 2)
    convolution, norm, _ = block
    return f.relu(f.max_pool2d(norm(convolution(x)), 2), inplace=True)


class EdgeNet(nn.Module):
    """Three convolutions, 53,362 parameters, 4.2 million multiply-adds."""

    def __init__(self, widths: tuple[int, int, int] = (24, 48, 96), classes: int = 10) -> None:
        super().__init__()
        first, second, third = widths
        self.block1 = _conv_bn_relu(1, first)
        self.block2 = _conv_bn_relu(first, second)
        self.block3 = _conv_bn_relu(second, third)
        self.head = nn.Linear(third, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = image.unsqueeze(1).float() * (1 / 255)
        x = _pooled(self.block2, _pooled(self.block1, x))
        return cast("Tensor", self.head(self.block3(x).mean((2, 3))))


class _Residual(nn.Module):
    """Two 3 x 3 convolutions and a shortcut (He et al. 2015, arXiv:1512.03385)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(f.relu(self.norm1(self.conv1(x)), inplace=True)))
        return f.relu(y + self.shortcut(x), inplace=True)


class CloudNet(nn.Module):
    """A residual network of 658,922 parameters, 48 million multiply-adds."""

    def __init__(self, widths: tuple[int, int, int] = (32, 64, 128), classes: int = 10) -> None:
        super().__init__()
        first, second, third = widths
        self.stem = _conv_bn_relu(1, first)
        self.stage1 = nn.Sequential(_Residual(first, second, 2), _Residual(second, second, 1))
        self.stage2 = nn.Sequential(_Residual(second, third, 2), _Residual(third, third, 1))
        self.head = nn.Linear(third, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image.unsqueeze(1).float() * (1 / 255))
        return cast("Tensor", self.head(self.stage2(self.stage1(x)).mean((2, 3))))
