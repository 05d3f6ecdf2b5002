# test: fast
"""Operators of ai.onnx.ml against ONNX Runtime, one node a model: trees with each comparison and NaN, transforms of
scores, classifiers with one score for two classes."""

import itertools
import sys

import numpy as np

import harness
from one_node import Rows, model_of, results_of, write_case
from verify_many import report_complete, verify_many

DOMAIN = "ai.onnx.ml"
FLOAT, INT64, STRING, DOUBLE = 1, 7, 8, 11
random = np.random.default_rng(7)


def real(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def rows_near(thresholds, features, count=33):
    """Rows that hit thresholds exactly, their neighbours, zeros of both signs, infinities and NaN."""
    base = np.array(thresholds, np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    values = np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf)), special])
    return random.choice(values, (count, features)).astype(np.float32)


def forest(trees, depth, features, targets, modes, tracks=None):
    """Random trees in the lists of TreeEnsembleRegressor: leaves at several depths."""
    nodes, votes = [], []
    for tree in range(trees):
        count = itertools.count()

        def grow(level, number):
            leaf = level == depth or (level and random.random() < 0.2)
            left, right = (0, 0) if leaf else (next(count), next(count))
            value = float(random.choice(THRESHOLDS))
            mode = "LEAF" if leaf else str(random.choice(modes))
            track = int(random.integers(0, 2)) if tracks is None else tracks
            nodes.append((tree, number, int(random.integers(features)), mode, value, left, right, track))
            if leaf:
                for target in range(targets):
                    votes.append((tree, number, target, float(real())))
            else:
                grow(level + 1, left)
                grow(level + 1, right)

        grow(0, next(count))
    columns = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
               "missing_value_tracks_true")
    return {f"nodes_{name}": [node[c] for node in nodes] for c, name in enumerate(columns)}, votes


THRESHOLDS = (-0.5, 0.0, 0.25, 0.5)


def voted(kind, votes):
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids", f"{kind}_weights")
    return {name: [vote[c] for vote in votes] for c, name in enumerate(names)}


def regressor_cases():
    modes = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for mode in modes:
        nodes, votes = forest(5, 4, 3, 1, [mode])
        yield f"regressor/{mode.lower()}", [rows_near(THRESHOLDS, 3)], (FLOAT,), {**nodes, **voted("target", votes), "n_targets": 1}
    for targets, join in itertools.product((1, 3), ("SUM", "AVERAGE", "MIN", "MAX")):
        nodes, votes = forest(9, 3, 4, targets, ["BRANCH_LEQ"], 0)
        attrs = {**nodes, **voted("target", votes), "n_targets": targets, "aggregate_function": join}
        yield f"regressor/{join.lower()}_{targets}", [real(20, 4)], (FLOAT,), {
            **attrs, "base_values": [float(real()) for _ in range(targets)]}
    for transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        yield f"regressor/{transform.lower()}", [real(5, 4)], (FLOAT,), {**attrs, "aggregate_function": "SUM",
                                                                        "post_transform": transform}
    nodes, votes = forest(12, 13, 3, 1, ["BRANCH_LEQ", "BRANCH_GT"])
    for rows in (1, 7, 8, 100):
        yield f"regressor/deep_{rows}", [real(rows, 3)], (FLOAT,), {**nodes, **voted("target", votes), "n_targets": 1}
    yield "regressor/doubles", [real(9, 3).astype(np.float64)], (FLOAT,), {**nodes, **voted("target", votes), "n_targets": 1}


def classifier_cases():
    labels = [10, 20, 30]
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        nodes, votes = forest(6, 3, 4, len(labels), ["BRANCH_LEQ"])
        yield f"classifier/{transform.lower()}", [real(20, 4)], (INT64, FLOAT), {
            **nodes, **voted("class", votes), "classlabels_int64s": labels, "post_transform": transform,
            "base_values": [0.1, -0.2, 0.3]}
    for is_share, transform, base in itertools.product((False, True), ("NONE", "LOGISTIC"), ([], [0.1])):
        nodes, votes = forest(1 if is_share else 6, 3, 4, 1, ["BRANCH_LEQ"])
        if is_share:
            votes = [(*vote[:3], abs(vote[3])) for vote in votes]
        attrs = {**nodes, **voted("class", votes), "classlabels_int64s": labels[:2], "post_transform": transform}
        name = f"classifier/two_{transform.lower()}" + ("_shares" if is_share else "") + ("_base" if base else "")
        yield name, [real(20, 4)], (INT64, FLOAT), {**attrs, **({"base_values": base} if base else {})}


def linear_cases():
    for targets, transform in ((1, "NONE"), (3, "NONE"), (3, "SOFTMAX"), (2, "LOGISTIC")):
        attrs = {"coefficients": real(targets * 4).tolist(), "intercepts": real(targets).tolist(),
                 "post_transform": transform}
        yield "LinearRegressor", f"{transform.lower()}_{targets}", [real(5, 4)], (FLOAT,), {**attrs, "targets": targets}
        labels = {"classlabels_ints": [5, 6, 7][:max(targets, 2)]}
        if targets > 1 or transform == "NONE":
            yield "LinearClassifier", f"{transform.lower()}_{targets}", [real(5, 4)], (INT64, FLOAT), {**attrs, **labels}
    yield "LinearClassifier", "doubles", [real(5, 4).astype(np.float64)], (INT64, FLOAT), {**attrs, **labels}
    yield "LinearClassifier", "one_logistic", [real(5, 4)], (INT64, FLOAT), {
        "coefficients": real(4).tolist(), "intercepts": [0.2], "classlabels_ints": [3, 4], "post_transform": "LOGISTIC"}


def svm_cases():
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        shared = {"kernel_type": kernel, "kernel_params": [0.7, 0.2, 3.0], "support_vectors": real(6 * 4).tolist()}
        yield "SVMRegressor", kernel.lower(), [real(5, 4)], (FLOAT,), {
            **shared, "n_supports": 6, "coefficients": real(6).tolist(), "rho": [0.3]}
        yield "SVMClassifier", kernel.lower(), [real(9, 4)], (INT64, FLOAT), {
            **shared, "vectors_per_class": [2, 1, 3], "coefficients": real(2 * 6).tolist(), "rho": real(3).tolist(),
            "classlabels_ints": [5, 1, 9]}
    yield "SVMRegressor", "one_class", [real(5, 4)], (FLOAT,), {
        **shared, "n_supports": 6, "coefficients": real(6).tolist(), "rho": [0.1], "one_class": 1}
    yield "SVMRegressor", "no_vectors", [real(5, 4)], (FLOAT,), {
        "coefficients": real(4).tolist(), "rho": [0.1], "kernel_type": "LINEAR",
        "kernel_params": [0.0, 0.0, 0.0], "support_vectors": [0.0]}
    yield "SVMClassifier", "two", [real(9, 4)], (INT64, FLOAT), {
        **shared, "vectors_per_class": [2, 4], "coefficients": real(6).tolist(), "rho": [0.1], "classlabels_ints": [5, 1]}


def feature_cases():
    x, whole = real(3, 4), random.integers(-3, 4, (3, 4))
    yield "Scaler", "rows", [x], (FLOAT,), {"offset": real(4).tolist(), "scale": real(4).tolist()}
    yield "Scaler", "integers", [whole], (FLOAT,), {"offset": [0.5], "scale": [2.0]}
    yield "Scaler", "doubles", [x.astype(np.float64)], (FLOAT,), {"offset": [0.5], "scale": [2.0]}
    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", norm.lower(), [np.vstack([np.abs(x), np.zeros((1, 4), np.float32)])], (FLOAT,), {"norm": norm}
    yield "Normalizer", "signs", [x], (FLOAT,), {"norm": "L2"}
    yield "Binarizer", "plain", [x], (FLOAT,), {"threshold": 0.1}
    holes = x.copy()
    holes[1, 2] = holes[0, 0] = np.nan
    yield "Imputer", "nan", [holes], (FLOAT,), {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")}
    yield "Imputer", "zero", [whole], (INT64,), {"imputed_value_int64s": [9], "replaced_value_int64": 0}
    yield "OneHotEncoder", "plain", [whole], (FLOAT,), {"cats_int64s": [-1, 0, 2], "zeros": 1}
    words = np.array([["cat", "dog"], ["cow", "dog"]], object)
    yield "OneHotEncoder", "words", [words], (FLOAT,), {"cats_strings": ["dog", "cat"], "zeros": 1}
    names = {"cats_strings": ["dog", "cat", "hen"], "cats_int64s": [4, 0, 9]}
    yield "CategoryMapper", "words", [words], (INT64,), {**names, "default_int64": -3}
    yield "CategoryMapper", "numbers", [np.array([9, 4, 5])], (STRING,), {**names, "default_string": "none"}
    yield "FeatureVectorizer", "plain", [x, real(3, 2)], (FLOAT,), {"inputdimensions": [4, 2]}
    yield "ArrayFeatureExtractor", "rows", [x, np.array([2, 0, 2], np.int64)], (FLOAT,), {}
    yield "ArrayFeatureExtractor", "vector", [real(5), np.array([[4, 1]], np.int64)], (FLOAT,), {}
    yield "LabelEncoder", "table", [whole], (FLOAT,), {"keys_int64s": [-2, 0, 3], "values_floats": [1.5, 2.5, 3.5], "default_float": -1.0}
    yield "LabelEncoder", "far", [whole], (INT64,), {"keys_int64s": [2**40, 0, -3], "values_int64s": [7, 8, 2**50], "default_int64": 5}
    yield "LabelEncoder", "floats", [np.array([0.5, np.nan, 2], np.float32)], (INT64,), {
        "keys_floats": [2.0, float("nan"), 0.25], "values_int64s": [3, 4, 5], "default_int64": -7}


def integer_cases():
    """ONNX Runtime's regressors take floats alone, which give the same."""
    nodes, votes = forest(5, 4, 4, 3, ["BRANCH_LEQ"])
    attrs = {"TreeEnsembleRegressor": {**nodes, **voted("target", votes), "n_targets": 3},
             "LinearRegressor": {"coefficients": real(12).tolist(), "intercepts": real(3).tolist(), "targets": 3},
             "SVMRegressor": {"kernel_type": "RBF", "kernel_params": [0.7, 0.2, 3.0], "support_vectors": real(6 * 4).tolist(),
                              "n_supports": 6, "coefficients": real(6).tolist(), "rho": [0.3]}}
    for op, dtype in itertools.product(attrs, (np.int32, np.int64)):
        whole = random.integers(-2, 3, (5, 4)).astype(dtype)
        floats = [whole.astype(np.float32)]
        wanted = results_of(model_of(op, DOMAIN, floats, (FLOAT,), attrs[op]), floats)
        yield f"{op}_{dtype.__name__}", op, [whole], attrs[op], wanted


def all_cases(folder):
    bases = [0.5, -1.0, 2.0]
    yield write_case(folder, "regressor_no_trees", "TreeEnsembleRegressor", DOMAIN, [Rows(real(5, 4))], (FLOAT,),
                     {"n_targets": 3, "base_values": bases}, [np.tile(np.float32(bases), (5, 1))])
    for name, operands, outputs, attrs in regressor_cases():
        yield write_case(folder, name.replace("/", "_"), "TreeEnsembleRegressor", DOMAIN, operands, outputs, attrs)
    for name, operands, outputs, attrs in classifier_cases():
        yield write_case(folder, name.replace("/", "_"), "TreeEnsembleClassifier", DOMAIN, operands, outputs, attrs)
    for name, op, operands, attrs, wanted in integer_cases():
        yield write_case(folder, name, op, DOMAIN, operands, (FLOAT,), attrs, wanted)
    filled = [np.array([[1.5, 2.0], [3.0, 0.0]])]
    yield write_case(folder, "Imputer_doubles", "Imputer", DOMAIN, [np.array([[0.0, 2.0], [3.0, 0.0]])], (DOUBLE,),
                     {"imputed_value_floats": [1.5, 0.0], "replaced_value_float": 0.0}, filled)
    for op, name, operands, outputs, attrs in itertools.chain(linear_cases(), svm_cases(), feature_cases()):
        yield write_case(folder, f"{op}_{name}", op, DOMAIN, operands, outputs, attrs)


def main(parts):
    folder = harness.scratch("classic_ml")
    cases = [case for case in all_cases(folder) if not parts or any(part in case.name for part in parts)]
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main(sys.argv[1:])
