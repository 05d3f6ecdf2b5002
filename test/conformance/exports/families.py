"""Inputs of the models in this folder, their open dimensions, and requests within the bounds of these.

Read by make.py, which writes the models, and by the check, which runs them. A file is NAME_script.onnx or
NAME_export.onnx; NAME is a key of FAMILIES.
"""

import collections

import numpy as np

WORDS = 50

# inputs: {name: (kind, extents)}; an extent is a number or the name of an open dimension. tolerance: the largest
# difference to ONNX Runtime, as a part of the largest element.
Family = collections.namedtuple("Family", "inputs bounds tolerance", defaults=(1e-4,))
HALF_TOLERANCE = 5e-3

# By open dimension: its bound, the length of the example that is exported, and those of five requests.
Dim = collections.namedtuple("Dim", "bound example lengths")
DIMS = {
    "batch": Dim(3, 2, (1, 2, 3, 2, 3)),
    "seq": Dim(16, 7, (2, 5, 7, 13, 16)),
    "dec": Dim(12, 5, (1, 4, 5, 9, 12)),
    "samples": Dim(400, 240, (160, 201, 240, 333, 400)),
    "height": Dim(96, 64, (32, 64, 64, 96, 96)),
    "width": Dim(96, 64, (64, 32, 96, 32, 96)),
    "rows": Dim(24, 16, (8, 16, 16, 24, 24)),
    "columns": Dim(24, 16, (16, 8, 24, 8, 24)),
}


def family(**inputs):
    dims = [extent for _, *extents in inputs.values() for extent in extents if isinstance(extent, str)]
    return Family(inputs, {dim: DIMS[dim].bound for dim in dims})


TEXT = family(input_ids=("ids", "batch", "seq"), attention_mask=("mask", "batch", "seq"))
TRANSLATION = family(**TEXT.inputs, decoder_input_ids=("ids", "batch", "dec"))
HALF_TEXT = TEXT._replace(tolerance=HALF_TOLERANCE)
SPECTRUM = ("float", "batch", 8, 40)
IMAGE = family(pixel_values=("float", "batch", 3, 32, 32))
ANY_IMAGE = family(pixel_values=("float", "batch", 3, "height", "width"))

FAMILIES = {
    **dict.fromkeys("gpt2 llama qwen2 opt mistral gemma phi falcon gptneox gptj bloom".split(), TEXT),
    **dict.fromkeys("bert roberta distilbert albert electra deberta".split(), TEXT),
    **dict.fromkeys("t5 bart".split(), TRANSLATION),
    "whisper": family(input_features=SPECTRUM, decoder_input_ids=("ids", "batch", "dec")),
    "whisper_encoder": family(input_features=SPECTRUM),
    "wav2vec2": family(input_values=("float", "batch", "samples")),
    **dict.fromkeys("vit swin mixer".split(), IMAGE),
    "clip": family(input_ids=("ids", "batch", "seq"), **IMAGE.inputs, attention_mask=("mask", "batch", "seq")),
    "detr": family(pixel_values=("float", "batch", 3, 64, 64)),
    **dict.fromkeys("convnext resnet mobilenet efficientnet densenet shufflenet unet yolo".split(), ANY_IMAGE),
    "vae_decoder": family(latents=("float", "batch", 4, "rows", "columns")),
    # Models trained in float, converted to 16 bits or to bytes.
    "llama_half": HALF_TEXT,
    "vit_half": family(pixel_values=("half", "batch", 3, 32, 32))._replace(tolerance=HALF_TOLERANCE),
    "bert_bytes": TEXT,
    "resnet_bytes": ANY_IMAGE,
}


def lengths(family, number):
    """The open dimensions of request `number`."""
    return {dim: DIMS[dim].lengths[number] for dim in family.bounds}


def example(family):
    return {dim: DIMS[dim].example for dim in family.bounds}


def array(kind, shape, generator):
    """Requests are padded: of the longer ones the last two of each row, and more of the last row, are masked."""
    if kind == "ids":
        return generator.integers(3, WORDS, shape)
    if kind in ("float", "half"):
        return generator.standard_normal(shape).astype(np.float32 if kind == "float" else np.float16)
    mask = np.ones(shape, np.int64)
    if shape[1] > 5:
        mask[:, -2:] = 0
        mask[-1, -4:] = 0
    return mask


def arrays(family, dims, seed):
    """The inputs of a request with these lengths."""
    generator = np.random.default_rng(seed)
    return {
        name: array(kind, [dims.get(extent, extent) for extent in extents], generator)
        for name, (kind, *extents) in family.inputs.items()
    }
