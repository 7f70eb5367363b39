"""Run one program, sample its process tree, and end every process that it leaves behind.

:mod:`berth.pilot.launch` starts this folder as a small process of its own, the *shepherd*
(``python -I -S FOLDER``), for three reasons:

- As *child subreaper* (prctl(2)) the shepherd adopts orphaned processes of the program without
  touching other children of the caller.
- ``ru_maxrss`` of a child starts at the memory of the process that forked it, so the forking
  process must be small.
- The shepherd's standard input is a pipe from the caller, the *leash*. When the caller dies, the
  pipe closes and the shepherd ends the process tree.

Protocol: one line on standard input describes the run (the *order*, marshal data in hexadecimal);
any further line, or the end of input, means "cut the run short". The result is marshal data on
standard output: both ends are one Python, and the import of json takes as long as the rest of the
start. The program's own output goes through a pipe to the shepherd's standard error, up to
``forward_bytes``.

``run`` starts and ends the program, ``tree`` samples its processes, ``threads`` tells how many of
their threads computed, ``isolation`` drops what an isolated program writes, and ``proc`` reads
/proc. All import only the standard library, and each other by relative names: in the shepherd's
process this package is called ``shepherd``.
"""
