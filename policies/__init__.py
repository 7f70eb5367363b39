"""Decides: from a Request, Candidates and Predictions to a Decision with its reason.

Pure functions over frozen values. Knows nothing of how a job reaches it or how a decision
is carried out.
"""
