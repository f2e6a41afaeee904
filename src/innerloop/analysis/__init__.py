"""What learners do: their errors, whether two are the same, and which algorithm is inside one."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.analysis import drawing
    from innerloop.analysis.ablation import Ablation, ablate
    from innerloop.analysis.attention_patterns import attention_patterns
    from innerloop.analysis.attribution import Attribution, direct_attribution
    from innerloop.analysis.bayes_check import BayesCheck, bayes_check
    from innerloop.analysis.candidates import Candidate, Family, Parameter, default_candidates
    from innerloop.analysis.convergence import Convergence, convergence
    from innerloop.analysis.drawing import draw_error_curve, save_figure_and_table
    from innerloop.analysis.error import error, error_curve
    from innerloop.analysis.forgetting import forgetting
    from innerloop.analysis.identification import Identification
    from innerloop.analysis.identify import identify
    from innerloop.analysis.identify_figure import draw_identification
    from innerloop.analysis.induced import induced_weights
    from innerloop.analysis.inside_figure import draw_attention, draw_inside, draw_places
    from innerloop.analysis.intervals import Averages, Estimate, Interval, Statistic, estimate
    from innerloop.analysis.matching import best_matches, match, match_all
    from innerloop.analysis.measured import Measured, difference, ratio
    from innerloop.analysis.patching import Patching, patch
    from innerloop.analysis.probe_program import ProbeSettings
    from innerloop.analysis.probe_ridge import RidgeSettings
    from innerloop.analysis.probing import Probing, least_squares, moment, probe, probe_several
    from innerloop.analysis.readout import ReadoutLearner, fit_readouts
    from innerloop.analysis.similarity import ilw, sim_e, sim_e_by_examples, sim_w, spd
    from innerloop.analysis.span import span_chance, span_test
    from innerloop.analysis.verify import Verification, verify

__all__ = [
    "Ablation",
    "Attribution",
    "Averages",
    "BayesCheck",
    "Candidate",
    "Convergence",
    "Estimate",
    "Family",
    "Identification",
    "Interval",
    "Measured",
    "Parameter",
    "Patching",
    "ProbeSettings",
    "Probing",
    "ReadoutLearner",
    "RidgeSettings",
    "Statistic",
    "Verification",
    "ablate",
    "attention_patterns",
    "bayes_check",
    "best_matches",
    "convergence",
    "default_candidates",
    "difference",
    "direct_attribution",
    "draw_attention",
    "draw_error_curve",
    "draw_identification",
    "draw_inside",
    "draw_places",
    "drawing",
    "error",
    "error_curve",
    "estimate",
    "fit_readouts",
    "forgetting",
    "identify",
    "ilw",
    "induced_weights",
    "least_squares",
    "match",
    "match_all",
    "moment",
    "patch",
    "probe",
    "probe_several",
    "ratio",
    "save_figure_and_table",
    "sim_e",
    "sim_e_by_examples",
    "sim_w",
    "span_chance",
    "span_test",
    "spd",
    "verify",
]

import_at_first_use(__name__)
