"""A client of `./model --serve unix:PATH`: sends named arrays, gets named arrays."""

import io
import socket
import struct

import numpy as np

RUN, CLOSE, STOP, LIST, SAVE, STREAM = 1, 2, 3, 4, 5, 6
MORE_FOLLOW = 100


class Client:
    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.answers = self.stream.makefile("rb")

    def send(self, verb, session="", **arrays):
        body = struct.pack("<I", len(session.encode())) + session.encode()
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            body += struct.pack("<IQ", len(name.encode()), len(file.getvalue())) + name.encode() + file.getvalue()
        self.stream.sendall(struct.pack("<4sIQ", b"WEFT", verb, len(body)) + body)

    def request(self, verb, session="", **arrays):
        self.send(verb, session, **arrays)
        return self.answer()[1]

    def tokens(self, session="", **arrays):
        """For a program that generates: yields the tokens one by one, each as an array with one row per text."""
        self.send(STREAM, session, **arrays)
        count = 0
        while True:
            code, answer = self.answer()
            if code != MORE_FOLLOW:
                yield from answer["tokens"].T[count:, :, None]  # the answer has all tokens; the last was not sent yet
                return
            count += 1
            yield answer["tokens"]

    def answer(self):
        head = self.answers.read(16)
        if len(head) < 16:
            raise ConnectionError("the server has ended the connection")
        _, code, size = struct.unpack("<4sIQ", head)
        body, arrays = io.BytesIO(self.answers.read(size)), {}
        if code not in (0, MORE_FOLLOW):
            raise ValueError(body.read().decode())
        while head := body.read(12):
            name_size, _ = struct.unpack("<IQ", head)
            name = body.read(name_size).decode()
            arrays[name] = np.load(body)
        return code, arrays
