"""./dev bench qdq_cnn: a ResNet-18 with QuantizeLinear and DequantizeLinear around each convolution (8 bits, a scale for each
filter, random weights), compiled, beside ONNX Runtime on one thread.

    qdq_cnn.py [--archs x86-64-v3,x86-64-v4] [--rounds 8 --iterations 5]

The expected result is ONNX Runtime's without its fusions, which computes in fp32 between the quantizations. Sums of
integers are exact, so that some numbers near a tie are rounded differently. With its fusions ONNX Runtime differs by as
much.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from resnet50 import bench

STEPS = 1e-2  # of the largest result: a few steps of quantization on the way


class QuantizedResNet:
    """In the form of ONNX Runtime's static quantization: weights and biases are integers, followed by
    DequantizeLinear."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, inputs, **attributes):
        self.count += 1
        name = f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def quantized(self, x, scale, zero):
        name = f"{x}.quantized"
        operands = [self.constant(f"{name}.scale", np.float32(scale)), self.constant(f"{name}.zero", np.uint8(zero))]
        return self.op("DequantizeLinear", [self.op("QuantizeLinear", [x, *operands]), *operands])

    def integers(self, name, value, scale):
        operands = [self.constant(name, value), self.constant(f"{name}.scale", scale.astype(np.float32)),
                    self.constant(f"{name}.zero", np.zeros(len(scale), value.dtype))]
        return self.op("DequantizeLinear", operands, axis=0)

    def conv(self, x, channels, filters, kernel, stride=1):
        name = f"conv_{self.count}"
        scale = self.random.uniform(0.5, 1.5, filters) * 2 / 127 / np.sqrt(channels * kernel * kernel)
        w = self.random.integers(-127, 128, (filters, channels, kernel, kernel)).astype(np.int8)
        b = self.random.integers(-1000, 1000, filters).astype(np.int32)
        return self.op("Conv", [x, self.integers(f"{name}.weight", w, scale), self.integers(f"{name}.bias", b, scale * 0.02)],
                       kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def activation(self, x):
        return self.quantized(self.op("Relu", [x]), 0.03, 0)

    def block(self, x, channels, width, stride):
        y = self.activation(self.conv(x, channels, width, 3, stride))
        y = self.quantized(self.conv(y, width, width, 3), 0.05, 128)
        if channels != width:
            x = self.quantized(self.conv(x, channels, width, 1, stride), 0.05, 128)
        return self.activation(self.op("Add", [y, x]))

    def model(self):
        x = self.activation(self.conv(self.quantized("x", 0.02, 128), 3, 64, 7, 2))
        x = self.quantized(self.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 0.03, 0)
        channels = 64
        for width in (64, 128, 256, 512):
            for i in range(2):
                x = self.block(x, channels, width, 2 if i == 0 and channels != width else 1)
                channels = width
        x = self.op("Flatten", [self.quantized(self.op("GlobalAveragePool", [x]), 0.03, 0)])
        w = self.integers("fc.weight", self.random.integers(-127, 128, (1000, 512)).astype(np.int8), np.full(1000, 0.001))
        self.nodes.append(helper.make_node("Gemm", [x, w], ["y"], transB=1, name="fc"))
        graph = helper.make_graph(
            self.nodes, "qdq_cnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model


if __name__ == "__main__":
    bench("qdq_cnn", QuantizedResNet().model(), STEPS)
