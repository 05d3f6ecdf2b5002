# test: fast
"""Nodes that read constants alone, which the compiler evaluates itself, against ONNX Runtime. `weft verify` without
--data could not tell: its reference evaluates with the same functions."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import harness  # noqa: E402
from reference import write_reference  # noqa: E402
from verify_many import Case, report_complete, verify_many  # noqa: E402

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
folded (float[1] x) => (float{shape} y)
<float[2,3] m = {{1.0, -2.0, 3.0, 0.5, 5.0, -6.0}}, float[3] v = {{0.25, 2.0, -4.0}},
 float[1,2,2,3] image = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, -2.0, 0.5, 7.0, 8.0, -9.0}},
 float[1,2,6] line = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, -2.0, 0.5, 7.0, 8.0, -9.0}},
 float[2,2,1,2] w = {{0.5, 1.0, -1.0, 2.0, 0.25, 3.0, -2.0, 1.5}},
 float[2,1,2,2] w_grouped = {{0.5, 1.0, -1.0, 2.0, 0.25, 3.0, -2.0, 1.5}},
 float[2,2,2] w_line = {{0.5, 1.0, -1.0, 2.0, 0.25, 3.0, -2.0, 1.5}},
 float[2] b = {{10.0, -20.0}}, float[2] s = {{2.0, 0.5}}, float[2] var = {{4.0, 0.25}},
 float[1,2,2,2] grid = {{-0.9, -1.2, 0.1, 0.4, 0.7, 1.5, 0.3, -0.2}}, float[1,4] region = {{0.25, 0.0, 2.5, 1.5}},
 int64[1] batch = {{0}}, int64[2] lengths = {{2, 3}}, float[2,3,2] parts = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -1.0, -2.0, 0.5, 7.0, 8.0, -9.0}},
 int64 size = {{6}}, int64 long = {{70000}}, int64 axis = {{1}}, float low = {{-1.0}}, float high = {{4.0}}>
{{
  folded = {call}
  y = Mul(folded, x)
}}"""

# The node, and the shape of its result.
NODES = {
    "conv_bias": ("Conv(image, w, b)", [1, 2, 2, 2]),
    "conv_bias_grouped": ("Conv<group = 2>(image, w_grouped, b)", [1, 2, 1, 2]),
    "conv_bias_line": ("Conv<pads = [1, 0]>(line, w_line, b)", [1, 2, 6]),
    "conv_transpose_bias": ("ConvTranspose<strides = [2, 1]>(image, w, b)", [1, 2, 3, 4]),
    "max_pool": ("MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(image)", [1, 2, 2, 3]),
    "average_pool": ("AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(image)", [1, 2, 2, 3]),
    "average_pool_padded": (
        "AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1], count_include_pad = 1>(image)", [1, 2, 2, 3]),
    "matrix_vector": ("MatMul(m, v)", [2]),
    "gemm": ("Gemm<alpha = 0.5, beta = 2.0, transB = 1>(m, m, b)", [2, 2]),
    "cumsum": ("CumSum<exclusive = 1, reverse = 1>(m, axis)", [2, 3]),
    "clip_low": ("Clip(m, low)", [2, 3]),
    "clip_high": ("Clip(m, , high)", [2, 3]),
    "layer_normalization": ("LayerNormalization(m, v)", [2, 3]),
    "layer_normalization_bias": ("LayerNormalization(m, v, v)", [2, 3]),
    "batch_normalization": ("BatchNormalization(image, s, b, b, var)", [1, 2, 2, 3]),
    "largest": ("Max(m, v, low)", [2, 3]),
    "grid_sample": ('GridSample<mode = "bicubic", padding_mode = "border">(image, grid)', [1, 2, 2, 2]),
    "roi_align": ("RoiAlign<output_height = 2, output_width = 2>(image, region, batch)", [1, 2, 2, 2]),
    "lp_pool": ("LpPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(image)", [1, 2, 2, 3]),
    "reverse_sequence": ("ReverseSequence<batch_axis = 0, time_axis = 1>(m, lengths)", [2, 3]),
    "transform": ("DFT<inverse = 1>(parts)", [2, 3, 2]),
    "window": ("HannWindow<periodic = 0>(size)", [6]),
    "long_window": ("BlackmanWindow(long)", [70000]),
    "eye": ("EyeLike<k = 1>(m)", [2, 3]),
    "softmax": ("Softmax(m)", [2, 3]),
}


def main():
    folder = harness.scratch("folded")
    cases = []
    for name, (call, shape) in NODES.items():
        model = folder / f"{name}.onnxtxt"
        model.write_text(MODEL.format(shape=shape, call=call))
        write_reference(model, folder / name, {})
        cases.append(Case(f"folded/{name}", model, folder / name))
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main()
