"""Writes the models that lie here: small transformers with seeded weights, as PyTorch's two exporters write
them, with two open dimensions, `batch` and `seq`.

    make.py FOLDER [NAME...]

Needs torch, transformers, onnx and onnxscript, which the tests themselves do not: the files are stored. NAME_script.onnx is
of the older exporter, which traces (torch.onnx.export with dynamo=False), NAME_export.onnx of torch.export's.
"""

import pathlib
import sys
import warnings

import onnx
import torch
import transformers

LAYERS, HEADS, WIDTH, INNER, WORDS, POSITIONS = 2, 2, 16, 32, 50, 64
SIZES = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH, "intermediate_size": INNER,
         "vocab_size": WORDS, "max_position_embeddings": POSITIONS}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {"num_attention_heads": 2 * HEADS, "num_key_value_heads": HEADS}


class Logits(torch.nn.Module):
    """A language model without its cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class States(torch.nn.Module):
    """An encoder's last hidden states."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def gpt2():
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=WORDS, n_positions=POSITIONS,
                                     **TOKENS)
    return Logits(transformers.GPT2LMHeadModel(config))


def llama():
    return Logits(transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **GROUPED, **TOKENS})))


def qwen2():
    return Logits(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**SIZES, **GROUPED, **TOKENS})))


def opt():
    config = transformers.OPTConfig(num_hidden_layers=LAYERS, num_attention_heads=HEADS, hidden_size=WIDTH, ffn_dim=INNER,
                                    vocab_size=WORDS, max_position_embeddings=POSITIONS, word_embed_proj_dim=WIDTH, **TOKENS)
    return Logits(transformers.OPTForCausalLM(config))


def bert():
    return States(transformers.BertModel(transformers.BertConfig(**SIZES, **TOKENS)))


def roberta():
    return States(transformers.RobertaModel(transformers.RobertaConfig(**SIZES, **TOKENS)))


def distilbert():
    config = transformers.DistilBertConfig(n_layers=LAYERS, n_heads=HEADS, dim=WIDTH, hidden_dim=INNER, vocab_size=WORDS,
                                           max_position_embeddings=POSITIONS)
    return States(transformers.DistilBertModel(config))


MODELS = [gpt2, llama, qwen2, opt, bert, roberta, distilbert]


def export(make, folder):
    torch.manual_seed(0)
    model = make().eval()
    example = (torch.randint(3, WORDS, (2, 7)), torch.ones(2, 7, dtype=torch.long))
    names = {"input_names": ["input_ids", "attention_mask"], "output_names": ["out"]}
    open_dims = {name: {0: "batch", 1: "seq"} for name in ("input_ids", "attention_mask", "out")}
    torch.onnx.export(model, example, folder / f"{make.__name__}_script.onnx", dynamic_axes=open_dims, opset_version=17,
                      dynamo=False, **names)
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq")
    torch.onnx.export(model, example, folder / f"{make.__name__}_export.onnx", opset_version=18, dynamo=True,
                      dynamic_shapes={name: {0: batch, 1: seq} for name in names["input_names"]}, external_data=False, **names)


def without_paths(file):
    """Exporters note where each node was written; kept is only the module that it comes from."""
    model = onnx.load(file)
    kept = ("pkg.torch.onnx.name_scopes",)
    for holder in [model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output,
                   *model.graph.initializer]:
        entries = [entry for entry in holder.metadata_props if entry.key in kept]
        del holder.metadata_props[:]
        holder.metadata_props.extend(entries)
        holder.doc_string = ""
    del model.graph.value_info[:]
    onnx.save(model, file)


def main(folder, *wanted):
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        if not wanted or make.__name__ in wanted:
            export(make, folder)
    for file in folder.glob("*.onnx"):
        without_paths(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
