/* emit.c - pieces of text one behind the other; see emit.h. */
#include "emit.h"

#include <stdbool.h>

#include "json.h"

char *pfw_emit_u64(char *at, uint64_t number)
{
	return pfw_json_u64(at, number);
}

char *pfw_emit_i64(char *at, int64_t number)
{
	if (number >= 0)
		return pfw_emit_u64(at, (uint64_t)number);
	*at++ = '-';
	return pfw_emit_u64(at, -(uint64_t)number);
}

char *pfw_emit_us(char *at, int64_t ns)
{
	uint64_t all = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	unsigned part = (unsigned)(all % 1000);

	if (ns < 0)
		*at++ = '-';
	at = pfw_emit_u64(at, all / 1000);
	*at++ = '.';
	*at++ = (char)('0' + part / 100);
	*at++ = (char)('0' + part / 10 % 10);
	*at++ = (char)('0' + part % 10);
	return at;
}

char *pfw_emit_compact(char *at, struct pfw_slice json)
{
	bool string = false;

	for (size_t i = 0; i < json.bytes; i++) {
		char c = json.at[i];

		if (!string && (unsigned char)c <= ' ')
			continue;
		*at++ = c;
		if (c == '"')
			string = !string;
		else if (c == '\\' && string && i + 1 < json.bytes)
			*at++ = json.at[++i];
	}
	return at;
}

char *pfw_emit_json(char *at, const char *text, size_t bytes)
{
	bool valid;

	return pfw_json_string(at, text, bytes, &valid);
}
