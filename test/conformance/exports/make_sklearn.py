"""Writes the models of folder `sklearn`: what scikit-learn trains, as skl2onnx exports it, with `rows` open.

    make_sklearn.py FOLDER [NAME...]

Needs requirements_sklearn.txt, which the tests do only in full: the files are stored.
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.datasets import make_classification
from sklearn.ensemble import (GradientBoostingClassifier, GradientBoostingRegressor, HistGradientBoostingClassifier,
                              HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

FEATURES = 8
x, two = make_classification(200, FEATURES, n_informative=6, random_state=0)
three = make_classification(200, FEATURES, n_informative=6, n_classes=3, random_state=0)[1]
number = x @ np.arange(FEATURES) + x[:, 0] ** 2
holes = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
colours = np.array(["red", "green", "blue", "päle"])[np.random.default_rng(0).integers(0, 4, (200, FEATURES))]
species = np.array(["setosa", "versicolor", "virginica"])[three]
seeded = {"random_state": 0}
few = {"n_estimators": 10, "max_depth": 5, **seeded}

# Model, rows, what is learnt.
MODELS = {
    "random_forest": (RandomForestClassifier(**few), x, three),
    "random_forest_two": (RandomForestClassifier(**few), x, two),
    "random_forest_regressor": (RandomForestRegressor(**few), x, np.stack([number, -number], 1)),
    "gradient_boosting": (GradientBoostingClassifier(n_estimators=5, **seeded), x, three),
    "gradient_boosting_two": (GradientBoostingClassifier(n_estimators=10, **seeded), x, two),
    "gradient_boosting_regressor": (GradientBoostingRegressor(n_estimators=10, **seeded), x, number),
    "hist_gradient_boosting": (HistGradientBoostingClassifier(max_iter=5, **seeded), holes, three),
    "hist_gradient_boosting_regressor": (HistGradientBoostingRegressor(max_iter=5, **seeded), holes, number),
    "scaled_logistic": (make_pipeline(StandardScaler(), LogisticRegression()), x, three),
    "logistic_two": (LogisticRegression(), x, two),
    "linear": (LinearRegression(), x, number),
    "scaled_forest": (make_pipeline(MinMaxScaler(), RandomForestClassifier(**few)), x, two),
    "svc": (SVC(**seeded), x[:80], three[:80]),
    "svc_polynomial": (SVC(kernel="poly", **seeded), x[:80], two[:80]),
    "svr": (make_pipeline(Normalizer(), SVR()), x[:80], number[:80]),
    "naive_bayes": (GaussianNB(), x, three),
    "string_categories": (make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()), colours, species),
    "perceptrons": (MLPClassifier((8,), max_iter=20, **seeded), x, three),
}


def export(name, folder):
    model, rows, wanted = MODELS[name]
    is_text = rows.dtype.kind == "U"
    model.fit(rows if is_text else rows.astype(np.float32), wanted)
    made = to_onnx(model, initial_types=[("X", (StringTensorType if is_text else FloatTensorType)([None, FEATURES]))],
                   target_opset={"": 18, "ai.onnx.ml": 3})
    for value in [*made.graph.input, *made.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.dim[0].dim_param = "rows"
    made.graph.doc_string = made.doc_string = ""
    onnx.save(made, folder / f"{name}.onnx")


def main(folder, *wanted):
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanted or MODELS:
        export(name, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
