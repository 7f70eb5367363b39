"""``berth ui``: Berth as a web page. Needs the extra ``berth[ui]`` (Flask, Bootstrap, matplotlib).

Pages are rendered on the server; nothing is asked of another origin, and nothing needs a script.
One module a view. A view reads through ``viewer``: whoever looks sees what they may.
"""
