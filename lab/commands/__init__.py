"""What ``berth train`` and ``berth evaluate`` can be asked for: a module for each ``--task``.

A module is named as its task (``dl-few-shot``: ``dl_few_shot.py``) and has ``evaluate(asked)``,
``train(asked)`` or both; its line in ``registry.py`` says which options it takes. It is imported
when its task is asked for, and imports what learning needs inside these functions.
"""
