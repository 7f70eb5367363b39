"""Tuning: search for the policy settings that would have served a site's past jobs best.

``parameters`` lists the tuned settings, ``trace_replayer`` replays past jobs under them,
``figures`` has the metrics, ``study`` searches (with Optuna, imported on use), and ``judgement``
compares the best trial with today's policy on weeks that no trial has seen.
"""

from berth.policies.tuning.figures import METRICS, ReplayFigures, TracePart, TuningMetric
from berth.policies.tuning.judgement import Judgement, judge
from berth.policies.tuning.parameters import PARAMETERS, Parameter, settings_with, values_of
from berth.policies.tuning.storage import Progress
from berth.policies.tuning.study import Tuned, Tuning

__all__ = [
    "METRICS",
    "PARAMETERS",
    "Judgement",
    "Parameter",
    "Progress",
    "ReplayFigures",
    "TracePart",
    "Tuned",
    "Tuning",
    "TuningMetric",
    "judge",
    "settings_with",
    "values_of",
]
