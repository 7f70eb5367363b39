"""What users of the site may ask: a process of its own, on a socket of its own.

The kernel says who connects (``SO_PEERCRED``); nobody says so himself. Whatever users do here, the
scheduler's questions go to another process over another socket that users cannot reach.
"""
