"""The networks of ./dev bench train, in PyTorch: a module, the samples of a step, the loss, and the optimizer with the same as `train:`."""

import dataclasses
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

IMAGES, SIDE, CLASSES = 8, 32, 10


def heads_apart(x, heads):
    """[batch, length, width] as [batch, heads, length, width / heads]."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def heads_together(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (heads_apart(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(heads_together(F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)))


class FeedForward(nn.Module):
    def __init__(self, width, approximate="none"):
        super().__init__()
        self.up, self.down, self.approximate = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), approximate

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Block(nn.Module):
    """A pre-norm layer of a transformer."""

    def __init__(self, width, attention, layers):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.layers = attention, layers

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.layers(self.norm_2(x))


class Decoder(nn.Module):
    """A language model whose head is its table of words; `layers` makes what follows each attention."""

    def __init__(self, words, width, heads, depth, length, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, Attention(width, heads, True), layers(width)) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(length), persistent=False)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(self.positions)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


class Experts(nn.Module):
    """Each position goes to the two experts with the highest scores."""

    COUNT, CHOSEN = 8, 2

    def __init__(self, width):
        super().__init__()
        self.router = nn.Linear(width, self.COUNT, bias=False)
        self.up = nn.Parameter(torch.randn(self.COUNT, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(self.COUNT, 2 * width, width) / math.sqrt(2 * width))

    def choose(self, x):
        scores, chosen = self.router(x).topk(self.CHOSEN, dim=-1)
        return scores.softmax(dim=-1), chosen


class DenseExperts(Experts):
    """All experts see all positions, and their results are weighted."""

    def forward(self, x):
        scores, chosen = self.choose(x)
        shares = torch.zeros(*x.shape[:2], self.COUNT).scatter(-1, chosen, scores)
        inner = F.gelu(torch.einsum("bld,edf->belf", x, self.up))
        return torch.einsum("ble,belf,efd->bld", shares, inner, self.down)


class RoutedExperts(Experts):
    """Each expert has room for some positions; those that come later are left out. Positions are copied there and back."""

    ROOM = 1.25

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        count, (scores, chosen) = rows.shape[0], self.choose(rows)
        room = int(self.ROOM * self.CHOSEN * count / self.COUNT)
        experts = chosen.reshape(-1)
        is_of = F.one_hot(experts, self.COUNT)
        place = ((is_of.cumsum(dim=0) - 1) * is_of).sum(dim=-1)
        slot = torch.where(place < room, experts * room + place, self.COUNT * room)
        copies = rows.repeat_interleave(self.CHOSEN, dim=0)
        sent = torch.zeros(self.COUNT * room + 1, rows.shape[1]).index_copy(0, slot, copies)
        inner = F.gelu(torch.bmm(sent[:-1].view(self.COUNT, room, -1), self.up))
        found = F.pad(torch.bmm(inner, self.down).view(self.COUNT * room, -1), (0, 0, 0, 1))
        return (found[slot] * scores.reshape(-1, 1)).view(count, self.CHOSEN, -1).sum(dim=1).view(x.shape)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.layers = nn.LayerNorm(width), FeedForward(width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.layers(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, widths=(48, 96), depth=2):
        super().__init__()
        first, second = widths
        self.layers = nn.Sequential(
            nn.Conv2d(3, first, 2, 2), ChannelNorm(first), *(ConvNextBlock(first) for _ in range(depth)),
            ChannelNorm(first), nn.Conv2d(first, second, 2, 2), *(ConvNextBlock(second) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(second), nn.Linear(second, CLASSES)

    def forward(self, image):
        return self.head(self.norm(self.layers(image).mean(dim=(2, 3))))


class ResidualBlock(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride)
        self.norm1, self.norm2 = nn.GroupNorm(8, outer), nn.GroupNorm(8, outer)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(ResidualBlock(32, 32, 1), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2))
        self.head = nn.Linear(128, CLASSES)

    def forward(self, image):
        return self.head(self.blocks(F.relu(self.stem(image))).mean(dim=(2, 3)))


class Vit(nn.Module):
    def __init__(self, width=192, heads=3, depth=6, patch=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (SIDE // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, Attention(width, heads, False), FeedForward(width)) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Dlrm(nn.Module):
    """Numbers and 26 kinds that are looked up, their products with each other, and layers after them."""

    TABLES, ROWS, WIDTH, NUMBERS = 26, 10000, 16, 13

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(self.ROWS, self.WIDTH) for _ in range(self.TABLES))
        self.bottom = self.layers(self.NUMBERS, 512, 256, 64, self.WIDTH)
        self.register_buffer("pairs", torch.tensor([i * (self.TABLES + 1) + j for i in range(self.TABLES + 1) for j in range(i)]))
        self.top = self.layers(self.WIDTH + len(self.pairs), 512, 256)
        self.score = nn.Linear(256, 1)

    @staticmethod
    def layers(*widths):
        return nn.Sequential(*(each for pair in zip(widths, widths[1:]) for each in (nn.Linear(*pair), nn.ReLU())))

    def forward(self, numbers, kinds):
        x = self.bottom(numbers)
        rows = torch.stack([x, *(table(kinds[:, i]) for i, table in enumerate(self.tables))], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.score(self.top(torch.cat([x, products], dim=1)))


def next_words(scores, tokens):
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def draw_images(draw, steps):
    images = draw.standard_normal((steps * IMAGES, 3, SIDE, SIDE)).astype(np.float32)
    return {"image": images, "labels": draw.integers(0, CLASSES, steps * IMAGES)}


def draw_clicks(draw, steps, batch=128):
    count = steps * batch
    return {"numbers": draw.standard_normal((count, Dlrm.NUMBERS)).astype(np.float32),
            "kinds": draw.integers(0, Dlrm.ROWS, (count, Dlrm.TABLES)),
            "labels": draw.integers(0, 2, (count, 1)).astype(np.float32)}


def draw_tokens(words, batch, length):
    return lambda draw, steps: {"tokens": draw.integers(0, words, (steps * batch, length))}


ADAMW = {"rate": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}
SGD = {"rate": 0.1}


@dataclasses.dataclass
class Network:
    build: object  # Makes the module.
    draw: object   # Makes the samples of some steps, from a generator of numbers.
    batch: int     # Samples of a step.
    loss: object   # From the scores and the labels.
    train: str     # The loss as an entry of `train:`.
    labels: str    # The array that the loss reads.
    reads_labels: bool = False  # The model reads it, too.
    optimizer: str = "adamw"
    numbers: dict = dataclasses.field(default_factory=lambda: ADAMW)
    clip: float = 1.0  # of the norm of all gradients; 0: none


def language_model(layers, words=4096, width=256, heads=4, depth=4, batch=4, length=64):
    return Network(lambda: Decoder(words, width, heads, depth, length, layers), draw_tokens(words, batch, length), batch, next_words,
                   "loss: {cross_entropy: {scores: scores, labels: tokens, shift: 1}}", "tokens", True)


def classifier(build):
    loss = f'loss: {{cross_entropy: {{scores: scores, labels: labels}}}}\n  inputs: {{labels: "int64[{IMAGES}]"}}'
    return Network(build, draw_images, IMAGES, F.cross_entropy, loss, "labels")


CLICKS = 'loss: {binary_cross_entropy: {scores: scores, labels: labels}}\n  inputs: {labels: "float[128, 1]"}'
NETWORKS = {
    "gpt2": language_model(lambda width: FeedForward(width, "tanh"), words=50257),
    "gpt2_few_words": language_model(lambda width: FeedForward(width, "tanh")),
    "convnext": classifier(ConvNext),
    "vit": classifier(Vit),
    "resnet": classifier(ResNet),
    "experts": language_model(DenseExperts, words=1024, width=128),
    "experts_routed": language_model(RoutedExperts, words=1024, width=128),
    "dlrm": Network(Dlrm, draw_clicks, 128, F.binary_cross_entropy_with_logits, CLICKS, "labels", optimizer="sgd", numbers=SGD, clip=0),
}
