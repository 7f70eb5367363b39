"""What policies are compared with: the baselines of the literature, as objectives.

They are found as other objectives are (``berth.objectives``), so that replays and a daemon in
shadow mode decide by the production code. A site file in advise or enforce mode refuses them.
"""
