/* tools/anonymise/names.c - pseudonyms of texts and paths; see anonymise.h. */
#include <string.h>

#include "anonymise/anonymise.h"

/* 60 bits: two of a million names share one with a probability of 1 in two million. */
#define PSEUDONYM_BYTES 12u
#define EXTENSION_MOST 8u

/* ---- SipHash-2-4 (Aumasson, Bernstein 2012) ---- */

static uint64_t rotate(uint64_t word, unsigned by)
{
	return word << by | word >> (64 - by);
}

static void sip_rounds(uint64_t v[4], unsigned rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

/* Up to eight bytes as a little-endian number. */
static uint64_t word_of(const char *text, size_t bytes)
{
	uint64_t word = 0;

	for (size_t i = 0; i < bytes; i++)
		word |= (uint64_t)(unsigned char)text[i] << 8 * i;
	return word;
}

uint64_t anonymise_hash(const uint64_t key[2], const char *text, size_t bytes)
{
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			  key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573 };
	uint64_t word;

	for (size_t left = bytes; left >= 8; left -= 8, text += 8) {
		word = word_of(text, 8);
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	word = word_of(text, bytes % 8) | (uint64_t)bytes << 56;
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- texts ---- */

int anonymise_text(const struct anonymise_rules *rules, struct pfw_buffer *out, const char *text,
		   size_t bytes)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint64_t hash = anonymise_hash(rules->key, text, bytes);
	char pseudonym[PSEUDONYM_BYTES];

	if (!bytes)
		return 0;
	for (unsigned i = 0; i < PSEUDONYM_BYTES; i++, hash >>= 5)
		pseudonym[i] = digits[hash & 31];
	return pfw_buffer_add(out, pseudonym, sizeof(pseudonym));
}

/* ---- paths ---- */

/* The bytes of well-known directories at the begin of a path. */
static size_t root_of(const char *path, size_t bytes)
{
	static const char *const roots[] = {
		"/bin",	      "/boot",	    "/dev",	      "/dev/shm",	"/etc",
		"/home",      "/lib",	    "/lib32",	      "/lib64",		"/libx32",
		"/media",     "/mnt",	    "/opt",	      "/proc",		"/proc/self",
		"/root",      "/run",	    "/sbin",	      "/srv",		"/sys",
		"/tmp",	      "/usr",	    "/usr/bin",	      "/usr/include",	"/usr/lib",
		"/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/sbin",
		"/usr/share", "/var",	    "/var/lib",	      "/var/log",	"/var/tmp",
	};
	size_t most = 0;

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		size_t length = strlen(roots[i]);

		if (length > most && bytes >= length && memcmp(path, roots[i], length) == 0 &&
		    (bytes == length || path[length] == '/'))
			most = length;
	}
	return most;
}

/* The bytes of `.pt`, `.parquet` at the end of a name; 0: it has no such end. */
static size_t extension_of(const char *name, size_t bytes)
{
	size_t at = bytes;

	while (at && name[at - 1] != '.' && bytes - at <= EXTENSION_MOST) {
		char c = name[--at];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
			return 0;
	}
	return at > 1 && at < bytes && name[at - 1] == '.' ? bytes - at + 1 : 0;
}

static int put_name(const struct anonymise_rules *rules, struct pfw_buffer *out, const char *name,
		    size_t bytes)
{
	size_t extension = rules->extensions ? extension_of(name, bytes) : 0;
	int error;

	if (bytes <= 2 && memcmp(name, "..", bytes) == 0)
		return pfw_buffer_add(out, name, bytes);
	error = anonymise_text(rules, out, name, bytes);
	return error ?: pfw_buffer_add(out, name + bytes - extension, extension);
}

/* pipe:[123], socket:[123] and anon_inode:[eventpoll] are the kernel's words. */
static bool is_kernels(const char *path, size_t bytes)
{
	static const char *const words[] = { "pipe:[", "socket:[", "anon_inode:[" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (bytes > strlen(words[i]) && memcmp(path, words[i], strlen(words[i])) == 0 &&
		    path[bytes - 1] == ']' && !memchr(path, '/', bytes))
			return true;
	return false;
}

int anonymise_path(const struct anonymise_rules *rules, struct pfw_buffer *out, const char *path,
		   size_t bytes)
{
	const char *at = path, *end = path + bytes;
	size_t kept = is_kernels(path, bytes) ? bytes : rules->roots ? root_of(path, bytes) : 0;
	int error = pfw_buffer_add(out, path, kept);

	at += kept;
	while (!error && at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));

		slash = slash ? slash : end;
		error = put_name(rules, out, at, (size_t)(slash - at));
		if (!error && slash < end)
			error = pfw_buffer_add(out, slash++, 1);
		at = slash;
	}
	return error;
}
