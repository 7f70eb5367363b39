"""What ``berth ui report`` and the page show of a job, a workload, the site or the GPUs.

One module a subject makes a ``Report`` of parts (sentences, pictures, tables); ``page`` writes it
as one HTML file that stands alone, ``plain`` as text and JSON, ``plugin/ui`` as views.
"""
