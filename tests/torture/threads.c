/* threads.c - threads born and dying, cancelled, on small stacks; libraries that come and go. */
#include "torture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE 8

static void *some_ticks(void *count)
{
	ticks((long)(intptr_t)count);
	return NULL;
}

/* `count` threads in turns of AT_ONCE. */
static void thread_rounds(long count, const pthread_attr_t *attr, void *(*work)(void *), void *arg)
{
	pthread_t thread[AT_ONCE];

	for (long i = 0; i < count; i += AT_ONCE) {
		int now = count - i < AT_ONCE ? (int)(count - i) : AT_ONCE;

		for (int n = 0; n < now; n++)
			must(!pthread_create(&thread[n], attr, work, arg), "pthread_create");
		for (int n = 0; n < now; n++)
			pthread_join(thread[n], NULL);
	}
}

static int run_threads(long count, char **rest)
{
	(void)rest;
	thread_rounds(count, NULL, some_ticks, (void *)10);
	return 0;
}

static int run_threads_alive(long count, char **rest)
{
	pthread_t *thread = calloc((size_t)count, sizeof(*thread));

	(void)rest;
	for (long i = 0; i < count; i++)
		must(!pthread_create(&thread[i], NULL, some_ticks, (void *)20), "pthread_create");
	for (long i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	return 0;
}

static pthread_key_t key;

/* Runs again as long as it leaves a value, PTHREAD_DESTRUCTOR_ITERATIONS times in all. */
static void tick_at_death(void *value)
{
	ticks(2);
	pthread_setspecific(key, value);
}

static void *dies_noisily(void *unused)
{
	pthread_setspecific(key, &key);
	ticks(1);
	return unused;
}

static int run_tls_destructors(long count, char **rest)
{
	(void)rest;
	tick();
	/* Later than the tracer's, so its destructor is called after the tracer's. */
	must(!pthread_key_create(&key, tick_at_death), "key");
	thread_rounds(count, NULL, dies_noisily, NULL);
	return 0;
}

static void *streams(void *count)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/data", directory);
	for (long i = 0; i < (long)(intptr_t)count; i++) {
		FILE *file = fopen(path, "r");

		must(file != NULL, "fopen");
		fclose(file);
		tick();
	}
	return NULL;
}

static int run_streams(long count, char **rest)
{
	(void)rest;
	thread_rounds(8, NULL, streams, (void *)(intptr_t)count);
	return 0;
}

static void cleanup(void *unused)
{
	(void)unused;
	ticks(2);
}

static void *cancelled(void *way)
{
	pthread_cleanup_push(cleanup, NULL);
	tick();
	if (way)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		if (!way)
			tick(); /* pread is a point of cancellation */
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static int run_cancel(long count, char **rest)
{
	void *result;

	(void)rest;
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		must(!pthread_create(&thread, NULL, cancelled, (void *)(i % 2)), "pthread_create");
		usleep(random_below(500));
		pthread_cancel(thread);
		pthread_join(thread, &result);
		must(result == PTHREAD_CANCELED, "cancelled");
	}
	return 0;
}

/* All the kinds of probes, with little room: relative paths, a stream, a first event. */
static void *on_small_stack(void *unused)
{
	struct stat st;
	int fd = open("../small", O_RDWR | O_CREAT, 0600);

	must(fd >= 0 && !stat("../small", &st) && !close(fd), "small");
	rename("../small-none", "../small-other");
	ticks(5);
	return unused;
}

static int run_small_stacks(long count, char **rest)
{
	pthread_attr_t attr;
	char path[4200];

	(void)rest;
	snprintf(path, sizeof(path), "%s/deep", directory);
	must(!mkdir(path, 0700) && !chdir(path), path);
	pthread_attr_init(&attr);
	must(!pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN), "16 KiB");
	thread_rounds(count, &attr, on_small_stack, NULL);
	return 0;
}

static void *detached(void *count)
{
	ticks((long)(intptr_t)count);
	return NULL;
}

/* main returns while they are at work. */
static int run_detached(long count, char **rest)
{
	pthread_attr_t attr;
	pthread_t thread;

	(void)rest;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 8; i++)
		pthread_create(&thread, &attr, detached, (void *)(intptr_t)count);
	while (!atomic_load(&witness->returned[0]))
		usleep(100);
	usleep(2000);
	return 0;
}

/* ---- libraries ---- */

typedef ssize_t plugin_read(int fd, void *buf, size_t bytes, off_t offset);

static void *open_plugin(int flags)
{
	void *library = dlopen(getenv("TORTURE_PLUGIN"), RTLD_NOW | flags);

	must(library != NULL, dlerror());
	return library;
}

static plugin_read *reader_of(void *library)
{
	return (plugin_read *)dlsym(library, "plugin_pread");
}

static void at_unload(void *library, void (*call)(void))
{
	*(void (**)(void))dlsym(library, "plugin_at_unload") = call;
}

/* Its I/O is as good as ours; its destructor does some, too. */
static int run_dlopen(long count, char **rest)
{
	(void)rest;
	for (long i = 0; i < count; i++) {
		void *library = open_plugin(RTLD_LOCAL);

		tick_through(reader_of(library));
		at_unload(library, tick);
		dlclose(library);
	}
	printf("gone: %d\n", !dlopen(getenv("TORTURE_PLUGIN"), RTLD_NOW | RTLD_NOLOAD));
	return 0;
}

/* Libraries that see another libc, or libc before us: nobody's preload has their calls. */
static int run_dlopen_apart(long count, char **rest)
{
	char byte;

	tick();
	for (long i = 0; i < count; i++) {
		void *library = strcmp(rest[0], "dlmopen")
					? open_plugin(RTLD_DEEPBIND)
					: dlmopen(LM_ID_NEWLM, getenv("TORTURE_PLUGIN"), RTLD_NOW);

		must(library != NULL, dlerror());
		must(reader_of(library)(data_fd, &byte, 1, 0) == 1, "pread");
		dlclose(library);
		tick();
	}
	return 0;
}

/* Linked with the plugin: its constructor ran before the tracer's and its destructor comes after. */
static int run_linked(long count, char **rest)
{
	void *library = open_plugin(RTLD_NOLOAD);
	int *early = dlsym(library, "plugin_early_reads");

	(void)rest;
	at_unload(library, tick);
	printf("its constructor read %d times\n", *early);
	ticks(count);
	return 0;
}

const struct mode thread_modes[] = {
	{ "threads", run_threads },
	{ "threads-alive", run_threads_alive },
	{ "tls-destructors", run_tls_destructors },
	{ "streams", run_streams },
	{ "cancel", run_cancel },
	{ "small-stacks", run_small_stacks },
	{ "detached", run_detached },
	{ "dlopen", run_dlopen },
	{ "dlopen-apart", run_dlopen_apart },
	{ "linked", run_linked },
	{ NULL, NULL },
};
