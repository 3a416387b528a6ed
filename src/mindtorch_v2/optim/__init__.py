"""Optimizers and learning-rate schedules, with PyTorch's signatures, state and results."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .adaptive import Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop
from .averaged import ASGD, Rprop, SparseAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop",
    "SGD", "SparseAdam", "lr_scheduler",
]  # fmt: skip
