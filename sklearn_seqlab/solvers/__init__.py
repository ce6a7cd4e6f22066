"""Stage 4: minimise an objective; a solver knows no model."""

from sklearn_seqlab.solvers._lbfgs import lbfgs
from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome, report
from sklearn_seqlab.solvers._owlqn import owlqn
from sklearn_seqlab.solvers._stochastic import stochastic

__all__ = ["Objective", "SolverOutcome", "lbfgs", "owlqn", "report", "stochastic"]
