/* call.c - what a call of a trace does, by its name; see call.h. */
#include "call.h"

#include <stdbool.h>
#include <string.h>

#include "probes/calls_table.h"

/* Names as traces have them: see src/probes/calls.def, "canonical". */
static const struct {
	char name[18];
	uint8_t role, moves;
} calls[] = {
#define R PFW_CALL_READ
#define W PFW_CALL_WRITE
#define O PFW_CALL_OPEN
	{ "open", O, PFW_MOVES_NOTHING },
	{ "openat", O, PFW_MOVES_NOTHING },
	{ "creat", O, PFW_MOVES_NOTHING },
	{ "open_by_handle_at", O, PFW_MOVES_NOTHING },
	{ "shm_open", O, PFW_MOVES_NOTHING },
	{ "memfd_create", O, PFW_MOVES_NOTHING },
	{ "mkstemp", O, PFW_MOVES_NOTHING },
	{ "opendir", O, PFW_MOVES_NOTHING },
	{ "fopen", O, PFW_MOVES_NOTHING },
	{ "freopen", O, PFW_MOVES_NOTHING },
	{ "tmpfile", O, PFW_MOVES_NOTHING },
	{ "read", R, PFW_MOVES_RET },
	{ "pread", R, PFW_MOVES_RET },
	{ "readv", R, PFW_MOVES_RET },
	{ "preadv", R, PFW_MOVES_RET },
	{ "preadv2", R, PFW_MOVES_RET },
	{ "aio_read", R, PFW_MOVES_NOTHING },
	{ "fread", R, PFW_MOVES_ITEMS },
	{ "fgets", R, PFW_MOVES_RET },
	{ "gets", R, PFW_MOVES_RET },
	{ "getline", R, PFW_MOVES_RET },
	{ "getdelim", R, PFW_MOVES_RET },
	{ "fgetc", R, PFW_MOVES_NOTHING },
	{ "getc", R, PFW_MOVES_NOTHING },
	{ "getchar", R, PFW_MOVES_NOTHING },
	{ "getw", R, PFW_MOVES_NOTHING },
	{ "fgetwc", R, PFW_MOVES_NOTHING },
	{ "getwc", R, PFW_MOVES_NOTHING },
	{ "getwchar", R, PFW_MOVES_NOTHING },
	{ "fgetws", R, PFW_MOVES_NOTHING },
	{ "fscanf", R, PFW_MOVES_NOTHING },
	{ "vfscanf", R, PFW_MOVES_NOTHING },
	{ "scanf", R, PFW_MOVES_NOTHING },
	{ "vscanf", R, PFW_MOVES_NOTHING },
	{ "fwscanf", R, PFW_MOVES_NOTHING },
	{ "wscanf", R, PFW_MOVES_NOTHING },
	{ "vfwscanf", R, PFW_MOVES_NOTHING },
	{ "vwscanf", R, PFW_MOVES_NOTHING },
	{ "write", W, PFW_MOVES_RET },
	{ "pwrite", W, PFW_MOVES_RET },
	{ "writev", W, PFW_MOVES_RET },
	{ "pwritev", W, PFW_MOVES_RET },
	{ "pwritev2", W, PFW_MOVES_RET },
	{ "vmsplice", W, PFW_MOVES_RET },
	{ "aio_write", W, PFW_MOVES_NOTHING },
	{ "fwrite", W, PFW_MOVES_ITEMS },
	{ "fputs", W, PFW_MOVES_COUNT },
	{ "puts", W, PFW_MOVES_COUNT },
	{ "fputc", W, PFW_MOVES_NOTHING },
	{ "putc", W, PFW_MOVES_NOTHING },
	{ "putchar", W, PFW_MOVES_NOTHING },
	{ "putw", W, PFW_MOVES_NOTHING },
	{ "fputwc", W, PFW_MOVES_NOTHING },
	{ "putwc", W, PFW_MOVES_NOTHING },
	{ "putwchar", W, PFW_MOVES_NOTHING },
	{ "fputws", W, PFW_MOVES_NOTHING },
	{ "printf", W, PFW_MOVES_RET },
	{ "fprintf", W, PFW_MOVES_RET },
	{ "dprintf", W, PFW_MOVES_RET },
	{ "vprintf", W, PFW_MOVES_RET },
	{ "vfprintf", W, PFW_MOVES_RET },
	{ "vdprintf", W, PFW_MOVES_RET },
	{ "fwprintf", W, PFW_MOVES_NOTHING },
	{ "wprintf", W, PFW_MOVES_NOTHING },
	{ "vfwprintf", W, PFW_MOVES_NOTHING },
	{ "vwprintf", W, PFW_MOVES_NOTHING },
	{ "copy_file_range", PFW_CALL_COPY, PFW_MOVES_RET },
	{ "sendfile", PFW_CALL_COPY, PFW_MOVES_RET },
	{ "splice", PFW_CALL_COPY, PFW_MOVES_RET },
	{ "tee", PFW_CALL_COPY, PFW_MOVES_RET },
#undef R
#undef W
#undef O
};

static bool is(const char *text, size_t bytes, const char *word)
{
	return bytes && *text == *word && strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

static bool find(struct pfw_call *call, const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!is(name, bytes, calls[i].name))
			continue;
		call->role = calls[i].role;
		call->moves = calls[i].moves;
		return true;
	}
	return false;
}

/* By a name of libc's that our own traces do not have, and DFTracer's do: open64. */
static void find_symbol(struct pfw_call *call, const char *name, size_t bytes)
{
	size_t count;
	const struct pfw_call_info *info = pfw_calls_info(&count);

	for (size_t i = 0; i < count; i++) {
		if (is(name, bytes, info[i].name)) {
			find(call, info[i].canonical, strlen(info[i].canonical));
			return;
		}
	}
}

struct pfw_call pfw_call_find(const char *cat, size_t cat_bytes, const char *name,
			      size_t name_bytes)
{
	struct pfw_call call = { .role = PFW_CALL_NONE, .moves = PFW_MOVES_NOTHING };

	if (is(cat, cat_bytes, "PP"))
		call.moves = PFW_MOVES_BYTES;
	if (!is(cat, cat_bytes, "POSIX") && !is(cat, cat_bytes, "STDIO"))
		return call;
	call.role = PFW_CALL_OTHER;
	if (!find(&call, name, name_bytes))
		find_symbol(&call, name, name_bytes);
	return call;
}

const char *pfw_call_cat(const char *name, size_t bytes)
{
	size_t count;
	const struct pfw_call_info *call = pfw_calls_info(&count);

	for (size_t i = 0; i < count; i++) {
		if (is(name, bytes, call[i].canonical))
			return call[i].category;
	}
	return "POSIX";
}
