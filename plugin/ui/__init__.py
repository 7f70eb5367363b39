"""``berth ui``: Berth as a web page. Needs the extra ``berth[ui]`` (Flask, Bootstrap, matplotlib).

Pages are rendered on the server, load nothing from other origins, and work without scripts. Each
view is one module. Views read through ``viewer``, which restricts a user to the records that the
user may see.
"""
