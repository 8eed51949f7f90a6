/* shim.c - the calls that the recorder makes into libc, shown to `inject`.
 *
 * Preloaded beside the recorder.  inject tells the recorder's own system calls by where they come
 * from; those that libc makes for it (pthread_create's mmap, dlopen's open) come from libc.  So each
 * function of libc that the recorder uses and that may fail is wrapped here: where the caller is the
 * recorder, inject is asked, by a system call that does not exist, whether this call is to fail; and
 * what the thread does until it returns is the recorder's.
 */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static __thread unsigned inside __attribute__((tls_model("initial-exec")));

/* Whether the code at this address is the recorder's, or its preload object's. */
static bool is_ours(const void *address)
{
	struct dl_find_object found;
	const char *name;

	if (_dl_find_object((void *)(uintptr_t)address, &found))
		return false;
	name = strrchr(found.dlfo_link_map->l_name, '/');
	return name && !strncmp(name, "/libpfw", strlen("/libpfw"));
}

/* Ask inject: 0, or the error to fail with.  Without inject there is no such call. */
static int ask(const char *name, bool ours)
{
	int keep = errno;
	long answer = syscall(FAULTS_ASK, name, ours);

	if (answer < 0)
		answer = 0;
	errno = keep;
	return (int)answer;
}

static void enter(void)
{
	int keep = errno;

	if (!inside++)
		syscall(FAULTS_ENTER);
	errno = keep;
}

static void leave(void)
{
	int keep = errno;

	if (!--inside)
		syscall(FAULTS_LEAVE);
	errno = keep;
}

/* One wrapper: how it calls on, and what it returns instead where it is to fail with `error`. */
#define WRAP(ret, name, params, args, failed)                                        \
	SHOWN ret name params                                                        \
	{                                                                            \
		static ret(*real) params;                                            \
		bool ours = is_ours(__builtin_return_address(0));                    \
		int error = ours ? ask(#name, true) : 0;                             \
		ret result;                                                          \
                                                                                     \
		if (!real)                                                           \
			real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, #name); \
		if (error) {                                                         \
			failed;                                                      \
		}                                                                    \
		if (ours)                                                            \
			enter();                                                     \
		result = real args;                                                  \
		if (ours)                                                            \
			leave();                                                     \
		return result;                                                       \
	}

typedef void handler(void);

WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg),
     (thread, attr, start, arg), return error)
WRAP(int, pthread_attr_setstacksize, (pthread_attr_t * attr, size_t bytes), (attr, bytes),
     return error)
WRAP(int, pthread_key_create, (pthread_key_t * key, void (*destructor)(void *)), (key, destructor),
     return error)
WRAP(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), return error)
WRAP(int, __register_atfork, (handler * prepare, handler *parent, handler *child, void *object),
     (prepare, parent, child, object), return error)
WRAP(int, __cxa_at_quick_exit, (handler * function, void *object), (function, object), return error)
WRAP(void *, dlopen, (const char *path, int flags), (path, flags), return NULL)
WRAP(int, dlinfo, (void *handle, int request, void *out), (handle, request, out), return -1)

/* FAULTS_CLOCK="AFTER SECONDS": the recorder's clock is set by so much after so many looks at it, which count from
 * the program's own first look on: how many the recorder needs to start depends on the load. */
SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	static long after, seconds;
	static _Atomic bool begun;
	static _Atomic long looks;
	int result;

	if (!real) {
		const char *text = getenv("FAULTS_CLOCK");

		if (text)
			sscanf(text, "%ld %ld", &after, &seconds);
		real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, "clock_gettime");
	}
	result = real(clock, now);
	if (!seconds || clock != CLOCK_REALTIME)
		return result;
	if (!is_ours(__builtin_return_address(0)))
		begun = true;
	else if (begun && ++looks > after)
		now->tv_sec += seconds;
	return result;
}

/* dlsym gives no memory for these, so malloc has its own way on. */
extern void *__libc_malloc(size_t bytes);

SHOWN void *malloc(size_t bytes)
{
	bool ours = is_ours(__builtin_return_address(0));
	int error = ours || inside ? ask("malloc", ours) : 0;

	if (error) {
		errno = error;
		return NULL;
	}
	return __libc_malloc(bytes);
}
