"""Decides where a job runs: from a Request, Candidates and predictions to a Decision with a reason.

Pure functions over frozen values; this package does not know how jobs arrive or how a decision is
carried out.
"""
