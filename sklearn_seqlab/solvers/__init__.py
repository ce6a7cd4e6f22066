"""Stage 4: minimise an objective; a solver knows no model."""

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome, report
from sklearn_seqlab.solvers._quasi_newton import lbfgs, owlqn

__all__ = ["Objective", "SolverOutcome", "lbfgs", "owlqn", "report"]
