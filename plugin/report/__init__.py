"""Reports: the only place where stored records become sentences, tables and pictures for people.

One module a subject (``of_job``, ``of_workload``, ...) makes parts from records; four writers put
them out: ``terminal`` as text, ``html`` as one file that stands alone, ``csv_tables`` for a
spreadsheet, ``json_data`` as plain data. ``plugin/cli`` and ``plugin/ui`` call these; nothing here
knows of commands or of the page.
"""
