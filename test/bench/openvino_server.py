"""Times a network in OpenVINO. It is a separate process, since OpenVINO's threads spin for a while after a run and
disturb other work.

    openvino_server.py MODEL.onnx ARRAYS THREADS PRECISION

ARRAYS is a folder with arrays 0.npy, 1.npy, ... for the inputs in order, PRECISION f32, or `default` for what OpenVINO chooses (bf16 where
the CPU has instructions for it). The first line that it prints is the precision that it runs in; then each line of standard
input, a number of iterations, is answered by a line with their median in milliseconds.
"""

import statistics
import sys
import time

import numpy
import openvino


def compiled(model, threads, precision):
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if precision != "default":
        settings["INFERENCE_PRECISION_HINT"] = precision
    return core.compile_model(core.read_model(model), "CPU", settings)


def timed(request):
    start = time.perf_counter()
    request.infer()
    return 1e3 * (time.perf_counter() - start)


def main():
    model, arrays, threads, precision = sys.argv[1:]
    network = compiled(model, int(threads), precision)
    request = network.create_infer_request()
    for number, port in enumerate(network.inputs):
        request.set_tensor(port, openvino.Tensor(numpy.load(f"{arrays}/{number}.npy")))
    print(network.get_property("INFERENCE_PRECISION_HINT").get_type_name(), flush=True)
    for line in sys.stdin:
        timed(request)
        print(statistics.median(timed(request) for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    main()
