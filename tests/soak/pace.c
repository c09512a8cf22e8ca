/* Lets the clocks of a process go faster, so that a day takes minutes: see pace.py, which compiles and loads it.

   Dates, and the clocks that nobody can set, advance PACE seconds a second; waits are as much shorter. All processes
   that are given the same SOAK_PACE ("pace begin_ns date_ns") agree on the time, also those that begin later. A wait
   of less than 20 ms is the machine's own business (Python's threads hand over after 5) and is left as it is.
   Sources: clock_gettime(2), select(2), poll(2), epoll_wait(2), sem_timedwait(3), pthread_cond_timedwait(3). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SHORT (SECOND / 50)
#define REAL(name) ((__typeof__(&name))real(#name, NULL))

static int64_t pace = 1, begin, date;

__attribute__((constructor)) static void set(void) {
    const char *given = getenv("SOAK_PACE");
    long long p, b, d;
    if (given && sscanf(given, "%lld %lld %lld", &p, &b, &d) == 3 && p > 0) pace = p, begin = b, date = d;
}

static void *real(const char *name, const char *version) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

static int64_t ns(const struct timespec *t) { return t->tv_sec * SECOND + t->tv_nsec; }

static struct timespec spec(int64_t t) {
    if (t < 0) t = 0;
    return (struct timespec){t / SECOND, t % SECOND};
}

static int64_t truly(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return ns(&t);
}

static int64_t quick(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return date + (truly(CLOCK_MONOTONIC) - begin) * pace;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        return begin + (truly(clock) - begin) * pace;
    }
    return truly(clock);
}

static int64_t shorter(int64_t wait) {
    if (wait < SHORT) return wait;
    wait = wait / pace + 1000;
    return wait < SECOND / 1000 ? SECOND / 1000 : wait;
}

/* The moment by the true clock at which the quick one shows `until`. */
static struct timespec moment(clockid_t clock, const struct timespec *until) {
    return spec(truly(clock) + shorter(ns(until) - quick(clock)));
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (syscall(SYS_clock_gettime, clock, t)) return -1;
    if (pace > 1) *t = spec(quick(clock));
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    int64_t now = quick(CLOCK_REALTIME);
    (void)zone;
    t->tv_sec = now / SECOND, t->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *t) {
    time_t now = quick(CLOCK_REALTIME) / SECOND;
    if (t) *t = now;
    return now;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    struct timespec wait = flags & TIMER_ABSTIME ? moment(clock, t) : spec(shorter(ns(t)));
    return REAL(clock_nanosleep)(clock, flags, &wait, left);
}

int nanosleep(const struct timespec *t, struct timespec *left) {
    struct timespec wait = spec(shorter(ns(t)));
    return REAL(nanosleep)(&wait, left);
}

int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t) {
    if (!t) return REAL(select)(n, r, w, e, t);
    int64_t wait = shorter(t->tv_sec * SECOND + t->tv_usec * 1000LL);
    struct timeval made = {wait / SECOND, wait % SECOND / 1000};
    return REAL(select)(n, r, w, e, &made);
}

int poll(struct pollfd *files, nfds_t n, int ms) {
    struct timespec wait = spec(shorter(ms * (SECOND / 1000)));
    return REAL(ppoll)(files, n, ms < 0 ? NULL : &wait, NULL);
}

int ppoll(struct pollfd *files, nfds_t n, const struct timespec *t, const sigset_t *mask) {
    struct timespec wait = spec(t ? shorter(ns(t)) : 0);
    return REAL(ppoll)(files, n, t ? &wait : NULL, mask);
}

int epoll_wait(int file, struct epoll_event *events, int n, int ms) {
    int64_t wait = ms < 0 ? -1 : (shorter(ms * (SECOND / 1000)) + 999999) / 1000000;
    return REAL(epoll_wait)(file, events, n, wait);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until) {
    struct timespec at = moment(CLOCK_REALTIME, until);
    return REAL(sem_timedwait)(sem, &at);
}

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict until) {
    struct timespec at = moment(clock, until);
    return REAL(sem_clockwait)(sem, clock, &at);
}

/* The clock of a condition is not told: it is the one that the moment is near. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait) wait = real("pthread_cond_timedwait", "GLIBC_2.3.2");
    int64_t by_date = llabs(ns(until) - quick(CLOCK_REALTIME)), by_other = llabs(ns(until) - quick(CLOCK_MONOTONIC));
    struct timespec at = moment(by_date < by_other ? CLOCK_REALTIME : CLOCK_MONOTONIC, until);
    return wait(cond, mutex, &at);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    struct timespec at = moment(clock, until);
    return REAL(pthread_cond_clockwait)(cond, mutex, clock, &at);
}

/* The output supervisor is started with an environment of its own, and its clock has to be the same. */
int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const words[], char *const given[]) {
    static const char *const ours[] = {"LD_PRELOAD", "SOAK_PACE"};
    size_t n = 0;
    while (given && given[n]) n++;
    char *all[n + 3], line[2][512];
    for (size_t i = 0; i < n; i++) all[i] = given[i];
    for (int i = 0; i < 2; i++) {
        const char *value = getenv(ours[i]);
        if (!value) continue;
        snprintf(line[i], sizeof line[i], "%s=%s", ours[i], value);
        all[n++] = line[i];
    }
    all[n] = NULL;
    return REAL(posix_spawn)(pid, path, actions, attributes, words, all);
}
