"""Run time of the next job from past jobs alone: nobody piloted the program.

``rings`` remembers ended jobs within bounds, ``evidence`` weighs them for a new job, ``run_time``
predicts its time, ``intervals`` holds the coverage of the interval online and says which
predictions are worth acting on.
"""

from berth.predictor.learning.history.rings import AskedJob, EndedJob
from berth.predictor.learning.history.run_time import PastJob, RunTime, RunTimePredictor, learn_from

__all__ = ["AskedJob", "EndedJob", "PastJob", "RunTime", "RunTimePredictor", "learn_from"]
