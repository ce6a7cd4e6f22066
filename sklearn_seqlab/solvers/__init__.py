"""Stage 4: minimise an objective; a solver knows no model."""

from sklearn_seqlab.solvers._average_gradient import average_gradient
from sklearn_seqlab.solvers._boosting import BoostingOutcome, boost
from sklearn_seqlab.solvers._dual_ascent import dual_ascent
from sklearn_seqlab.solvers._frank_wolfe import frank_wolfe
from sklearn_seqlab.solvers._group_cuts import CutSolution, GroupCuts
from sklearn_seqlab.solvers._lbfgs import lbfgs
from sklearn_seqlab.solvers._line_search import minimise_along
from sklearn_seqlab.solvers._margin import DualSolution, MarginOutcome, MarginProblem
from sklearn_seqlab.solvers._one_slack import one_slack
from sklearn_seqlab.solvers._outcome import CertifiedOutcome, Objective, SolverOutcome, report
from sklearn_seqlab.solvers._owlqn import owlqn
from sklearn_seqlab.solvers._passes import calibrate, passes, step_through, warm_up
from sklearn_seqlab.solvers._simplex_qp import simplex_qp
from sklearn_seqlab.solvers._stochastic import stochastic
from sklearn_seqlab.solvers._stopping import check_start
from sklearn_seqlab.solvers._subgradient import SubgradientRun, perceptron, subgradient
from sklearn_seqlab.solvers._working_set import PlaneCache, working_set

__all__ = [
    "BoostingOutcome",
    "CertifiedOutcome",
    "CutSolution",
    "DualSolution",
    "GroupCuts",
    "MarginOutcome",
    "MarginProblem",
    "Objective",
    "PlaneCache",
    "SolverOutcome",
    "SubgradientRun",
    "average_gradient",
    "boost",
    "calibrate",
    "check_start",
    "dual_ascent",
    "frank_wolfe",
    "lbfgs",
    "minimise_along",
    "one_slack",
    "owlqn",
    "passes",
    "perceptron",
    "report",
    "simplex_qp",
    "step_through",
    "stochastic",
    "subgradient",
    "warm_up",
    "working_set",
]
