/* calls_harness.h - how a case of calls_target.c makes calls and says what the trace must hold.
 *
 * Two texts are made in memory and written at the end by raw system calls, so that nothing here
 * appears in the trace: `results`, what each call returned (the same with and without the tracer),
 * and `expected`, one JSON line for each event, in order.  In JSON formats ' stands for ".  A third,
 * `stacks`, has the bytes of stack that each call took.
 */
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef CALLS_LINKED
#include <pfw/pfw.h>
#endif

#define PFW_OS_NO_POISON
#include "common/base/os.h"
#include "recorder/wrap/calls.h"

/* errno before each call: a call that works must leave it. */
#define SENTINEL 77
#define NO_FD (-1000)

struct test_case {
	const char *symbol;
	const char *canonical;
	const char *category;
	void (*run)(void);
};

struct text {
	char *bytes;
	size_t used, room;
};

/* A pointer that gives EFAULT; the compiler does not know. */
static char *volatile bad = (char *)1;
#define BAD bad

static struct text results, expected, stacks;
static const struct test_case *now; /* the case that runs */
static const char *dir;		    /* where the files are; also the working directory */
static long result;		    /* of the last CALL */
static int error;		    /* errno after it */

static void fail(const char *what, const char *which)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "calls_target: %s: %s\n", what, which);

	syscall(SYS_write, 2, line, n);
	syscall(SYS_exit_group, 3);
}

static void add(struct text *text, const char *format, va_list args)
{
	int n;

	if (text->room - text->used < 8192) {
		text->room = text->room * 2 + 65536;
		text->bytes = realloc(text->bytes, text->room);
		if (!text->bytes)
			fail("out of memory", "text");
	}
	n = vsnprintf(text->bytes + text->used, text->room - text->used, format, args);
	if (n < 0 || (size_t)n >= text->room - text->used)
		fail("too long", format);
	text->used += (size_t)n;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(&results, format, args);
	va_end(args);
}

__attribute__((format(printf, 1, 2))) static void put_expected(const char *format, ...)
{
	size_t from = expected.used;
	va_list args;

	va_start(args, format);
	add(&expected, format, args);
	va_end(args);
	for (; from < expected.used; from++)
		if (expected.bytes[from] == '\'')
			expected.bytes[from] = '"';
}

/* libc's own definition, past the tracer's; NULL where this libc has none. */
static void *in_libc(const char *name)
{
	static void *libc;

	if (!libc)
		libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	return libc ? dlsym(libc, name) : NULL;
}

/* A call that is needed for a case, and none of it. */
#define UNSEEN(name) ((__typeof__(&name))in_libc(#name))

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* they are called all the same */
/* What libc has inline is not weak, says clang. */
#pragma GCC diagnostic ignored "-Wignored-attributes"
#ifdef CALLS_LINKED
/* Not every libc has every row. */
#define CALL_ANY(category, ret, name, ...) extern __typeof__(name) name __attribute__((weak));
#include "common/calls/calls.def"
#endif

/* The function that a program gets which calls the symbol: ours, where the tracer is preloaded.
 * Linked to the recorder, the program has these addresses in itself, as sqlite has. */
static void *symbol(const char *name)
{
#ifdef CALLS_LINKED
	static const struct {
		const char *name;
		void *at;
	} table[] = {
#define CALL_ANY(category, ret, name, ...) { #name, (void *)name },
#include "common/calls/calls.def"
	};
	void *at = NULL;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i].name, name))
			at = table[i].at;
#else
	void *at = dlsym(RTLD_DEFAULT, name);
#endif

	if (!at)
		fail("libc has no", name);
	return at;
}

#define FN(name) ((__typeof__(&name))symbol(#name))
#define THIS(name) ((__typeof__(&name))symbol(now->symbol))

/* A system call past libc, whose syscall() is recorded. */
static long unseen(long number, ...)
{
	long arg[6], ret;
	va_list rest;

	va_start(rest, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(rest, long);
	va_end(rest);
	ret = pfw_syscall6(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		ret = -1;
	}
	return ret;
}
#define syscall unseen

/* How much stack a call takes: the stack below is painted before it and looked at after it. */
#define PAINTED 32768

static __attribute__((noinline)) void paint(void)
{
	volatile char below[PAINTED];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0x5a;
}

static __attribute__((noinline)) size_t unpainted(void)
{
	volatile char below[PAINTED];
	size_t i =
		64; /* arguments of the call may still be on the stack: this is then below paint()'s */

	__asm__("" : : "r"(below) : "memory"); /* the bytes that the call has left */
	while (i < sizeof(below) && below[i] == 0x5a)
		i++;
	return sizeof(below) - i;
}

__attribute__((format(printf, 1, 2))) static void put_stack(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(&stacks, format, args);
	va_end(args);
}

static void took_stack(size_t bytes)
{
	put_stack("%s %zu\n", now->symbol, bytes);
}

/* Make a call and keep what it gave. */
#define CALL(...)                                                      \
	do {                                                           \
		paint();                                               \
		errno = SENTINEL;                                      \
		result = (long)(__VA_ARGS__);                          \
		error = errno;                                         \
		took_stack(unpainted());                               \
		say("%s: %ld errno %d\n", now->symbol, result, error); \
	} while (0)

/* The same for a call that returns a pointer: only whether there is one is the same every time. */
#define CALL_POINTER(pointer, ...)                                                        \
	do {                                                                              \
		paint();                                                                  \
		errno = SENTINEL;                                                         \
		pointer = (__VA_ARGS__);                                                  \
		error = errno;                                                            \
		took_stack(unpainted());                                                  \
		say("%s: %s errno %d\n", now->symbol, pointer ? "there" : "none", error); \
	} while (0)

/* The kernel's names of descriptors without a path; test_calls.py takes the number out. */
#define PIPE "pipe:[]"

static void expect_args(const char *fname, int fd, long ret, bool failed)
{
	if (fname)
		put_expected("'fname':'%s',", fname);
	if (fd != NO_FD)
		put_expected("'fd':%d,", fd);
	put_expected("'ret':%ld", ret);
	if (failed)
		put_expected(",'errno':%d", error);
}

/* Begin the expected line of an event that is not the case's own. */
static void expect_head(const char *name, const char *category)
{
	put_expected("{'row':'%s','name':'%s','cat':'%s','args':{", now->symbol, name, category);
}

/*
 * What the trace must say of the call just made: fname (NULL: none), fd (NO_FD: none), then the
 * row's fields as JSON, "" for none.  errno is expected where the call gave -1.
 */
#define EXPECT(fname, fd, ...)                                \
	do {                                                  \
		expect_head(now->canonical, now->category);   \
		expect_args(fname, fd, result, result == -1); \
		expect_fields(__VA_ARGS__);                   \
	} while (0)

__attribute__((format(printf, 1, 2))) static void expect_fields(const char *format, ...)
{
	char fields[6000];
	va_list args;

	va_start(args, format);
	vsnprintf(fields, sizeof(fields), format, args);
	va_end(args);
	put_expected("%s%s}}\n", *fields ? "," : "", fields);
}

/* The absolute name of a file here. */
static const char *in(const char *name)
{
	static char buffer[8][PATH_MAX];
	static unsigned turn;
	char *at = buffer[turn++ % 8];

	snprintf(at, PATH_MAX, "%s/%s", dir, name);
	return at;
}

/* Make a file, unseen. */
static void make(const char *name, const char *content)
{
	long fd = syscall(SYS_openat, AT_FDCWD, in(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || syscall(SYS_write, fd, content, strlen(content)) != (long)strlen(content))
		fail("cannot make", name);
	syscall(SYS_close, fd);
}

static void make_directory(const char *name)
{
	if (syscall(SYS_mkdirat, AT_FDCWD, in(name), 0755) < 0)
		fail("cannot make", name);
}

/* What a file holds, without being seen; "(none)" where there is none. */
static const char *content(const char *name)
{
	static char text[4096];
	long fd = syscall(SYS_openat, AT_FDCWD, in(name), O_RDONLY, 0);
	long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof(text) - 1);

	if (fd >= 0)
		syscall(SYS_close, fd);
	if (n < 0)
		return "(none)";
	text[n] = '\0';
	return text;
}

/* Open and close for a case that is about something else: events too, but always the same. */
static int given(const char *name, int flags)
{
	int fd = FN(open)(in(name), flags, 0644);

	if (fd < 0)
		fail("cannot open", name);
	expect_head("open", "POSIX");
	expect_args(in(name), fd, fd, false);
	expect_fields("'flags':%d,'mode':%d", flags, flags & O_CREAT ? 0644 : 0);
	return fd;
}

static void done(int fd, const char *name)
{
	if (FN(close)(fd) < 0)
		fail("cannot close", name);
	expect_head("close", "POSIX");
	expect_args(in(name), fd, 0, false);
	expect_fields("%s", "");
}
