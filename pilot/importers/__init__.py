"""Import the output files of other measuring tools (perf, LIKWID, Caliper) as Profiles."""
