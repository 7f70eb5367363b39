"""Serves requests of the site's users in a process and on a socket separate from the submit
filter's.

The kernel reports who connects (``SO_PEERCRED``), so users cannot claim another name. Users cannot
delay the scheduler's requests: these go to another process over a socket that users cannot reach.
"""
