/* recorder/waits/waits.c - wrappers of locks and sleeps; see waits.h. */
#define PFW_OS_NO_POISON
#include "recorder/waits/waits.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <string.h>

#include "common/base/text.h"
#include "recorder/guest/thread.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"

/* ---- what is waited for ---- */

#define NAME_BYTES 192

static struct {
	/* glibc 2.35's, which takes no lock: a thread may wait inside of dlopen(), or in a handler.
	 * dladdr() would take the lock of the dynamic linker.  NULL: addresses only. */
	int (*find)(void *address, struct dl_find_object *object);
	char program[64];
} names;

static void name_init(const char *exe)
{
	struct pfw_text text;

	pfw_text_init(&text, names.program, sizeof(names.program));
	pfw_text_add(&text, exe ? pfw_text_base(exe) : "");
	names.find =
		(int (*)(void *, struct dl_find_object *))dlsym(RTLD_DEFAULT, "_dl_find_object");
	if (!names.find)
		dlerror(); /* clear the error: an older glibc has none */
}

static void add_hex(struct pfw_text *text, uintptr_t value)
{
	char digits[2 * sizeof(value)];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	pfw_text_add(text, "0x");
	pfw_text_add_bytes(text, digits + at, sizeof(digits) - at);
}

/* "mutex:[libfoo.so.1+0x4120]" for a lock in the static data of an object, which addr2line and nm
 * understand; "mutex:[0x7f3a1c000b20]" for any other.  Return its length.  Thread: app.  Signal:
 * safe.  Keeps errno. */
static size_t put_wait_name(const char *kind, uintptr_t address, char name[NAME_BYTES])
{
	struct dl_find_object object;
	struct pfw_text text;
	const char *file;

	pfw_text_init(&text, name, NAME_BYTES - 32); /* the rest for the number */
	PFW_TEXT_ADD(&text, kind, ":[");
	if (names.find && names.find((void *)address, &object) == 0) {
		file = object.dlfo_link_map->l_name;
		PFW_TEXT_ADD(&text, *file ? pfw_text_base(file) : names.program, "+");
		address -= object.dlfo_link_map->l_addr;
	}
	text.end = name + NAME_BYTES - 1;
	add_hex(&text, address);
	pfw_text_add(&text, "]");
	return (size_t)(text.at - text.start);
}

/*
 * The locks are libc's.  Another tool's (ThreadSanitizer's) may tell a try from a lock: it finds
 * orders of locks that can deadlock by the latter only.  There, no lock is tried first.
 */
static bool tries;

void pfw_waits_init(const char *exe)
{
	Dl_info lock, libc;

	name_init(exe);
	tries = pfw_real.pthread_mutex_lock && dladdr((void *)pfw_real.pthread_mutex_lock, &lock) &&
		dladdr((void *)gnu_get_libc_version, &libc) && lock.dli_fbase == libc.dli_fbase;
}

static bool wait_begin(struct pfw_probe *probe, uint16_t call)
{
	/* Guarded: this thread gets its ring, for which another tool's allocator may take a
	 * lock. */
	return !pfw_thread.guarded && pfw_probe_bare(probe, call);
}

/* What a call waited for, and how it ended.  `kind` without an address: the whole name. */
struct waited {
	const char *kind;
	uintptr_t address;
	long ret;
	bool by_errno; /* it has failed, and errno says why; else ret is what it is */
};

static void wait_end(const struct pfw_probe *probe, const struct waited *waited)
{
	const uint64_t value[] = { (uint64_t)waited->ret };
	struct pfw_ending ending = { .value = value,
				     .value_count = 1,
				     .error = waited->by_errno ? errno : 0,
				     .t1 = pfw_clock_ticks(),
				     .any_name = true };
	uint64_t ticks = ending.t1 - probe->t0;
	char buffer[NAME_BYTES];
	struct pfw_tail name = { .text = buffer };

	if (waited->address) {
		name.text_bytes = (uint32_t)put_wait_name(waited->kind, waited->address, buffer);
	} else {
		name.text = waited->kind;
		name.text_bytes = (uint32_t)strlen(waited->kind);
	}
	ending.name = &name;
	if (ticks < pfw_wait_ticks && pfw_probe_ready(&pfw_switches->io) &&
	    pfw_short_call(probe, ticks, &ending))
		return;
	pfw_probe_end_full(probe, &ending);
}

#define WAIT(type, name, params, args, what, object, error)                                \
	{                                                                                  \
		struct pfw_probe probe;                                                    \
		bool traced = wait_begin(&probe, PFW_CALL_##name);                         \
		type ret = pfw_real.name args;                                             \
                                                                                           \
		if (traced)                                                                \
			wait_end(&probe, &(struct waited){ .kind = what,                   \
							   .address = (uintptr_t)(object), \
							   .ret = (long)ret,               \
							   .by_errno = error });           \
		return ret;                                                                \
	}

/* ---- locks ---- */

/* Two functions, as in calls.c: a lock that is free costs its try and a jump. */
#define LOCK(name, params, args, first, tried, what)                                   \
	static __attribute__((noinline)) int wait_##name params WAIT(                  \
		int, name, params, args, what, lock, false) int pfw_wrap_##name params \
	{                                                                              \
		int ret = tries && (first) ? tried(lock) : EBUSY;                      \
                                                                                       \
		/* Any failure is the lock's to report. */                             \
		if (PFW_LIKELY(ret == 0))                                              \
			return ret;                                                    \
		return wait_##name args;                                               \
	}

/* Robust mutexes and those with priorities (bits 4 to 6 of the kind) are locked without a try, and
 * so counted even if they are free: glibc's try of a robust mutex that is not recoverable leaves it
 * locked, so that the next lock would wait for ever. */
static bool is_plain(const pthread_mutex_t *mutex)
{
	return !(mutex->__data.__kind & 0x70);
}

/* With an unknown clock a call fails, whether the lock is free or not. */
static bool is_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

LOCK(pthread_mutex_lock, (pthread_mutex_t * lock), (lock), is_plain(lock), pthread_mutex_trylock,
     "mutex")
LOCK(pthread_mutex_timedlock, (pthread_mutex_t * lock, const struct timespec *limit), (lock, limit),
     is_plain(lock), pthread_mutex_trylock, "mutex")
LOCK(pthread_mutex_clocklock,
     (pthread_mutex_t * lock, clockid_t clock, const struct timespec *limit), (lock, clock, limit),
     is_clock(clock) && is_plain(lock), pthread_mutex_trylock, "mutex")
LOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), true, pthread_rwlock_tryrdlock,
     "rwlock")
LOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock), true, pthread_rwlock_trywrlock,
     "rwlock")
/* These functions check the limit first. */
LOCK(pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const struct timespec *limit),
     (lock, limit), (uint64_t)limit->tv_nsec < 1000000000, pthread_rwlock_tryrdlock, "rwlock")
LOCK(pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const struct timespec *limit),
     (lock, limit), (uint64_t)limit->tv_nsec < 1000000000, pthread_rwlock_trywrlock, "rwlock")
LOCK(pthread_rwlock_clockrdlock,
     (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *limit), (lock, clock, limit),
     is_clock(clock) && (uint64_t)limit->tv_nsec < 1000000000, pthread_rwlock_tryrdlock, "rwlock")
LOCK(pthread_rwlock_clockwrlock,
     (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *limit), (lock, clock, limit),
     is_clock(clock) && (uint64_t)limit->tv_nsec < 1000000000, pthread_rwlock_trywrlock, "rwlock")
LOCK(mtx_lock, (mtx_t * lock), (lock), true, mtx_trylock, "mutex")
LOCK(mtx_timedlock, (mtx_t * lock, const struct timespec *limit), (lock, limit), true, mtx_trylock,
     "mutex")

/* The calls on semaphores act on a cancellation even if they need not wait; a try does not. */
static int try_semaphore(sem_t *lock)
{
	int error = errno;

	pthread_testcancel();
	if (!sem_trywait(lock))
		return 0;
	errno = error;
	return EBUSY;
}

#define SEMAPHORE(name, params, args, first)                                              \
	static __attribute__((noinline)) int wait_##name params WAIT(                     \
		int, name, params, args, "sem", lock, ret < 0) int pfw_wrap_##name params \
	{                                                                                 \
		if (tries && (first) && PFW_LIKELY(try_semaphore(lock) == 0))             \
			return 0;                                                         \
		return wait_##name args;                                                  \
	}

SEMAPHORE(sem_wait, (sem_t * lock), (lock), true)
SEMAPHORE(sem_timedwait, (sem_t * lock, const struct timespec *limit), (lock, limit),
	  (uint64_t)limit->tv_nsec < 1000000000)
SEMAPHORE(sem_clockwait, (sem_t * lock, clockid_t clock, const struct timespec *limit),
	  (lock, clock, limit), is_clock(clock) && (uint64_t)limit->tv_nsec < 1000000000)

/* ---- what always waits ---- */

#define ALWAYS(type, name, params, args, what, object, error) \
	type pfw_wrap_##name params WAIT(type, name, params, args, what, object, error)

ALWAYS(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *lock), (cond, lock), "cond",
       cond, false)
ALWAYS(int, pthread_cond_timedwait,
       (pthread_cond_t * cond, pthread_mutex_t *lock, const struct timespec *limit),
       (cond, lock, limit), "cond", cond, false)
ALWAYS(int, pthread_cond_clockwait,
       (pthread_cond_t * cond, pthread_mutex_t *lock, clockid_t clock,
	const struct timespec *limit),
       (cond, lock, clock, limit), "cond", cond, false)
ALWAYS(int, cnd_wait, (cnd_t * cond, mtx_t *lock), (cond, lock), "cond", cond, false)
ALWAYS(int, cnd_timedwait, (cnd_t * cond, mtx_t *lock, const struct timespec *limit),
       (cond, lock, limit), "cond", cond, false)
ALWAYS(int, pthread_barrier_wait, (pthread_barrier_t * barrier), (barrier), "barrier", barrier,
       false)

/* ---- sleeps ---- */

static const char *clock_name(clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
		return "clock:[realtime]";
	case CLOCK_MONOTONIC:
		return "clock:[monotonic]";
	case CLOCK_BOOTTIME:
		return "clock:[boottime]";
	case CLOCK_TAI:
		return "clock:[tai]";
	default:
		return "clock:[cpu]";
	}
}

ALWAYS(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left),
       "clock:[realtime]", 0, ret < 0)
ALWAYS(int, clock_nanosleep,
       (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
       (clock, flags, time, left), clock_name(clock), 0, false)
ALWAYS(int, usleep, (useconds_t time), (time), "clock:[realtime]", 0, ret < 0)
ALWAYS(unsigned, sleep, (unsigned seconds), (seconds), "clock:[realtime]", 0, false)
/* -1: a handler has run; less: an error. */
ALWAYS(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left),
       "clock:[realtime]", 0, false)

/* ---- joins ---- */

/* "thread:[4711]", while the thread is there: the clock of its processor time has its number, which
 * no other call of libc says.  False: it has ended, or is our own, which our call joins. */
static bool thread_name(pthread_t thread, char name[32])
{
	struct pfw_text text;
	clockid_t clock;

	if (pfw_own_thread_is(thread) || pthread_getcpuclockid(thread, &clock))
		return false;
	pfw_text_init(&text, name, 32);
	pfw_text_add(&text, "thread:[");
	pfw_text_add_u64(&text, (uint64_t) ~((int64_t)clock >> 3), 1);
	pfw_text_add(&text, "]");
	return true;
}

#define JOIN(name, params, args)                                                        \
	int pfw_wrap_##name params                                                      \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		char text[32];                                                          \
		bool traced = thread_name((pthread_t)thread, text) &&                   \
			      wait_begin(&probe, PFW_CALL_##name);                      \
		int ret = pfw_real.name args;                                           \
                                                                                        \
		if (traced)                                                             \
			wait_end(&probe, &(struct waited){ .kind = text, .ret = ret }); \
		return ret;                                                             \
	}

JOIN(pthread_join, (pthread_t thread, void **result), (thread, result))
JOIN(pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *limit),
     (thread, result, limit))
JOIN(pthread_clockjoin_np,
     (pthread_t thread, void **result, clockid_t clock, const struct timespec *limit),
     (thread, result, clock, limit))
JOIN(thrd_join, (thrd_t thread, int *result), (thread, result))
