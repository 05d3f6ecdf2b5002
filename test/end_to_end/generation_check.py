# test: slow
"""`generate:`: prompt to tokens inside one executable. GPT-2 and a model of Llama's kind give the tokens that the model
without a cache gives, token by token, greedily and drawn, on one rank and two; as servers and as a library too.
By default the Llama of two ranks; in `full` all, and what PyTorch's exporters wrote (../conformance/exports/past)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime

import harness

sys.path[:0] = [str(harness.ROOT / part) for part in ("test/models", "samples", "samples/serve")]
import group_query_decoder  # noqa: E402
from client import RUN, STOP, Client  # noqa: E402
from generate import generate as generate_text  # noqa: E402
from library_check import Model  # noqa: E402
from text_generation import generate  # noqa: E402

SAMPLES = harness.ROOT / "samples"
NEW = 50
# The largest two logits after each of its tokens are 1 % apart, so that rounding never decides.
PROMPT = np.array([[5, 17, 80, 3, 41, 22, 19]])
PROMPTS = np.concatenate([PROMPT, PROMPT[:, ::-1]])  # the texts of one request
SAMPLING = {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "seed": 11}
SIZES = {"gpt2": ["--layers", "2", "--width", "32", "--heads", "4", "--vocab", "101", "--context", "128"],
         "llama": ["--layers", "2", "--width", "32", "--heads", "4", "--groups", "2", "--hidden", "48", "--vocab", "101"]}
ROOM, PIECE = 80, 4  # a prompt of more than PIECE tokens is fed in pieces
DIMS = {"gpt2": {"batch": "<=2", "seq": f"<={PIECE}", "past": f"<={ROOM}"}}
DIMS["llama"] = {**DIMS["gpt2"], "past + seq": f"<={ROOM}"}
GENERATE = {"gpt2": {"tokens": "input_ids", "logits": "logits", "max_new": NEW},
            "llama": {"tokens": "input_ids", "positions": "position_ids", "mask": "attention_mask", "logits": "logits", "max_new": NEW}}
STATE = {"gpt2": {"past_k.{l}": "present_k.{l}", "past_v.{l}": "present_v.{l}"},
         "llama": {"past_key_values.{l}.key": "present.{l}.key", "past_key_values.{l}.value": "present.{l}.value"}}
SHARD = {"gpt2": {"wte.weight": 0, "h.{l}.attn.c_attn.weight": {"dim": 1, "parts": 3}, "h.{l}.attn.c_proj.weight": 0,
                  "h.{l}.mlp.c_fc.weight": 1, "h.{l}.mlp.c_proj.weight": 0},
         "llama": {"model.embed_tokens.weight": 0, "lm_head.weight": 1,
                   **{f"model.layers.{{l}}.{name}.weight": dim for name, dim in
                      (("self_attn.q_proj", 1), ("self_attn.k_proj", 1), ("self_attn.v_proj", 1), ("self_attn.o_proj", 0),
                       ("mlp.gate_proj", 1), ("mlp.up_proj", 1), ("mlp.down_proj", 0))}}}


def schedule(kind, ranks, **more):
    """JSON is YAML."""
    content = {"weft": 1, "dims": DIMS[kind], "state": STATE[kind], "generate": GENERATE[kind], **more}
    if ranks > 1:
        content |= {"mesh": {"tp": ranks}, "shard": {name: {"tp": dim} for name, dim in SHARD[kind].items()}}
    return json.dumps(content)


def make_model(kind, file, *flags):
    status, _, err = harness.run([sys.executable, SAMPLES / kind / "make.py", file, *SIZES[kind], *flags])
    if status != 0:
        raise RuntimeError(f"make.py failed: {err[-300:]}")
    return file


def compile_program(name, model, folder, text, *flags):
    """The program, or None after a failed case."""
    file = folder / f"{name}.yaml"
    file.write_text(text)
    status, _, err = harness.weft("compile", model, "--schedule", file, "-o", folder / name, "--quiet", *flags)
    return folder / name if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}") else None


def flags_of(sampling):
    return [part for key, value in sampling.items() for part in (f"--{key.replace('_', '-')}", str(value))]


def run(program, folder, prompt, *flags, **more):
    """(exit code, what --json says, standard error)."""
    np.save(folder / "prompt.npy", prompt)
    status, out, err = harness.run([program, "--input", f"input_ids={folder}/prompt.npy", "--json", *flags], **more)
    return status, json.loads(out) if status == 0 else None, err


def check_tokens(name, program, folder, wanted, prompt, *flags):
    status, told, err = run(program, folder, prompt, *flags)
    if harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        harness.check(f"{name}/tokens", told["tokens"] == wanted.tolist(), f"{told['tokens']}, not {wanted.tolist()}")


def check_program(name, program, folder, session):
    """Greedy and drawn; the file of tokens; states that go on with a further start."""
    greedy = generate(session, PROMPT, NEW)
    check_tokens(f"{name}/greedy", program, folder, greedy, PROMPT, "--poison", "--output-dir", folder / "out")
    harness.check(f"{name}/file", np.array_equal(np.load(folder / "out" / "tokens.npy"), greedy), "other tokens")
    for seed in (11, 12):
        sampling = {**SAMPLING, "seed": seed}
        check_tokens(f"{name}/drawn by {seed}", program, folder, generate(session, PROMPT, NEW, **sampling), PROMPT, *flags_of(sampling))
    check_tokens(f"{name}/first start", program, folder, greedy[:, :10], PROMPT, "--max-new", 10, "--save-state", folder / "state")
    drawn = generate(session, PROMPTS, 12, **SAMPLING)
    check_tokens(f"{name}/two texts", program, folder, drawn, PROMPTS, "--max-new", 12, *flags_of(SAMPLING))
    # The states hold all but the last token, with which the next prompt begins.
    check_tokens(f"{name}/second start", program, folder, greedy[:, 10:20], greedy[:, 9:10], "--max-new", 10, "--load-state", folder / "state")
    status, _, err = run(program, folder, PROMPTS[:, :1], "--max-new", 10, "--load-state", folder / "state")
    harness.check(f"{name}/two texts after one", status == 1 and "they are one dim of the model" in err, f"exit {status}: {err[-300:]}")
    check_tokens(f"{name}/each anew", program, folder, greedy[:, :5], PROMPT, "--max-new", 5, "--iterations", 3, "--warmup", 1)


def check_refusals(name, program, folder):
    for what, prompt, flags, code, text in (
        ("too long", np.zeros((1, 40), int), [], 1, "'input_ids': 0 tokens and the 89 to be fed for 50 new ones are more than the 80"),
        ("no room", np.zeros((1, 81), int), [], 1, "<=2x<=80"),
        ("empty", np.zeros((1, 0), int), [], 1, "the prompt is empty"),
        ("no token", np.array([[3, 101]]), [], 1, "token 101 lies outside of the vocabulary of 101"),
        ("no number", PROMPT, ["--temperature", "warm"], 2, "--temperature warm: a number from 0 to 1000000"),
        ("out of range", PROMPT, ["--top-p", "1.5"], 2, "--top-p 1.5"),
        ("no integer", PROMPT, ["--max-new", "2.5"], 2, "an integer is expected"),
        ("misspelt", PROMPT, ["--max-news", "2"], 2, "did you mean '--max-new'?"),
    ):
        status, _, err = run(program, folder, prompt, *flags)
        harness.check(f"{name}/{what}", status == code and text in err, f"exit {status}: {err[-300:]}")
    status, _, err = harness.run([program])
    harness.check(f"{name}/no prompt", status == 1 and "the prompt is missing" in err, f"exit {status}: {err[-300:]}")


def check_server(name, program, session):
    path = f"/tmp/weft_generation_{os.getpid()}"
    process = subprocess.Popen([program, "--serve", f"unix:{path}", "--max-new", "6"], stderr=subprocess.PIPE, text=True)
    try:
        harness.wait_for_server(path, process)
        client = Client(path)
        greedy = generate(session, PROMPT, 6)
        harness.check(f"{name}/defaults of the server", np.array_equal(client.request(RUN, input_ids=PROMPT)["tokens"], greedy), "other tokens")
        drawn = client.request(RUN, input_ids=PROMPT, max_new=np.int64(9), **{key: np.asarray(value) for key, value in SAMPLING.items()})
        harness.check(f"{name}/settings of a request", np.array_equal(drawn["tokens"], generate(session, PROMPT, 9, **SAMPLING)), "other tokens")
        # A session goes on with its text, of which the states lack the last token.
        text = PROMPT
        for further in (PROMPT, np.array([[77, 1]]), np.array([[8]])):
            text = PROMPT if further is PROMPT else np.concatenate([text, further], 1)
            tokens = client.request(RUN, "mine", input_ids=further)["tokens"]
            harness.check(f"{name}/session of {text.shape[1]} tokens", np.array_equal(tokens, generate(session, text, 6)), f"{tokens}")
            text = np.concatenate([text, tokens], 1)
            client.request(RUN, "other", input_ids=further)
        # A text of two rows beside it, which no other number of rows goes on with.
        tokens = client.request(RUN, "two", input_ids=PROMPTS)["tokens"]
        further = client.request(RUN, "two", input_ids=PROMPTS[:, :2])["tokens"]
        wanted = generate(session, np.concatenate([PROMPTS, tokens, PROMPTS[:, :2]], 1), 6)
        harness.check(f"{name}/session of two texts", np.array_equal(further, wanted), f"{further}, not {wanted}")
        for what, arrays, wanted in (("wrong setting", {"top_p": np.float64(2)}, "'top_p' is 2"),
                                     ("other rows", {"input_ids": PROMPTS}, "2 rows, but the text has 1"),
                                     ("wrong type", {"temperature": np.array([0.5])}, "'temperature' is scalar"),
                                     ("fed input", {"attention_mask": PROMPT}, "there is no input 'attention_mask'"),
                                     ("too long", {"max_new": np.int64(80)}, "have room")):
            try:
                found = str(client.request(RUN, "mine", **{"input_ids": PROMPT, **arrays}))
            except ValueError as refusal:
                found = str(refusal)
            harness.check(f"{name}/{what}", wanted in found and "closed" not in found, found)
        tokens = client.request(RUN, "mine", input_ids=np.array([[2]]))["tokens"]
        text = np.concatenate([text, [[2]]], 1)
        harness.check(f"{name}/session after a refusal", np.array_equal(tokens, generate(session, text, 6)), f"{tokens}")
        client.request(STOP)
        harness.check(f"{name}/stops", process.wait(timeout=60) == 0, f"exit {process.returncode}")
    finally:
        process.kill()
        pathlib.Path(path).unlink(missing_ok=True)


def check_one_invocation(name, program, folder, session):
    """--no-generate: the logits of a piece, of GPT-2, which needs no further inputs."""
    status, _, err = harness.run([program, "--input", f"input_ids={folder}/prompt.npy", "--no-generate", "--output-dir", folder / "once"])
    harness.check(f"{name}/--no-generate takes a piece", status == 1 and f"<={PIECE}" in err, f"exit {status}: {err[-300:]}")
    np.save(folder / "piece.npy", PROMPT[:, :PIECE])
    status, _, err = harness.run([program, "--input", f"input_ids={folder}/piece.npy", "--no-generate", "--output-dir", folder / "once"])
    if harness.check(f"{name}/--no-generate runs", status == 0, f"exit {status}: {err[-300:]}"):
        wanted = session.run(["logits"], {"input_ids": PROMPT[:, :PIECE]})[0]
        error = harness.relative_error(np.load(folder / "once" / "logits.npy"), wanted)
        harness.check(f"{name}/--no-generate", error <= 1e-4, f"error {error}")


def check_end(kind, model, folder, session):
    """A text ends with a token that ends it; of two texts the shorter one is filled up with that token."""
    both = generate(session, PROMPTS, NEW)
    end = [int(both[0, 6]), int(both[1, 11])]
    text = schedule(kind, 1, generate={**GENERATE[kind], "end": end})
    if program := compile_program(f"{kind}_end", model, folder, text):
        wanted = generate(session, PROMPTS, NEW, end=end)
        harness.check(f"{kind}_end/is an end", wanted.shape[1] < NEW, f"{wanted.shape}")
        check_tokens(f"{kind}_end", program, folder, wanted, PROMPTS)


def check_whole_texts(kind, whole, folder, session):
    """A model without a cache is fed the whole text for each token; on two ranks, which share the texts or the tokens of each."""
    content = {"weft": 1, "dims": {"batch": "<=2", "seq": f"<={ROOM}"},
               "generate": {"tokens": "input_ids", "logits": "logits", "max_new": 12}}
    layouts = {"": {}, "_by_text": {"input_ids": {"dp": 0}}, "_by_token": {"logits": {"dp": 1}}}
    for suffix, shard in layouts.items():
        more = {"mesh": {"dp": 2}, "shard": shard} if shard else {}
        if program := compile_program(f"{kind}_whole{suffix}", whole, folder, json.dumps(content | more)):
            for prompts in (PROMPT, PROMPTS):
                name = f"{kind}_whole{suffix}/batch of {len(prompts)}"
                check_tokens(name, program, folder, generate(session, prompts, 12, **SAMPLING), prompts, "--poison", *flags_of(SAMPLING))


def check_library(kind, model, folder, session):
    """The C functions: settings and prompt are inputs."""
    library = folder / "library"
    (folder / "library.yaml").write_text(schedule(kind, 2))
    status, _, err = harness.weft("compile", model, "--schedule", folder / "library.yaml", "--emit", "library", "-o", library, "--quiet")
    if not harness.check("library/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return
    header = (library / "include" / "gpt2.h").read_text()
    for line in (f'input  "input_ids": i64[<=2, <={ROOM}]', 'setting "temperature": f64[]', 'output "tokens": i64[<=2, '):
        harness.check(f"library/header says {line.split(':')[0]}", line in header, header[:900])
    loaded = Model(library / "lib" / "libgpt2.so")
    loaded.set_input("max_new", np.array(8))
    for key, value in SAMPLING.items():
        loaded.set_input(key, np.array(value))
    text = PROMPT
    for further in (PROMPT, np.array([[77, 1]])):
        loaded.set_input("input_ids", further)
        text = PROMPT if further is PROMPT else np.concatenate([text, further], 1)
        harness.check(f"library/runs at {text.shape[1]}", loaded.run() == 0, loaded.error())
        tokens, wanted = loaded.output("tokens", np.int64), generate(session, text, 8, **SAMPLING)
        harness.check(f"library/tokens at {text.shape[1]}", np.array_equal(tokens, wanted), f"{tokens}, not {wanted}")
        text = np.concatenate([text, wanted], 1)
    loaded.destroy()


def schedule_of_export(session):
    """The exporters name dims as they like: what they are follows from the inputs that have them."""
    shapes = {port.name: port.shape for port in session.get_inputs()}
    batch, seq = shapes["input_ids"]
    bounded = {seq, shapes["attention_mask"][1], *(shape[2] for name, shape in shapes.items() if name.startswith("past"))}
    dims = {batch: 1, shapes["attention_mask"][0]: 1, **{dim: f"<={ROOM}" for dim in bounded}}
    return json.dumps({"weft": 1, "dims": dims, "state": STATE["llama"], "generate": GENERATE["llama"] | {"max_new": 40}})


def check_export(model):
    """PyTorch's exports with a cache: by itself, a whole text with an empty cache says what is right."""
    folder, name = harness.scratch(f"generation/{model.stem}"), model.stem
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    if program := compile_program(name, model, folder, schedule_of_export(session)):
        prompt = PROMPT % 50
        check_tokens(f"{name}/greedy", program, folder, generate(session, prompt, 40), prompt)
        check_tokens(f"{name}/drawn", program, folder, generate(session, prompt, 40, **SAMPLING), prompt, *flags_of(SAMPLING))


def check_group_query():
    """GroupQueryAttention over caches that grow: a prompt, fed in pieces, then tokens, of any number of texts."""
    folder = harness.scratch("generation/group_query")
    model = group_query_decoder.write(folder / "group_query.onnx")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    dims = {"batch": "<=2", "seq": f"<={PIECE}", "past": f"<={ROOM}", "total_sequence_length": f"<={ROOM}"}
    generation = {"tokens": "input_ids", "mask": "attention_mask", "logits": "logits", "max_new": 12}
    text = json.dumps({"weft": 1, "dims": dims, "state": STATE["llama"], "generate": generation})
    if program := compile_program("group_query", model, folder, text):
        for prompts in (PROMPT, PROMPTS):
            check_tokens(f"group_query/batch of {len(prompts)}", program, folder, generate(session, prompts, 12), prompts)


def check_sample(kind, ranks):
    """The sample's own schedule, from text to text."""
    name = f"sample_{kind}{ranks}"
    folder = harness.scratch(f"generation/{name}")
    vocabulary = ["--vocab", "259"] if kind == "llama" else ["--vocab", "50257", "--context", "1024"]
    whole, model = (make_model(kind, folder / f"{part}.onnx", *vocabulary, *flags) for part, flags in (("whole", []), (kind, ["--past"])))
    text = (SAMPLES / kind / ("generate.yaml" if ranks == 1 else f"generate_tp{ranks}.yaml")).read_text()
    if program := compile_program(name, model, folder, text):
        prompt = "The warp is the computation; the weft is what crosses between the ranks. Both are first class."
        found, _ = generate_text(program, prompt, *flags_of(SAMPLING))
        session = onnxruntime.InferenceSession(whole, providers=["CPUExecutionProvider"])
        wanted = generate(session, [list(prompt.encode())], 64 if kind == "llama" else 50, **SAMPLING)
        harness.check(f"{name}/text", found == bytes(token for token in wanted[0] if token < 256), f"{found}, not {wanted}")


def check_kind(kind, ranks):
    folder = harness.scratch(f"generation/{kind}{ranks}")
    session = onnxruntime.InferenceSession(make_model(kind, folder / "whole.onnx"), providers=["CPUExecutionProvider"])
    model, name = make_model(kind, folder / f"{kind}.onnx", "--past"), f"{kind}{ranks}"
    if program := compile_program(name, model, folder, schedule(kind, ranks)):
        check_program(name, program, folder, session)
        check_refusals(name, program, folder)
        check_server(name, program, session)
        if kind == "gpt2":
            check_one_invocation(name, program, folder, session)
    if harness.FULL and ranks == 1:
        check_end(kind, model, folder, session)
        check_whole_texts(kind, folder / "whole.onnx", folder, session)
    if harness.FULL and name == "gpt22":
        check_library(kind, model, folder, session)


if __name__ == "__main__":
    harness.need_weft()
    for each, count in (("llama", 2), ("llama", 1), ("gpt2", 1), ("gpt2", 2)):
        if harness.FULL or (each, count) == ("llama", 2):
            check_kind(each, count)
        if harness.FULL:
            check_sample(each, count)
    if harness.FULL:
        check_group_query()
    for export in sorted((harness.ROOT / "test" / "conformance" / "exports" / "past").glob("*.onnx")):
        if harness.FULL:
            check_export(export)
