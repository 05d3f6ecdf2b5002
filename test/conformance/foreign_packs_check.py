# test: slow
"""Small models that other projects wrote to test their readers: a fixed tenth, or all of them in `full`.

Where ONNX Runtime gives results, ours must agree or be refused with a diagnostic. A model that ONNX Runtime itself
cannot run is bad input: the compiler has to refuse it or accept it, and must not break.
"""

import zlib

import harness
from references import make_references
from verify_many import Case, check_floor, report, verify_many

PACKS = ("ort_testdata_models_MIT", "migraphx_onnx_MIT")


def chosen(pack):
    folder = harness.corpus_pack(pack)
    models = sorted(folder.glob("**/*.onnx"))
    return [m for m in models if harness.FULL or zlib.crc32(str(m.relative_to(folder)).encode()) % 10 == 0]


def name_of(pack, model):
    return str(model.relative_to(harness.corpus_pack(pack)).with_suffix("")).replace(":", "_")


def check_broken(pack, models, reasons):
    """A model without a reference: any answer but a crash or a bug report is right."""
    for model in models:
        status, _, err = harness.weft("inspect", model, timeout=60)
        name = f"bad/{name_of(pack, model)}"
        harness.check(name, status in (0, 1, 3), f"inspect: exit {status} on '{reasons[model]}': {err[-200:]}")


def check_pack(pack):
    models = chosen(pack)
    data = harness.ROOT / "build" / "corpus" / "references" / pack
    reasons = make_references([(model, data / name_of(pack, model), []) for model in models])
    cases = [Case(name_of(pack, m), m, data / name_of(pack, m)) for m in models if reasons[m] is None]
    results = verify_many(cases, harness.scratch(f"cases_{pack}"))
    report(results)
    check_broken(pack, [model for model in models if reasons[model]], reasons)
    if not harness.FULL:
        check_floor(pack, results)


def main():
    for pack in PACKS:
        if harness.corpus_pack(pack) is None:
            harness.skipped(pack, "the corpus is not on this machine (WEFT_CORPUS)")
        else:
            check_pack(pack)


harness.need_weft()
main()
