"""The catalogue of hardware: names, data sheets, peak rates and MIG slices of devices.

``devices/`` holds a data sheet of each accelerator. ``platforms/`` holds the kinds of nodes, GPUs
and slices with their measured or published peak rates; a platform names its device. ``catalogue``
finds a device by any of its names. ``unit`` describes a device or slice that a job can use.
``ceilings`` has the peak rates for programs, ``roofs`` those for deep learning. ``dominance``
compares devices. ``mig/`` lists the slices that each GPU can be partitioned into.
"""
