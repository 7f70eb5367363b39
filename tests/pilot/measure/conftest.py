"""Tiny C programs with known behaviour, compiled once; valgrind where it is needed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = {
    # 4 x n double multiply-adds as two flops each, three arrays of n.
    "triad": """
#include <stdlib.h>
#include <stdio.h>
int main(int c, char **v) { long n = atol(v[1]); (void)c;
  double *a = malloc(n * 8), *b = malloc(n * 8), *d = malloc(n * 8);
  for (long i = 0; i < n; i++) { a[i] = i; b[i] = 2 * i; }
  for (int r = 0; r < 4; r++) for (long i = 0; i < n; i++) d[i] = a[i] + 3.0 * b[i];
  printf("%g\\n", d[n / 2]); return 0; }""",
    # A million turns, then a child without exec makes a hundred thousand more.
    "forker": """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int c, char **v) { volatile long s = 0; (void)v;
  for (long i = 0; i < 1000000; i++) s += i;
  if (c > 1) { if (fork() == 0) { for (long i = 0; i < 100000; i++) s += i; exit(0); }
    int st; wait(&st); }
  return 0; }""",
    # A child that outlives its parent in a session of its own, deaf to SIGTERM.
    "orphan": """
#include <signal.h>
#include <unistd.h>
int main(void) { if (fork() == 0) { setsid(); if (fork() == 0) {
    signal(SIGTERM, SIG_IGN); for (;;) pause(); } _exit(0); } usleep(50000); return 0; }""",
    "segv": """
int main(void) { volatile int *p = 0; return *p; }""",
    # One thread computes for half a second of its own time, three sleep.
    "idlers": """
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static void *sleeper(void *p) { sleep(30); return p; }
int main(void) { pthread_t t; struct timespec now;
  for (int k = 0; k < 3; k++) pthread_create(&t, 0, sleeper, 0);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < 300);
  return 0; }""",
    # Holds argv[1] MiB and burns about argv[2] ms.
    "hold": """
#include <stdlib.h>
#include <string.h>
#include <time.h>
int main(int c, char **v) { (void)c; long n = atol(v[1]) << 20; char *p = malloc(n);
  memset(p, 1, n); struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
  do clock_gettime(CLOCK_MONOTONIC, &b);
  while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < atol(v[2]));
  return p[n / 2] - 1; }""",
    # Two children at once with argv[1] MiB each.
    "pair": """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int c, char **v) { (void)c; long n = atol(v[1]) << 20;
  for (int k = 0; k < 2; k++) if (fork() == 0) {
    char *p = malloc(n); memset(p, 1, n); usleep(400000); _exit(p[n / 2] - 1); }
  while (wait(0) > 0) ; return 0; }""",
    # Hashing, branches that depend on data, single and double precision, an indirect call.
    "mixed": """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static float single(float x) { return x * 1.5f + 2.0f; }
static float other(float x) { return x - 0.25f; }
int main(int c, char **v) { long n = atol(v[1]); (void)c;
  uint64_t *t = calloc(1 << 17, 8), h = 88172645463325252ull, found = 0;
  float (*f[2])(float) = {single, other}; float x = 1; double y = 0;
  for (long i = 0; i < n; i++) {
    h ^= h << 13; h ^= h >> 7; h ^= h << 17;
    uint64_t *p = &t[h & ((1 << 17) - 1)];
    if (*p > h) found++; else *p = h;
    x = f[(h >> 20) & 1](x); y += x * 0.5; }
  char *s = malloc(n + 1); memset(s, 'a', n); s[n] = 0; found += strlen(s);
  __atomic_fetch_add(&found, 1, __ATOMIC_SEQ_CST);
  printf("%lu %g\\n", (unsigned long)found, y); return 0; }""",
    # Loads a library, calls it a thousand times, unloads it, then a second one.
    "loader": """
#include <dlfcn.h>
int main(void) { double s = 0; const char *names[] = {"libm.so.6", "libz.so.1", "libm.so.6"};
  for (int k = 0; k < 3; k++) { void *l = dlopen(names[k], RTLD_NOW); if (!l) continue;
    double (*f)(double) = (double (*)(double))dlsym(l, "cbrt");
    for (int i = 0; f && i < 1000; i++) s += f(i);
    dlclose(l); }
  return s < 0; }""",
    # A hundred thousand turns of six instructions, then another program in the same process.
    "become": """
#include <unistd.h>
int main(int c, char **v) { volatile long s = 0; (void)c;
  for (long i = 0; i < 100000; i++) s += i;
  execv(v[1], v + 1); return 1; }""",
    # lea 1(%rdi),%rax; ret
    "generated": """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int c, char **v) { long n = atol(v[1]), s = 0; (void)c;
  unsigned char code[] = {0x48, 0x8d, 0x47, 0x01, 0xc3};
  void *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(p, code, sizeof code); long (*f)(long) = (long (*)(long))p;
  for (long i = 0; i < n; i++) s = f(s);
  return s != n; }""",
    "avx512": """
#include <immintrin.h>
int main(void) { __asm__ volatile(".byte 0x62,0xf1,0xfd,0x48,0x6f,0xc0"); return 0; }""",
}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Path of one of SOURCES, compiled."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: programs to measure cannot be built")
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> str:
        path = folder / name
        if not path.exists():
            source = folder / f"{name}.c"
            source.write_text(SOURCES[name])
            subprocess.run([compiler, "-O1", "-pthread", "-o", str(path), str(source)], check=True)
        return str(path)

    return build


@pytest.fixture
def valgrind() -> None:
    """Skip where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
