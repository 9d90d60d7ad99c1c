"""What the small network computes while it learns is what its graph computes; needs torch."""

import pytest

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def as_in_the_graph():
    """The network with ReLU beside its convolution, then the pooling."""
    from torch.nn import functional as f

    from cloud.training.networks import EdgeNet

    class AsInTheGraph(EdgeNet):
        def forward(self, image):
            x = image.unsqueeze(1).float() * (1 / 255)
            x = f.max_pool2d(self.block1(x), 2)
            x = f.max_pool2d(self.block2(x), 2)
            return self.head(self.block3(x).mean((2, 3)))

    return AsInTheGraph


@pytest.mark.parametrize("bf16", [False, True])
def test_relu_after_the_pooling_gives_the_same_answers_and_gradients(as_in_the_graph, bf16):
    import torch

    from cloud.training.networks import EdgeNet

    networks = EdgeNet(widths=(5, 6, 7)), as_in_the_graph(widths=(5, 6, 7))
    networks[1].load_state_dict(networks[0].state_dict())
    images = torch.randint(0, 256, (9, 28, 28), generator=torch.Generator().manual_seed(3))
    images[:, :9] = 0  # ties, as in images with a black background
    found = []
    for network in networks:
        network.to(memory_format=torch.channels_last).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = network(images)
        logits.float().square().sum().backward()
        found.append([logits, *(one.grad for one in network.parameters()), *network.buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    answers = [network.eval()(images) for network in networks]
    assert torch.equal(*answers)
