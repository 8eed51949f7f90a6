/* calls_sync.h - the cases of calls_target.c that wait in locks, and sleep. */
#pragma once

#include <stdatomic.h>

#include "calls_harness.h"

/* A thread that takes `object`, waits until the main thread waits for it, and gives it. */
struct helper {
	void *object;
	void (*take)(void *), (*give)(void *);
	_Atomic bool taken, ended;
};

static void doze(void)
{
	syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static bool main_sleeps(void)
{
	char path[64], text[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, ") S ");
}

static void *help(void *arg)
{
	struct helper *helper = arg;

	if (helper->take)
		helper->take(helper->object);
	helper->taken = true;
	while (!main_sleeps())
		doze();
	if (helper->give)
		helper->give(helper->object);
	helper->ended = true;
	return NULL;
}

static pthread_t begin_help(struct helper *helper)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, help, helper))
		fail("cannot make", "a thread");
	while (!helper->taken) /* the main thread does not sleep yet */
		__asm__ volatile("" ::: "memory");
	return thread;
}

/* Make a call that waits for a thread. */
#define CALL_HELPED(object_, take_, give_, ...)                                                   \
	do {                                                                                      \
		struct helper helper = { .object = (object_), .take = (take_), .give = (give_) }; \
		pthread_t thread = begin_help(&helper);                                           \
                                                                                                  \
		CALL(__VA_ARGS__);                                                                \
		while (!helper.ended)                                                             \
			doze();                                                                   \
		pthread_detach(thread);                                                           \
	} while (0)

/* What a SYNC call returns is an error number; one barrier in two gives -1. */
static void expect_wait(const char *fname)
{
	expect_head(now->canonical, now->category);
	expect_args(fname, NO_FD, result, false);
	expect_fields("%s", "");
}

/* A limit in the far future, or in the past. */
static const struct timespec far = { .tv_sec = 1l << 33 }, past = { .tv_sec = 1 };
static const struct timespec wrong = { .tv_nsec = -1 };

static void take_mutex(void *mutex)
{
	UNSEEN(pthread_mutex_lock)(mutex);
}

static void give_mutex(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

/* Lock by the row's call. */
static int lock(void *object, const struct timespec *limit)
{
	if (!strcmp(now->symbol, "mtx_lock"))
		return FN(mtx_lock)(object);
	if (!strcmp(now->symbol, "mtx_timedlock"))
		return FN(mtx_timedlock)(object, limit);
	if (strstr(now->symbol, "clock_") || strstr(now->symbol, "_clock"))
		return THIS(pthread_mutex_clocklock)(object, CLOCK_REALTIME, limit);
	if (strstr(now->symbol, "timed"))
		return THIS(pthread_mutex_timedlock)(object, limit);
	return THIS(pthread_mutex_lock)(object);
}

static bool is_timed(void)
{
	return strstr(now->symbol, "timed") || strstr(now->symbol, "_clock");
}

static void case_mutex(void)
{
	static pthread_mutex_t mutex;
	pthread_mutexattr_t checked;

	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	if (!strncmp(now->symbol, "mtx", 3))
		mtx_init((mtx_t *)&mutex, mtx_timed);
	else
		pthread_mutex_init(&mutex, &checked);
	CALL(lock(&mutex, &far)); /* free: no event */
	pthread_mutex_unlock(&mutex);
	CALL_HELPED(&mutex, take_mutex, give_mutex, lock(&mutex, &far));
	expect_wait("mutex:[]");
	if (is_timed() || strncmp(now->symbol, "mtx", 3)) { /* once more: it would never end */
		CALL(lock(&mutex, &past));
		expect_wait("mutex:[]");
	}
	pthread_mutex_unlock(&mutex);
}

/* The owner is dead: the lock is taken, and says so; then, each time, that it is lost.  A try would hold
 * it for ever.  No robust lock is tried, so each one is an event. */
static void *die_with(void *mutex)
{
	UNSEEN(pthread_mutex_lock)(mutex);
	return NULL;
}

static void case_robust(void)
{
	pthread_mutexattr_t robust;
	pthread_mutex_t mutex;
	pthread_t thread;

	case_mutex();
	/* An emulator marks no lock of a thread that has ended: it would be waited for without an end. */
	if (syscall(SYS_set_robust_list, NULL, 0) && errno == ENOSYS)
		return;
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &robust);
	if (pthread_create(&thread, NULL, die_with, &mutex))
		fail("cannot make", "a thread");
	UNSEEN(pthread_join)(thread, NULL);
	CALL(lock(&mutex, &far));
	expect_wait("mutex:[]");
	pthread_mutex_unlock(&mutex); /* not made consistent */
	for (unsigned i = 0; i < 2; i++) {
		CALL(lock(&mutex, &far));
		expect_wait("mutex:[]");
	}
}

static void take_rwlock(void *rwlock)
{
	UNSEEN(pthread_rwlock_wrlock)(rwlock);
}

static void give_rwlock(void *rwlock)
{
	pthread_rwlock_unlock(rwlock);
}

static void case_rwlock(void)
{
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

	CALL(lock(&rwlock, &far));
	pthread_rwlock_unlock(&rwlock);
	CALL_HELPED(&rwlock, take_rwlock, give_rwlock, lock(&rwlock, &far));
	expect_wait("rwlock:[]");
	if (is_timed()) {
		CALL(lock(&rwlock, &wrong)); /* a try would not look at it */
		expect_wait("rwlock:[]");
	}
}

static struct pair {
	pthread_cond_t cond;
	pthread_mutex_t mutex;
} pair = { PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static void signal_pair(void *unused)
{
	(void)unused;
	UNSEEN(pthread_mutex_lock)(&pair.mutex);
	pthread_cond_signal(&pair.cond);
	pthread_mutex_unlock(&pair.mutex);
}

static int wait_pair(const struct timespec *limit)
{
	if (!strcmp(now->symbol, "cnd_wait"))
		return FN(cnd_wait)((cnd_t *)&pair.cond, (mtx_t *)&pair.mutex);
	if (!strcmp(now->symbol, "cnd_timedwait"))
		return FN(cnd_timedwait)((cnd_t *)&pair.cond, (mtx_t *)&pair.mutex, limit);
	if (strstr(now->symbol, "clock"))
		return FN(pthread_cond_clockwait)(&pair.cond, &pair.mutex, CLOCK_REALTIME, limit);
	if (is_timed())
		return FN(pthread_cond_timedwait)(&pair.cond, &pair.mutex, limit);
	return FN(pthread_cond_wait)(&pair.cond, &pair.mutex);
}

static void case_cond(void)
{
	pthread_mutex_lock(&pair.mutex);
	CALL_HELPED(NULL, NULL, signal_pair, wait_pair(&far));
	expect_wait("cond:[]");
	if (is_timed()) {
		CALL(wait_pair(&past));
		expect_wait("cond:[]");
	}
	pthread_mutex_unlock(&pair.mutex);
}

static void give_barrier(void *barrier)
{
	UNSEEN(pthread_barrier_wait)(barrier);
}

static void case_barrier(void)
{
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, 2);
	CALL_HELPED(&barrier, NULL, give_barrier, FN(pthread_barrier_wait)(&barrier));
	expect_wait("barrier:[]");
}

static int join(pthread_t thread, const struct timespec *limit)
{
	if (!strcmp(now->symbol, "thrd_join"))
		return FN(thrd_join)((thrd_t)thread, NULL);
	if (strstr(now->symbol, "clock"))
		return FN(pthread_clockjoin_np)(thread, NULL, CLOCK_REALTIME, limit);
	if (is_timed())
		return FN(pthread_timedjoin_np)(thread, NULL, limit);
	return FN(pthread_join)(thread, NULL);
}

static void case_join(void)
{
	struct helper helper = { 0 };
	pthread_t thread = begin_help(&helper);

	CALL(join(thread, &far));
	expect_wait("thread:[]");
	CALL(join(pthread_self(), &past));
	expect_wait("thread:[]");
}

static void give_semaphore(void *semaphore)
{
	sem_post(semaphore);
}

static int wait_semaphore(sem_t *semaphore, const struct timespec *limit)
{
	if (strstr(now->symbol, "clock"))
		return FN(sem_clockwait)(semaphore, CLOCK_REALTIME, limit);
	return is_timed() ? FN(sem_timedwait)(semaphore, limit) : FN(sem_wait)(semaphore);
}

static void case_semaphore(void)
{
	sem_t semaphore;

	sem_init(&semaphore, 0, 1);
	CALL(wait_semaphore(&semaphore, &far));
	CALL_HELPED(&semaphore, NULL, give_semaphore, wait_semaphore(&semaphore, &far));
	expect_wait("sem:[]");
	if (is_timed()) {
		CALL(wait_semaphore(&semaphore, &past));
		EXPECT("sem:[]", NO_FD, "%s", "");
		sem_post(&semaphore);
		CALL(wait_semaphore(&semaphore, &wrong));
		EXPECT("sem:[]", NO_FD, "%s", "");
	}
}

static void case_nanosleep(void)
{
	const struct timespec brief = { .tv_nsec = 1000000 };
	const bool thrd = !strcmp(now->symbol, "thrd_sleep");

	for (unsigned i = 0; i < 2; i++) {
		const struct timespec *time = i ? &wrong : &brief;

		CALL(thrd ? FN(thrd_sleep)(time, NULL) : FN(nanosleep)(time, NULL));
		if (thrd)
			expect_wait("clock:[realtime]");
		else
			EXPECT("clock:[realtime]", NO_FD, "%s", "");
	}
}

static void case_clock_nanosleep(void)
{
	const struct timespec brief = { .tv_nsec = 1000000 };

	CALL(FN(clock_nanosleep)(CLOCK_MONOTONIC, 0, &brief, NULL));
	expect_wait("clock:[monotonic]");
	CALL(FN(clock_nanosleep)(CLOCK_REALTIME, 0, &wrong, NULL));
	expect_wait("clock:[realtime]");
}

static void case_usleep(void)
{
	CALL(FN(usleep)(1000));
	expect_wait("clock:[realtime]");
}

static void case_sleep(void)
{
	CALL(FN(sleep)(0));
	expect_wait("clock:[realtime]");
}
