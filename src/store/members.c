/* members.c - the members of an object, one after the other; see members.h. */
#include "members.h"

#include <endian.h>
#include <string.h>

static inline const char *skip_space(const char *at, const char *end)
{
	/* Between two members there is a comma, as a rule, and nothing else. */
	if (end - at > 1 && (*at == ',' || *at == ':') && at[1] > ' ')
		return at + 1;
	while (at < end && (*at == ' ' || *at == ',' || *at == ':' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* How many of the next 8 bytes come before the first quote or backslash. */
static inline unsigned plain_bytes(const char *at)
{
	const uint64_t ones = 0x0101010101010101u;
	uint64_t word, quote, slash;

	memcpy(&word, at, 8);
	word = htole64(word);
	quote = word ^ ones * '"';
	slash = word ^ ones * '\\';
	/* The lowest 0x80 marks the first byte that is 0. */
	quote = ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
	quote &= ones * 0x80;
	return quote ? (unsigned)__builtin_ctzll(quote) / 8 : 8;
}

/* Behind the closing quote of the string whose text begins at `at`. */
static inline const char *skip_string(const char *at, const char *end, bool *escaped)
{
	*escaped = false;
	while (at < end) {
		unsigned plain = end - at >= 8 ? plain_bytes(at) : 0;

		at += plain;
		if (plain == 8)
			continue;
		if (*at == '"')
			return at + 1;
		*escaped |= *at == '\\';
		at += 1 + (*at == '\\');
	}
	return end;
}

/* Behind the bracket that closes the one at `at`. */
static const char *skip_nested(const char *at, const char *end)
{
	unsigned depth = 0;
	bool escaped;

	while (at < end) {
		char c = *at++;

		if (c == '"')
			at = skip_string(at, end, &escaped);
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			break;
	}
	return at;
}

static enum pfw_value_type word_type(char c)
{
	switch (c) {
	case 't':
		return PFW_VALUE_TRUE;
	case 'f':
		return PFW_VALUE_FALSE;
	case 'n':
		return PFW_VALUE_NULL;
	default:
		return PFW_VALUE_NUMBER;
	}
}

static inline const char *take_value(const char *at, const char *end, struct pfw_value *value)
{
	const char *start = at;

	value->text.escaped = false;
	if (*at == '"') {
		value->type = PFW_VALUE_STRING;
		at = skip_string(at + 1, end, &value->text.escaped);
		value->text.at = start + 1;
		value->text.bytes = (size_t)(at - start) - 2;
		return at;
	}
	if (*at == '{' || *at == '[') {
		value->type = *at == '{' ? PFW_VALUE_OBJECT : PFW_VALUE_ARRAY;
		at = skip_nested(at, end);
	} else {
		value->type = word_type(*at);
		while (at<end && * at> ' ' && *at != ',' && *at != '}' && *at != ']')
			at++;
	}
	value->text.at = start;
	value->text.bytes = (size_t)(at - start);
	return at;
}

bool pfw_members_next(struct pfw_members *members, struct pfw_slice *key, struct pfw_value *value)
{
	const char *at = skip_space(members->at, members->end), *end = members->end;

	if (at >= end || *at != '"')
		return false;
	key->at = ++at;
	at = skip_string(at, end, &key->escaped);
	key->bytes = (size_t)(at - key->at) - 1;
	at = skip_space(at, end);
	if (at >= end)
		return false;
	members->at = take_value(at, end, value);
	return true;
}

bool pfw_elements_next(struct pfw_members *members, struct pfw_value *value)
{
	const char *at = skip_space(members->at, members->end);

	if (at >= members->end || *at == ']')
		return false;
	members->at = take_value(at, members->end, value);
	return true;
}
