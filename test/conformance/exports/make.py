"""Writes the models that lie here: small networks of many families with seeded weights, as PyTorch's two exporters write
them, with open dimensions (families.py says which).

    make.py FOLDER [NAME...]

Needs requirements.txt, which the tests do only in full: the files are stored. NAME_half is a model in half the bits,
NAME_bytes one that ONNX Runtime has quantized. NAME_script.onnx is of the older exporter, which traces
(torch.onnx.export with dynamo=False), NAME_export.onnx of torch.export's. Where one of them cannot export a model (they
say so), there is only the other file.
"""

import functools
import pathlib
import sys
import warnings

import diffusers
import families
import numpy as np
import onnx
import timm
import torch
import torchvision
import transformers
from onnxruntime import quantization
from torch import nn

LAYERS, HEADS, WIDTH, INNER, WORDS, POSITIONS = 2, 2, 16, 32, families.WORDS, 64
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LAYER_SIZES = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH, "intermediate_size": INNER}
SIZES = {**LAYER_SIZES, "vocab_size": WORDS, "max_position_embeddings": POSITIONS, **TOKENS}
GROUPED = {**SIZES, "num_attention_heads": 2 * HEADS, "num_key_value_heads": HEADS}
SHORT_NAMES = {"n_layer": LAYERS, "n_head": HEADS, "vocab_size": WORDS, **TOKENS}
BOTH_SIDES = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
              "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "vocab_size": WORDS,
              "decoder_start_token_id": 2, **TOKENS}
WHISPER = {**BOTH_SIDES, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": POSITIONS,
           "suppress_tokens": None, "begin_suppress_tokens": None}
PATCHES = {**LAYER_SIZES, "image_size": 32, "patch_size": 8, "num_labels": 5}
STAGES = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_labels": 5}


class Result(nn.Module):
    """A model of which one result, or several, are outputs; its inputs are given in order."""

    def __init__(self, model, name, results, **fixed):
        super().__init__()
        self.model, self.names = model, list(families.FAMILIES[name].inputs)
        self.results, self.fixed = results, fixed

    def forward(self, *inputs):
        results = self.model(**dict(zip(self.names, inputs)), **self.fixed)
        return tuple(getattr(results, each) for each in self.results)


def decoder(name, model, config, **sizes):
    """A language model without its cache."""
    return lambda: Result(model(config(**sizes)), name, ["logits"], use_cache=False)


def of_transformers(name, model, config, *results, **sizes):
    return lambda: Result(model(config(**sizes)), name, results or ["last_hidden_state"])



def language_models():
    t = transformers
    return {
        "gpt2": decoder("gpt2", t.GPT2LMHeadModel, t.GPT2Config, n_embd=WIDTH, n_positions=POSITIONS, **SHORT_NAMES),
        "llama": decoder("llama", t.LlamaForCausalLM, t.LlamaConfig, **GROUPED),
        "qwen2": decoder("qwen2", t.Qwen2ForCausalLM, t.Qwen2Config, **GROUPED),
        "opt": decoder("opt", t.OPTForCausalLM, t.OPTConfig, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                       hidden_size=WIDTH, ffn_dim=INNER, vocab_size=WORDS, max_position_embeddings=POSITIONS,
                       word_embed_proj_dim=WIDTH, **TOKENS),
        "mistral": decoder("mistral", t.MistralForCausalLM, t.MistralConfig, **GROUPED, sliding_window=5),
        "gemma": decoder("gemma", t.GemmaForCausalLM, t.GemmaConfig, **GROUPED, head_dim=8),
        "phi": decoder("phi", t.PhiForCausalLM, t.PhiConfig, **SIZES),
        "falcon": decoder("falcon", t.FalconForCausalLM, t.FalconConfig, **SIZES),
        "gptneox": decoder("gptneox", t.GPTNeoXForCausalLM, t.GPTNeoXConfig, **SIZES),
        "gptj": decoder("gptj", t.GPTJForCausalLM, t.GPTJConfig, n_embd=WIDTH, n_positions=POSITIONS, rotary_dim=4,
                        **SHORT_NAMES),
        "bloom": decoder("bloom", t.BloomForCausalLM, t.BloomConfig, hidden_size=WIDTH, **SHORT_NAMES),
        "t5": decoder("t5", t.T5ForConditionalGeneration, t.T5Config, d_model=WIDTH, d_kv=8, d_ff=INNER,
                      num_layers=LAYERS, num_heads=HEADS, vocab_size=WORDS, decoder_start_token_id=0,
                      relative_attention_num_buckets=8, relative_attention_max_distance=12),
        "bart": decoder("bart", t.BartForConditionalGeneration, t.BartConfig, max_position_embeddings=POSITIONS,
                        **BOTH_SIDES),
        "whisper": decoder("whisper", t.WhisperForConditionalGeneration, t.WhisperConfig, **WHISPER),
    }


def encoders():
    t = transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    return {
        "bert": of_transformers("bert", t.BertModel, t.BertConfig, **SIZES),
        "roberta": of_transformers("roberta", t.RobertaModel, t.RobertaConfig, **SIZES),
        "distilbert": of_transformers("distilbert", t.DistilBertModel, t.DistilBertConfig, n_layers=LAYERS, n_heads=HEADS,
                                      dim=WIDTH, hidden_dim=INNER, vocab_size=WORDS, max_position_embeddings=POSITIONS),
        "albert": of_transformers("albert", t.AlbertModel, t.AlbertConfig, **SIZES, embedding_size=8),
        "electra": of_transformers("electra", t.ElectraModel, t.ElectraConfig, **SIZES, embedding_size=8),
        "deberta": of_transformers("deberta", t.DebertaModel, t.DebertaConfig, **SIZES, relative_attention=True,
                                   pos_att_type=["c2p", "p2c"]),
        "whisper_encoder": of_transformers("whisper_encoder", WhisperEncoder, t.WhisperConfig, **WHISPER),
        "wav2vec2": of_transformers("wav2vec2", t.Wav2Vec2ForCTC, t.Wav2Vec2Config, "logits", **LAYER_SIZES,
                                    vocab_size=WORDS, conv_dim=(8, 8, 8), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2),
                                    num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, **TOKENS),
    }


def detr():
    backbone = transformers.ResNetConfig(embedding_size=8, **STAGES, out_features=["stage4"])
    return transformers.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone,
                                   num_queries=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS,
                                   decoder_attention_heads=HEADS, d_model=WIDTH, encoder_ffn_dim=INNER,
                                   decoder_ffn_dim=INNER, num_labels=5)


def clip():
    return transformers.CLIPConfig(text_config=SIZES, vision_config=PATCHES, projection_dim=8)


def vision_transformers():
    t = transformers
    return {
        "vit": of_transformers("vit", t.ViTForImageClassification, t.ViTConfig, "logits", **PATCHES),
        "swin": of_transformers("swin", t.SwinForImageClassification, t.SwinConfig, "logits", image_size=32, patch_size=2,
                                embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4, num_labels=5),
        "clip": of_transformers("clip", t.CLIPModel, clip, "text_embeds", "image_embeds"),
        "detr": of_transformers("detr", t.DetrForObjectDetection, detr, "logits", "pred_boxes"),
        "convnext": of_transformers("convnext", t.ConvNextForImageClassification, t.ConvNextConfig, "logits", **STAGES),
        "resnet": of_transformers("resnet", t.ResNetForImageClassification, t.ResNetConfig, "logits", embedding_size=8,
                                  **STAGES),
    }


def mobilenet():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
    blocks = [(8, 3, 8, 8, True, "RE", 2, 1, 1), (8, 3, 24, 8, False, "RE", 2, 1, 1), (8, 5, 32, 16, True, "HS", 2, 1, 1),
              (16, 5, 48, 16, True, "HS", 1, 1, 1)]
    return MobileNetV3([InvertedResidualConfig(*block) for block in blocks], 32, num_classes=5)


def efficientnet():
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig
    block = functools.partial(MBConvConfig, width_mult=1.0, depth_mult=1.0)
    blocks = [block(1, 3, 1, 8, 8, 1), block(4, 3, 2, 8, 8, 1), FusedMBConvConfig(4, 3, 2, 8, 16, 1), block(4, 5, 2, 16, 16, 2)]
    return EfficientNet(blocks, 0.0, num_classes=5, last_channel=32)


def mixer():
    model = timm.models.mlp_mixer.MlpMixer(num_classes=5, img_size=32, patch_size=8, num_blocks=2, embed_dim=WIDTH)
    nn.init.normal_(model.head.weight)  # timm begins with zeros
    return model


class UNet(nn.Module):
    """Normalisations of groups and of images, a transposed convolution, and resizing to the size of another image."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = self.pair(3, 8), self.pair(8, 16), self.pair(16, 16)
        self.up, self.up2, self.up1 = nn.ConvTranspose2d(16, 16, 2, 2), self.pair(32, 8), self.pair(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def pair(channels, filters):
        return nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.GroupNorm(2, filters), nn.ReLU(),
                             nn.Conv2d(filters, filters, 3, padding=1), nn.InstanceNorm2d(filters, affine=True),
                             nn.LeakyReLU())

    def forward(self, x):
        large = self.down1(x)
        small = self.down2(nn.functional.max_pool2d(large, 2))
        least = self.middle(nn.functional.avg_pool2d(small, 2))
        joined = self.up2(torch.cat((self.up(least), small), 1))
        wide = nn.functional.interpolate(joined, size=large.shape[2:], mode="bilinear", align_corners=False)
        return self.out(self.up1(torch.cat((wide, large), 1)))


class Yolo(nn.Module):
    """A detector of one stage: pyramid pooling, nearest upsampling, boxes from a grid of positions."""

    def __init__(self):
        super().__init__()
        self.large = nn.Sequential(self.layer(3, 8, 3, 2), self.layer(8, 16, 3, 2))
        self.small, self.mix = self.layer(16, 32, 3, 2), self.layer(128, 32, 1)
        self.pool, self.up, self.join = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2), self.layer(48, 16)
        self.head_large, self.head_small = nn.Conv2d(16, 18, 1), nn.Conv2d(32, 18, 1)

    @staticmethod
    def layer(channels, filters, size=3, stride=1):
        return nn.Sequential(nn.Conv2d(channels, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters), nn.SiLU())

    def boxes(self, x, stride):
        batch, _, height, width = x.shape
        x = x.view(batch, 3, 6, height, width).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centers = (x[..., :2] * 2 - 0.5 + torch.stack((columns, rows), -1).float()) * stride
        sizes = (x[..., 2:4] * 2) ** 2 * stride
        return torch.cat((centers, sizes, x[..., 4:]), -1).view(batch, -1, 6)

    def forward(self, x):
        large = self.large(x)
        small = self.small(large)
        once = self.pool(small)
        twice = self.pool(once)
        small = self.mix(torch.cat((small, once, twice, self.pool(twice)), 1))
        large = self.join(torch.cat((self.up(small), large), 1))
        return torch.cat((self.boxes(self.head_large(large), 4), self.boxes(self.head_small(small), 8)), 1)


class VaeDecoder(nn.Module):
    """The decoder of a latent diffusion model: images from latents."""

    def __init__(self):
        super().__init__()
        self.model = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(8, 16), layers_per_block=1, latent_channels=4, norm_num_groups=4, sample_size=32)

    def forward(self, latents):
        return self.model.decode(latents, return_dict=False)[0]


def convolutional():
    models = torchvision.models
    return {
        "mobilenet": mobilenet,
        "efficientnet": efficientnet,
        "densenet": lambda: models.DenseNet(4, (2, 2), 8, num_classes=5),
        "shufflenet": lambda: models.ShuffleNetV2([2, 2, 2], [8, 8, 16, 16, 32], num_classes=5),
        "unet": UNet,
        "yolo": Yolo,
        "mixer": mixer,
        "vae_decoder": VaeDecoder,
    }


def seeded(make):
    """The model, with statistics of its batch normalisations that are not 0 and 1."""
    torch.manual_seed(0)
    model = make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model


def open_dims(family):
    return {name: {d: dim for d, dim in enumerate(extents) if isinstance(dim, str)}
            for name, (_, *extents) in family.inputs.items()}


def export(name, make, folder):
    family, model = families.FAMILIES[name], seeded(make)
    if name.endswith("_half"):
        model = model.half()
    inputs = families.arrays(family, families.example(family), 0)
    example = tuple(torch.from_numpy(np.ascontiguousarray(each)) for each in inputs.values())
    results = model.results if isinstance(model, Result) else ["out"]
    names = {"input_names": list(inputs), "output_names": [f"out{i}" for i in range(len(results))]}
    dims = {dim: torch.export.Dim(dim) for dim in family.bounds}
    shapes = tuple({d: dims[dim] for d, dim in each.items()} for each in open_dims(family).values())
    ways = {
        "script": {"dynamo": False, "opset_version": 17, "dynamic_axes": open_dims(family)},
        "export": {"dynamo": True, "opset_version": 18, "external_data": False,
                   "dynamic_shapes": (shapes,) if isinstance(model, Result) else shapes},
    }
    for way, flags in ways.items():
        file = folder / f"{name}_{way}.onnx"
        try:
            torch.onnx.export(model, example, file, **names, **flags)
        except (RuntimeError, torch.onnx.OnnxExporterError) as error:
            print(f"{file.name}: {str(error).splitlines()[0]}")
            file.unlink(missing_ok=True)
            continue
        if name.endswith("_bytes"):
            quantize(file, family)
        without_paths(file)


class Requests(quantization.CalibrationDataReader):
    """The data for the calibration of activations' ranges."""

    def __init__(self, family):
        lengths = [families.lengths(family, number) for number in range(5)]
        self.rest = iter([families.arrays(family, each, number) for number, each in enumerate(lengths)])

    def get_next(self):
        return next(self.rest, None)


def quantize(file, family):
    """Weights of texts as bytes, and activations by the range of each request; of images by ranges that are known.

    Weights of texts have 7 bits: on a CPU without VNNI, ONNX Runtime adds two products of 8 bits in 16 bits, saturated.
    """
    if "input_ids" in family.inputs:
        quantization.quantize_dynamic(file, file, per_channel=True, reduce_range=True)
    else:
        quantization.quantize_static(file, file, Requests(family), per_channel=True)


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
    makers = {**language_models(), **encoders(), **vision_transformers(), **convolutional()}
    for name in families.FAMILIES:
        if not wanted or name in wanted:
            export(name, makers[name.removesuffix("_half").removesuffix("_bytes")], folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
