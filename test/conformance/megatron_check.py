# test: slow
"""Public models of Megatron's layers on 1, 2 and 4 ranks: equal to ONNX Runtime, with one all-reduce and no more."""

import json

import harness
from references import make_reference

SCHEDULES = harness.ROOT / "test" / "conformance" / "megatron"
FLAGS = ["--dim=batch=2", "--dim=seqlen=6"]
TABLE = {
    "mlp_megatron_basic_test": ["mlp_tp2", "mlp_tp4"],
    "bart_mlp_megatron_basic_test": ["bart_mlp_tp2", "bart_mlp_tp4"],
    "self_attention_megatron_basic_test": ["self_attention_tp2", "self_attention_dp2_tp2"],
    "bart_self_attention_megatron_basic_test": ["bart_self_attention_tp2", "bart_self_attention_dp2_tp2"],
}


def check_collectives(schedule, model, flags):
    status, out, err = harness.weft("explain", model, *flags, "--schedule", SCHEDULES / f"{schedule}.yaml", "--json")
    kinds = [c["what"] for c in json.loads(out)["collectives"]] if status == 0 else []
    harness.check(f"{schedule}/collectives", kinds == ["AllReduce sum over tp"], f"{kinds} {err[-300:]}")


def check_model(name, schedules, model, data):
    flags = [] if name.startswith("bart_self") else FLAGS  # its lengths are fixed
    why = make_reference(model, data, FLAGS)
    if why:
        harness.skipped(name, f"ONNX Runtime has no result: {why}")
        return
    for schedule in [None, *schedules]:
        choice = ["--schedule", SCHEDULES / f"{schedule}.yaml"] if schedule else []
        status, out, err = harness.weft("verify", model, "--data", data, *flags, *choice)
        harness.check(f"{name}/{schedule or 'one_rank'}", status == 0, f"exit {status}: {(err or out)[-300:]}")
        if schedule:
            check_collectives(schedule, model, flags)


def main():
    pack = harness.corpus_pack("models")
    if pack is None:
        harness.skipped("megatron", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    references = harness.ROOT / "build" / "corpus" / "references" / "models" / "megatron_inputs"
    for name, schedules in TABLE.items():
        check_model(name, schedules, pack / "models" / "megatron_inputs" / f"{name}.onnx", references / name)


if __name__ == "__main__":
    harness.need_weft()
    main()
