/* The wall clock of a process, so many seconds from the host's as the file CHAOS_CLOCK says.

   To be preloaded. The file has one 64-bit integer and may change while the process runs. Only the
   wall clock is moved, as where somebody sets it: monotonic clocks and sleeping stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *skew_s;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof *skew_s, PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) skew_s = found;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  int status = (int)syscall(SYS_clock_gettime, id, at);
  if (status == 0 && skew_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
    at->tv_sec += *skew_s;
  return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
