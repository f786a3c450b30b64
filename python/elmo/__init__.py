"""Text classification with very many labels, trained in few bits.

A thin face over the C++ library: the same options, files, numbers and errors as the program `elmo`.

    run = elmo.train(texts=["a red thing", ...], labels=[["red"], ...], epochs=5)
    run.predict(["what is this?"])
    run.evaluate(texts=..., labels=...)
"""
from elmo import metrics
from elmo._calls import compare, convert, evaluate, explain, export, index, inspect, plan, recipes, report, train, tune
from elmo._core import (ConfigError, DataError, DeviceError, Error, NumericError, OutOfMemory, options, version)
from elmo._predictor import Answers, Prediction, Predictor, Tokenizer
from elmo._result import Plan, Result
from elmo._run import Run
from elmo._server import Server, serve

__version__ = version()
for _error in (ConfigError, DataError, DeviceError, Error, NumericError, OutOfMemory):
    _error.__module__ = "elmo"
__all__ = ["Answers", "ConfigError", "DataError", "DeviceError", "ElmoClassifier", "Error", "NumericError",
           "OutOfMemory", "Plan", "Prediction", "Predictor", "Result", "Run", "Server", "Tokenizer", "compare", "convert",
           "evaluate", "explain", "export", "index", "inspect", "metrics", "options", "plan", "recipes", "report", "serve", "train",
           "tune"]


def __getattr__(name):  # scikit-learn is needed only where its estimator is
    if name == "ElmoClassifier":
        from elmo.sklearn import ElmoClassifier
        return ElmoClassifier
    raise AttributeError(f"module 'elmo' has no attribute {name!r}")
