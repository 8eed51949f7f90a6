/* common/base/text.h - text in a caller's buffer, and numbers read from text.
 *
 * Recorder code must not use snprintf and strtol: they depend on the locale, set errno and may
 * allocate, which would show in the traced program.
 * Thread: any.  Signal: safe, all of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Text that grows in a buffer; always NUL-terminated.  `cut` is set once something did not fit. */
struct pfw_text {
	char *start;
	char *at;  /* where the NUL is */
	char *end; /* the last byte, kept for the NUL */
	bool cut;
};

/* Begin with an empty text in buf, which has `size` bytes, at least one. */
static inline void pfw_text_init(struct pfw_text *text, char *buf, size_t size)
{
	text->start = text->at = buf;
	text->end = buf + size - 1;
	text->cut = false;
	*buf = '\0';
}

static inline void pfw_text_add_bytes(struct pfw_text *text, const char *bytes, size_t count)
{
	size_t room = (size_t)(text->end - text->at);

	if (count > room) {
		text->cut = true;
		count = room;
	}
	memcpy(text->at, bytes, count);
	text->at += count;
	*text->at = '\0';
}

static inline void pfw_text_add(struct pfw_text *text, const char *string)
{
	pfw_text_add_bytes(text, string, strlen(string));
}

/* Append strings, up to the NULL. */
static inline void pfw_text_add_all(struct pfw_text *text, const char *const *string)
{
	for (; *string; string++)
		pfw_text_add(text, *string);
}

#define PFW_TEXT_ADD(text, ...) pfw_text_add_all(text, (const char *const[]){ __VA_ARGS__, NULL })

/* Append a number in decimal with at least `digits` digits, at most 20. */
static inline void pfw_text_add_u64(struct pfw_text *text, uint64_t value, int digits)
{
	char buf[20];
	size_t at = sizeof(buf);

	do {
		buf[--at] = (char)('0' + value % 10);
		value /= 10;
		digits--;
	} while (at > 0 && (value > 0 || digits > 0));
	pfw_text_add_bytes(text, buf + at, sizeof(buf) - at);
}

/* Read the decimal digits at `text`.  Return their end; NULL: no digit, or more than 64 bits. */
static inline const char *pfw_text_read_u64(const char *text, uint64_t *value)
{
	const char *at = text;
	uint64_t sum = 0;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
			return NULL;
	}
	*value = sum;
	return at == text ? NULL : at;
}

/* Read the lower-case hexadecimal digits at `text`, if there are any.  Return their end. */
static inline const char *pfw_text_hex(const char *text, uint64_t *value)
{
	for (*value = 0;; text++) {
		if (*text >= '0' && *text <= '9')
			*value = *value << 4 | (uint64_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			*value = *value << 4 | (uint64_t)(*text - 'a' + 10);
		else
			return text;
	}
}

/* Write a character in UTF-8: up to four bytes.  Return their end. */
static inline char *pfw_text_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*out++ = (char)(0xe0 | c >> 12);
		} else {
			*out++ = (char)(0xf0 | (c >> 18 & 7));
			*out++ = (char)(0x80 | (c >> 12 & 63));
		}
		*out++ = (char)(0x80 | (c >> 6 & 63));
	}
	*out++ = (char)(0x80 | (c & 63));
	return out;
}

/* The last component of a path. */
static inline const char *pfw_text_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Whether a name has that end, and something before it. */
static inline bool pfw_text_ends(const char *name, const char *end)
{
	size_t bytes = strlen(name), count = strlen(end);

	return bytes > count && strcmp(name + bytes - count, end) == 0;
}

/* Whether two texts are equal, ignoring the case of ASCII letters. */
static inline bool pfw_text_same(const char *a, const char *b)
{
	for (; *a != '\0' && *b != '\0'; a++, b++) {
		char x = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a;
		char y = *b >= 'A' && *b <= 'Z' ? (char)(*b + 32) : *b;

		if (x != y)
			return false;
	}
	return *a == *b;
}
