"""Writes the models in past/: small language models with seeded weights and a key and value cache, as PyTorch's two exporters
write them, with the names that optimum gives.

    make_past.py FOLDER

Needs torch, transformers, onnx and onnxscript, which the tests themselves do not: the files are stored.
"""

import pathlib
import sys
import warnings

import torch
import transformers

from make import GROUPED, HEADS, LAYERS, POSITIONS, SIZES, TOKENS, WIDTH, WORDS, without_paths

BATCH, SEQ, PAST = "batch_size", "sequence_length", "past_sequence_length"


class WithPast(torch.nn.Module):
    """A language model whose cache is plain tensors: keys and values, layer by layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = transformers.DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache,
                         use_cache=True)
        return out.logits, *(tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values))


def llama():
    """The model, and the width of its heads; both models have HEADS heads of keys and values."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **GROUPED, **TOKENS}))
    return model, WIDTH // GROUPED["num_attention_heads"]


def gpt2():
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=WORDS, n_positions=POSITIONS, **TOKENS)
    return transformers.GPT2LMHeadModel(config), WIDTH // HEADS


def export(make, folder):
    torch.manual_seed(0)
    model, width = make()
    batch, seq, past = 2, 3, 4
    example = (torch.randint(3, WORDS, (batch, seq)), torch.ones(batch, past + seq, dtype=torch.long),
               torch.arange(past, past + seq)[None].expand(batch, seq).contiguous(),
               *(torch.randn(batch, HEADS, past, width) for _ in range(2 * LAYERS)))
    caches = [f"{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{cache}" for cache in caches)]
    names = {"input_names": inputs, "output_names": ["logits", *(f"present.{cache}" for cache in caches)]}
    axes = {name: {0: BATCH, 1: SEQ} for name in ("input_ids", "position_ids", "logits")}
    axes["attention_mask"] = {0: BATCH, 1: f"{PAST} + {SEQ}"}
    axes |= {f"past_key_values.{cache}": {0: BATCH, 2: PAST} for cache in caches}
    axes |= {f"present.{cache}": {0: BATCH, 2: f"{PAST} + {SEQ}"} for cache in caches}
    torch.onnx.export(WithPast(model.eval()), example, folder / f"{make.__name__}_script.onnx", dynamic_axes=axes, opset_version=17,
                      dynamo=False, **names)
    of_rows, of_caches = ({dim: torch.export.Dim.DYNAMIC for dim in dims} for dims in ((0, 1), (0, 2)))
    shapes = {**{name: of_rows for name in inputs[:3]}, "past": (of_caches,) * (2 * LAYERS)}
    torch.onnx.export(WithPast(model), example, folder / f"{make.__name__}_export.onnx", dynamic_shapes=shapes, opset_version=18,
                      dynamo=True, external_data=False, **names)


def main(folder):
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for make in (llama, gpt2):
        export(make, folder)
    for file in folder.glob("*.onnx"):
        without_paths(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
