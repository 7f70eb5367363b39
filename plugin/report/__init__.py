"""Reports: the only place where stored records become sentences, tables and pictures for people.

One module per subject (``of_job``, ``of_workload``, ...) makes parts from records; four writers
print them: ``terminal`` as text, ``html`` as one self-contained file, ``csv_tables`` for a
spreadsheet, ``json_data`` as plain data. ``plugin/cli`` and ``plugin/ui`` call these modules; this
package depends on neither.
"""
