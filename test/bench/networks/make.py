"""Writes real networks at their usual sizes, with seeded random weights, for `./dev bench models`.

    make.py FOLDER [NAME...]

Needs what conformance/exports/requirements.txt names. A file has one fixed shape for each input: what is compared is the
time of one request.
"""

import pathlib
import sys

import torch
import torchvision
import transformers
from torch import nn

IMAGE = (1, 3, 224, 224)
TOKENS = 128


def seeded_statistics(network):
    """BatchNormalization as training leaves it, for fresh statistics would be folded to nothing, and no head that is all zeros."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.uniform_(module.bias, -0.1, 0.1)
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network


def of_images(name, **sizes):
    return lambda: (seeded_statistics(getattr(torchvision.models, name)(**sizes)), (torch.randn(IMAGE),))


class LastState(nn.Module):
    """The first result of a network of transformers, whose inputs come in order."""

    def __init__(self, network, **fixed):
        super().__init__()
        self.network, self.fixed = network, fixed

    def forward(self, x):
        return self.network(x, **self.fixed)[0]


def of_tokens(network, config, length=TOKENS, **fixed):
    return lambda: (LastState(network(config), **fixed), (torch.randint(0, 1000, (1, length)),))


def whisper_encoder():
    """The encoder of Whisper base over 30 seconds."""
    config = transformers.WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    network = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return LastState(network), (torch.randn(1, 80, 3000),)


def segmentation():
    network = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)

    class Scores(nn.Module):
        def forward(self, x):
            return self.network(x)["out"]

    scores = Scores()
    scores.network = seeded_statistics(network)
    return scores, (torch.randn(IMAGE),)


class UNet(nn.Module):
    """The network of Ronneberger et al. 2015 with padded convolutions, four times as narrow."""

    def __init__(self, width=16, depth=4):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(self.block(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(self.block(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def block(channels, filters):
        layers = []
        for count in (channels, filters):
            layers += [nn.Conv2d(count, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
        return self.last(x)


class Attention(nn.Module):
    """Attention of one new token over `past` cached ones; heads that share keys and values where there are fewer of these."""

    def __init__(self, width, heads, shared, past, biased):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.q = nn.Linear(width, width, bias=biased)
        self.k, self.v = (nn.Linear(width, shared * self.size, bias=biased) for _ in range(2))
        self.out = nn.Linear(width, width, bias=biased)
        angles = past / 10000 ** (torch.arange(0, self.size, 2) / self.size)
        self.turns = None if biased else (torch.cos(angles), torch.sin(angles))

    def turned(self, x):
        """Rotary positions, which a decoder of GPT-2's kind does not have."""
        if self.turns is None:
            return x
        (a, b), (cosine, sine) = x.chunk(2, -1), self.turns
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

    def forward(self, x, past_k, past_v):
        q = self.turned(self.q(x).view(1, 1, self.heads, self.size).transpose(1, 2))
        k, v = (each(x).view(1, 1, self.shared, self.size).transpose(1, 2) for each in (self.k, self.v))
        k, v = torch.cat([past_k, self.turned(k)], 2), torch.cat([past_v, v], 2)
        q = q.reshape(1, self.shared, self.heads // self.shared, self.size)
        mixed = torch.softmax(q @ k.transpose(2, 3) / self.size**0.5, -1) @ v
        return self.out(mixed.reshape(1, 1, -1)), k, v


class RootMeanSquare(nn.Module):
    """nn.RMSNorm, which the older exporter does not know."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


class Decoder(nn.Module):
    """One token through a decoder with a cache: `gated` as Llama, else as GPT-2."""

    def __init__(self, gated, vocabulary, width=768, layers=6, heads=12, inside=2048, past=128):
        super().__init__()
        self.gated, self.shared = gated, 4 if gated else heads
        self.past = (1, self.shared, past, width // heads)
        norm = lambda: (RootMeanSquare if gated else nn.LayerNorm)(width)
        self.embedding, self.last = nn.Embedding(vocabulary, width), norm()
        self.attention = nn.ModuleList(Attention(width, heads, self.shared, past, not gated) for _ in range(layers))
        self.before = nn.ModuleList(nn.ModuleList([norm(), norm()]) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 2 * inside if gated else 4 * width, bias=not gated) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(inside if gated else 4 * width, width, bias=not gated) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def activated(self, x):
        if not self.gated:
            return nn.functional.gelu(x, approximate="tanh")
        gate, x = x.chunk(2, -1)
        return nn.functional.silu(gate) * x

    def forward(self, token, *caches):
        x, present = self.embedding(token), []
        for layer, attention in enumerate(self.attention):
            mixed, k, v = attention(self.before[layer][0](x), *caches[2 * layer : 2 * layer + 2])
            x, present = x + mixed, present + [k, v]
            x = x + self.down[layer](self.activated(self.up[layer](self.before[layer][1](x))))
        return self.head(self.last(x)), *present


def of_token(gated, vocabulary):
    def make():
        network = Decoder(gated, vocabulary)
        return network, (torch.tensor([[7]]), *(torch.randn(network.past) for _ in range(2 * len(network.attention))))

    return make


class Split(nn.Module):
    """A block of a detector of the YOLO family: half of the channels pass, the other half goes through `depth` bottlenecks, all
    that comes out is joined."""

    def __init__(self, channels, filters, depth, adds):
        super().__init__()
        self.first, self.adds = layer(channels, filters, 1), adds
        self.inner = nn.ModuleList(nn.Sequential(layer(filters // 2, filters // 2), layer(filters // 2, filters // 2)) for _ in range(depth))
        self.last = layer((2 + depth) * filters // 2, filters, 1)

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for inner in self.inner:
            parts.append(parts[-1] + inner(parts[-1]) if self.adds else inner(parts[-1]))
        return self.last(torch.cat(parts, 1))


def layer(channels, filters, size=3, stride=1):
    return nn.Sequential(nn.Conv2d(channels, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters), nn.SiLU())


class Detector(nn.Module):
    """A detector as the smallest YOLOv8: backbone, pyramid of pools, features joined up and down, boxes as distributions."""

    STEPS, CLASSES = 16, 80

    def __init__(self, width=16):
        super().__init__()
        w = [width << i for i in range(5)]
        self.stem = nn.Sequential(layer(3, w[0], 3, 2), layer(w[0], w[1], 3, 2), Split(w[1], w[1], 1, True))
        self.stages = nn.ModuleList(nn.Sequential(layer(w[i], w[i + 1], 3, 2), Split(w[i + 1], w[i + 1], depth, True))
                                    for i, depth in ((1, 2), (2, 2), (3, 1)))
        self.squeeze, self.pool, self.spread = layer(w[4], w[3], 1), nn.MaxPool2d(5, 1, 2), layer(4 * w[3], w[4], 1)
        self.up = nn.ModuleList([Split(w[4] + w[3], w[3], 1, False), Split(w[3] + w[2], w[2], 1, False)])
        self.down = nn.ModuleList([layer(w[2], w[2], 3, 2), layer(w[3], w[3], 3, 2)])
        self.joined = nn.ModuleList([Split(w[2] + w[3], w[3], 1, False), Split(w[3] + w[4], w[4], 1, False)])
        ends = lambda c, inside, results: nn.Sequential(layer(c, inside), layer(inside, inside), nn.Conv2d(inside, results, 1))
        self.boxes = nn.ModuleList(ends(c, 64, 4 * self.STEPS) for c in w[2:])
        self.classes = nn.ModuleList(ends(c, 80, self.CLASSES) for c in w[2:])

    def forward(self, x):
        fine = self.stages[0](self.stem(x))
        middle = self.stages[1](fine)
        pools = [self.squeeze(self.stages[2](middle))]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        coarse = self.spread(torch.cat(pools, 1))
        middle = self.up[0](torch.cat([nn.functional.interpolate(coarse, scale_factor=2.0), middle], 1))
        fine = self.up[1](torch.cat([nn.functional.interpolate(middle, scale_factor=2.0), fine], 1))
        middle = self.joined[0](torch.cat([self.down[0](fine), middle], 1))
        coarse = self.joined[1](torch.cat([self.down[1](middle), coarse], 1))
        found = [torch.cat([box(f), kind(f)], 1).flatten(2) for f, box, kind in zip((fine, middle, coarse), self.boxes, self.classes)]
        boxes, kinds = torch.cat(found, 2).split([4 * self.STEPS, self.CLASSES], 1)
        shares = boxes.view(1, 4, self.STEPS, -1).transpose(1, 2).softmax(1)
        distances = (shares * torch.arange(self.STEPS).view(1, -1, 1, 1)).sum(1)
        return torch.cat([distances, kinds.sigmoid()], 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(256, 512, 2, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


def networks():
    t = transformers
    small = {"n_layer": 6, "n_head": 12, "n_embd": 768}
    return {
        "resnet50": of_images("resnet50"),
        "densenet121": of_images("densenet121"),
        "squeezenet": of_images("squeezenet1_1"),
        "shufflenet": of_images("shufflenet_v2_x1_0"),
        "mobilenet_v2": of_images("mobilenet_v2"),
        "mobilenet_v3": of_images("mobilenet_v3_large"),
        "mnasnet": of_images("mnasnet1_0"),
        "efficientnet_b0": of_images("efficientnet_b0"),
        "convnext_tiny": of_images("convnext_tiny"),
        "regnet_y": of_images("regnet_y_400mf"),
        "vit_b16": of_images("vit_b_16"),
        "swin_tiny": of_images("swin_t"),
        "deeplab": segmentation,
        "unet": lambda: (seeded_statistics(UNet()), (torch.randn(1, 3, 256, 256),)),
        "gpt2": of_tokens(t.GPT2Model, t.GPT2Config(**small), use_cache=False),
        "bert": of_tokens(t.BertModel, t.BertConfig(num_hidden_layers=6)),
        "llama": of_tokens(t.LlamaModel, t.LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=6,
                                                       num_attention_heads=12, num_key_value_heads=4, vocab_size=32000),
                           use_cache=False),
        "distilbert": of_tokens(t.DistilBertModel, t.DistilBertConfig()),
        "whisper_encoder": whisper_encoder,
        "yolo": lambda: (seeded_statistics(Detector()), (torch.randn(1, 3, 320, 320),)),
        "gpt2_token": of_token(gated=False, vocabulary=50257),
        "llama_token": of_token(gated=True, vocabulary=32000),
        "lstm": lambda: (Recurrent(), (torch.randn(1, TOKENS, 256),)),
    }


def main():
    folder, makers = pathlib.Path(sys.argv[1]), networks()
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or makers:
        torch.manual_seed(0)
        network, inputs = makers[name]()
        # Networks of transformers look into their masks, which only the newer exporter follows.
        by_program = isinstance(network, LastState)
        torch.onnx.export(network.eval(), inputs, folder / f"{name}.onnx", dynamo=by_program, opset_version=18, external_data=False)
        print(name, flush=True)


if __name__ == "__main__":
    main()
