"""Run a program on a reference machine and write its measurements as a Profile.

This is Berth's lowest package, which all others import. Besides the collectors and the benchmark
kernels, it defines the types that all of Berth uses: Counter, Profile, Platform, Signature, error
classes, documents and units. It does not use models, queues or schedulers' submit hooks.
"""
