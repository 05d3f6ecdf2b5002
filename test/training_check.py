# test: slow
"""Small networks, trained by Weft and by PyTorch (training/make.py): the gradient of each parameter, and the losses of fifty
steps of AdamW. By default a few, as they are stored, and some of the steps; in `full` all of them, exported and trained by
PyTorch anew, and every step."""

import pathlib

import numpy as np

import harness
from exported_anew import exported_anew

TRAINING = pathlib.Path(__file__).resolve().parent / "training"
STORED = TRAINING / "stored"
# One with its loss in the file, one with experts, one of the older exporter and with a loop, one of convolutions, one whose
# batch norms use the batch.
DEFAULT = ("bert", "experts", "gru", "unet", "batch_norm")
LOOKED_AT = (1, 2, 3, 10, 25, 50)  # the numbers of the steps
BETA1 = 0.9
OPTIMIZER = f"{{adamw: {{rate: 3e-3, betas: [{BETA1}, 0.95], epsilon: 1e-8, weight_decay: 0.1}}}}"
# Relative errors. PyTorch's own gradients with 32 bits are 1e-6 from those with 64, its losses 1e-5 after fifty steps.
GRADIENT_TOLERANCE, LOSS_TOLERANCE = 1e-4, 1e-3
# A tensor's largest gradient, as a part of the largest of all: below it is rounding of what is 0, such as that of the bias
# of a key, which a softmax does not see.
NOTHING = 1e-6


def parts(reference, kind):
    """The arrays whose names begin with `kind/`, by the rest of their names."""
    return {name.removeprefix(f"{kind}/"): reference[name] for name in reference if name.startswith(f"{kind}/")}


def schedule(reference, folder):
    file = folder / "train.yaml"
    lines = ["weft: 1", "train:", *(f"  {line}" for line in str(reference["loss"]).splitlines()), f"  optimizer: {OPTIMIZER}"]
    file.write_text("\n".join(lines) + "\n")
    return file


def train(program, data, first, last, folder):
    """The loss before step `last`, counted from 1, when the steps from `first` to it have been made; the states before
    them lie in folder/states{first - 1}, the states after them in folder/states{last}."""
    flags = ["--iterations", last - first + 1, "--output-dir", folder, "--save-state", folder / f"states{last}"]
    for name, batches in data.items():
        for step in range(first, last + 1):
            np.save(folder / f"{name}{step - first}.npy", batches[(step - 1) % len(batches)])
        flags += ["--input", f"{name}={folder}/{name}{{i}}.npy"]
    if first > 1:
        flags += ["--load-state", folder / f"states{first - 1}"]
    status, _, err = harness.run([program, *flags])
    if status != 0:
        raise RuntimeError(f"steps {first} to {last}: exit {status}: {err[-300:]}")
    return float(np.load(folder / ("loss.npy" if (folder / "loss.npy").exists() else "scores.npy")))


def gradient_errors(reference, states):
    """By parameter, from AdamW's mean after one step, which is a part of the gradient."""
    largest, errors = float(reference["largest"]), {}
    for name, wanted in parts(reference, "gradient").items():
        found = np.load(states / f"{name}.m.npy").astype(np.float64) / (1 - BETA1)
        size = float(abs(wanted).max())
        errors[name] = float(abs(found - wanted).max()) / (size if size > NOTHING * largest else largest)
    return errors


def check_gradients(name, reference, states):
    wanted, trained = sorted(parts(reference, "gradient")), sorted(file.name.removesuffix(".m.npy") for file in states.glob("*.m.npy"))
    if not harness.check(f"{name}/parameters are PyTorch's", trained == wanted, f"{sorted(set(trained) ^ set(wanted))}"):
        return
    errors = gradient_errors(reference, states)
    for parameter, error in errors.items():
        harness.check(f"{name}/gradient of {parameter}", error <= GRADIENT_TOLERANCE, f"relative error {error:.1e}")
    worst = max(errors, key=errors.get)
    print(f"{name}: gradients within {errors[worst]:.1e} ({worst}), PyTorch's within {float(reference['noise']):.1e}")


def check_losses(name, reference, losses):
    """Against those that PyTorch computes with 64 bits."""
    wanted = reference["losses64"]
    errors = {step: abs(loss / wanted[step - 1] - 1) for step, loss in losses.items()}
    for step, error in errors.items():
        harness.check(f"{name}/loss of step {step}", error <= LOSS_TOLERANCE, f"{losses[step]}, not {wanted[step - 1]}")
    noise = max(abs(reference["losses"] / wanted - 1))
    print(f"{name}: losses within {max(errors.values()):.1e}, PyTorch's within {noise:.1e}")


def check_statistics(name, reference, states):
    """Running statistics after the last step."""
    wanted = parts(reference, "statistics")
    for statistic, array in wanted.items():
        error = harness.relative_error(np.load(states / f"{statistic}.npy"), array)
        harness.check(f"{name}/{statistic}", error <= LOSS_TOLERANCE, f"relative error {error:.1e}")


def check_network(model):
    name, folder = model.stem, harness.scratch(f"training/{model.stem}")
    reference = dict(np.load(model.with_suffix(".npz")))
    program, data = folder / "program", parts(reference, "input")
    status, _, err = harness.weft("compile", model, "--schedule", schedule(reference, folder), "-o", program, "--quiet")
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    steps = range(1, len(reference["losses64"]) + 1) if harness.FULL else LOOKED_AT
    losses, done = {}, 0
    for step in steps:
        losses[step] = train(program, data, done + 1, step, folder)
        done = step
    check_gradients(name, reference, folder / "states1")
    check_losses(name, reference, losses)
    check_statistics(name, reference, folder / f"states{done}")
    check_at_once(name, program, data, losses, folder)


def check_at_once(name, program, data, losses, folder):
    """Steps that one process makes give the bits of those that several make, each from the states of the one before."""
    last = max(losses)
    loss = train(program, data, 1, last, folder)
    harness.check(f"{name}/steps of one process", loss == losses[last], f"{loss}, not {losses[last]}")


def main():
    stored = sorted(model.stem for model in STORED.glob("*.onnx"))
    folder = exported_anew(TRAINING / "make.py", "requirements.txt", STORED, stored) if harness.FULL else STORED
    for name in stored if harness.FULL else DEFAULT:
        check_network(folder / f"{name}.onnx")


if __name__ == "__main__":
    harness.need_weft()
    main()
