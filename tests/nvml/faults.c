/* Faults on request. FAKE_NVML_FAULTS holds entries separated by ';':
 *
 *   FUNCTION:N[+]:ACTION[:VALUE]
 *
 * FUNCTION is a name or '*' (every function); N counts its calls in this process from 1, with '+'
 * from there on. ACTION: fail (returns code VALUE, nothing done), ignore (returns success, nothing
 * done), lost (done, but returns VALUE), kill and killafter (SIGKILL to this process before or
 * after the effect), hang, and arrive (a process PID starts on the instance at GPU,START: VALUE is
 * GPU,START,PID). */
#define _GNU_SOURCE
#include "fleet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fake_faults(const char *text);
unsigned fake_calls(void);
int fake_start_process(unsigned gpu, unsigned start, unsigned pid, unsigned kind);

#define MAX_FAULTS 16

enum action { FAIL, LOST, KILL, KILL_AFTER, HANG, ARRIVE, IGNORE };

typedef struct {
    char function[80], value[64];
    unsigned at, seen, onwards;
    enum action action;
} fault_t;

static fault_t faults[MAX_FAULTS];
static int count, loaded, lost_code, kill_after;
static unsigned calls;

static int parse_action(const char *word) {
    static const char *names[] = {"fail", "lost", "kill", "killafter", "hang",
                                  "arrive", "ignore"};
    for (int i = 0; i < 7; i++)
        if (strcmp(word, names[i]) == 0) return i;
    fprintf(stderr, "fake NVML: no fault %s\n", word);
    abort();
}

/* Replace the faults by those in TEXT and count calls from the start again. */
void fake_faults(const char *text) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    count = 0;
    calls = 0;
    loaded = 1;
    lost_code = kill_after = 0;
    char *rest = copy, *entry;
    while ((entry = strsep(&rest, ";")) && *entry && count < MAX_FAULTS) {
        char *function = strsep(&entry, ":"), *at = strsep(&entry, ":");
        char *action = strsep(&entry, ":");
        fault_t *fault = &faults[count++];
        memset(fault, 0, sizeof *fault);
        snprintf(fault->function, sizeof fault->function, "%s", function);
        fault->at = (unsigned)strtoul(at, 0, 10);
        fault->onwards = strchr(at, '+') != 0;
        fault->action = (enum action)parse_action(action);
        if (entry) snprintf(fault->value, sizeof fault->value, "%s", entry);
    }
}

unsigned fake_calls(void) { return calls; }

static void arrive(const char *value) {
    unsigned gpu, start, pid;
    if (sscanf(value, "%u,%u,%u", &gpu, &start, &pid) == 3) {
        fleet_lock();
        fake_start_process(gpu, start, pid, COMPUTE);
        fleet_unlock();
    }
}

/* Called on entry of every function: the code to return at once, or OK. */
int fake_enter(const char *function) {
    const char *text = getenv("FAKE_NVML_FAULTS");
    if (!loaded) fake_faults(text ? text : "");
    const char *state = getenv("FAKE_NVML_STATE");
    if (!state || fleet_open(state) != 0) return DRIVER_NOT_LOADED;
    calls++;
    lost_code = kill_after = 0;
    for (int i = 0; i < count; i++) {
        fault_t *fault = &faults[i];
        if (strcmp(fault->function, "*") != 0 && strcmp(fault->function, function) != 0) continue;
        fault->seen++;
        if (fault->seen != fault->at && !(fault->onwards && fault->seen > fault->at)) continue;
        switch (fault->action) {
            case FAIL: return atoi(fault->value);
            case LOST: lost_code = atoi(fault->value); break;
            case KILL: kill(getpid(), SIGKILL); break;
            case KILL_AFTER: kill_after = 1; break;
            case HANG: for (;;) pause();
            case ARRIVE: arrive(fault->value); break;
            case IGNORE: return IGNORED;
        }
    }
    return OK;
}

int fake_leave(int code) {
    if (kill_after) kill(getpid(), SIGKILL);
    return code == OK && lost_code ? lost_code : code;
}
