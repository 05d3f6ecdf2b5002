# test: slow
"""Whole public models: speech, vision, text, training steps, quantised, with loops and scans."""

import json

import numpy as np

import harness
from references import arrays_to_folder, make_references
from verify_many import Case, check_floor, report, verify_many

# Lengths of dims that the file leaves open; what is not named here is 1.
DIMS = {
    "silero_vad_16k_op15": {"sequence": 576},
    "gpt2_past": {"batch_size": 2, "seq_len": 3},
    "bert_toy_optimized": {"batch": 2, "max_seq_len_in_batch": 12},
    "attention_past_state": {"batch": 2, "seq_len": 4, "past_sequence_length": 3},
    "megatron_inputs": {"batch": 2, "seqlen": 6},
    "training_api_mnist": {"input-0_dim0": 4, "input-0_dim1": 784, "output-0_dim0": 4},
    "scan_1": {"Sequence": 7},
    "fp16model_loop": {"?": 1},
    "tiny_random_gpt2_fp32": {"batch_size": 2, "seq_len": 3, "past_seq_len": 2, "total_seq_len": 5},
}

# Rounding to 8 bits of a value that lies in the middle goes either way: one step of the output's scale is 0.05 of it.
# The first norm of magika computes a variance of 1.2e-5 as a difference of mean squares of 0.49. Depending on the order
# of additions in fp32 it is off by 0.2 to 5 %, also in ONNX Runtime.
TOLERANCES = {"qdq_multi_consumer": "--tolerance=0.06", "magika_standard_v3_3": "--tolerance=0.03"}


# Language models and an image model that a user would try first: for these a refusal is a failure too.
NEEDED = ["gpt2_past/gpt2_past", "bert_toy_optimized/bert_toy_optimized", "attention_past_state/attention_past_state",
          "mnist_8/model"]


def check_needed(results):
    passed = {result.case for result in results if result.status == "passed"}
    for name in NEEDED:
        harness.check(f"needed/{name}", name in passed, "this model must compile and be right")


def known_data(model, folder):
    """The data that came with a model as a folder of input_N and output_N, or None."""
    home = model.parent
    if (home / "test_data_set_0").exists():
        return home / "test_data_set_0"
    if (home / "inputs.npz").exists():
        arrays_to_folder(model, np.load(home / "inputs.npz"), np.load(home / "outputs.npz"), folder)
        return folder
    if (home / "io.npz").exists():
        arrays = dict(np.load(home / "io.npz"))
        arrays_to_folder(model, {"input": arrays.pop("input")}, arrays, folder)
        return folder
    return None


def main():
    pack = harness.corpus_pack("models")
    if pack is None:
        harness.skipped("models", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    references = harness.ROOT / "build" / "corpus" / "references" / "models"
    models = [pack / "models" / row["file"] for row in json.loads((pack / "manifest.json").read_text())["models"]]
    data, jobs = {}, []
    for model in models:
        folder = references / model.parent.name / model.stem
        data[model] = known_data(model, folder)
        if data[model] is None:
            flags = [f"--dim={name}={length}" for name, length in DIMS.get(model.parent.name, {}).items()]
            jobs.append((model, folder, flags))
            data[model] = folder
    reasons = make_references(jobs)
    for model, reason in reasons.items():
        if reason:
            harness.skipped(f"{model.parent.name}/{model.stem}", f"ONNX Runtime has no result: {reason}")
    cases = [Case(f"{m.parent.name}/{m.stem}", m, data[m], TOLERANCES.get(m.parent.name, "")) for m in models if not reasons.get(m)]
    results = verify_many(cases, harness.scratch("cases_models"))
    report(results)
    check_needed(results)
    check_floor("models", results)


if __name__ == "__main__":
    harness.need_weft()
    main()
