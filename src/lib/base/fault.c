/* Counts the passes of each armed fault point and acts at the chosen one. */
#include "base/fault.h"

#ifdef CCL_FAULTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ARMED = 16 };

struct armed {
    char point[48];
    unsigned first;
    int and_later;
    char action[8];
    _Atomic unsigned passes;
};

static struct armed armed_points[MAX_ARMED];
static int narmed;
static _Atomic unsigned nacted;
static _Atomic int is_disarmed;
static pthread_once_t parse_once = PTHREAD_ONCE_INIT;

static void parse_one(char *item)
{
    char *save = NULL;
    char *point = strtok_r(item, ":", &save);
    char *nth = strtok_r(NULL, ":", &save);
    char *action = strtok_r(NULL, ":", &save);
    if (point == NULL || nth == NULL || narmed == MAX_ARMED) return;
    struct armed *slot = &armed_points[narmed++];
    strncpy(slot->point, point, sizeof slot->point - 1);
    char *end = nth;
    slot->first = (unsigned)strtoul(nth, &end, 10);
    slot->and_later = *end == '+';
    strncpy(slot->action, action == NULL ? "fail" : action, sizeof slot->action - 1);
}

static void parse_all(void)
{
    const char *text = getenv("CHORUS_FAULTS");
    if (text == NULL) return;
    char *copy = strdup(text);
    char *save = NULL;
    for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save))
        parse_one(item);
    free(copy);
}

int ccl_fault_hit(const char *point)
{
    if (atomic_load_explicit(&is_disarmed, memory_order_relaxed)) return 0;
    pthread_once(&parse_once, parse_all);
    for (int i = 0; i < narmed; i++) {
        struct armed *slot = &armed_points[i];
        if (strcmp(slot->point, point) != 0) continue;
        unsigned pass = atomic_fetch_add_explicit(&slot->passes, 1, memory_order_relaxed) + 1;
        if (pass != slot->first && !(slot->and_later && pass > slot->first)) continue;
        atomic_fetch_add_explicit(&nacted, 1, memory_order_relaxed);
        if (strcmp(slot->action, "kill") == 0) kill(getpid(), SIGKILL);
        if (strcmp(slot->action, "stop") == 0) kill(getpid(), SIGSTOP);
        if (strcmp(slot->action, "exit") == 0) _exit(77);
        return strcmp(slot->action, "fail") == 0;
    }
    return 0;
}

unsigned ccl_fault_acted(void)
{
    return atomic_load_explicit(&nacted, memory_order_relaxed);
}

void ccl_fault_disarm(void)
{
    atomic_store_explicit(&is_disarmed, 1, memory_order_relaxed);
}

#endif

/* Keeps the file from being an empty translation unit without FAULTS=1. */
typedef int ccl_fault_unused;
