/* store/json/value.c - numbers and text from pieces of JSON; see value.h. */
#include "store/json/value.h"

#include <endian.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/json/reader.h"
#include "store/json/swar.h"
#include "store/json/walk.h"

/* ---- numbers ---- */

/* Decimal text as mantissa * 10^exponent. */
struct decimal {
	bool negative;
	uint64_t mantissa;
	int64_t exponent;
	int digits; /* significant ones in mantissa, at most 19 */
};

static void add_digit(struct decimal *decimal, char c, bool fraction)
{
	if (decimal->digits < 19) {
		decimal->mantissa = decimal->mantissa * 10 + (uint64_t)(c - '0');
		decimal->digits += decimal->mantissa != 0;
		decimal->exponent -= fraction;
	} else {
		decimal->exponent += !fraction;
	}
}

/* Text that pfw_reader_number() has accepted. */
static struct decimal take_apart(const char *at, const char *end)
{
	struct decimal decimal = { .negative = at < end && *at == '-' };
	bool fraction = false;
	int64_t exponent = 0;
	bool negative;

	for (at += decimal.negative; at < end && (*at | 0x20) != 'e'; at++) {
		if (*at == '.')
			fraction = true;
		else
			add_digit(&decimal, *at, fraction);
	}
	if (at == end)
		return decimal;
	at++;
	negative = *at == '-';
	for (at += *at == '-' || *at == '+'; at < end; at++) {
		if (exponent < 1000000000)
			exponent = exponent * 10 + (*at - '0');
	}
	decimal.exponent += negative ? -exponent : exponent;
	return decimal;
}

/* mantissa * 10^(exponent + shift), truncated to a whole number; false if it does not fit. */
static bool scale(const struct decimal *decimal, int shift, int64_t *value)
{
	int64_t exponent = decimal->exponent + shift;
	uint64_t sum = decimal->mantissa;

	for (; exponent > 0 && sum; exponent--) {
		if (__builtin_mul_overflow(sum, 10u, &sum))
			return false;
	}
	for (; exponent < 0 && sum; exponent++)
		sum /= 10;
	if (sum > INT64_MAX)
		return false;
	*value = decimal->negative ? -(int64_t)sum : (int64_t)sum;
	return true;
}

static bool is_number(const struct pfw_slice *text)
{
	struct pfw_reader reader = { .at = text->at, .end = text->at + text->bytes };

	return text->bytes && (*text->at == '-' || pfw_reader_at_digit(&reader)) &&
	       pfw_reader_number(&reader) && reader.at == reader.end;
}

bool pfw_slice_us(const struct pfw_slice *text, int64_t *ns)
{
	struct decimal decimal;

	if (!is_number(text))
		return false;
	decimal = take_apart(text->at, text->at + text->bytes);
	return scale(&decimal, 3, ns);
}

/* Four to eight bytes, the first in the lowest byte, the others 0. */
static inline uint64_t load_few(const char *at, size_t bytes)
{
	uint32_t low, high;

	memcpy(&low, at, 4);
	memcpy(&high, at + bytes - 4, 4);
	return le32toh(low) | (uint64_t)le32toh(high) << 8 * (bytes - 4);
}

/* More than eight digits. */
static __attribute__((noinline)) bool many_u64(const char *at, size_t bytes, uint64_t *number)
{
	const char *end = at + bytes, *fits = bytes > 19 ? at + 19 : end; /* 19 digits always fit */
	uint64_t sum = 0;

	for (; fits - at >= 8; at += 8) {
		uint64_t eight = pfw_bytes_load(at);

		if (pfw_bytes_digits(eight) != 8)
			return false;
		sum = sum * 100000000 + pfw_bytes_number(eight, 8);
	}
	for (; at < end; at++) {
		unsigned digit = (unsigned char)*at - '0';

		if (digit > 9 || (at >= fits && sum > (UINT64_MAX - digit) / 10))
			return false;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return true;
}

/* Without fraction, exponent or leading zero. */
bool pfw_number_u64(const char *at, size_t bytes, uint64_t *number)
{
	uint64_t sum = 0;

	if (!bytes || (bytes > 1 && *at == '0'))
		return false;
	if (bytes > 8)
		return many_u64(at, bytes, number);
	if (bytes >= 4) {
		sum = load_few(at, bytes);
		if (pfw_bytes_digits(sum) != bytes)
			return false;
		*number = pfw_bytes_number(sum, (unsigned)bytes);
		return true;
	}
	for (size_t i = 0; i < bytes; i++) {
		unsigned digit = (unsigned char)at[i] - '0';

		if (digit > 9)
			return false;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return true;
}

bool pfw_number_i64(const char *at, size_t bytes, int64_t *number)
{
	bool negative = bytes && *at == '-';
	uint64_t size;

	if (!pfw_number_u64(at + negative, bytes - negative, &size) ||
	    size > (uint64_t)INT64_MAX + negative)
		return false;
	*number = negative ? (int64_t)(0 - size) : (int64_t)size;
	return true;
}

static locale_t c_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod() where decimals may be after a comma: a program that uses this as a library has its
 * locale. */
static double long_f64(const struct pfw_slice *number)
{
	char few[64], *text = number->bytes < sizeof(few) ? few : malloc(number->bytes + 1);
	double result = NAN;

	if (!text)
		return result;
	memcpy(text, number->at, number->bytes);
	text[number->bytes] = '\0';
	pthread_once(&once, make_locale);
	result = strtod_l(text, NULL, c_locale);
	if (text != few)
		free(text);
	return result;
}

double pfw_slice_f64(const struct pfw_slice *number)
{
	static const double tens[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,	 1e6,  1e7,
				       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
	struct decimal decimal = take_apart(number->at, number->at + number->bytes);
	double result;

	/* Both are exact, so their quotient is rounded once. */
	if (decimal.mantissa >= 1ull << 53 || decimal.exponent > 0 || decimal.exponent < -15)
		return long_f64(number);
	result = (double)decimal.mantissa / tens[-decimal.exponent];
	return decimal.negative ? -result : result;
}

/* ---- decoded text ---- */

/* Append one character as UTF-8. */
static size_t put_utf8(char *out, uint32_t code)
{
	static const unsigned char first[] = { 0, 0xc0, 0xe0, 0xf0 };
	size_t more = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);

	for (size_t i = more; i > 0; i--, code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(first[more] | code);
	return more + 1;
}

/* Resolve the escape at *at, which the reader has accepted, and move *at after it. */
static size_t put_escape(char *out, const char **at, const char *end)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *text = *at;
	uint32_t code;

	if (text[1] != 'u') {
		*at += 2;
		*out = to[strchr(from, text[1]) - from];
		return 1;
	}
	code = (uint32_t)pfw_hex4(text + 2, end);
	*at += 6;
	if (code >= 0xd800 && code < 0xdc00) {
		code = 0x10000 + ((code - 0xd800) << 10) +
		       ((uint32_t)pfw_hex4(text + 8, end) - 0xdc00);
		*at += 6;
	}
	return put_utf8(out, code ? code : 0xfffd);
}

size_t pfw_slice_decode(const struct pfw_slice *text, char *out, size_t size)
{
	const char *at = text->at, *end = text->at + text->bytes;
	size_t used = 0;

	while (at < end) {
		char piece[4];
		size_t bytes = 1;

		if (*at == '\\')
			bytes = put_escape(piece, &at, end);
		else
			piece[0] = *at++;
		if (used + bytes >= size)
			break;
		memcpy(out + used, piece, bytes);
		used += bytes;
	}
	out[used] = '\0';
	return used;
}

bool pfw_slice_decodes_to(const struct pfw_slice *slice, const char *text)
{
	char plain[128];

	return pfw_slice_decode(slice, plain, sizeof(plain)) == strlen(text) &&
	       strcmp(plain, text) == 0;
}

bool pfw_slice_find(const struct pfw_slice *object, const char *key, struct pfw_value *value)
{
	struct pfw_walk members;
	struct pfw_slice name;
	struct pfw_value member;
	bool found = false;

	if (!object->bytes || *object->at != '{')
		return false;
	pfw_walk_init(&members, object);
	while (pfw_walk_next(&members, &name, &member)) {
		if (pfw_slice_is(&name, key)) {
			*value = member;
			found = true;
		}
	}
	return found;
}
