"""Run time of the next job from past jobs alone: nobody piloted the program.

``jobs`` says what is known of a job, ``rings`` remembers ended ones within bounds, ``evidence``
weighs them for a new job, ``run_time`` predicts its time, ``intervals`` holds the coverage of the
interval online, ``confidence`` says which predictions are worth acting on; ``replay`` learns from
jobs that ended long ago as if they ended now.
"""

from berth.predictor.learning.history.rings import AskedJob, EndedJob
from berth.predictor.learning.history.run_time import PastJob, RunTime, RunTimePredictor, learn_from

__all__ = ["AskedJob", "EndedJob", "PastJob", "RunTime", "RunTimePredictor", "learn_from"]
