"""A client of `./model --serve unix:PATH`: sends named arrays, gets named arrays."""

import io
import socket
import struct

import numpy as np

RUN, CLOSE, STOP = 1, 2, 3


class Client:
    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.answers = self.stream.makefile("rb")

    def request(self, verb, session="", **arrays):
        body = struct.pack("<I", len(session.encode())) + session.encode()
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            body += struct.pack("<IQ", len(name.encode()), len(file.getvalue())) + name.encode() + file.getvalue()
        self.stream.sendall(struct.pack("<4sIQ", b"WEFT", verb, len(body)) + body)
        return self.answer()

    def answer(self):
        magic, code, size = struct.unpack("<4sIQ", self.answers.read(16))
        body, arrays = io.BytesIO(self.answers.read(size)), {}
        if code != 0:
            raise ValueError(body.read().decode())
        while head := body.read(12):
            name_size, _ = struct.unpack("<IQ", head)
            name = body.read(name_size).decode()
            arrays[name] = np.load(body)
        return arrays
