/* members.c - the members of an object, one after the other; see members.h. */
#include "members.h"

#include <string.h>

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == ',' || *at == ':' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* Behind the closing quote of the string whose text begins at `at`. */
static const char *skip_string(const char *at, const char *end, bool *escaped)
{
	*escaped = false;
	for (; at < end && *at != '"'; at++) {
		if (*at == '\\') {
			*escaped = true;
			at++;
		}
	}
	return at < end ? at + 1 : end;
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

static const char *take_value(const char *at, const char *end, struct pfw_value *value)
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
		while (at < end && *at != ',' && *at != '}' && *at != ']' && *at != ' ' &&
		       *at != '\t' && *at != '\r')
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
