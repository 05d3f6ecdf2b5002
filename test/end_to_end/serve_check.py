# test: slow
"""--serve: GPT-2 with its cache as sessions, on one rank and two. Answers are those of the model without a cache; clients
that disconnect or send what is no request hurt nobody else; a killed rank ends all; memory stays as it is.
In `full` 10,000 requests, by default 500."""

import contextlib
import io
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import onnxruntime

import harness

SAMPLES = harness.ROOT / "samples"
sys.path.insert(0, str(SAMPLES / "serve"))
from client import CLOSE, RUN, STOP, Client  # noqa: E402

WORDS, BOUND, LENGTHS = 101, 64, 16
SIZE = ["--layers", "2", "--width", "32", "--heads", "4", "--vocab", str(WORDS), "--context", str(BOUND)]
REQUESTS = 10_000 if harness.FULL else 500
TEXTS = [np.random.default_rng(length).integers(0, WORDS, (1, length)) for length in range(1, LENGTHS + 1)]
TOLERANCE = 1e-4


class Server:
    """A running server, which does not outlive the test."""

    def __init__(self, program, *flags, descriptors=1024):
        # A socket's path is short.
        self.path = f"/tmp/weft_serve_{os.getpid()}_{program.name}"
        self.process = subprocess.Popen([program, "--serve", f"unix:{self.path}", "--threads", "1", *flags],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
        harness.wait_for_server(self.path, self.process)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        pathlib.Path(self.path).unlink(missing_ok=True)

    def client(self):
        return Client(self.path)

    def raw(self, data=b""):
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(30)
        stream.connect(self.path)
        stream.sendall(data)
        return stream

    def processes(self):
        """Its own process, and those of its ranks."""
        pid = self.process.pid
        return [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def resident_kib(self):
        return sum(int(line.split()[1]) for pid in self.processes()
                   for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))

    def stop(self):
        with contextlib.suppress(OSError, struct.error):
            self.client().request(STOP)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            return "none within 30 s"


def error_of(found, wanted):
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    return harness.relative_error(found, wanted)


def check_close(name, found, wanted):
    error = error_of(found, wanted)
    harness.check(name, not isinstance(error, str) and error <= TOLERANCE, f"error {error}")


def refusal(client, verb, *arguments, **arrays):
    try:
        return f"no error but {list(client.request(verb, *arguments, **arrays))}"
    except ValueError as error:
        return str(error)


def check_refused(name, found, wanted):
    harness.check(name, wanted in found, f"'{found}' lacks '{wanted}'")


def check_sessions(name, server, session):
    """Two sessions in turns, each a token at a time, and requests between them that belong to none."""
    client, other = server.client(), server.client()
    texts = {"a": TEXTS[11], "b": TEXTS[7]}
    worst = 0.0
    for i in range(len(texts["b"][0])):
        for of, each in (("a", client), ("b", other)):
            logits = each.request(RUN, of, input_ids=texts[of][:, i:i + 1])["logits"]
            wanted = session.run(None, {"input_ids": texts[of][:, :i + 1]})[0][:, -1:]
            worst = max(worst, harness.relative_error(logits, wanted))
        client.request(RUN, input_ids=TEXTS[i])
    harness.check(f"{name}/sessions token by token", worst <= TOLERANCE, f"error {worst}")
    answer = client.request(RUN, "a", input_ids=texts["a"][:, 8:])
    harness.check(f"{name}/states are no answer", list(answer) == ["logits"], list(answer))
    check_close(f"{name}/the rest at once", answer["logits"], session.run(None, {"input_ids": texts["a"]})[0][:, 8:])
    client.request(CLOSE, "a")
    check_refused(f"{name}/closed", refusal(client, CLOSE, "a"), "there is no session 'a'")
    fresh = client.request(RUN, "a", input_ids=TEXTS[3])["logits"]
    check_close(f"{name}/a closed session begins anew", fresh, session.run(None, {"input_ids": TEXTS[3]})[0])
    long = np.zeros((1, BOUND - 3), int)
    check_refused(f"{name}/outgrown", refusal(client, RUN, "a", input_ids=long), f"more than its bound of {BOUND}")
    again, twice = client.request(RUN, "a", input_ids=TEXTS[3])["logits"], np.concatenate([TEXTS[3], TEXTS[3]], 1)
    check_close(f"{name}/goes on after it", again, session.run(None, {"input_ids": twice})[0][:, TEXTS[3].shape[1]:])
    past = {f"past_{kind}.{layer}": np.zeros((1, 4, 2, 8), np.float32) for kind in "kv" for layer in (0, 1)}
    check_refused(f"{name}/a state in the middle", refusal(client, RUN, "a", input_ids=TEXTS[0], **past), "and 'a' has begun")
    check_refused(f"{name}/states of two lengths",
                  refusal(client, RUN, input_ids=TEXTS[0], **{**past, "past_k.0": past["past_k.0"][:, :, :1]}),
                  "dimension 2 has length 2, but 'past_k.0': dimension 2 has length 1")
    client.request(RUN, "c", input_ids=TEXTS[0], **past)
    client.request(CLOSE, "a"), client.request(CLOSE, "b")
    check_refused(f"{name}/too many sessions", [refusal(client, RUN, f"s{i}", input_ids=TEXTS[0]) for i in range(4)][-1],
                  "4 sessions are open")
    for of in ("c", "s0", "s1", "s2"):
        client.request(CLOSE, of)


def message(verb, session, *arrays):
    body = struct.pack("<I", len(session)) + session
    for array_name, npy in arrays:
        body += struct.pack("<IQ", len(array_name), len(npy)) + array_name + npy
    return struct.pack("<4sIQ", b"WEFT", verb, len(body)) + body


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def reply_to(server, data, ends=False):
    with server.raw(data) as stream:
        if ends:
            stream.shutdown(socket.SHUT_WR)
        answer = stream.makefile("rb")
        _, code, size = struct.unpack("<4sIQ", answer.read(16))
        return f"{code} {answer.read(size).decode(errors='replace')}"


def check_malformed(name, server):
    tokens = npy_of(TEXTS[4])
    good = message(RUN, b"", (b"input_ids", tokens))
    rows = (
        ("magic", b"GET / HTTP/1.1\r\n", False, "begins with 'WEFT'"),
        ("short magic", b"xy", False, "begins with 'WEFT'"),
        ("verb", message(9, b""), False, "verb 9"),
        ("too long", struct.pack("<4sIQ", b"WEFT", RUN, 1 << 60), True, "the most"),
        ("cut head", good[:9], True, "ended inside a message"),
        ("cut body", good[:-7], True, "ended inside a message"),
        ("no session", struct.pack("<4sIQ", b"WEFT", RUN, 0), False, "the message ends inside"),
        ("long session", struct.pack("<4sIQI", b"WEFT", RUN, 4, 1 << 31), False, "4096 are the most"),
        ("long array", message(RUN, b"") [:8] + struct.pack("<QI", 16, 0) + struct.pack("<IQ", 1, 1 << 63), False,
         "the message ends inside"),
        ("not an array", message(RUN, b"", (b"input_ids", b"hello there")), False, "not a .npy file"),
        ("cut array", message(RUN, b"", (b"input_ids", tokens[:-3])), False, "bytes of elements"),
        ("shape", message(RUN, b"", (b"input_ids", npy_of(np.zeros((2, 3), int)))), False, "shape 2x3"),
        ("type", message(RUN, b"", (b"input_ids", npy_of(np.zeros((1, 3))))), False, "'<i8' (i64) is expected"),
        ("unknown input", message(RUN, b"", (b"input_idss", tokens)), False, "did you mean 'input_ids'?"),
        ("twice", message(RUN, b"", (b"input_ids", tokens), (b"input_ids", tokens)), False, "given twice"),
        ("missing input", message(RUN, b""), False, "'input_ids' (i64, 1x<=64) is missing"),
    )
    for row, data, ends, wanted in rows:
        found = reply_to(server, data, ends)
        harness.check(f"{name}/malformed: {row}", found.startswith("1 ") and wanted in found, f"{found!r} lacks '{wanted}'")
    # Messages after a refused one are answered, also after one that was too long, once it has arrived completely.
    long = struct.pack("<4sIQ", b"WEFT", RUN, 200_000_000) + bytes(200_000_000)
    with server.raw(long + good) as stream:
        codes = []
        answer = stream.makefile("rb")
        for _ in range(2):
            _, code, size = struct.unpack("<4sIQ", answer.read(16))
            answer.read(size)
            codes.append(code)
    harness.check(f"{name}/after a message that is too long", codes == [1, 0], codes)


def check_noise(name, server):
    """Messages with some bytes changed, removed or repeated: each is answered or ends its connection, and the server lives."""
    draw = np.random.default_rng(2)
    good = message(RUN, b"s", (b"input_ids", npy_of(TEXTS[4])))
    for _ in range(5000 if harness.FULL else 300):
        data = bytearray(good)
        for _ in range(int(draw.integers(1, 4))):
            at, kind = int(draw.integers(len(data))), int(draw.integers(3))
            if kind == 0:
                data[at] = int(draw.integers(256))
            elif kind == 1:
                del data[at:at + int(draw.integers(1, 9))]
            else:
                data[at:at] = data[at:at + int(draw.integers(1, 9))]
        with server.raw(bytes(data)) as stream:
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(1 << 16):
                pass
    client = server.client()
    with contextlib.suppress(ValueError):
        client.request(CLOSE, "s")
    answered = client.request(RUN, input_ids=TEXTS[2])
    harness.check(f"{name}/noise", answered["logits"].shape == (1, 3, WORDS), answered)


def check_disconnects(name, server):
    good = message(RUN, b"", (b"input_ids", npy_of(TEXTS[9])))
    lasting = server.raw(good[:20])  # half a message, and then silence
    for data in (b"", good[:3], good[:40], good, good * 20, good + good[:25]):
        for _ in range(5):
            server.raw(data).close()
    answered = server.client().request(RUN, input_ids=TEXTS[2])
    harness.check(f"{name}/others disconnect", answered["logits"].shape == (1, 3, WORDS), answered)
    lasting.sendall(good[20:])
    code = struct.unpack("<4sIQ", lasting.recv(16, socket.MSG_WAITALL))[1]
    harness.check(f"{name}/a slow client", code == 0, code)
    lasting.close()


def check_many(name, server, session):
    """Requests of all lengths; after the first 100 the server needs no more memory."""
    wanted = [session.run(None, {"input_ids": text})[0] for text in TEXTS]
    clients = [server.client() for _ in range(3)]
    draw = np.random.default_rng(1)
    worst, begin_kib, begin = 0.0, 0, time.monotonic()
    for i in range(REQUESTS):
        at = int(draw.integers(LENGTHS))
        logits = clients[i % 3].request(RUN, input_ids=TEXTS[at])["logits"]
        worst = max(worst, harness.relative_error(logits, wanted[at]))
        if i == 100:
            begin_kib = server.resident_kib()
    harness.check(f"{name}/{REQUESTS} requests", worst <= TOLERANCE, f"error {worst}")
    grown = server.resident_kib() - begin_kib
    harness.measured(f"{name}/memory", grown <= 512, f"{grown} KiB more after {REQUESTS} requests than after 100; "
                     f"{(time.monotonic() - begin) / REQUESTS * 1e3:.2f} ms each")


def keep_busy(client):
    with contextlib.suppress(OSError, struct.error):
        while True:
            client.request(RUN, input_ids=TEXTS[15])


def check_killed(program):
    for moment in ("idle", "at work"):
        with Server(program) as server:
            client = server.client()
            client.request(RUN, input_ids=TEXTS[0])
            if moment == "at work":
                threading.Thread(target=keep_busy, args=[client], daemon=True).start()
            time.sleep(0.3)
            os.kill(server.processes()[2], signal.SIGKILL)
            code, err = server.wait(), server.process.stderr.read()
            harness.check(f"{program.name}/killed rank, {moment}", code == 6 and "rank 1" in err, f"exit {code}: {err[-300:]}")


def check_standard_streams(program, folder, session):
    good = [message(RUN, b"s", (b"input_ids", npy_of(TEXTS[9][:, i:i + 1]))) for i in range(4)]
    (folder / "requests").write_bytes(b"".join(good) + message(RUN, b"s"))
    done = subprocess.run([program, "--serve"], stdin=(folder / "requests").open("rb"), capture_output=True, timeout=60)
    answers, codes, last = io.BytesIO(done.stdout), [], None
    while head := answers.read(16):
        _, code, size = struct.unpack("<4sIQ", head)
        codes.append(code)
        body = answers.read(size)
        if code == 0:
            last = np.load(io.BytesIO(body[12 + len(b"logits"):]))
    harness.check(f"{program.name}/standard input", done.returncode == 0 and codes == [0, 0, 0, 0, 1],
                  f"exit {done.returncode}, codes {codes}: {done.stderr[-300:]}")
    if last is not None:
        check_close(f"{program.name}/standard input, result", last,
                    session.run(None, {"input_ids": TEXTS[9][:, :4]})[0][:, -1:])
    for name, data, wanted in (("cut", good[0] + good[1][:-2], "ended inside"), ("no message", b"hello", "begins with")):
        done = subprocess.run([program, "--serve"], input=data, capture_output=True, timeout=60)
        harness.check(f"{program.name}/standard input, {name}", done.returncode == 1 and wanted in done.stderr.decode(),
                      f"exit {done.returncode}: {done.stderr[-300:]}")


def check_few_descriptors(program):
    """More clients than descriptors wait for their turn, and keep nobody from being served."""
    with Server(program, descriptors=40) as server:
        first = server.client()
        idle = [server.raw() for _ in range(60)]
        answers = [list(first.request(RUN, input_ids=TEXTS[2])) for _ in range(2)]
        harness.check(f"{program.name}/few descriptors, a client that was there", answers == [["logits"]] * 2, answers)
        late = server.client()
        for stream in idle:
            stream.close()
        answer = list(late.request(RUN, input_ids=TEXTS[2]))
        harness.check(f"{program.name}/few descriptors, one that came late", answer == ["logits"], answer)


def check_flags(program, folder):
    tokens = folder / "tokens.npy"
    np.save(tokens, TEXTS[3])
    beside = "cannot be given with it"
    for wanted, *flags in ((beside, "--output-dir", folder), (beside, "--iterations", "2"), (beside, "--random-inputs", "1"),
                           ("comes with each request", "--input", f"input_ids={tokens}"),
                           ("unix:PATH is expected", "--serve", "tcp:80"), ("107 characters", "--serve=unix:" + "x" * 200)):
        status, _, err = harness.run([program, "--serve", *flags])
        harness.check(f"{program.name}/refuses {str(flags[0])[:14]} {str(flags[-1])[:10]}", status == 2 and wanted in err,
                      f"exit {status}: {err[-200:]}")
    status, _, err = harness.run([program, "--serve", f"unix:{folder}/no/such/folder"])
    harness.check(f"{program.name}/no place for a socket", status == 6 and "cannot listen" in err, f"exit {status}: {err[-200:]}")


def check_program(program, folder, session):
    name = program.name
    with Server(program, "--sessions", "4") as server:
        check_sessions(name, server, session)
        check_malformed(name, server)
        check_disconnects(name, server)
        check_noise(name, server)
        check_many(name, server, session)
        second, _, err = harness.run([program, "--serve", f"unix:{server.path}"])
        harness.check(f"{name}/a second server", second == 6 and "another server" in err, f"exit {second}: {err[-200:]}")
        code = server.stop()
        harness.check(f"{name}/stop", code == 0 and not os.path.exists(server.path), f"exit {code}")
    check_standard_streams(program, folder, session)
    if name == "decode":
        check_few_descriptors(program)
    check_flags(program, folder)


def main():
    folder = harness.scratch("serve")
    session = onnxruntime.InferenceSession(harness.make_gpt2(folder / "whole.onnx", *SIZE), providers=["CPUExecutionProvider"])
    model = harness.make_gpt2(folder / "gpt2.onnx", *SIZE, "--past")
    for name in ("decode", "decode_tp2"):
        program = folder / name
        status, _, err = harness.weft("compile", model, "--schedule", SAMPLES / "gpt2" / f"{name}.yaml", "-o", program, "--quiet")
        if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
            check_program(program, folder, session)
    check_killed(folder / "decode_tp2")


if __name__ == "__main__":
    harness.need_weft()
    main()
