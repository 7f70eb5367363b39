"""The one catalogue of hardware: what devices are called, what they can do, how they are cut.

``devices/`` has a data sheet each of every kind of accelerator, ``platforms/`` the kinds of nodes,
GPUs and slices with measured or published ceilings; a platform names its device. ``catalogue``
finds a device by any of its names, ``unit`` is a device or slice as a place to compute on,
``ceilings`` are the rates of platforms for programs, ``roofs`` for deep learning, ``dominance``
orders devices, ``mig/`` says what a GPU can be cut into.
"""
