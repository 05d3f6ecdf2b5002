"""PyTorch's side of ./dev bench train: GPT-2 as samples/gpt2/make.py writes it, trained with fused AdamW.

    train_torch.py TOKENS.npy STEPS THREADS eager|compiled --layers L --width W --heads H --vocab V --context T --batch B

Prints one JSON object: the median of a step behind the first four, and the seconds of the first, which compiles.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, 2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(size.vocab, size.width), nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.ln_f = nn.LayerNorm(size.width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tokens")
    parser.add_argument("steps", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("mode", choices=["eager", "compiled"])
    for name in ("layers", "width", "heads", "vocab", "context", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    size = parser.parse_args()
    torch.set_num_threads(size.threads)
    model = Gpt2(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if size.mode == "compiled" else model
    samples = torch.tensor(np.load(size.tokens).astype(np.int64)).view(-1, size.batch, size.context)
    seconds = []
    for step in range(size.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(samples[step % len(samples)]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"step_ms": statistics.median(seconds[4:]) * 1e3, "first_s": seconds[0]}))


if __name__ == "__main__":
    main()
