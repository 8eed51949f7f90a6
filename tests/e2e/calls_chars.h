/* calls_chars.h - the cases of calls_target.c on characters, wide streams, scanning and buffers. */
#pragma once

#include <stdio_ext.h>

#include "calls_files.h"
#include "calls_stdio.h"

/* Whether the call works on standard input or output: then that is made to be `file` for a while. */
static bool standard(void)
{
	const char *name = now->symbol;
	bool scans = strstr(name, "scanf") && !strstr(name, "fscanf") && !strstr(name, "fwscanf");
	bool prints = strstr(name, "printf") && !strstr(name, "fprintf") &&
		      !strstr(name, "fwprintf");

	return strstr(name, "char") || strstr(name, "gets") || strstr(name, "puts") || scans ||
	       prints;
}

static FILE *kept_in, *kept_out;

static void use(FILE *file)
{
	kept_in = stdin;
	kept_out = stdout;
	if (standard()) {
		stdin = file;
		stdout = file;
	}
}

static void used(void)
{
	stdin = kept_in;
	stdout = kept_out;
}

/* Close, which may fail where a wide stream could not write what it holds. */
static void stream_left(FILE *file)
{
	int fd = fileno(file), ret;

	errno = SENTINEL;
	ret = FN(fclose)(file);
	error = errno;
	say("%s: closed %d errno %d\n", now->symbol, ret, error);
	expect_head("fclose", "STDIO");
	expect_args(in("data"), fd, ret, ret == -1);
	expect_fields("%s", "");
}

/* ---- one character ---- */

static bool wide(void)
{
	return strstr(now->symbol, "wc") || strstr(now->symbol, "__w");
}

static int get_one(FILE *file)
{
	if (strstr(now->symbol, "char"))
		return THIS(getchar)();
	return THIS(getc)(file);
}

static void case_getc(void)
{
	FILE *file = reader("aaaazzzz");
	int count = strcmp(now->symbol, "getw") ? 9 : 3;

	fwide(file, wide());
	use(file);
	for (int i = 0; i < count; i++) {
		CALL(get_one(file));
		expect_head(now->canonical, now->category);
		expect_args(in("data"), fileno(file), result, false); /* the end is no error */
		expect_fields("%s", "");
	}
	used();
	stream_left(file);
	file = unreadable();
	fwide(file, wide());
	use(file);
	CALL(get_one(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
	if (wide())
		return;
	file = fmemopen(buffer, 10, "r"); /* in memory: not recorded */
	use(file);
	CALL(get_one(file));
	used();
	FN(fclose)(file);
}

static int put_one(FILE *file)
{
	if (strstr(now->symbol, "char"))
		return THIS(putchar)('x');
	if (strstr(now->symbol, "overflow"))
		return THIS(__overflow)(file, 'x');
	return THIS(putc)('x', file);
}

static void case_putc(void)
{
	FILE *file = writer();

	fwide(file, wide());
	use(file);
	CALL(put_one(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
	say("%s\n", content("data"));
	make("data", "content");
	file = unwritable();
	fwide(file, wide());
	use(file);
	CALL(put_one(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
}

static void case_ungetc(void)
{
	FILE *file = reader("content");

	fwide(file, wide());
	CALL(THIS(ungetc)('x', file));
	EXPECT(in("data"), fileno(file), "%s", "");
	CALL(THIS(ungetc)(EOF, file)); /* refused, without errno */
	expect_head(now->canonical, now->category);
	expect_args(in("data"), fileno(file), -1, false);
	expect_fields("%s", "");
	stream_left(file);
}

/* ---- lines ---- */

static char *read_unbounded(void)
{
	if (strstr(now->symbol, "chk"))
		return THIS(__gets_chk)(buffer, sizeof(buffer));
	return THIS(gets)(buffer);
}

static void case_gets(void)
{
	FILE *file = reader("one\ntwo");
	static const int lengths[] = { 3, 3, 0 };
	char *text;

	use(file);
	for (int i = 0; i < 3; i++) {
		CALL_POINTER(text, read_unbounded());
		result = lengths[i];
		EXPECT(in("data"), fileno(file), "%s", "");
		say("%s\n", buffer);
	}
	used();
	stream_left(file);
	file = unreadable();
	use(file);
	CALL_POINTER(text, read_unbounded());
	result = -1;
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
}

static wchar_t *read_wide(wchar_t *buf, int size, FILE *file)
{
	if (strstr(now->symbol, "chk"))
		return THIS(__fgetws_chk)(buf, 100, size, file);
	return THIS(fgetws)(buf, size, file);
}

static void case_fgetws(void)
{
	FILE *file = reader("one\ntwo and more");
	static const int lengths[] = { 4, 6, 6, 0 };
	wchar_t buf[100], *text;

	for (int i = 0; i < 4; i++) {
		CALL_POINTER(text, read_wide(buf, i ? 7 : 100, file));
		result = lengths[i];
		EXPECT(in("data"), fileno(file), "'size':%d", i ? 7 : 100);
		say("%ls\n", buf);
	}
	stream_left(file);
	file = unreadable();
	CALL_POINTER(text, read_wide(buf, 100, file));
	result = -1;
	EXPECT(in("data"), fileno(file), "'size':100");
	stream_left(file);
}

/* puts() and _IO_puts(). */
static void case_puts(void)
{
	FILE *file = writer();

	use(file);
	CALL(THIS(puts)("some text"));
	EXPECT(in("data"), fileno(file), "'count':9");
	used();
	stream_left(file);
	say("%s\n", content("data"));
	file = unwritable();
	use(file);
	CALL(THIS(puts)("some text"));
	EXPECT(in("data"), fileno(file), "'count':9");
	used();
	stream_left(file);
}

static void case_fputws(void)
{
	FILE *file = writer();

	CALL(THIS(fputws)(L"some text", file));
	EXPECT(in("data"), fileno(file), "'count':9");
	stream_left(file);
	say("%s\n", content("data"));
	file = unwritable();
	CALL(THIS(fputws)(L"some text", file));
	EXPECT(in("data"), fileno(file), "'count':9");
	stream_left(file);
}

/* ---- wide formats ---- */

#define WIDE_FORMAT L"%s %d %g %c %ld %s %.2f %d\n"

static int wide_list(FILE *file, const wchar_t *format, ...)
{
	bool chk = strstr(now->symbol, "chk"), out = standard();
	va_list args;
	int ret;

	va_start(args, format);
	if (out)
		ret = chk ? THIS(__vwprintf_chk)(1, format, args) : THIS(vwprintf)(format, args);
	else
		ret = chk ? THIS(__vfwprintf_chk)(file, 1, format, args)
			  : THIS(vfwprintf)(file, format, args);
	va_end(args);
	return ret;
}

static int print_wide(FILE *file)
{
	if (!strcmp(now->symbol, "wprintf"))
		return THIS(wprintf)(WIDE_FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "__wprintf_chk"))
		return THIS(__wprintf_chk)(1, WIDE_FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "fwprintf"))
		return THIS(fwprintf)(file, WIDE_FORMAT, ARGUMENTS);
	if (!strcmp(now->symbol, "__fwprintf_chk"))
		return THIS(__fwprintf_chk)(file, 1, WIDE_FORMAT, ARGUMENTS);
	return wide_list(file, WIDE_FORMAT, ARGUMENTS);
}

static void case_wprintf(void)
{
	FILE *file = writer();

	use(file);
	CALL(print_wide(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
	say("%s\n", content("data"));
	file = unwritable();
	use(file);
	CALL(print_wide(file));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
}

/* The names of printf that only old programs call. */
static void case_old_printf(void)
{
	FILE *file = writer();

	use(file);
	CALL(strstr(now->symbol, "_printf")    ? THIS(printf)(FORMAT, ARGUMENTS)
	     : strstr(now->symbol, "_fprintf") ? THIS(fprintf)(file, FORMAT, ARGUMENTS)
					       : print_by_list(file, FORMAT, ARGUMENTS));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
	say("%s\n", content("data"));
}

/* ---- scanf ---- */

static int scan_list(FILE *file, const void *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	if (standard())
		ret = THIS(vscanf)(format, args);
	else
		ret = THIS(vfscanf)(file, format, args);
	va_end(args);
	return ret;
}

/* Of all the family: those of wide characters take their format by the same register. */
static int scan_one(FILE *file, int *number, char *word, double *real)
{
	const void *format = strstr(now->symbol, "wscanf") ? (const void *)L"%d %s %lf"
							   : (const void *)"%d %s %lf";

	if (strstr(now->symbol, "vscanf") || strstr(now->symbol, "vw") || strstr(now->symbol, "vf"))
		return scan_list(file, format, number, word, real);
	if (standard())
		return THIS(scanf)(format, number, word, real);
	return THIS(fscanf)(file, format, number, word, real);
}

static void case_scanf(void)
{
	FILE *file = reader("12 word 2.5 x");
	int number = 0;
	char word[100] = "";
	double real = 0;

	use(file);
	CALL(scan_one(file, &number, word, &real));
	EXPECT(in("data"), fileno(file), "%s", "");
	say("%d %s %g\n", number, word, real);
	CALL(scan_one(file, &number, word, &real)); /* no number */
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
	file = reader("");
	use(file);
	CALL(scan_one(file, &number, word, &real)); /* the end is no error */
	expect_head(now->canonical, now->category);
	expect_args(in("data"), fileno(file), -1, false);
	expect_fields("%s", "");
	used();
	stream_left(file);
	file = unreadable();
	use(file);
	CALL(scan_one(file, &number, word, &real));
	EXPECT(in("data"), fileno(file), "%s", "");
	used();
	stream_left(file);
}

/* ---- position and buffers ---- */

static void case_fgetpos(void)
{
	fpos64_t position;
	FILE *file = reader("content");

	if (strstr(now->symbol, "get")) {
		CALL(THIS(fgetpos64)(file, &position));
	} else {
		UNSEEN(fgetpos64)(file, &position);
		CALL(THIS(fsetpos64)(file, &position));
	}
	EXPECT(in("data"), fileno(file), "%s", "");
	stream_left(file);
}

static void case_rewind(void)
{
	FILE *file = reader("content");

	CALL_VOID(THIS(rewind)(file));
	expect_void(in("data"), fileno(file), "");
	stream_left(file);
}

static void case_setvbuf(void)
{
	static char room[100];
	FILE *file = reader("content");

	CALL(THIS(setvbuf)(file, room, _IOFBF, sizeof(room)));
	EXPECT(in("data"), fileno(file), "'mode':%d,'size':100", _IOFBF);
	CALL(THIS(setvbuf)(file, NULL, 77, 0)); /* no such mode */
	expect_head(now->canonical, now->category);
	expect_args(in("data"), fileno(file), result, false);
	expect_fields("'mode':77,'size':0");
	stream_left(file);
}

static void case_setbuf(void)
{
	static char room[BUFSIZ];
	FILE *file = reader("content");

	if (strstr(now->symbol, "buffer")) {
		CALL_VOID(THIS(setbuffer)(file, room, 100));
		expect_void(in("data"), fileno(file), "'size':100");
	} else if (strstr(now->symbol, "line")) {
		CALL_VOID(THIS(setlinebuf)(file));
		expect_void(in("data"), fileno(file), "");
	} else {
		CALL_VOID(THIS(setbuf)(file, room));
		expect_void(in("data"), fileno(file), "");
	}
	say("%zu %d\n", __fbufsize(file), __flbf(file) != 0);
	stream_left(file);
}

/* ---- tables of mounts ---- */

static void case_setmntent(void)
{
	FILE *file;

	make("data", "content");
	CALL_POINTER(file, THIS(setmntent)("data", "r"));
	result = fileno(file);
	EXPECT(in("data"), (int)result, "'flags':0");
	stream_left(file);
	CALL_POINTER(file, THIS(setmntent)("absent", "r"));
	result = -1;
	EXPECT(in("absent"), NO_FD, "'flags':0");
}

static void case_endmntent(void)
{
	FILE *file = reader("content");
	int fd = fileno(file);

	CALL(THIS(endmntent)(file));
	EXPECT(in("data"), fd, "%s", "");
	CALL(THIS(endmntent)(NULL)); /* nothing to close: not recorded */
}
