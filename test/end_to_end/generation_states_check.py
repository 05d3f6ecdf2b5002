# test: slow
"""`generate:` with states of a fixed size (GRU, CausalConvWithState, LinearAttention, caches of TensorScatter), alone
and with a cache that grows. Tokens equal those of ONNX's reference for whole texts, with prompts fed in pieces, drawn,
from saved states and in sessions."""

import contextlib
import json
import os
import pathlib
import subprocess
import types

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import harness
from generation_check import PIECE, PROMPT, ROOM, RUN, SAMPLING, STOP, Client, check_program, check_server, compile_program, generate, run

WORDS, WIDTH = 101, 16
FIXED = """
  rows = Gather(words, input_ids) where = Gather(places, position_ids) x = Add(rows, where)
  by_step = Transpose<perm = [1, 0, 2]>(x)
  hidden, h1 = GRU<hidden_size = 16>(by_step, gru_w, gru_r, gru_b, , h0)
  one = Constant<value = int64[1] {1}>() squeezed = Squeeze(hidden, one) wave = Transpose<perm = [1, 2, 0]>(squeezed)
  swept, c1 = CausalConvWithState<activation = "silu">(wave, filter, , c0) y = Transpose<perm = [0, 2, 1]>(swept)
  q = MatMul(y, w_q) k = MatMul(y, w_k) v = MatMul(y, w_v)
  b = MatMul(y, w_b) beta = Sigmoid(b) g = MatMul(y, w_g) soft = Softplus(g) decay = Neg(soft)
  read, s1 = LinearAttention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, s0, decay, beta)
  mixed = MatMul(read, w_o) r = Add(x, mixed)"""
GROWING = """
  aq = MatMul(r, a_q) ak = MatMul(r, a_k) av = MatMul(r, a_v)
  seen, present_k, present_v = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(aq, ak, av, , past_k, past_v)
  turned = MatMul(seen, a_o) last = Add(r, turned)"""
CACHED = """
  rows = Gather(words, input_ids) where = Gather(places, position_ids) x = Add(rows, where)
  one = Constant<value = int64[1] {1}>() at = ReduceMin<keepdims = 0>(position_ids, one) filled = ReduceSum<keepdims = 0>(attention_mask, one)
  aq = MatMul(x, a_q) ak = MatMul(x, a_k) av = MatMul(x, a_v)
  k1 = TensorScatter<axis = 1>(k0, ak, at) v1 = TensorScatter<axis = 1>(v0, av, at)
  seen = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(aq, k1, v1, , , , filled)
  turned = MatMul(seen, a_o) r = Add(x, turned)"""
INPUTS = {"input_ids": "int64[batch, seq]", "position_ids": "int64[batch, seq]", "h0": "float[1, batch, 16]",
          "c0": "float[batch, 16, 3]", "s0": "float[batch, 2, 4, 4]"}
CACHES = {"past_k": "float[batch, 2, past, 4]", "past_v": "float[batch, 2, past, 4]"}
STATES = {"h0": "h1", "c0": "c1", "s0": "s1"}
PLACED = {"input_ids": "int64[batch, seq]", "position_ids": "int64[batch, seq]", "attention_mask": "int64[batch, total]",
          "k0": f"float[batch, {ROOM}, 8]", "v0": f"float[batch, {ROOM}, 8]"}
WEIGHTS = {"words": (WORDS, WIDTH), "places": (ROOM, WIDTH), "gru_w": (1, 48, WIDTH), "gru_r": (1, 48, WIDTH), "gru_b": (1, 96),
           "filter": (WIDTH, 1, 4), "w_q": (WIDTH, 8), "w_k": (WIDTH, 8), "w_v": (WIDTH, 8), "w_b": (WIDTH, 2), "w_g": (WIDTH, 2),
           "w_o": (8, WIDTH), "a_q": (WIDTH, 8), "a_k": (WIDTH, 8), "a_v": (WIDTH, 8), "a_o": (8, WIDTH), "head": (WIDTH, WORDS)}


class Session:
    """ONNX's reference as the loop over tokens in Python asks for logits."""

    def __init__(self, model):
        self.evaluator = ReferenceEvaluator(model)
        self.ports = [types.SimpleNamespace(name=port.name, shape=[dim.dim_value or dim.dim_param for dim in port.type.tensor_type.shape.dim])
                      for port in model.graph.input]

    def get_inputs(self):
        return self.ports

    def run(self, names, inputs):
        batch = inputs["input_ids"].shape[0]
        return self.evaluator.run(names, inputs | ({"h0": np.zeros([1, batch, WIDTH], np.float32)} if "h0" in inputs else {}))


def model_of(kind):
    inputs, body = {"fixed": (INPUTS, FIXED), "mixed": (INPUTS | CACHES, FIXED + GROWING), "cached": (PLACED, CACHED)}[kind]
    states = states_of(kind).values()
    declared = ", ".join(f"{type_} {name}" for name, type_ in inputs.items())
    text = f"""<ir_version: 13, opset_import: ["" : 27]> g ({declared}) => (float[batch, seq, {WORDS}] logits, {", ".join(states)})
    {{ {body} logits = MatMul({"last" if kind == "mixed" else "r"}, head) }}"""
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(5)
    for name, shape in WEIGHTS.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.normal(0, 0.5, shape).astype(np.float32), name))
    return model


def states_of(kind):
    if kind == "cached":
        return {"k0": "k1", "v0": "v1"}
    return STATES | ({"past_k": "present_k", "past_v": "present_v"} if kind == "mixed" else {})


def schedule(kind):
    dims = {"batch": "<=2", "seq": f"<={PIECE}", **{"mixed": {"past": f"<={ROOM}"}, "cached": {"total": f"<={ROOM}"}}.get(kind, {})}
    generation = {"tokens": "input_ids", "positions": "position_ids", "logits": "logits", "max_new": 50}
    generation |= {"mask": "attention_mask"} if kind == "cached" else {}
    return json.dumps({"weft": 1, "dims": dims, "state": states_of(kind), "generate": generation})


@contextlib.contextmanager
def served(name, program, *flags):
    """A client of the program, which is stopped after it."""
    path = f"/tmp/weft_states_{os.getpid()}"
    process = subprocess.Popen([program, "--serve", f"unix:{path}", *flags], stderr=subprocess.PIPE, text=True)
    try:
        harness.wait_for_server(path, process)
        client = Client(path)
        yield client
        client.request(STOP)
        harness.check(f"{name}/stops", process.wait(timeout=60) == 0, f"exit {process.returncode}")
    finally:
        process.kill()
        pathlib.Path(path).unlink(missing_ok=True)


def settings_of(sampling):
    return {key: np.asarray(value) for key, value in sampling.items()}


def check_sessions(name, program, session):
    """Two sessions in turn: each goes on with its own states and its own count of tokens."""
    with served(name, program, "--max-new", "6") as client:
        texts = {"mine": PROMPT, "other": PROMPT[:, ::-1]}
        for turn in range(3):
            for who, text in texts.items():
                further = text if turn == 0 else np.array([[77, turn]])
                text = further if turn == 0 else np.concatenate([text, further], 1)
                sampling = SAMPLING if turn == 1 else {}
                tokens = client.request(RUN, who, input_ids=further, **settings_of(sampling))["tokens"]
                wanted = generate(session, text, 6, **sampling)
                harness.check(f"{name}/{who}/{turn}", np.array_equal(tokens, wanted), f"{tokens}, not {wanted}")
                texts[who] = np.concatenate([text, tokens], 1)
        try:
            found = str(client.request(RUN, "given", input_ids=PROMPT, h0=np.ones([1, 1, WIDTH], np.float32)))
        except ValueError as refusal:
            found = str(refusal)
        harness.check(f"{name}/given states", "do not say how many tokens they hold, which 'position_ids' depends on" in found, found)


def check_loaded(name, program, folder, session):
    """A server whose texts begin with the states that check_program has saved after 10 tokens."""
    greedy = generate(session, PROMPT, 10)
    wanted = generate(session, np.concatenate([PROMPT, greedy], 1), 6, **SAMPLING)
    with served(f"{name}/loaded", program, "--max-new", "6", "--load-state", folder / "state") as client:
        for who in ("mine", "other"):
            tokens = client.request(RUN, who, input_ids=greedy[:, -1:], **settings_of(SAMPLING))["tokens"]
            harness.check(f"{name}/loaded/{who}", np.array_equal(tokens, wanted), f"{tokens}, not {wanted}")


def check_counts(program, folder):
    """States without their number of tokens do not say where a text goes on."""
    (folder / "state" / "text" / "length.npy").unlink()
    status, _, err = run(program, folder, PROMPT, "--load-state", folder / "state")
    harness.check("fixed/no length", status == 1 and "'position_ids' depends on" in err, f"exit {status}: {err[-300:]}")
    np.save(folder / "state" / "text" / "length.npy", np.array([-3]))
    status, _, err = run(program, folder, PROMPT, "--load-state", folder / "state")
    harness.check("fixed/wrong length", status == 1 and "one number of tokens is needed" in err, f"exit {status}: {err[-300:]}")


def check_kind(kind):
    folder = harness.scratch(f"generation_states/{kind}")
    model = model_of(kind)
    onnx.save(model, folder / "model.onnx")
    session = Session(model)
    if program := compile_program(kind, folder / "model.onnx", folder, schedule(kind)):
        check_program(kind, program, folder, session)
        if kind != "fixed":
            return check_server(kind, program, session)
        check_sessions(kind, program, session)
        check_loaded(kind, program, folder, session)
        check_counts(program, folder)


if __name__ == "__main__":
    harness.need_weft()
    for each in ("fixed", "mixed", "cached"):
        check_kind(each)
