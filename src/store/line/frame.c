/* store/line/frame.c - whose code a frame of a stack is; see frame.h. */
#include "store/line/frame.h"

#include <string.h>

#include "store/kit/hash.h"

static bool begins(const char *text, size_t bytes, const char *word)
{
	size_t length = strlen(word);

	return bytes >= length && memcmp(text, word, length) == 0;
}

static bool has(const char *text, size_t bytes, const char *word)
{
	return memmem(text, bytes, word, strlen(word)) != NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hex_of(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- addresses ---- */

bool pfw_frame_address(const char *frame, size_t bytes, size_t *path_bytes, uint64_t *offset)
{
	size_t at = bytes;
	uint64_t number = 0;

	while (at && hex_of(frame[at - 1]) >= 0)
		at--;
	if (at < 4 || at == bytes || bytes - at > 16 || memcmp(frame + at - 3, "+0x", 3) != 0)
		return false;
	for (size_t i = at; i < bytes; i++)
		number = number << 4 | (uint64_t)hex_of(frame[i]);
	if (path_bytes)
		*path_bytes = at - 3;
	if (offset)
		*offset = number;
	return true;
}

/* ---- files ---- */

/* `libc.so.6`, `libc-2.31.so`, `libstdc++.so.6.0.30`: the name of a library, then its end or its
 * version. */
static bool is_library(const char *name, size_t bytes, const char *library)
{
	size_t length = strlen(library);

	return begins(name, bytes, library) &&
	       (bytes == length || name[length] == '.' || name[length] == '-');
}

static bool is_runtime(const char *name, size_t bytes)
{
	static const char *const libraries[] = { "libc",     "libpthread", "libdl",
						 "librt",    "libm",	   "ld",
						 "ld-linux", "libstdc++",  "libc++",
						 "libgcc_s", "libpfw",	   "libpfw_preload",
						 "libvdso",  "linux-vdso" };

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		if (is_library(name, bytes, libraries[i]))
			return true;
	}
	return false;
}

/* `python3`, `python3.11`, `libpython3.11.so.1.0`. */
static bool is_interpreter(const char *name, size_t bytes)
{
	size_t at = begins(name, bytes, "lib") ? 3 : 0;

	if (!begins(name + at, bytes - at, "python"))
		return false;
	at += strlen("python");
	while (at < bytes && (is_digit(name[at]) || name[at] == '.'))
		at++;
	return at == bytes || begins(name + at, bytes - at, "so");
}

/* .../lib/python3.11/..., lib64 as well, and .../lib/python311.zip/... */
static bool is_standard_library(const char *path, size_t bytes)
{
	static const char word[] = "/python3";
	const char *at = path, *end = path + bytes;

	while ((at = memmem(at, (size_t)(end - at), word, strlen(word)))) {
		size_t before = (size_t)(at - path);
		bool lib = (before >= 3 && memcmp(at - 3, "lib", 3) == 0) ||
			   (before >= 5 && memcmp(at - 5, "lib64", 5) == 0);

		at += strlen(word);
		while (lib && at < end && (is_digit(*at) || *at == '.'))
			at++;
		if (lib && at < end && (*at == '/' || begins(at, (size_t)(end - at), "zip/")))
			return true;
	}
	return false;
}

/* A library or a header in the system's directories; a program there may be what is looked at. */
static bool is_systems(const char *path, size_t bytes, const char *name)
{
	static const char *const libraries[] = { "/lib/",	"/lib32/",     "/lib64/",
						 "/usr/lib/",	"/usr/lib32/", "/usr/lib64/",
						 "/usr/libx32/" };

	if (begins(path, bytes, "/usr/include/") || begins(path, bytes, "/usr/lib/gcc/"))
		return true;
	if (!has(name, (size_t)(path + bytes - name), ".so"))
		return false;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		if (begins(path, bytes, libraries[i]))
			return true;
	}
	return false;
}

bool pfw_frame_users_file(const char *path, size_t bytes)
{
	const char *slash = memrchr(path, '/', bytes), *name = slash ? slash + 1 : path;
	size_t name_bytes = (size_t)(path + bytes - name);

	/* `[vdso]`, `<frozen importlib._bootstrap>`; but `<string>` and `<stdin>` are the
	 * user's. */
	if (!bytes || *path == '[' || begins(path, bytes, "<frozen ") ||
	    begins(path, bytes, "torch/"))
		return false;
	return !has(path, bytes, "/site-packages/") && !has(path, bytes, "/dist-packages/") &&
	       !is_standard_library(path, bytes) && !is_systems(path, bytes, name) &&
	       !is_runtime(name, name_bytes) && !is_interpreter(name, name_bytes);
}

/* ---- frames ---- */

/* The module in `FILE(LINE): FUNCTION [MODULE]`; NULL: none. */
static const char *module_of(const char *frame, size_t bytes, size_t *module_bytes)
{
	const char *at = frame + bytes;

	if (bytes < 4 || frame[bytes - 1] != ']')
		return NULL;
	while (at > frame + 1 && (at[-1] != '[' || at[-2] != ' '))
		at--;
	if (at <= frame + 1 || *at != '/')
		return NULL;
	*module_bytes = (size_t)(frame + bytes - 1 - at);
	return at;
}

/* The bytes of the file of a frame with a function; 0: it has no file, as `<built-in method
 * read>`. */
static size_t file_of(const char *frame, size_t bytes)
{
	const char *at = frame, *end = frame + bytes, *open;

	while ((at = memmem(at, (size_t)(end - at), "): ", 3))) {
		for (open = at; open > frame && is_digit(open[-1]);)
			open--;
		if (open < at && open > frame && open[-1] == '(')
			return (size_t)(open - 1 - frame);
		at++;
	}
	at = *frame == '/' ? memmem(frame, bytes, ": ", 2) : NULL;
	return at ? (size_t)(at - frame) : 0;
}

static bool is_users(const char *frame, size_t bytes)
{
	size_t file;
	const char *module = module_of(frame, bytes, &file);

	if (module)
		return pfw_frame_users_file(module, file);
	if (!pfw_frame_address(frame, bytes, &file, NULL))
		file = bytes ? file_of(frame, bytes) : 0;
	return file && pfw_frame_users_file(frame, file);
}

/* Frames that were asked for lately, by their hashes: a trace has few, each of them often. */
#define RECENT 1024u

static _Thread_local struct recent {
	uint64_t hash; /* 0: none */
	bool users;
} recents[RECENT];

bool pfw_frame_users(const char *frame, size_t bytes)
{
	uint64_t hash = pfw_hash_text(pfw_hash_seed(), frame, bytes);
	struct recent *recent = &recents[hash % RECENT];

	if (recent->hash != hash || !hash)
		*recent = (struct recent){ hash, is_users(frame, bytes) };
	return recent->users;
}
