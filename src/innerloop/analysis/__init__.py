"""What learners do: their errors, whether two are the same, and which algorithm is inside one."""

from innerloop.analysis.bayes_check import BayesCheck, bayes_check
from innerloop.analysis.candidates import Candidate, default_candidates
from innerloop.analysis.convergence import Convergence, convergence
from innerloop.analysis.error import error_curve
from innerloop.analysis.figure import draw_error_curve, save_figure_and_table
from innerloop.analysis.forgetting import forgetting
from innerloop.analysis.identify import Identification, identify
from innerloop.analysis.identify_figure import draw_identification
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.matching import Match, match
from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import ProbeErrors, Probing, least_squares, moment, probe
from innerloop.analysis.readout import ReadoutLearner, fit_readouts
from innerloop.analysis.similarity import Similarity, ilw, sim_e, sim_w, spd
from innerloop.analysis.span import span_test
from innerloop.analysis.verify import Verification, verify

__all__ = [
    "BayesCheck",
    "Candidate",
    "Convergence",
    "Identification",
    "Match",
    "ProbeErrors",
    "ProbeSettings",
    "Probing",
    "ReadoutLearner",
    "Similarity",
    "Verification",
    "bayes_check",
    "convergence",
    "default_candidates",
    "draw_error_curve",
    "draw_identification",
    "error_curve",
    "fit_readouts",
    "forgetting",
    "identify",
    "ilw",
    "induced_weights",
    "least_squares",
    "match",
    "moment",
    "probe",
    "save_figure_and_table",
    "sim_e",
    "sim_w",
    "span_test",
    "spd",
    "verify",
]
