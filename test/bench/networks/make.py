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
