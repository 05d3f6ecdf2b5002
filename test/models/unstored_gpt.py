"""Writes a GPT of any size whose weights take no place: zeros in OUTPUT.data, a file with nothing but a length.

    unstored_gpt.py OUTPUT.onnx [the options of samples/gpt2/make.py]

GPT-3 is --layers 96 --width 12288 --heads 96 --context 2048.
"""

import importlib.util
import pathlib
import sys

from onnx import TensorProto

SAMPLE = pathlib.Path(__file__).resolve().parent.parent.parent / "samples" / "gpt2" / "make.py"


def sample():
    """samples/gpt2/make.py as a module."""
    spec = importlib.util.spec_from_file_location("gpt2_make", SAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GPT2 = sample()


class UnstoredGpt(GPT2.Gpt2):
    def __init__(self, options):
        super().__init__(options)
        self.data = pathlib.Path(options.output + ".data")
        self.bytes = 0

    def normal(self, name, shape, deviation, mean=0.0):
        """A weight in OUTPUT.data, after the previous one."""
        if name in self.weight_names:
            return name
        self.weight_names.add(name)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        length = 4
        for extent in shape:
            length *= extent
        for key, value in (("location", self.data.name), ("offset", self.bytes), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.bytes += length
        self.initializers.append(tensor)
        return name


def main(arguments):
    options = GPT2.parse(arguments)
    gpt = UnstoredGpt(options)
    pathlib.Path(options.output).write_bytes(gpt.build().SerializeToString())
    with gpt.data.open("wb") as data:
        data.truncate(gpt.bytes)


if __name__ == "__main__":
    main(sys.argv[1:])
