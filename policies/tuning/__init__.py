"""Tuning: which settings of the policy would have served a site's own past jobs best.

``parameters`` says what is tried, ``replayer`` what a replay is judged by, ``study`` tries (Optuna,
imported when used), ``judgement`` compares with today's policy on weeks that no trial has seen.
What replays is a ``Replayer``; nothing here knows how.
"""

from berth.policies.tuning.judgement import Judgement, judge
from berth.policies.tuning.parameters import PARAMETERS, Parameter, settings_with, values_of
from berth.policies.tuning.replayer import METRICS, Figures, Metric, Part, Replayer
from berth.policies.tuning.storage import Progress
from berth.policies.tuning.study import Tuned, Tuning

__all__ = [
    "METRICS",
    "PARAMETERS",
    "Figures",
    "Judgement",
    "Metric",
    "Parameter",
    "Part",
    "Progress",
    "Replayer",
    "Tuned",
    "Tuning",
    "judge",
    "settings_with",
    "values_of",
]
