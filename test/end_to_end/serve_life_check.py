# test: slow
"""--serve from beginning to end: clients take turns, silent ones go, sessions are listed, saved and end, tokens are streamed,
a generation ends with its client, and signals drain the server. A small model of Llama's kind, on one rank and two."""

import concurrent.futures
import os
import select
import signal
import struct
import sys
import time

import numpy as np

import harness
from generation_check import DIMS, make_model, schedule
from serve_check import Server, message, npy_of

sys.path.insert(0, str(harness.ROOT / "samples" / "serve"))
from client import LIST, RUN, SAVE  # noqa: E402

ROOM, MANY = 512, 60
PROMPT = np.arange(1, 9).reshape(1, 8)
DIMS["llama"] |= {"past": f"<={ROOM}", "past + seq": f"<={ROOM}"}


def asked(count, prompt=PROMPT):
    return {"input_ids": prompt, "max_new": np.int64(count)}


def raw_request(count, session=b""):
    return message(RUN, session, (b"input_ids", npy_of(PROMPT)), (b"max_new", npy_of(np.int64(count))))


def check_turns(name, server):
    """A client that sends many requests at once makes others wait for one of them, a new one too: all of them have their
    answers before the many are done."""
    other = server.client()
    with server.raw(raw_request(200) * MANY) as greedy:
        for client in (other, server.client()):
            client.request(RUN, **asked(1))
        greedy.setblocking(False)
        answered = greedy.recv(1 << 20).count(b"WEFT") if select.select([greedy], [], [], 0)[0] else 0
    harness.measured(f"{name}/turns", answered <= MANY // 2, f"{answered} of {MANY} requests came before two of others")


def check_stream(name, server):
    client = server.client()
    whole = client.request(RUN, **asked(20))["tokens"]
    told = list(client.tokens(**asked(20)))
    harness.check(f"{name}/stream", len(told) == 20 and np.array_equal(np.concatenate(told, 1), whole), f"{told}, not {whole}")
    texts = np.concatenate([PROMPT, PROMPT[:, ::-1]])
    told = np.concatenate(list(client.tokens(**asked(5, texts))), 1)
    whole = client.request(RUN, **asked(5, texts))["tokens"]
    harness.check(f"{name}/stream of two texts", np.array_equal(told, whole), f"{told}, not {whole}")


def check_sessions(name, server):
    """The states of a session can be saved, and start another session that continues in the same way."""
    client = server.client()
    for session in ("a", "b"):
        client.request(RUN, session, **asked(5))
    client.request(RUN, "a", **asked(2))
    listed = client.request(LIST)
    requests = {session: figures[0] for session, figures in listed.items()}
    harness.check(f"{name}/listed", requests == {"a": 2, "b": 1}, listed)
    states = client.request(SAVE, "a")
    again = client.request(RUN, "a", **asked(6))["tokens"]
    unfed = states.pop("tokens")
    restored = client.request(RUN, "c", **asked(6, np.concatenate([unfed, PROMPT], 1)), **states)["tokens"]
    harness.check(f"{name}/saved and restored", np.array_equal(again, restored), f"{restored}, not {again}")
    refused = ""
    try:
        client.request(SAVE, "nobody")
    except ValueError as error:
        refused = str(error)
    harness.check(f"{name}/saved, unknown", "there is no session 'nobody'" in refused, refused)


def check_cancel(name, server):
    """A generation of a client that goes is not finished, and its session is over."""
    gone = server.client()
    next(gone.tokens("gone", **asked(480)))
    gone.answers.close()
    gone.stream.close()
    client = server.client()
    client.request(RUN, **asked(1))
    sessions = list(client.request(LIST))
    harness.check(f"{name}/cancelled", "gone" not in sessions, sessions)


def check_drain(program, number):
    """Pending requests are answered, the socket's file is removed, and the exit code is 0. A second signal ends the
    server at once."""
    name = f"{program.name}/{signal.Signals(number).name}"
    with Server(program) as server:
        client = server.client()
        client.send(RUN, **asked(60))
        client.send(RUN, **asked(3))
        time.sleep(0.05)
        server.process.send_signal(number)
        shapes = [client.answer()[1]["tokens"].shape for _ in range(2)]
        code = server.wait()
        harness.check(f"{name}/drains", code == 0 and shapes == [(1, 60), (1, 3)] and not os.path.exists(server.path),
                      f"exit {code}, {shapes}")
    with Server(program) as server:
        client = server.client()
        next(client.tokens(**asked(480)))
        for _ in range(2):
            server.process.send_signal(number)
            time.sleep(0.01)
        code = server.wait()
        harness.check(f"{name}/twice", code in (0, 143) and not os.path.exists(server.path), f"exit {code}")


def check_silence(program):
    with Server(program, "--client-timeout", "1", "--session-timeout", "1") as server:
        server.client().request(RUN, "late", **asked(2))
        with server.raw(b"WEFT\1") as half:
            said = half.recv(200) + half.recv(200)
        harness.check(f"{program.name}/half a message", b"silent for 1 s" in said, said)
        client = server.client()
        for _ in range(50):
            if not client.request(LIST):
                break
            time.sleep(0.1)
        refused = ""
        try:
            client.request(RUN, "late", **asked(2))
        except ValueError as error:
            refused = str(error)
        harness.check(f"{program.name}/a late session", "session 'late' has ended" in refused, refused)
        anew = client.request(RUN, "late", **asked(2))["tokens"]
        harness.check(f"{program.name}/and anew", anew.shape == (1, 2), anew)


def check_lock_out(program):
    """Another client is served in spite of many idle clients."""
    with Server(program) as server:
        idle = [server.raw(b"WEFT\1") for _ in range(300)]
        client = server.client()
        client.stream.settimeout(20)
        shape = client.request(RUN, **asked(2))["tokens"].shape
        harness.check(f"{program.name}/after 300 idle clients", shape == (1, 2), shape)
        for stream in idle:
            stream.close()


def check_stopped(program):
    """A rank whose process is stopped ends the server within the time-out, whichever it is; no client waits for ever."""
    for victim in (0, 1):
        with Server(program, "--timeout", "2") as server:
            client = server.client()
            client.stream.settimeout(30)
            client.request(RUN, **asked(2))
            os.kill(server.processes()[1 + victim], signal.SIGSTOP)
            answer = ""
            try:
                client.request(RUN, **asked(2))
            except (OSError, struct.error) as error:
                answer = type(error).__name__
            code = server.wait()
            server.process.kill()
            err = server.process.stderr.read()
            harness.check(f"{program.name}/rank {victim} is stopped", code == 124 and f"rank {victim} is silent" in err
                          and answer in ("ConnectionError", "ConnectionResetError"), f"exit {code}, {answer}: {err[-300:]}")


def check_program(program):
    with Server(program) as server:
        for check in (check_turns, check_stream, check_sessions, check_cancel):
            check(program.name, server)
    for number in (signal.SIGTERM, signal.SIGINT):
        check_drain(program, number)
    check_silence(program)
    check_lock_out(program)
    if program.name.endswith("2"):
        check_stopped(program)


def compiled(folder, model, ranks):
    program, text = folder / f"llama{ranks}", folder / f"llama{ranks}.yaml"
    text.write_text(schedule("llama", ranks))
    status, _, err = harness.weft("compile", model, "--schedule", text, "-o", program, "--quiet")
    return program if harness.check(f"{program.name}/compiles", status == 0, f"exit {status}: {err[-400:]}") else None


def main():
    folder = harness.scratch("serve_life")
    model = make_model("llama", folder / "llama.onnx", "--past")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        programs = list(pool.map(lambda ranks: compiled(folder, model, ranks), (1, 2)))
    for program in filter(None, programs):
        check_program(program)


if __name__ == "__main__":
    harness.need_weft()
    main()
