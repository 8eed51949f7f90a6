/* common/encode/text.c - strings and integers to JSON text, and the check that a text is JSON.
 *
 * No locale, no stdio, no memory but tables and a few bytes of stack.
 */
#include "common/encode/text.h"

#include "common/base/os.h"
#include "common/encode/encode.h"

/* ---- integers ---- */

const char pfw_append_pairs[200] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

char *pfw_append_u64_long(char *out, uint64_t value)
{
	uint64_t high = value / 100000000;
	uint64_t digits = pfw_append_digits8((uint32_t)(value - high * 100000000)) | PFW_TEXT_ZEROS;

	/* At most 12 digits are left: eight in another step, then four. */
	out = high < 100000000 ? pfw_append_u32(out, (uint32_t)high)
			       : pfw_append_u64_long(out, high);
	memcpy(out, &digits, 8);
	return out + 8;
}

char *pfw_append_us_long(char *out, uint64_t ns)
{
	uint64_t us = ns / 1000;
	uint64_t digits = pfw_append_digits8((uint32_t)(ns - us * 1000)) | PFW_TEXT_ZEROS;
	uint32_t fraction = (uint32_t)(digits >> 32 & 0xffffff00u) | '.';

	out = pfw_append_u64(out, us);
	memcpy(out, &fraction, 4);
	return out + 4;
}

/* ---- strings ---- */

/* Continuation bytes of a lead byte, and the range of the first one (Unicode, table 3-7). */
struct utf8_lead {
	uint8_t more, least, greatest;
};

static struct utf8_lead utf8_lead(unsigned char lead)
{
	if (lead < 0xc2 || lead > 0xf4)
		return (struct utf8_lead){ 0, 0, 0 };
	if (lead < 0xe0)
		return (struct utf8_lead){ 1, 0x80, 0xbf };
	if (lead < 0xf0) /* no overlong form, no surrogate */
		return (struct utf8_lead){ 2, lead == 0xe0 ? 0xa0 : 0x80,
					   lead == 0xed ? 0x9f : 0xbf };
	return (struct utf8_lead){ 3, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf };
}

int pfw_append_utf8(const char *text, size_t bytes)
{
	const unsigned char *byte = (const unsigned char *)text;
	struct utf8_lead lead;
	int i;

	if (byte[0] < 0x80)
		return 1;
	lead = utf8_lead(byte[0]);
	if (!lead.more)
		return -1;
	for (i = 1; i <= lead.more; i++) {
		if ((size_t)i >= bytes || byte[i] < lead.least || byte[i] > lead.greatest)
			return -i;
		lead.least = 0x80;
		lead.greatest = 0xbf;
	}
	return i;
}

/* Append an escaped control byte, quote or backslash. */
static char *put_escape(char *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char letter[32] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'
	};

	*out++ = '\\';
	if (c >= 32) {
		*out++ = (char)c;
	} else if (letter[c]) {
		*out++ = letter[c];
	} else {
		out = pfw_append(out, "u00");
		*out++ = hex[c >> 4];
		*out++ = hex[c & 15];
	}
	return out;
}

/* SIMD in a word: not zero if one of eight bytes is a control byte, a quote, a backslash or above
 * 127.  Bits after the first such byte may be wrong; the caller checks these bytes one by one. */
static inline uint64_t has_special(uint64_t word)
{
	const uint64_t ones = 0x0101010101010101ull, tops = 0x8080808080808080ull;
	uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';

	return (word | (word - ones * 32) | (quote - ones) | (slash - ones)) & tops;
}

/* Copy the bytes at the start of text that need no escape; return their number. */
static size_t copy_plain(char *out, const char *text, size_t bytes)
{
	size_t done = 0;
	uint64_t word, special;

	for (; bytes - done >= 8; done += 8) {
		memcpy(&word, text + done, 8);
		memcpy(out + done, &word, 8);
		special = has_special(word);
		if (special)
			return done + (size_t)__builtin_ctzll(special) / 8;
	}
	for (; done < bytes; done++) {
		unsigned char c = (unsigned char)text[done];

		if (c < 32 || c > 126 + 1 || c == '"' || c == '\\')
			break;
		out[done] = (char)c;
	}
	return done;
}

char *pfw_json_string(char *out, const char *text, size_t bytes, bool *valid)
{
	bool good = true;

	*out++ = '"';
	for (;;) {
		size_t plain = copy_plain(out, text, bytes);
		int length;

		out += plain;
		text += plain;
		bytes -= plain;
		if (!bytes)
			break;
		length = pfw_append_utf8(text, bytes);
		if (length == 1) {
			out = put_escape(out, (unsigned char)*text);
		} else if (length > 0) {
			memcpy(out, text, (size_t)length);
			out += length;
		} else {
			out = pfw_append(out, "\xef\xbf\xbd"); /* U+FFFD */
			length = -length;
			good = false;
		}
		text += length;
		bytes -= (size_t)length;
	}
	*out++ = '"';
	if (valid)
		*valid = good;
	return out;
}

char *pfw_append_base64(char *out, const char *text, size_t bytes)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = (const unsigned char *)text;

	*out++ = '"';
	for (; bytes; in += 3, bytes -= bytes < 3 ? bytes : 3) {
		uint32_t three = (uint32_t)in[0] << 16;

		if (bytes > 1)
			three |= (uint32_t)in[1] << 8;
		if (bytes > 2)
			three |= in[2];
		*out++ = digit[three >> 18];
		*out++ = digit[three >> 12 & 63];
		*out++ = bytes > 1 ? digit[three >> 6 & 63] : '=';
		*out++ = bytes > 2 ? digit[three & 63] : '=';
	}
	*out++ = '"';
	return out;
}

/* ---- is it JSON? ---- */

#define JSON_DEPTH 64 /* one bit of a word for each level: is it an object? */

struct scan {
	const char *at;
	const char *end;
};

static int peek(const struct scan *scan)
{
	return scan->at < scan->end ? (unsigned char)*scan->at : -1;
}

static void skip_space(struct scan *scan)
{
	int c;

	while ((c = peek(scan)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		scan->at++;
}

static bool take(struct scan *scan, char c)
{
	if (peek(scan) != c)
		return false;
	scan->at++;
	return true;
}

/* The four digits of a \u escape, or -1. */
static int take_hex4(struct scan *scan)
{
	int value = 0, i;

	for (i = 0; i < 4; i++) {
		int c = peek(scan), digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (c | 32) - 'a' + 10;
		else
			return -1;
		value = value << 4 | digit;
		scan->at++;
	}
	return value;
}

/* Take what follows a backslash.  A surrogate must be part of a pair. */
static bool take_escape(struct scan *scan)
{
	int c = peek(scan);

	if (c <= 0)
		return false;
	scan->at++;
	if (c != 'u')
		return strchr("\"\\/bfnrt", c) != NULL;
	c = take_hex4(scan);
	if (c < 0xd800 || c > 0xdfff)
		return c >= 0;
	if (c > 0xdbff || !take(scan, '\\') || !take(scan, 'u'))
		return false;
	c = take_hex4(scan);
	return c >= 0xdc00 && c <= 0xdfff;
}

static bool take_string(struct scan *scan)
{
	int c;

	if (!take(scan, '"'))
		return false;
	while ((c = peek(scan)) >= 32 && c != '"') {
		if (c == '\\') {
			scan->at++;
			if (!take_escape(scan))
				return false;
		} else {
			int length = pfw_append_utf8(scan->at, (size_t)(scan->end - scan->at));

			if (length < 0)
				return false;
			scan->at += length;
		}
	}
	return take(scan, '"');
}

/* Take digits and return their number; *value gets their value, at most 9999. */
static size_t take_digits(struct scan *scan, int *value)
{
	const char *start = scan->at;
	int c;

	*value = 0;
	while ((c = peek(scan)) >= '0' && c <= '9') {
		if (*value < 1000)
			*value = *value * 10 + c - '0';
		scan->at++;
	}
	return (size_t)(scan->at - start);
}

/* Whether 0.DIGITS * 10^309 is beyond a double.  DIGITS may contain a point. */
static bool too_great(const char *digits, const char *end)
{
	/* A number with these digits is still rounded down. */
	static const char greatest[] = "17976931348623157";
	const char *limit = greatest;

	for (; digits < end && *limit; digits++) {
		if (*digits == '.')
			continue;
		if (*digits != *limit)
			return *digits > *limit;
		limit++;
	}
	return false;
}

static bool take_exponent(struct scan *scan, int *exponent)
{
	bool negative;

	*exponent = 0;
	if (!take(scan, 'e') && !take(scan, 'E'))
		return true;
	negative = take(scan, '-');
	if (!negative)
		take(scan, '+');
	if (!take_digits(scan, exponent))
		return false;
	if (negative)
		*exponent = -*exponent;
	return true;
}

/* Take a number within a double: any other makes readers refuse the whole file. */
static bool take_number(struct scan *scan)
{
	const char *start, *end;
	int value, exponent;
	size_t digits;

	take(scan, '-');
	start = scan->at;
	digits = take(scan, '0') ? 1 : take_digits(scan, &value);
	if (!digits || (take(scan, '.') && !take_digits(scan, &value)))
		return false;
	end = scan->at;
	if (!take_exponent(scan, &exponent) || digits > 309 || (int)digits + exponent > 309)
		return false;
	return (int)digits + exponent < 309 || !too_great(start, end);
}

static bool take_word(struct scan *scan, const char *word)
{
	size_t bytes = strlen(word);

	if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, word, bytes) != 0)
		return false;
	scan->at += bytes;
	return true;
}

static bool take_scalar(struct scan *scan)
{
	switch (peek(scan)) {
	case '"':
		return take_string(scan);
	case 't':
		return take_word(scan, "true");
	case 'f':
		return take_word(scan, "false");
	case 'n':
		return take_word(scan, "null");
	default:
		return take_number(scan);
	}
}

static bool take_key(struct scan *scan)
{
	skip_space(scan);
	if (!take_string(scan))
		return false;
	skip_space(scan);
	return take(scan, ':');
}

bool pfw_json_valid(const char *text, size_t bytes)
{
	struct scan scan = { text, text + bytes };
	uint64_t objects = 0; /* lowest bit: is the innermost level an object? */
	unsigned int depth = 0;
	int c;

	for (;;) {
		/* Take a value. */
		skip_space(&scan);
		c = peek(&scan);
		if (c == '{' || c == '[') {
			if (depth++ == JSON_DEPTH)
				return false;
			objects = objects << 1 | (c == '{');
			scan.at++;
			skip_space(&scan);
			if (peek(&scan) != (c == '{' ? '}' : ']')) {
				if (c == '{' && !take_key(&scan))
					return false;
				continue;
			}
		} else if (!take_scalar(&scan)) {
			return false;
		}
		/* The value has ended: take the brackets that close. */
		for (skip_space(&scan); depth; skip_space(&scan)) {
			if (!take(&scan, objects & 1 ? '}' : ']'))
				break;
			objects >>= 1;
			depth--;
		}
		if (!depth)
			return scan.at == scan.end;
		if (!take(&scan, ',') || ((objects & 1) && !take_key(&scan)))
			return false;
	}
}
