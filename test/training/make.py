"""Writes the networks that lie in stored/ and what PyTorch's training makes of them.

    make.py FOLDER [NAME...]

NAME.onnx is the forward pass as torch.onnx.export writes it, without optimizations, so that parameters keep their names and
shapes. NAME.npz holds what test/training_check.py compares with:

    input/X     each input and label X of every batch; the batches lie along the first dimension
    gradient/W  the derivative of the first batch's loss by parameter W, computed with 64 bits
    largest     the largest of all gradients
    noise       the largest distance of PyTorch's gradients with 32 bits from those, as a part of each tensor's largest
    losses, losses64  the loss before each of STEPS steps of AdamW, with 32 bits and with 64, the batches in turn
    statistics/S  the running statistic S behind these steps, where batch norms use the batch, unless 32 bits change it: AdamW
                moves by chance a bias that the next norm takes off again, as its derivative is rounding
    loss        the entries of a schedule's `train:` that say what the loss is, and the mode
"""

import dataclasses
import math
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCHES = 50, 2
ADAMW = {"lr": 3e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
BATCH, LENGTH, WORDS, WIDTH, HEADS, LAYERS = 2, 12, 48, 24, 3, 2
CLASSES, SIDE, CHANNELS = 5, 16, 3
IGNORED = -100
NOTHING = 1e-6  # a tensor's largest gradient below this fraction of the largest of all counts as 0


def heads_apart(x, heads):
    """[batch, length, width] as [batch, heads, length, width / heads]."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def heads_together(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class Product(nn.Module):
    """A linear layer as GPT-2 has it, with its weight as [in, out]."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, outer) * 0.1)
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        rows = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return rows.view(*x.shape[:-1], -1)


class Gpt2Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = Product(WIDTH, 3 * WIDTH), Product(WIDTH, WIDTH)
        self.c_fc, self.c_out = Product(WIDTH, 4 * WIDTH), Product(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        q, k, v = (heads_apart(part, HEADS) for part in self.c_attn(self.ln_1(x)).split(WIDTH, dim=-1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        shares = scores.masked_fill(~self.mask, -math.inf).softmax(dim=-1)
        x = x + self.c_proj(heads_together(shares @ v))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Learned positions, pre-norm layers, a head tied to the table of words."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Gpt2Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.register_buffer("positions", torch.arange(LENGTH), persistent=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-5) * self.weight


class RotatedAttention(nn.Module):
    """Rotated positions, two heads of queries for each of keys."""

    KEYS = 2

    def __init__(self):
        super().__init__()
        self.size = WIDTH // (2 * self.KEYS)
        self.q_proj, self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, self.KEYS * self.size, bias=False) for _ in range(2))
        angles = torch.outer(torch.arange(LENGTH).float(), 100 ** (-torch.arange(0, self.size, 2) / self.size))
        self.register_buffer("cos", torch.cat([angles, angles], dim=-1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], dim=-1).sin(), persistent=False)

    def rotated(self, x):
        low, high = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-high, low], dim=-1) * self.sin

    def forward(self, x):
        q = self.rotated(heads_apart(self.q_proj(x), 2 * self.KEYS))
        k = self.rotated(heads_apart(self.k_proj(x), self.KEYS)).repeat_interleave(2, dim=1)
        v = heads_apart(self.v_proj(x), self.KEYS).repeat_interleave(2, dim=1)
        return self.o_proj(heads_together(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class GatedLayers(nn.Module):
    def __init__(self, inner=2 * WIDTH):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, inner, bias=False), nn.Linear(WIDTH, inner, bias=False)
        self.down_proj = nn.Linear(inner, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Each position is for the two experts with the highest scores; all experts see all positions, and their results are
    weighted."""

    EXPERTS, CHOSEN = 4, 2

    def __init__(self, inner=WIDTH):
        super().__init__()
        self.router = nn.Linear(WIDTH, self.EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(self.EXPERTS, WIDTH, inner) * 0.2)
        self.down = nn.Parameter(torch.randn(self.EXPERTS, inner, WIDTH) * 0.2)

    def forward(self, x):
        scores, chosen = self.router(x).topk(self.CHOSEN, dim=-1)
        shares = torch.zeros(*x.shape[:2], self.EXPERTS, dtype=x.dtype).scatter(-1, chosen, scores.softmax(dim=-1))
        inner = F.gelu(torch.einsum("bld,edf->belf", x, self.up))
        return torch.einsum("ble,belf,efd->bld", shares, inner, self.down)


class DecoderBlock(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.attention, self.layers = RotatedAttention(), layers
        self.norm_1, self.norm_2 = RmsNorm(), RmsNorm()

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.layers(self.norm_2(x))


class Decoder(nn.Module):
    """The common part of Llama and Mixtral; `layers` makes the part after each attention."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(DecoderBlock(layers()) for _ in range(LAYERS))
        self.norm, self.head = RmsNorm(), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, bias):
        q, k, v = (heads_apart(project(x), HEADS) for project in (self.query, self.key, self.value))
        x = self.norm_1(x + self.output(heads_together(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))))
        return self.norm_2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Post-norm layers, a mask of padding, scores for masked words only; the loss is a part of the model."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.places = (nn.Embedding(count, WIDTH) for count in (WORDS, 2, LENGTH))
        self.norm, self.head_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))
        self.transform, self.bias = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.zeros(WORDS))
        self.register_buffer("positions", torch.arange(LENGTH), persistent=False)

    def forward(self, tokens, kinds, mask, labels):
        x = self.norm(self.words(tokens) + self.kinds(kinds) + self.places(self.positions))
        bias = (1 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        scores = F.linear(self.head_norm(F.gelu(self.transform(x))), self.words.weight, self.bias)
        return F.cross_entropy(scores.view(-1, WORDS), labels.view(-1), ignore_index=IGNORED)


class ResidualBlock(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def draw_statistics(model):
    """Means and variances such as training would have left."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, std=0.3)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(CHANNELS, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.layers = nn.Sequential(ResidualBlock(8, 8, 1), ResidualBlock(8, 16, 2), ResidualBlock(16, 24, 2))
        self.fc = nn.Linear(24, CLASSES)
        draw_statistics(self)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, 2, padding=1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.layers(x), 1), 1))


class NormedConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(CHANNELS, 6, 3, padding=1, bias=False), nn.Conv2d(6, 10, 3, 2, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(6), nn.BatchNorm2d(10, momentum=0.3)
        self.fc = nn.Linear(10, CLASSES)
        draw_statistics(self)

    def forward(self, image):
        x = F.relu(self.bn1(self.conv1(image)))
        return self.fc(F.relu(self.bn2(self.conv2(x))).mean(dim=(2, 3)))


class InvertedBlock(nn.Module):
    """Widens, filters each channel, weighs the channels, narrows."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        wide = 3 * inner
        self.expand, self.project = nn.Conv2d(inner, wide, 1, bias=False), nn.Conv2d(wide, outer, 1, bias=False)
        self.filter = nn.Conv2d(wide, wide, 5, stride, padding=2, groups=wide, bias=False)
        self.squeeze, self.excite = nn.Conv2d(wide, inner, 1), nn.Conv2d(inner, wide, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for channels in (wide, wide, outer))

    def forward(self, x):
        y = F.hardswish(self.norms[0](self.expand(x)))
        y = F.hardswish(self.norms[1](self.filter(y)))
        y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean(dim=(2, 3), keepdim=True)))))
        y = self.norms[2](self.project(y))
        return x + y if x.shape == y.shape else y


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(CHANNELS, 8, 3, 2, padding=1)
        self.blocks = nn.Sequential(InvertedBlock(8, 8, 1), InvertedBlock(8, 16, 2), InvertedBlock(16, 16, 1))
        self.grouped = nn.Conv2d(16, 32, 3, padding=1, groups=4)
        self.fc = nn.Linear(32, CLASSES)
        draw_statistics(self)

    def forward(self, image):
        x = self.blocks(F.hardswish(self.stem(image)))
        return self.fc(F.leaky_relu(self.grouped(x), 0.1).mean(dim=(2, 3)))


class UNetLevel(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.norm = nn.GroupNorm(2, outer)

    def forward(self, x):
        return F.silu(self.conv2(F.silu(self.norm(self.conv1(x)))))


class UNet(nn.Module):
    """Down by a mean, a stride and a choice, up by a transposed convolution, between pixels and by their copies."""

    def __init__(self):
        super().__init__()
        self.level1, self.level2, self.level3 = UNetLevel(CHANNELS, 6), UNetLevel(6, 10), UNetLevel(10, 14)
        self.down = nn.Conv2d(10, 10, 3, 2, padding=1)
        self.up = nn.ConvTranspose2d(14, 10, 4, 2, padding=1)
        self.level4, self.level5 = UNetLevel(20, 10), UNetLevel(16, 6)
        self.last = nn.Conv2d(12, CHANNELS, 1)

    def forward(self, image):
        first = self.level1(image)
        second = self.level2(F.avg_pool2d(first, 2))
        third = self.level3(self.down(second))
        fourth = self.level4(torch.cat([self.up(third), second], dim=1))
        fine = F.interpolate(fourth, scale_factor=2.0, mode="bilinear", align_corners=False)
        fifth = self.level5(torch.cat([fine, first], dim=1))
        coarse = F.interpolate(fifth[:, :, ::2, 1::2], scale_factor=2.0, mode="nearest")
        return self.last(torch.cat([fifth, coarse], dim=1))


class Recurrent(nn.Module):
    """`kind` is nn.LSTM or nn.GRU."""

    def __init__(self, kind):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.cells = kind(WIDTH, WIDTH, batch_first=True)

    def forward(self, tokens):
        return self.head(self.cells(self.embed(tokens))[0])


def next_words(scores, tokens):
    return F.cross_entropy(scores[:, :-1].reshape(-1, WORDS), tokens[:, 1:].reshape(-1))


def draw_tokens(draw):
    return {"tokens": draw.integers(0, WORDS, (BATCHES, BATCH, LENGTH))}


def draw_masked(draw):
    shape = (BATCHES, BATCH, LENGTH)
    tokens, kinds = draw.integers(0, WORDS, shape), draw.integers(0, 2, shape)
    mask = (np.arange(LENGTH) < draw.integers(LENGTH // 2, LENGTH + 1, (*shape[:2], 1))).astype(np.int64)
    labels = np.where((draw.random(shape) < 0.4) & (mask == 1), draw.integers(0, WORDS, shape), IGNORED)
    return {"tokens": tokens, "kinds": kinds, "mask": mask, "labels": labels}


def draw_images(draw):
    return draw.standard_normal((BATCHES, BATCH, CHANNELS, SIDE, SIDE)).astype(np.float32)


def draw_classes(draw):
    return {"image": draw_images(draw), "labels": draw.integers(0, CLASSES, (BATCHES, BATCH))}


def draw_pictures(draw):
    return {"image": draw_images(draw), "target": draw_images(draw)}


NEXT_WORDS = "loss: {cross_entropy: {scores: scores, labels: tokens, shift: 1}}"
CLASSES_OF = f"""loss: {{cross_entropy: {{scores: scores, labels: labels}}}}
inputs: {{labels: "int64[{BATCH}]"}}"""
SQUARES = f"""loss: {{mean_squared_error: {{predictions: scores, targets: target}}}}
inputs: {{target: "float[{BATCH}, {CHANNELS}, {SIDE}, {SIDE}]"}}"""


@dataclasses.dataclass
class Network:
    build: object      # Makes the module.
    draw: object       # Makes the batches, from a generator of numbers.
    loss: object       # Computes the loss from scores and labels, or takes the model's own.
    train: str         # The same as entries of `train:`.
    labels: str = ""   # The input that the loss reads.
    reads_labels: bool = False  # The model reads it, too.
    uses_batch: bool = False  # Batch norms are trained with the statistics of the batch.
    exporter: dict = dataclasses.field(default_factory=dict)


def language_model(build, **more):
    return Network(build, draw_tokens, next_words, NEXT_WORDS, "tokens", True, exporter=more)


# The older exporter traces, and writes Linear as Transpose and MatMul; opset 23 has attention as one op.
OLDER, WHOLE_OPS = {"dynamo": False, "do_constant_folding": False}, {"opset_version": 23}
NETWORKS = {
    "gpt2": language_model(Gpt2),
    "gpt2_traced": language_model(Gpt2, **OLDER),
    "llama": language_model(lambda: Decoder(GatedLayers)),
    "llama_whole": language_model(lambda: Decoder(GatedLayers), **WHOLE_OPS),
    "experts": language_model(lambda: Decoder(Experts)),
    "bert": Network(Bert, draw_masked, lambda loss: loss, "loss: scores"),
    "resnet": Network(ResNet, draw_classes, F.cross_entropy, f"{CLASSES_OF}\nmode: eval", "labels"),
    "mobilenet": Network(MobileNet, draw_classes, F.cross_entropy, f"{CLASSES_OF}\nmode: train", "labels", uses_batch=True),
    "batch_norm": Network(NormedConvolutions, draw_classes, F.cross_entropy, CLASSES_OF, "labels", uses_batch=True,
                          exporter={**OLDER, "training": torch.onnx.TrainingMode.TRAINING}),
    "unet": Network(UNet, draw_pictures, F.mse_loss, SQUARES, "target"),
    "lstm": language_model(lambda: Recurrent(nn.LSTM)),
    "gru": language_model(lambda: Recurrent(nn.GRU), **OLDER),
}


def made(name, dtype=torch.float32):
    """The network with the same weights each time. No two of its parameters are alike: the older exporter writes those once,
    and training would tie them."""
    torch.manual_seed(1)
    model = NETWORKS[name].build().train(NETWORKS[name].uses_batch)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.05 * torch.randn(parameter.shape)
    return model.to(dtype)


def batch_of(data, number, dtype):
    tensors = {name: torch.from_numpy(array[number % BATCHES]) for name, array in data.items()}
    return {name: each.to(dtype) if each.is_floating_point() else each for name, each in tensors.items()}


def model_inputs(name, batch):
    network = NETWORKS[name]
    return {each: value for each, value in batch.items() if each != network.labels or network.reads_labels}


def loss_of(name, model, batch):
    network = NETWORKS[name]
    scores = model(*model_inputs(name, batch).values())
    return network.loss(scores, batch[network.labels]) if network.labels else network.loss(scores)


def gradients_of(name, data, dtype):
    model = made(name, dtype)
    loss_of(name, model, batch_of(data, 0, dtype)).backward()
    return {each: parameter.grad.double().numpy() for each, parameter in model.named_parameters()}


def trained(name, data, dtype):
    """The network after all steps, and the loss before each."""
    model, losses = made(name, dtype), []
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    for step in range(STEPS):
        loss = loss_of(name, model, batch_of(data, step, dtype))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, np.array(losses)


def statistics_of(name, data, model):
    """The statistics of a trained network's batch norms, with variances as in ONNX: of the values of a batch. PyTorch's
    are estimates for all values, larger by n / (n - 1)."""
    before, found = made(name, torch.float64), {}
    norms = {each: layer for each, layer in before.named_modules() if isinstance(layer, nn.BatchNorm2d)}
    first = {each: layer.running_var.clone() for each, layer in norms.items()}
    counts = {}
    for each, layer in norms.items():
        layer.register_forward_hook(lambda layer, inputs, _, each=each: counts.update({each: inputs[0][:, 0].numel()}))
    loss_of(name, before, batch_of(data, 0, torch.float64))
    for each, layer in norms.items():
        last, kept = model.get_submodule(each), (1 - layer.momentum) ** STEPS * first[each]
        found[f"{each}.running_mean"] = last.running_mean.numpy()
        found[f"{each}.running_var"] = (kept + (last.running_var - kept) * (1 - 1 / counts[each])).numpy()
    return found


def noise_of(gradients, exact):
    """Tensors that are 0 but for rounding are measured by the largest of all."""
    largest = max(abs(wanted).max() for wanted in exact.values())
    sizes = {each: abs(wanted).max() for each, wanted in exact.items()}
    return max(abs(gradients[each] - wanted).max() / (sizes[each] if sizes[each] > NOTHING * largest else largest)
               for each, wanted in exact.items())


def reference(name, data):
    exact = gradients_of(name, data, torch.float64)
    arrays = {f"input/{each}": array for each, array in data.items()}
    arrays |= {f"gradient/{each}": gradient.astype(np.float32) for each, gradient in exact.items()}
    arrays["largest"] = max(abs(gradient).max() for gradient in exact.values())
    arrays["noise"] = noise_of(gradients_of(name, data, torch.float32), exact)
    rounded, arrays["losses"] = trained(name, data, torch.float32)
    model, arrays["losses64"] = trained(name, data, torch.float64)
    statistics = statistics_of(name, data, model) if NETWORKS[name].uses_batch else {}
    for each, array in statistics.items():
        exact, distance = model.get_buffer(each), rounded.get_buffer(each).double() - model.get_buffer(each)
        if distance.abs().max() < 1e-4 * exact.abs().max():
            arrays[f"statistics/{each}"] = array
    arrays["loss"] = NETWORKS[name].train
    return arrays


def export(name, data, file):
    inputs = model_inputs(name, batch_of(data, 0, torch.float32))
    manner = {"dynamo": True, "optimize": False, "external_data": False, "verbose": False, **NETWORKS[name].exporter}
    if not manner["dynamo"]:
        del manner["optimize"]
    module = made(name).train("training" in manner)
    begins = {each: array.numpy().copy() for each, array in module.named_buffers() if each.endswith(("mean", "var"))}
    torch.onnx.export(module, tuple(inputs.values()), file, input_names=list(inputs), output_names=["scores"], **manner)
    model = onnx.load(file)
    for tensor in model.graph.initializer:  # to trace a network in the form for training moves its statistics
        if tensor.name in begins:
            tensor.CopyFrom(onnx.numpy_helper.from_array(begins[tensor.name], tensor.name))
    strip(model)
    onnx.save(model, file)


def strip(model):
    """Without where each node comes from, which is most of a small file."""
    del model.metadata_props[:], model.graph.value_info[:]
    for each in (*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output, model.graph):
        each.doc_string = ""
        if hasattr(each, "metadata_props"):
            del each.metadata_props[:]
    for function in model.functions:
        strip_function(function)


def strip_function(function):
    del function.metadata_props[:], function.value_info[:]
    for node in function.node:
        node.doc_string = ""
        del node.metadata_props[:]


def main(folder, *names):
    warnings.filterwarnings("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NETWORKS:
        data = NETWORKS[name].draw(np.random.default_rng(1))
        export(name, data, str(folder / f"{name}.onnx"))
        np.savez_compressed(folder / f"{name}.npz", **reference(name, data))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
