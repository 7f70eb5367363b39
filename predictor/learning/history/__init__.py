"""Prediction of the next job's run time from past jobs alone, for programs without a pilot run.

``rings`` stores the last ended jobs of each user and job shape in bounded memory, ``evidence``
weights these jobs for a new job, ``run_time`` predicts the new job's time, ``intervals`` adjusts
the width of intervals online to 90 % coverage and says which predictions are accurate enough to act
on.
"""

from berth.predictor.learning.history.rings import AskedJob, JobEnd
from berth.predictor.learning.history.run_time import PastJob, RunTime, RunTimePredictor, learn_from

__all__ = ["AskedJob", "JobEnd", "PastJob", "RunTime", "RunTimePredictor", "learn_from"]
