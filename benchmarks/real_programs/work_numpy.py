"""Singular values, a transform, sorting: what an interpreter with a library does."""

import numpy

random = numpy.random.default_rng(7)
for _ in range(6):
    matrix = random.standard_normal((350, 350))
    print(numpy.linalg.svd(matrix, compute_uv=False)[:3])
    signal = random.standard_normal(1 << 20)
    print(abs(numpy.fft.rfft(signal)).max(), numpy.sort(signal)[:2])
    words = {}
    for number in range(500_000):
        words[number % 9973] = words.get(number % 9973, 0) + number
    print(sum(words.values()))
