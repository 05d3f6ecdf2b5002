# test: fast
"""Values at the edge of a type: infinities in shifted sums of exponentials, integers that saturate, factors that no integer
is. Results are formulas of numpy, not another program's."""

import numpy as np
from onnx import helper

import harness
from one_node import model_of
from record_table import Base, write
from verify_many import Case, report_complete, verify_many

INF, NAN = np.inf, np.nan
FLOATS = {name: helper.tensor_dtype_to_np_dtype(number) for name, number in (("f16", 10), ("bf16", 16), ("f32", 1), ("f64", 11))}
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64]
ROWS = np.array([[-INF, -INF, -INF, -INF], [1, INF, 2, -INF], [-INF, 0.5, -INF, 0.5], [INF, INF, 1, 2], [NAN, INF, 0, 1],
                 [NAN, -INF, -INF, -INF], [-3, 1, 0, 2]])
SHARDED = "weft: 1\nmesh: {tp: 2}\nshard: {x0: {tp: 1}}\n"


def log_sum_exp(x, axis):
    return np.logaddexp.reduce(x.astype(np.float64), axis, keepdims=True)


def log_sum_cases():
    """(name, operator, operands, attributes, result, schedule)"""
    for name, dtype in FLOATS.items():
        x = ROWS.astype(dtype)
        wanted = log_sum_exp(x, 1).astype(dtype)
        for schedule in ("", SHARDED):
            label = f"{name}{'_sharded' if schedule else ''}"
            yield f"log_sum_exp_{label}", "ReduceLogSumExp", [x, np.array([1])], {}, wanted, schedule
        yield f"log_sum_exp_{name}_dropped", "ReduceLogSumExp", [x, np.array([1])], {"keepdims": 0}, wanted[:, 0], ""
        masked = np.where(np.isposinf(ROWS), 0, ROWS).astype(dtype)  # a row with an infinity is NaN, as in ONNX Runtime
        powers = np.exp(masked.astype(np.float64) - masked.astype(np.float64).max(1, keepdims=True))
        shares = (powers / powers.sum(1, keepdims=True)).astype(dtype)
        yield f"softmax_{name}", "Softmax", [masked], {}, shares, ""
        yield f"log_softmax_{name}", "LogSoftmax", [masked], {}, np.log(shares.astype(np.float64)).astype(dtype), ""


def loss_cases():
    """An ignored target counts nothing, whatever the score is that stands in for its own."""
    scores = np.array([[-INF, 0, 1], [2, 0, -INF], [0, 1, 2]], np.float32)
    shifted = scores - np.logaddexp.reduce(scores, 1, keepdims=True)
    target = np.array([2, 0, 2], np.int64)
    counted = -shifted[1, 0]
    for reduction, wanted in (("sum", counted), ("mean", counted), ("none", [0, counted, 0])):
        attrs = {"ignore_index": 2, "reduction": reduction}
        wanted = np.asarray(wanted, np.float32)
        yield f"cross_entropy_{reduction}", "SoftmaxCrossEntropyLoss", [scores, target], attrs, wanted, ""
        yield f"likelihood_{reduction}", "NegativeLogLikelihoodLoss", [shifted, target], attrs, wanted, ""


def resized(x, mode, scale):
    """By ONNX's formulas, in float64: half pixels, borders repeated, cubic with -0.75."""
    count, width = int(len(x) * scale), len(x)
    result = []
    for i in range(count):
        at = (i + 0.5) / scale - 0.5
        low = int(np.floor(at))
        t = at - low
        near = lambda d: (1.25 * d - 2.25) * d * d + 1  # noqa: E731
        far = lambda d: ((-0.75 * d + 3.75) * d - 6) * d + 3  # noqa: E731
        weights = [far(1 + t), near(t), near(1 - t), far(2 - t)] if mode == "cubic" else [0, 1 - t, t, 0]
        taps = [float(x[min(max(low + k, 0), width - 1)]) for k in (-1, 0, 1, 2)]
        result.append(sum(w * tap for w, tap in zip(weights, taps)))
    return np.array(result)


def saturated(values, dtype):
    limits = np.iinfo(dtype)
    whole = np.trunc(np.clip(values, float(limits.min), float(limits.max)))
    return np.array([min(max(int(value), limits.min), limits.max) for value in whole], dtype)


def resize_cases():
    for dtype in INTEGERS:
        limits, name = np.iinfo(dtype), np.dtype(dtype).name
        ends = np.array([limits.min] * 3 + [limits.max] * 3, dtype)
        scales = np.array([1, 1, 1, 2], np.float32)
        shaped = ends.reshape(1, 1, 1, 6)
        wanted = saturated(np.rint(resized(ends, "cubic", 2)), dtype)
        beyond = [i for i, value in enumerate(resized(ends, "cubic", 2)) if not limits.min < value < limits.max]
        assert len(beyond) >= 4
        yield f"cubic_{name}", "Resize", [shaped, None, scales], {"mode": "cubic"}, wanted.reshape(1, 1, 1, 12), ""
        region = np.array([0, 0, 0, -0.5, 1, 1, 1, 1.5], np.float32)
        outside = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1e30}
        row = np.array([limits.max] + [limits.min] * 3 + [limits.max], dtype)
        yield (f"extrapolated_{name}", "Resize", [row[1:4].reshape(1, 1, 1, 3), region, None, np.array([1, 1, 1, 5])], outside,
               row.reshape(1, 1, 1, 5), "")
    big = np.array([2**24 + 1, 2**30 + 1, -(2**31) + 1], np.int32)
    yield "nearest_exact", "Resize", [big.reshape(1, 3), None, np.array([1, 2], np.float32)], {}, np.repeat(big, 2).reshape(1, 6), ""


def reduction_cases():
    many = np.array([[2**31 - 1, 2**31 - 1, 2**31 - 1], [50000, 50000, 0]], np.int32)
    axes = np.array([1])
    real = many.astype(np.float64)
    for name, op, values in (("l2", "ReduceL2", np.sqrt((real * real).sum(1))), ("log_sum", "ReduceLogSum", np.log(real.sum(1))),
                             ("log_sum_exp", "ReduceLogSumExp", log_sum_exp(many, 1)[:, 0]), ("mean", "ReduceMean", real.mean(1))):
        yield f"int32_{name}", op, [many, axes], {"keepdims": 0}, saturated(values, np.int32), ""
    base = np.array([10, -10, 300, 2], np.int32)
    yield "int32_power", "Pow", [base, np.array([12, 13, 4.5, 0.5], np.float32)], {}, saturated(
        np.power(base.astype(np.float64), np.array([12, 13, 4.5, 0.5])), np.int32), ""


def product_cases():
    a, b, c = np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]]), np.array([[1, 2], [3, 4]])
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        for alpha, beta in ((0.5, 1.5), (1.0, 0.5), (0.75, 1.0), (-1.0, 1.0)):
            values = (alpha * (a @ b) + beta * c).ravel()
            wanted = saturated(values, dtype).reshape(2, 2)
            yield (f"gemm_{np.dtype(dtype).name}_{alpha}_{beta}", "Gemm", [array.astype(dtype) for array in (a, b, c)],
                   {"alpha": alpha, "beta": beta}, wanted, "")


def depth_cases():
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    cut = x.reshape(2, 3, 2, 2, 3, 2)
    for mode, perm in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
        wanted = cut.transpose(perm).reshape(2, 12, 2, 3)
        yield f"space_to_depth_{mode}", "SpaceToDepth", [x], {"blocksize": 2, "mode": mode}, wanted, ""
        yield f"depth_to_space_{mode}", "DepthToSpace", [wanted], {"blocksize": 2, "mode": mode}, x, ""


def old_cases():
    """Opset 10 has other ways to find the nearest element, and no attributes that say so."""
    x = np.arange(1, 11, dtype=np.float32).reshape(1, 10)
    for scale in (0.3, 0.6, 0.75, 1.5, 2.4):
        at = np.arange(int(10 * np.float32(scale))) / np.float64(np.float32(scale))
        nearest = (np.ceil(at) if scale < 1 else np.floor(at)).astype(int).clip(0, 9)
        yield f"resize10_{scale}", "Resize", [x, np.array([1, scale], np.float32)], {}, x[:, nearest], ""


def written(folder, name, op, operands, attrs, wanted, schedule, opset):
    kept = [None if operand is None else np.ascontiguousarray(operand) for operand in operands]
    model = model_of(op, "", kept, (helper.np_dtype_to_tensor_dtype(wanted.dtype),), attrs, [("", opset)])
    feeds = {f"x{i}": operand for i, operand in enumerate(kept) if operand is not None}
    write(Base(name, ("", op), model, feeds), [wanted], folder / name)
    flags = []
    if schedule:
        (folder / name / "schedule.yaml").write_text(schedule)
        flags = [f"--schedule={folder / name / 'schedule.yaml'}"]
    return Case(name, folder / name / "model.onnx", folder / name, " ".join(flags))


def main():
    np.seterr(all="ignore")
    folder, cases = harness.scratch("edge_values"), []
    for opset, groups in ((28, (log_sum_cases, loss_cases, resize_cases, reduction_cases, product_cases, depth_cases)),
                          (10, (old_cases,))):
        for group in groups:
            for name, op, operands, attrs, wanted, schedule in group():
                cases.append(written(folder, name, op, operands, attrs, np.asarray(wanted), schedule, opset))
    report_complete(verify_many(cases, folder))


harness.need_weft()
main()
