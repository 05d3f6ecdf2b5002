"""PyTorch's side of ./dev bench train.

    train_torch.py export NETWORK FOLDER STEPS                     the model, its schedule, and the samples of these steps
    train_torch.py train NETWORK FOLDER STEPS THREADS eager|compiled   one JSON object: the loss and the seconds of each step
"""

import json
import pathlib
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn
from train_networks import NETWORKS


def made(name):
    """The network with the same weights each time."""
    torch.manual_seed(1)
    return NETWORKS[name].build()


def model_inputs(network, arrays):
    return [array for each, array in arrays.items() if each != network.labels or network.reads_labels]


def schedule(network):
    flow = ", ".join(f"{key}: {value}" for key, value in network.numbers.items())
    clip = f"  clip: {{norm: {network.clip}}}\n" if network.clip else ""
    return f"weft: 1\ntrain:\n  {network.train}\n  optimizer: {{{network.optimizer}: {{{flow}}}}}\n{clip}"


def export(name, folder, steps):
    warnings.filterwarnings("ignore")
    network = NETWORKS[name]
    samples = network.draw(np.random.default_rng(1), steps)
    for each, array in samples.items():
        np.save(folder / f"{each}.npy", array)
    first = {each: torch.from_numpy(array[: network.batch]) for each, array in samples.items()}
    inputs = [each for each in samples if each != network.labels or network.reads_labels]
    torch.onnx.export(made(name), tuple(model_inputs(network, first)), str(folder / "model.onnx"), input_names=inputs,
                      output_names=["scores"], dynamo=True, optimize=False, external_data=False, verbose=False)
    (folder / "train.yaml").write_text(schedule(network))


def optimizer_of(network, parameters):
    numbers = dict(network.numbers)
    rate = numbers.pop("rate")
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[network.optimizer]
    return kind(parameters, lr=rate, fused=True, **numbers)


def train(name, folder, steps, threads, mode):
    torch.set_num_threads(threads)
    network, module = NETWORKS[name], made(name)
    files = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    samples = {each: torch.from_numpy(files[each]) for each in network.draw(np.random.default_rng(1), 1)}
    optimizer = optimizer_of(network, module.parameters())

    def loss_of(inputs, labels):
        return network.loss(module(*inputs), labels)

    forward = torch.compile(loss_of) if mode == "compiled" else loss_of
    losses, seconds = [], []
    for step in range(steps):
        batch = {each: array[step * network.batch : (step + 1) * network.batch] for each, array in samples.items()}
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = forward(model_inputs(network, batch), batch[network.labels])
        loss.backward()
        if network.clip:
            nn.utils.clip_grad_norm_(module.parameters(), network.clip)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"losses": losses, "seconds": seconds}))


def main(verb, name, folder, steps, *more):
    if verb == "export":
        export(name, pathlib.Path(folder), int(steps))
    else:
        train(name, pathlib.Path(folder), int(steps), int(more[0]), more[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
