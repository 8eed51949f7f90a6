/* calls_stdio.h - the cases of calls_target.c on streams. */
#pragma once

#include <wchar.h>

#include "calls_harness.h"

/* Open and close a stream for a case that is about something else. */
static FILE *stream(const char *name, const char *mode, int flags)
{
	FILE *file = FN(fopen)(in(name), mode);

	if (!file)
		fail("cannot open", name);
	expect_head("fopen", "STDIO");
	expect_args(in(name), fileno(file), fileno(file), false);
	expect_fields("'flags':%d", flags);
	return file;
}

static void stream_done(FILE *file, const char *name)
{
	int fd = fileno(file);

	if (FN(fclose)(file) < 0)
		fail("cannot close", name);
	expect_head("fclose", "STDIO");
	expect_args(in(name), fd, 0, false);
	expect_fields("%s", "");
}

static FILE *reader(const char *text)
{
	make("data", text);
	return stream("data", "r", O_RDONLY);
}

static FILE *writer(void)
{
	make("data", "");
	return stream("data", "w", O_WRONLY | O_CREAT | O_TRUNC);
}

/* A stream on which every write fails: unbuffered, and open for reading only beneath. */
static FILE *unwritable(void)
{
	FILE *file = stream("data", "r+", O_RDWR);
	long fd = syscall(SYS_openat, AT_FDCWD, in("data"), O_RDONLY, 0);

	UNSEEN(setvbuf)(file, NULL, _IONBF, 0);
	syscall(SYS_dup3, fd, fileno(file), 0);
	syscall(SYS_close, fd);
	return file;
}

static FILE *unreadable(void)
{
	FILE *file = stream("data", "r+", O_RDWR);
	long fd = syscall(SYS_openat, AT_FDCWD, in("data"), O_WRONLY, 0);

	syscall(SYS_dup3, fd, fileno(file), 0);
	syscall(SYS_close, fd);
	return file;
}

/* ---- open and close ---- */

static const struct {
	const char *mode;
	int flags;
} modes[] = {
	{ "r", O_RDONLY },
	{ "rb+", O_RDWR },
	{ "we", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC },
	{ "w+", O_RDWR | O_CREAT | O_TRUNC },
	{ "a", O_WRONLY | O_CREAT | O_APPEND },
	{ "a+,ccs=UTF-8", O_RDWR | O_CREAT | O_APPEND },
	{ "wx", O_WRONLY | O_CREAT | O_TRUNC | O_EXCL }, /* fails: the file is there */
};

static void case_fopen(void)
{
	FILE *file;

	make("data", "content");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		CALL_POINTER(file, THIS(fopen)("data", modes[i].mode));
		result = file ? fileno(file) : -1;
		EXPECT(in("data"), file ? (int)result : NO_FD, "'flags':%d", modes[i].flags);
		if (file) {
			say("flags %lx\n", syscall(SYS_fcntl, fileno(file), F_GETFL));
			stream_done(file, "data");
		}
	}
	CALL_POINTER(file, THIS(fopen)("absent", "r"));
	result = -1;
	EXPECT(in("absent"), NO_FD, "'flags':0");
	CALL_POINTER(file, THIS(fopen)(BAD, "no such mode"));
	EXPECT(NULL, NO_FD, "'flags':0");
}

static void case_fdopen(void)
{
	FILE *file;
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL_POINTER(file, THIS(fdopen)(fd, "w")); /* it is not for writing */
	result = -1;
	EXPECT(in("data"), fd, "'flags':%d", O_WRONLY | O_CREAT | O_TRUNC);
	CALL_POINTER(file, THIS(fdopen)(fd, "r"));
	result = fd;
	EXPECT(in("data"), fd, "'flags':0");
	stream_done(file, "data");
	CALL_POINTER(file, THIS(fdopen)(999, "r"));
	result = -1;
	EXPECT(NULL, 999, "'flags':0");
}

static void case_freopen(void)
{
	FILE *file = reader("content"), *again;
	int fd;

	make("other", "more content");
	CALL_POINTER(again, THIS(freopen)("other", "r+", file));
	result = fileno(again);
	EXPECT(in("other"), (int)result, "'flags':%d", O_RDWR);
	CALL_POINTER(again, THIS(freopen)(NULL, "r", file)); /* the same file in another mode */
	result = fileno(again);
	EXPECT(in("other"), (int)result, "'flags':0");
	fd = fileno(again);
	CALL_POINTER(again, THIS(freopen)("absent", "r", file)); /* closes the stream even so */
	result = -1;
	EXPECT(in("absent"), NO_FD, "'flags':0");
	make("data", "content");
	say("%d\n", given("data", O_RDONLY) == fd);
	done(fd, "data");
	FN(fclose)(file); /* it has no descriptor any more: not recorded */
}

static void case_fclose(void)
{
	FILE *file = reader("content");
	int fd = fileno(file);

	CALL(THIS(fclose)(file));
	EXPECT(in("data"), fd, "%s", "");
	file = stream("data", "r+", O_RDWR); /* cannot write what it holds */
	UNSEEN(fputc)('x', file);
	fd = fileno(file);
	syscall(SYS_dup3, syscall(SYS_openat, AT_FDCWD, in("data"), O_RDONLY, 0), fd, 0);
	CALL(THIS(fclose)(file));
	EXPECT(in("data"), fd, "%s", "");
	syscall(SYS_close, fd + 1);
	file = fmemopen(buffer, sizeof(buffer), "w"); /* in memory: not recorded */
	CALL(THIS(fclose)(file));
}

/* ---- read ---- */

/* As fread(), by any of the family. */
static size_t read_items(void *buf, size_t size, size_t count, FILE *file)
{
	if (strstr(now->symbol, "chk"))
		return THIS(__fread_chk)(buf, sizeof(buffer), size, count, file);
	return THIS(fread)(buf, size, count, file);
}

static void case_fread(void)
{
	FILE *file = reader("0123456789");

	CALL(read_items(buffer, 3, 2, file));
	EXPECT(in("data"), fileno(file), "'size':3,'count':2");
	say("%.6s\n", buffer);
	CALL(read_items(buffer, 3, 2, file)); /* the end */
	EXPECT(in("data"), fileno(file), "'size':3,'count':2");
	CALL(read_items(buffer, 0, 7, file));
	EXPECT(in("data"), fileno(file), "'size':0,'count':7");
	stream_done(file, "data");
	file = unreadable();
	CALL(read_items(buffer, 1, 7, file));
	expect_head("fread", "STDIO");
	expect_args(in("data"), fileno(file), 0, true);
	expect_fields("'size':1,'count':7");
	say("%d %d\n", ferror(file), feof(file));
	stream_done(file, "data");
	file = fmemopen(buffer, 10, "r"); /* in memory: not recorded */
	CALL(read_items(buffer + 100, 1, 7, file));
	FN(fclose)(file);
}

static char *read_text(char *buf, int size, FILE *file)
{
	if (strstr(now->symbol, "chk"))
		return THIS(__fgets_chk)(buf, sizeof(buffer), size, file);
	return THIS(fgets)(buf, size, file);
}

static void case_fgets(void)
{
	FILE *file = reader("one\ntwo and more");
	static const int lengths[] = { 4, 6, 6, 0 };
	char *text;

	for (int i = 0; i < 4; i++) {
		CALL_POINTER(text, read_text(buffer, i ? 7 : 100, file));
		result = lengths[i];
		EXPECT(in("data"), fileno(file), "'size':%d", i ? 7 : 100);
		say("%s\n", buffer);
	}
	stream_done(file, "data");
	file = unreadable();
	CALL_POINTER(text, read_text(buffer, 100, file));
	result = -1;
	EXPECT(in("data"), fileno(file), "'size':100");
	stream_done(file, "data");
}

static ssize_t read_line(char **line, size_t *room, FILE *file)
{
	if (strstr(now->symbol, "getdelim"))
		return THIS(getdelim)(line, room, '\n', file);
	return THIS(getline)(line, room, file);
}

static void line_failing(const char *fields)
{
	char *line = NULL;
	size_t room = 0;
	FILE *file;

	make("data", "content");
	file = unreadable();
	CALL(read_line(&line, &room, file));
	EXPECT(in("data"), fileno(file), "%s", fields);
	CALL(read_line(NULL, &room, file));
	EXPECT(in("data"), fileno(file), "%s", fields);
	stream_done(file, "data");
	free(line);
}

static void case_getline(void)
{
	const char *fields = strstr(now->symbol, "getdelim") ? "'delimiter':10" : "";
	FILE *file = reader("one\ntwo");
	char *line = NULL;
	size_t room = 0;

	for (int i = 0; i < 3; i++) {
		CALL(read_line(&line, &room, file));
		expect_head(now->canonical, now->category);
		expect_args(in("data"), fileno(file), result, false); /* the end is no error */
		expect_fields("%s", fields);
		say("%s\n", line);
	}
	stream_done(file, "data");
	free(line);
	line_failing(fields);
}

/* ---- write ---- */

static void case_fwrite(void)
{
	FILE *file = writer();

	CALL(THIS(fwrite)("some text", 3, 2, file));
	EXPECT(in("data"), fileno(file), "'size':3,'count':2");
	stream_done(file, "data");
	say("%s\n", content("data"));
	file = unwritable();
	CALL(THIS(fwrite)("some text", 3, 2, file));
	expect_head("fwrite", "STDIO");
	expect_args(in("data"), fileno(file), 0, true);
	expect_fields("'size':3,'count':2");
	CALL(THIS(fwrite)("", 1, 0, file));
	EXPECT(in("data"), fileno(file), "'size':1,'count':0");
	stream_done(file, "data");
}

static void case_fputs(void)
{
	FILE *file = writer();

	CALL(THIS(fputs)("some text", file));
	EXPECT(in("data"), fileno(file), "'count':9");
	stream_done(file, "data");
	say("%s\n", content("data"));
	file = unwritable();
	CALL(THIS(fputs)("some text", file));
	EXPECT(in("data"), fileno(file), "'count':9");
	stream_done(file, "data");
}

/* Any of the printf family, on `file`: the ones that print to standard output print there. */
static int print_list(FILE *file, const char *format, va_list args)
{
	if (!strcmp(now->symbol, "vprintf"))
		return THIS(vprintf)(format, args);
	if (!strcmp(now->symbol, "__vprintf_chk"))
		return THIS(__vprintf_chk)(1, format, args);
	if (!strcmp(now->symbol, "vfprintf") || !strcmp(now->symbol, "_IO_vfprintf"))
		return THIS(vfprintf)(file, format, args);
	if (!strcmp(now->symbol, "__vfprintf_chk"))
		return THIS(__vfprintf_chk)(file, 1, format, args);
	if (!strcmp(now->symbol, "vdprintf"))
		return THIS(vdprintf)(fileno(file), format, args);
	return THIS(__vdprintf_chk)(fileno(file), 1, format, args);
}

static int print_by_list(FILE *file, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = print_list(file, format, args);
	va_end(args);
	return ret;
}

/* Arguments in registers of both kinds and on the stack: all must arrive. */
#define FORMAT "%s %d %g %c %ld %s %.2f %d\n"
#define ARGUMENTS "a", 1, 2.5, 'c', 4l << 40, "e", 6.75, 7

static int print(FILE *file)
{
	if (!strcmp(now->symbol, "printf"))
		return THIS(printf)(FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "__printf_chk"))
		return THIS(__printf_chk)(1, FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "fprintf"))
		return THIS(fprintf)(file, FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "__fprintf_chk"))
		return THIS(__fprintf_chk)(file, 1, FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "dprintf"))
		return THIS(dprintf)(fileno(file), FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "__dprintf_chk"))
		return THIS(__dprintf_chk)(fileno(file), 1, FORMAT, ARGUMENTS);
	return print_by_list(file, FORMAT, ARGUMENTS);
}

static void case_printf(void)
{
	CALL(print(stdout));
	EXPECT(in("stdout"), 1, "%s", "");
}

static void case_fprintf(void)
{
	FILE *file = writer();

	CALL(print(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	stream_done(file, "data");
	say("%s\n", content("data"));
	file = unwritable();
	CALL(print(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	stream_done(file, "data");
}

/* ---- position ---- */

static int move(FILE *file, long offset, int whence)
{
	return THIS(fseek)(file, offset, whence);
}

static void case_fseek(void)
{
	FILE *file = reader("0123456789");

	CALL(move(file, -3, SEEK_END));
	EXPECT(in("data"), fileno(file), "'offset':-3,'whence':%d", SEEK_END);
	CALL(move(file, 5l << 32, SEEK_SET));
	EXPECT(in("data"), fileno(file), "'offset':%ld,'whence':%d", 5l << 32, SEEK_SET);
	CALL(move(file, -1, SEEK_SET));
	EXPECT(in("data"), fileno(file), "'offset':-1,'whence':%d", SEEK_SET);
	stream_done(file, "data");
}

static void case_ftell(void)
{
	FILE *file = reader("0123456789");

	UNSEEN(fgetc)(file);
	CALL(THIS(ftell)(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	stream_done(file, "data");
}

static void case_fflush(void)
{
	FILE *file = writer();
	int fd, other;

	UNSEEN(fputc)('x', file);
	CALL(THIS(fflush)(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	say("%s\n", content("data"));
	CALL(THIS(fflush)(NULL)); /* all streams: not one file's, not recorded */
	stream_done(file, "data");
	file = stream("data", "r+", O_RDWR);
	UNSEEN(fputc)('x', file);
	fd = fileno(file);
	other = (int)syscall(SYS_openat, AT_FDCWD, in("data"), O_RDONLY, 0);
	syscall(SYS_dup3, other, fd, 0);
	syscall(SYS_close, other);
	CALL(THIS(fflush)(file));
	EXPECT(in("data"), fd, "%s", "");
	expect_head("fclose", "STDIO");
	result = FN(fclose)(file);
	error = errno;
	expect_args(in("data"), fd, result, result == -1);
	expect_fields("%s", "");
}
