/* store/json/walk.c - members of an object and elements of an array; see walk.h. */
#include "store/json/walk.h"

#include "store/json/swar.h"

static inline const char *skip_space(const char *at, const char *end)
{
	/* Two members usually have only a comma between them. */
	if (end - at > 1 && (*at == ',' || *at == ':') && at[1] > ' ')
		return at + 1;
	while (at < end && (*at == ' ' || *at == ',' || *at == ':' || *at == '\t' || *at == '\r' ||
			    *at == '\n'))
		at++;
	return at;
}

/* After the closing quote of the string whose text begins at `at`. */
static inline const char *skip_string(const char *at, const char *end, bool *escaped)
{
	*escaped = false;
	while (at < end) {
		unsigned plain = end - at >= 16 ? pfw_bytes_plain16(at) : 0;

		at += plain;
		if (plain == 16)
			continue;
		if (*at == '"')
			return at + 1;
		*escaped |= *at == '\\';
		at += 1 + (*at == '\\');
	}
	return end;
}

/* After the bracket that closes the one at `at`. */
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

static inline const char *take_value(const char *at, const char *end, struct pfw_value *value)
{
	const char *start = at;

	value->type = pfw_value_type_of(*at);
	value->text.escaped = false;
	if (*at == '"') {
		at = skip_string(at + 1, end, &value->text.escaped);
		value->text.at = start + 1;
		value->text.bytes = (size_t)(at - start) - 2;
		return at;
	}
	if (*at == '{' || *at == '[') {
		at = skip_nested(at, end);
	} else {
		while (at<end && * at> ' ' && *at != ',' && *at != '}' && *at != ']')
			at++;
	}
	value->text.at = start;
	value->text.bytes = (size_t)(at - start);
	return at;
}

bool pfw_walk_next(struct pfw_walk *members, struct pfw_slice *key, struct pfw_value *value)
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

bool pfw_elements_next(struct pfw_walk *members, struct pfw_value *value)
{
	const char *at = skip_space(members->at, members->end);

	if (at >= members->end || *at == ']')
		return false;
	members->at = take_value(at, members->end, value);
	return true;
}
