"""Writes a small U-Net that is shown an image with noise in it and predicts the noise.

    diffusion.py OUTPUT.onnx [--channels 32 --side 8] [--denoiser 1]

Input: images float [batch, 1, side, side], 0 .. 1. Outputs: predicted and noise, of that shape. The noise, and how much of it
there is, are drawn in the model, anew in each step. With --denoiser 1 the inputs are noised, of that shape, and level [batch, 1,
1, 1], from 0 (the image) to 1 (noise): `weft export` writes the weights of a training into that file as well.
"""

import math

import numpy as np
from layers import FLOAT, Layers, parse, save

GROUPS, WAVES = 8, 8


def silu(build, name, value):
    return build.node("Mul", name, [value, build.node("Sigmoid", f"{name}.gate", [value])])


def add_noise(build):
    """A part cos(a) of the image and a part sin(a) of the noise."""
    images = build.node("Sub", "centered", [build.node("Add", "doubled", ["images", "images"]), build.floats("one", 1.0)])
    axes = build.ints("pixel_axes", [1, 2, 3])
    noise = build.node("RandomNormalLike", "noise", ["images"])
    level = build.node("RandomUniformLike", "level", [build.node("ReduceMean", "one_an_image", ["images", axes])])
    angle = build.node("Mul", "angle", [level, build.floats("quarter", math.pi / 2)])
    signal = build.node("Mul", "signal", [images, build.node("Cos", "signal_part", [angle])])
    build.node("Add", "noised", [signal, build.node("Mul", "noise_share", [noise, build.node("Sin", "noise_part", [angle])])])


def level_features(build, width):
    """Waves of the level, [batch, width]."""
    rates = (math.pi * 2.0 ** np.arange(WAVES) / 2).astype(np.float32)
    flat = build.node("Flatten", "level.flat", ["level"])
    angles = build.node("Mul", "level.angles", [flat, build.floats("level.rates", rates)])
    waves = build.node("Concat", "level.waves", [build.node(op, f"level.{op}", [angles]) for op in ("Sin", "Cos")], axis=1)
    return silu(build, "level.features", build.linear("level.linear", waves, 2 * WAVES, width))


def block(build, name, value, features, inner, outer):
    """Two convolutions, the level between them, and the value past both."""

    def filtered(part, x, channels):
        scale, bias = build.ones(f"{name}.{part}.norm.weight", channels), build.zeros(f"{name}.{part}.norm.bias", channels)
        x = build.node("GroupNormalization", f"{name}.{part}.norm", [x, scale, bias], num_groups=GROUPS)
        return build.convolution(f"{name}.{part}.conv", silu(build, f"{name}.{part}.act", x), channels, outer)

    shift = build.linear(f"{name}.shift", features, build.channels, outer)
    shift = build.node("Unsqueeze", f"{name}.shift.pixels", [shift, build.ints(f"{name}.axes", [2, 3])])
    first = build.node("Add", f"{name}.shifted", [filtered("first", value, inner), shift])
    past = build.convolution(f"{name}.past", value, inner, outer, side=1, gain=1)
    return build.node("Add", name, [past, filtered("second", first, outer)])


def write_net(build, channels):
    build.channels = channels
    features = level_features(build, channels)
    first = build.convolution("first", "noised", 1, channels, gain=1)
    fine = block(build, "fine", first, features, channels, channels)
    down = build.convolution("down", fine, channels, channels, stride=2)
    coarse = block(build, "coarse", down, features, channels, 2 * channels)
    middle = block(build, "middle", coarse, features, 2 * channels, 2 * channels)
    up = build.node("Resize", "up", [middle, "", build.floats("up.scales", [1, 1, 2, 2])], mode="nearest")
    both = build.node("Concat", "both", [up, fine], axis=1)
    last = block(build, "last", both, features, 3 * channels, channels)
    build.convolution("predicted", silu(build, "last.act", last), channels, 1, gain=0.1)


def main():
    sizes = parse(__doc__, channels=32, side=8, denoiser=0)
    build, shape = Layers(), ["batch", 1, sizes.side, sizes.side]
    if not sizes.denoiser:
        add_noise(build)
    write_net(build, sizes.channels)
    inputs = [("noised", FLOAT, shape), ("level", FLOAT, ["batch", 1, 1, 1])] if sizes.denoiser else [("images", FLOAT, shape)]
    outputs = [("predicted", FLOAT, shape)] + ([] if sizes.denoiser else [("noise", FLOAT, shape)])
    save(build.model("diffusion", inputs, outputs, 21), sizes.output)


if __name__ == "__main__":
    main()
